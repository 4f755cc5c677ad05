"""What a replay comes to: how each query ran, and what Weir would have done, a line per query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.figures import figure
from agent.core.judgement import SPIRAL_PHASES, SpiralPhase
from agent.core.names import label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agent.core.fleet import Fleet, Receipt
    from agent.core.judgement import Judgement, LimitView, Point, QueryView

#: As in a simulation's summary: of the limited batches after the first few, those so near the
#: target, as a share of it.
SETTLING_BATCHES: Final = 5
BAND: Final = 0.3
MOST_LINES: Final = 20


class _Told(msgspec.Struct):
    """One query, counted; what it takes does not grow with the recording."""

    target_seconds: float = 0.0  # that its last batch was held against
    batches: int = 0
    held: int = 0  # of them, by a limit
    limited: int = 0  # of these, after the first few
    in_band: int = 0
    failures: int = 0
    moves: int = 0
    unit: str = "rows"
    first_limit: int | None = None  # in force when one was told first
    limit: int | None = None  # decided last
    known: bool = False  # whether a limit was told
    worst: SpiralPhase = "none"
    wanted: list[int] = []  # executors: first, last, most

    def take_batch(self, point: Point, target_seconds: float) -> None:
        self.batches += 1
        self.held += point.limited
        self.target_seconds = target_seconds
        if point.limited and point.batch_seconds is not None and self.batches > SETTLING_BATCHES:
            self.limited += 1
            self.in_band += abs(point.batch_seconds - target_seconds) <= BAND * target_seconds

    def take(self, line: Judgement) -> None:
        self.failures += line.failure is not None
        self.worst = max(self.worst, line.spiral.phase, key=SPIRAL_PHASES.index)
        if line.limit.unit is not None:
            self._take_limit(line.limit)
        executors = line.executors
        if executors is not msgspec.UNSET and executors.wanted is not None:
            number = executors.wanted
            first, _, most = self.wanted or (number, number, number)
            self.wanted = [first, number, max(most, number)]

    def _take_limit(self, said: LimitView) -> None:
        if not self.known:
            self.known, self.first_limit, self.limit = True, said.current, said.current
        self.unit = said.unit or self.unit
        self.moves += said.next != self.limit
        self.limit = said.next


class Summary:
    """Counts along, each query by its own target; one thread owns it."""

    def __init__(self) -> None:
        self._queries: dict[tuple[str, str], _Told] = {}

    def take(self, receipt: Receipt, fleet: Fleet) -> None:
        """What the events of one request led to, and where."""
        for key, point in receipt.batches:
            self._of(*key).take_batch(point, fleet.settings(key).target_seconds)
        for line in receipt.judged:
            self._of(line.application, line.query).take(line)

    def end(self, views: Iterable[QueryView]) -> None:
        """Nothing more is asked of the queries."""

    def lines(self) -> Iterator[str]:
        """For people: the queries with most batches first, at most twenty of them."""
        ranked = sorted(self._queries.items(), key=lambda item: -item[1].batches)
        for key, told in ranked[:MOST_LINES]:
            yield f"{'/'.join(map(label, key))}: {'; '.join(_said(told))}"
        if len(ranked) > MOST_LINES:
            yield f"… and {len(ranked) - MOST_LINES:,} more queries"
        if not ranked:
            yield "no event to judge in it"

    def _of(self, application: str, query: str) -> _Told:
        return self._queries.setdefault((application, query), _Told())


def _said(told: _Told) -> Iterator[str]:
    ended = f", {told.failures:,} failed" if told.failures else ""
    yield f"{told.batches:,} batch{'' if told.batches == 1 else 'es'}{ended}"
    target = f"the target of {figure(told.target_seconds)} s"
    if told.limited:
        share = f"{100.0 * told.in_band / told.limited:.0f} %"
        yield f"{share} of {told.limited:,} limited ones within 30 % of {target}"
    elif told.batches and not told.held:
        yield "no limit held them back"
    if not told.known:
        yield "no limit known"
    elif told.moves:
        times = "once" if told.moves == 1 else f"{told.moves:,} times"
        yield (
            f"Weir moves the limit {times}, "
            f"{_limit(told.first_limit)} → {_limit(told.limit, told.unit)}"
        )
    elif told.limit is None:
        yield "Weir sets no limit"
    else:
        yield f"Weir leaves the limit at {_limit(told.limit, told.unit)}"
    if told.wanted:
        first, last, most = told.wanted
        yield f"executors wanted: {first:,} → {last:,}, at most {most:,}"
    if told.worst != "none":
        yield f"spiral: {told.worst.replace('_', ' ')}"


def _limit(limit: int | None, unit: str = "") -> str:
    return "unlimited" if limit is None else f"{limit:,} {unit}".rstrip()
