"""The figures of one half, from Spark's own progress and the times at which files arrived."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.demo.feed import Arrival


@dataclass(frozen=True)
class Batch:
    """A micro-batch that had rows; times are epoch seconds."""

    batch_id: int
    start_time: float
    seconds: float
    rows: int

    @property
    def end_time(self) -> float:
        """When its result was there."""
        return self.start_time + self.seconds


@dataclass(frozen=True)
class Figures:
    """What is shown of one half. Waits and gaps in seconds."""

    batches: int
    rows: int
    rows_left: int
    batch_p50_seconds: float
    batch_p99_seconds: float
    batch_max_seconds: float
    over_target: int
    longest_gap_seconds: float
    row_wait_p50_seconds: float
    row_wait_p99_seconds: float
    largest_batch_rows: int
    peak_unfinished_rows: int
    rows_per_busy_second: float


def batches_of(progress: Sequence[dict[str, Any]]) -> list[Batch]:
    """The batches that had rows, in order."""
    found = [
        Batch(
            batch_id=item["batchId"],
            start_time=datetime.fromisoformat(item["timestamp"].replace("Z", "+00:00")).timestamp(),
            seconds=item["durationMs"]["triggerExecution"] / 1000,
            rows=item["numInputRows"],
        )
        for item in progress
        if item["numInputRows"] > 0 and "triggerExecution" in item["durationMs"]
    ]
    return sorted(found, key=lambda batch: batch.start_time)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def waits(arrivals: Sequence[Arrival], batches: Sequence[Batch]) -> list[tuple[float, int]]:
    """(seconds from arrival to result, rows), first come first served as a file source does it."""
    found: list[tuple[float, int]] = []
    waiting = [(arrival.time, arrival.rows) for arrival in arrivals]
    place = 0
    for batch in batches:
        room = batch.rows
        while room > 0 and place < len(waiting):
            time, rows = waiting[place]
            taken = min(rows, room)
            found.append((max(batch.end_time - time, 0.0), taken))
            room -= taken
            waiting[place] = (time, rows - taken)
            if rows == taken:
                place += 1
    return found


def weighted_quantile(values: Sequence[tuple[float, int]], share: float) -> float:
    """As quantile, each value counting as often as its weight says."""
    total = sum(weight for _, weight in values)
    passed = 0
    for value, weight in sorted(values):
        passed += weight
        if passed >= share * total:
            return value
    raise ValueError("no values")


def peak_unfinished(arrivals: Sequence[Arrival], batches: Sequence[Batch]) -> int:
    """Most rows that had arrived and were in no result yet."""
    changes = [(arrival.time, arrival.rows) for arrival in arrivals]
    changes += [(batch.end_time, -batch.rows) for batch in batches]
    level = peak = 0
    for _, change in sorted(changes):
        level += change
        peak = max(peak, level)
    return peak


def figures(
    arrivals: Sequence[Arrival], progress: Sequence[dict[str, Any]], target_seconds: float
) -> Figures:
    """Raises ValueError where no batch had rows."""
    batches = batches_of(progress)
    if not batches or not arrivals:
        raise ValueError("no batch had any rows")
    seconds = [batch.seconds for batch in batches]
    rows = sum(batch.rows for batch in batches)
    ends = [arrivals[0].time, *(batch.end_time for batch in batches)]
    row_waits = waits(arrivals, batches)
    return Figures(
        batches=len(batches),
        rows=rows,
        rows_left=sum(arrival.rows for arrival in arrivals) - rows,
        batch_p50_seconds=quantile(seconds, 0.5),
        batch_p99_seconds=quantile(seconds, 0.99),
        batch_max_seconds=max(seconds),
        over_target=sum(1 for value in seconds if value > 1.5 * target_seconds),
        longest_gap_seconds=max(b - a for a, b in pairwise(ends)),
        row_wait_p50_seconds=weighted_quantile(row_waits, 0.5),
        row_wait_p99_seconds=weighted_quantile(row_waits, 0.99),
        largest_batch_rows=max(batch.rows for batch in batches),
        peak_unfinished_rows=peak_unfinished(arrivals, batches),
        rows_per_busy_second=rows / sum(seconds),
    )
