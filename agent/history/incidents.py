"""Incidents: stretches of a query's time in which something was wrong, and single failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.history.rows import INCIDENTS, Row, Whose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.core.judgement import Judgement

#: Lag states that are no one's wish. STOP is not: a query that ended has stopped.
BAD_LAG: Final = ("ERR", "STALL", "REWIND")
_WORSE: Final = ("none", "pressured", "spiralling", "timing_out", "dead")


class _Open(msgspec.Struct):
    whose: Whose
    kind: str
    detail: str
    begin: float
    end: float
    first_batch: int | None
    last_batch: int | None
    events: int = 0
    worst: float | None = None
    evidence: str = ""

    def row(self) -> Row:
        return INCIDENTS, (
            *self.whose.values,
            self.kind,
            self.detail,
            self.begin,
            self.end,
            max(0.0, self.end - self.begin),
            self.events,
            self.first_batch,
            self.last_batch,
            self.worst,
            self.evidence,
        )


class Incidents:
    """One query's incidents, from its lines in order; each is told when it has ended."""

    def __init__(self) -> None:
        self._spiral: _Open | None = None
        self._lag: _Open | None = None

    def hear(self, whose: Whose, time: float, line: Judgement) -> Iterator[Row]:
        """Takes a line in; gives the incidents that it ends."""
        phase = line.spiral.phase
        spiral = phase if phase != "none" else None
        self._spiral, ended = _go_on(
            self._spiral, whose, "spiral", detail=spiral, time=time, line=line
        )
        if ended is not None:
            yield ended.row()
        opened = self._spiral
        if opened is not None:
            opened.worst = _most(opened.worst, line.spiral.gain)
            if _WORSE.index(phase) >= _WORSE.index(opened.detail):
                opened.detail = phase
                opened.evidence = line.spiral.evidence or opened.evidence
        state = line.lag_state if line.lag_state in BAD_LAG else None
        self._lag, ended = _go_on(self._lag, whose, "lag", detail=state, time=time, line=line)
        if ended is not None:
            yield ended.row()
        opened = self._lag
        if opened is not None:
            opened.detail = line.lag_state
            opened.worst = _most(opened.worst, line.backlog_seconds)
            if line.backlog_rows is not None:
                opened.evidence = f"{line.backlog_rows:.0f} rows behind at its end"
        if line.event == "terminated" and line.failure is not None:
            yield failure(whose, time, line)

    def end(self) -> Iterator[Row]:
        """What is still open when nothing more comes."""
        for opened in (self._spiral, self._lag):
            if opened is not None:
                yield opened.row()
        self._spiral = self._lag = None


def failure(whose: Whose, time: float, line: Judgement) -> Row:
    """A run that ended with an exception."""
    assert line.failure is not None
    batch = line.batch_id
    one = _Open(whose, "failure", line.failure.cause, time, time, batch, batch, 1)
    one.evidence = line.failure.evidence
    return one.row()


def unfinished(whose: Whose, batch_id: int, begin: float, end: float) -> Row:
    """A batch that was begun, and the log ends without a word of it."""
    one = _Open(whose, "unfinished", "batch", begin, max(begin, end), batch_id, batch_id, 1)
    one.worst = one.end - begin
    one.evidence = f"batch {batch_id} was begun, and as far as the log was read it did not end"
    return one.row()


def _go_on(
    opened: _Open | None,
    whose: Whose,
    kind: str,
    *,
    detail: str | None,
    time: float,
    line: Judgement,
) -> tuple[_Open | None, _Open | None]:
    """(what is open now, what has just ended)."""
    if detail is None:
        if opened is not None:
            opened.end = time
        return None, opened
    if opened is None:
        opened = _Open(whose, kind, detail, time, time, line.batch_id, line.batch_id)
    opened.end, opened.last_batch = time, line.batch_id
    opened.events += 1
    return opened, None


def _most(known: float | None, now: float | None) -> float | None:
    if known is None or now is None:
        return now if known is None else known
    return max(known, now)
