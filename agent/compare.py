"""Dry-run held against what happened: the same rows in batches of the size Weir would have set.

An estimate, batch by batch: what a batch took is laid out anew by what the query's batches are
believed to cost, in as many batches as the limit that was decided before it would have made. What
made this batch slower or quicker than believed is taken to hold for its parts. Pure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.judge.attention import LATE_TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.judgement import Point, QueryView


#: Batches from the one after which a limit was decided to the first that takes no more: events
#: reach Weir while the next batch is planned already. `plant.py` does the same.
_ACTS_AFTER: Final = 2
#: Seconds, rows, and how many batches took just these.
_Batches = tuple[float, int, int]


class Side(msgspec.Struct, frozen=True):
    """One way in which the rows went through, or would have."""

    batches: int
    late_batches: int  # over LATE_TARGETS times the target
    longest_seconds: float
    p95_seconds: float
    largest_rows: int  # of a batch: read again if it is killed
    total_seconds: float  # of all batches: what smaller ones cost more is their fixed costs


class Fit(msgspec.Struct, frozen=True):
    """Seconds that the batches took over those believed of them: median, and 9 of 10 within."""

    median: float
    low: float
    high: float


class Comparison(msgspec.Struct, frozen=True):
    """One query. ``would_be`` is None where there is nothing to compare; ``missing`` says why."""

    application: str
    query: str
    mode: str
    target_seconds: float | None
    from_time: float | None = None
    to_time: float | None = None
    happened: Side | None = None
    would_be: Side | None = None
    fixed_cost_seconds: float | None = None
    throughput_rows_per_second: float | None = None
    fit: Fit | None = None
    missing: str = ""


def compare(view: QueryView, points: Sequence[Point]) -> Comparison:
    """What the newest batches of a query took, and would have; ``points`` oldest first."""
    bare = Comparison(
        application=view.application,
        query=view.query,
        mode=view.mode,
        target_seconds=view.target_seconds,
    )
    why = _why_not(view, points)
    if why:
        return msgspec.structs.replace(bare, missing=why)
    fixed, throughput = view.fixed_cost_seconds, view.throughput_rows_per_second
    rows_per_unit = _rows_per_unit(view)
    assert fixed is not None
    assert throughput
    assert rows_per_unit
    happened: list[_Batches] = []
    would_be: list[_Batches] = []
    ratios = []
    # A limit that was decided after a batch holds for the one after the next.
    for before, point in zip(points, points[_ACTS_AFTER:], strict=False):
        seconds, rows = point.batch_seconds, point.rows
        if seconds is None or rows <= 0:
            continue
        happened.append((seconds, rows, 1))
        ratio = seconds / (fixed + rows / throughput)
        ratios.append((ratio, 1))
        limit = before.would_be_limit
        size = rows if limit is None else max(1, math.floor(limit * rows_per_unit))
        whole, rest = divmod(rows, size)
        parts = ((size, whole), (rest, 1))
        would_be += [
            (ratio * (fixed + part / throughput), part, times)
            for part, times in parts
            if part and times
        ]
    if not happened:
        return msgspec.structs.replace(bare, missing="no batch took a row")
    first = points[_ACTS_AFTER]
    target = view.target_seconds
    return msgspec.structs.replace(
        bare,
        from_time=first.time - (first.batch_seconds or 0.0),
        to_time=points[-1].time,
        happened=_side(happened, target),
        would_be=_side(would_be, target),
        fixed_cost_seconds=fixed,
        throughput_rows_per_second=throughput,
        fit=Fit(_quantile(ratios, 0.5), _quantile(ratios, 0.05), _quantile(ratios, 0.95)),
    )


def _why_not(view: QueryView, points: Sequence[Point]) -> str:
    if not any(point.would_be_limit is not None for point in points[:-_ACTS_AFTER]):
        if view.mode == "on":
            return "Weir acts on it: what happened is what it decided"
        return "nothing was decided of which it would be known what it changes"
    if sum(source.limit_known for source in view.sources) > 1:
        return "several sources share its limit, which one figure does not tell"
    if view.fixed_cost_seconds is None or not view.throughput_rows_per_second:
        return "what a batch costs is not known yet: too few batches of different sizes"
    if not _rows_per_unit(view):
        return "how many rows its files hold is not known"
    return ""


def _rows_per_unit(view: QueryView) -> float | None:
    if view.limit.unit in (None, "rows"):
        return 1.0
    return next((one.rows_per_unit for one in view.sources if one.unit == view.limit.unit), None)


def _side(batches: list[_Batches], target: float | None) -> Side:
    late = LATE_TARGETS * target if target is not None else math.inf
    return Side(
        batches=sum(times for _, _, times in batches),
        late_batches=sum(times for seconds, _, times in batches if seconds > late),
        longest_seconds=max(seconds for seconds, _, _ in batches),
        p95_seconds=_quantile([(seconds, times) for seconds, _, times in batches], 0.95),
        largest_rows=max(rows for _, rows, _ in batches),
        total_seconds=sum(seconds * times for seconds, _, times in batches),
    )


def _quantile(values: Sequence[tuple[float, int]], share: float) -> float:
    """By nearest rank, of values that stand there so many times."""
    left = math.ceil(share * sum(times for _, times in values))
    for value, times in sorted(values):
        left -= times
        if left <= 0:
            return value
    return max(value for value, _ in values)
