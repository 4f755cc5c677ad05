"""The summary of a run: what ``weir simulate`` prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.simulation.plant import Trace
    from agent.simulation.scenario import Scenario

#: A batch is in band within so much of the target; the first batches find it.
BAND: Final = 0.3
FIRST_JUDGED_BATCH: Final = 5
#: ``diverged`` allows a final backlog of the best static limit's twice and so many seconds more.
SPARE_SECONDS: Final = 10.0


class Reference(msgspec.Struct, frozen=True):
    """What the oracle reached."""

    committed_rows: int
    final_backlog_rows: int
    p95_batch_seconds: float | None
    p99_batch_seconds: float | None
    executor_hours: float | None  # None where the scenario has no executors


class StaticReference(Reference, frozen=True, kw_only=True):
    """What the best static limit reached."""

    limit_rows: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Batch seconds are those of every attempt; a killed one took the time-out."""

    controller: str
    seed: int
    batches: int  # committed
    timeouts: int
    in_band_share: float | None
    p50_batch_seconds: float | None
    p95_batch_seconds: float | None
    p99_batch_seconds: float | None
    max_batch_seconds: float | None
    max_backlog_rows: int
    final_backlog_rows: int
    committed_rows: int
    arrived_rows: int
    drain_seconds: float | None
    best_static: StaticReference
    oracle: Reference
    diverged: bool
    spiral_first_alarm_seconds: float | None
    first_timeout_seconds: float | None
    executor_hours: float | None  # None where the scenario has no executors, as below
    executor_changes: int | None  # how often another number was asked for
    most_executors: int | None


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which a share of the ordered values lies, interpolated between neighbours."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def in_band(seconds: float, target_seconds: float) -> bool:
    """Whether a batch took the target, within the band."""
    return abs(seconds - target_seconds) <= BAND * target_seconds


def in_band_share(trace: Trace, target_seconds: float) -> float | None:
    """Of the limited batches after the fifth, those in band; None where none was limited.

    An attempt that was killed counts as one that is not.
    """
    judged = [a for a in trace.attempts if a.batch_id >= FIRST_JUDGED_BATCH and a.limited]
    if not judged:
        return None
    good = sum(1 for a in judged if not a.killed and in_band(a.seconds, target_seconds))
    return good / len(judged)


def reference(trace: Trace) -> Reference:
    """The figures that the summary gives of the oracle."""
    ordered = sorted(attempt.seconds for attempt in trace.attempts)
    return Reference(
        committed_rows=trace.committed_rows,
        final_backlog_rows=trace.final_backlog_rows,
        p95_batch_seconds=percentile(ordered, 0.95),
        p99_batch_seconds=percentile(ordered, 0.99),
        executor_hours=executor_hours(trace),
    )


def executor_hours(trace: Trace) -> float | None:
    """Hours of all executors together, from when each was there."""
    return None if trace.executor_seconds is None else trace.executor_seconds / 3600.0


def summarise(
    scenario: Scenario,
    trace: Trace,
    *,
    controller: str,
    seed: int,
    best_static: StaticReference,
    oracle: Reference,
    first_alarm_seconds: float | None,
) -> Summary:
    """The summary of one run beside its two references."""
    ordered = sorted(attempt.seconds for attempt in trace.attempts)
    killed = [attempt for attempt in trace.attempts if attempt.killed]
    late = [attempt for attempt in killed if not attempt.stopped]
    spare = SPARE_SECONDS * trace.arrived_rows / scenario.duration_seconds
    return Summary(
        controller=controller,
        seed=seed,
        batches=len(trace.attempts) - len(killed),
        timeouts=len(late),
        in_band_share=in_band_share(trace, scenario.target_seconds),
        p50_batch_seconds=percentile(ordered, 0.5),
        p95_batch_seconds=percentile(ordered, 0.95),
        p99_batch_seconds=percentile(ordered, 0.99),
        max_batch_seconds=ordered[-1] if ordered else None,
        max_backlog_rows=trace.max_backlog_rows,
        final_backlog_rows=trace.final_backlog_rows,
        committed_rows=trace.committed_rows,
        arrived_rows=trace.arrived_rows,
        drain_seconds=trace.drain_seconds,
        best_static=best_static,
        oracle=oracle,
        diverged=trace.final_backlog_rows > 2 * best_static.final_backlog_rows + spare,
        spiral_first_alarm_seconds=first_alarm_seconds,
        first_timeout_seconds=late[0].end_seconds if late else None,
        executor_hours=executor_hours(trace),
        executor_changes=trace.executor_changes,
        most_executors=trace.most_executors,
    )
