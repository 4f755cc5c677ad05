"""What a run's record says: waits of rows, time without a result, rows read again, what it cost."""

from __future__ import annotations

import bisect
import json
import re
import statistics
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from examples.demo.measure import weighted_quantile
from tests.benchmarks.evidence.load import PARTITIONS, Arrival

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.evidence.record import Record

#: Of a run, each of one core; there all the time unless the way that is run asks otherwise.
EXECUTORS: Final = 2
_TOPIC: Final = re.compile(r"\[(?:Subscribe|Assign|SubscribePattern)\[(?P<topic>[^\]]+)\]\]")


@dataclass(frozen=True)
class Batch:
    """A batch with rows that ended. ``reads``: (topic, partition, first offset, next offset)."""

    batch_id: int
    run_id: str
    begin: float
    end: float
    rows: int
    reads: tuple[tuple[str, int, int, int], ...]
    dropped_rows: int


@dataclass(frozen=True)
class Figures:
    """Of one run, from the first arrival that is measured on. Seconds and rows."""

    longest_without_result_seconds: float
    wait_p50_seconds: float
    wait_p99_seconds: float
    read_again_rows: int
    rows_per_executor_second: float
    dropped_rows: int
    failures: int
    rows: int
    rows_left: int
    batches: int
    longest_batch_seconds: float
    executor_seconds: float
    full_batch_seconds: float | None  # median of those of half a target's rows or more; None: none


class Came:
    """When each row of a topic came: rows go to its partitions in turn."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        ordered = sorted(arrivals, key=lambda one: one.first)
        self._firsts = [one.first for one in ordered]
        self._times = [one.time for one in ordered]

    def of(self, partition: int, begin: int, end: int) -> list[tuple[float, int]]:
        """(epoch time, rows) of a partition's offsets from ``begin`` to before ``end``."""
        found: list[tuple[float, int]] = []
        offset = begin
        while offset < end:
            place = bisect.bisect_right(self._firsts, offset * PARTITIONS + partition) - 1
            following = (
                self._firsts[place + 1] if place + 1 < len(self._firsts) else end * PARTITIONS * 2
            )
            # The first offset of this partition that came with what follows.
            until = min(-(-(following - partition) // PARTITIONS), end)
            found.append((self._times[place], until - offset))
            offset = until
        return found


def batches_of(progress: Sequence[dict[str, Any]]) -> list[Batch]:
    """Batches that had rows, in the order of their ends; a batch told twice counts once."""
    found: dict[int, Batch] = {}
    for one in progress:
        seconds = one["durationMs"].get("triggerExecution")
        rows = sum(source["numInputRows"] for source in one["sources"])
        if seconds is None or not rows or one["batchId"] in found:
            continue
        begin = datetime.fromisoformat(one["timestamp"].replace("Z", "+00:00")).timestamp()
        reads = []
        for source in one["sources"]:
            match = _TOPIC.search(source["description"])
            if match is None:
                raise ValueError(f"a source that is no topic: {source['description']}")
            first, following = _offsets(source["startOffset"]), _offsets(source["endOffset"])
            for topic, partitions in following.items():
                for partition, offset in partitions.items():
                    start = first.get(topic, {}).get(partition, 0)
                    reads.append((topic, int(partition), start, offset))
        found[one["batchId"]] = Batch(
            one["batchId"],
            one["runId"],
            begin,
            begin + seconds / 1000,
            rows,
            tuple(reads),
            sum(state.get("numRowsDroppedByWatermark", 0) for state in one["stateOperators"]),
        )
    return sorted(found.values(), key=lambda batch: batch.end)


def _offsets(value: Any) -> dict[str, dict[str, int]]:
    """An event log holds offsets as text, and may hold none."""
    found = json.loads(value) if isinstance(value, str) else value
    return found or {}


def figures(record: Record) -> Figures:
    """Raises ValueError where no batch had any of the rows that are measured."""
    begun = record.end["begun"]
    batches = batches_of(record.progress)
    by_topic: dict[str, list[Arrival]] = {}
    for one in record.arrivals:
        by_topic.setdefault(one.topic, []).append(one)
    # A topic's name ends in a number of the run's own.
    came = {topic: Came(arrivals) for topic, arrivals in by_topic.items()}
    waits: list[tuple[float, int]] = []
    read: dict[tuple[str, int], int] = {}
    longest = 0.0
    before = begun
    measured = [batch for batch in batches if batch.end > begun]
    for batch in batches:
        oldest = batch.end
        for topic, partition, start, end in batch.reads:
            # What a batch took whose progress was not told counts when the next one is.
            first = read.get((topic, partition), start)
            for time, rows in came[topic.rsplit("-", 1)[0]].of(partition, first, end):
                if time >= begun:
                    waits.append((batch.end - time, rows))
                    oldest = min(oldest, time)
            read[topic, partition] = max(end, first)
        if batch.end > begun:
            longest = max(longest, batch.end - max(before, oldest))
            before = batch.end
    if not waits:
        raise ValueError("no batch had any rows")
    committed = sum(rows for _, rows in waits)
    left = sum(one.rows for one in record.arrivals if one.time >= begun) - committed
    over = max([record.end["fed"], *(batch.end for batch in measured)])
    if left:
        # They wait still, in vain so far.
        over = max(over, record.end["over"])
        longest = max(longest, over - before)
    seconds = executor_seconds(record.executors, begun, over)
    return Figures(
        longest_without_result_seconds=longest,
        wait_p50_seconds=weighted_quantile(waits, 0.5),
        wait_p99_seconds=weighted_quantile(waits, 0.99),
        read_again_rows=read_again(record.told, batches),
        rows_per_executor_second=committed / seconds,
        dropped_rows=sum(batch.dropped_rows for batch in batches),
        failures=sum(one["event"] == "failed" for one in record.told),
        rows=committed,
        rows_left=left,
        batches=len(measured),
        longest_batch_seconds=max(batch.end - batch.begin for batch in measured),
        executor_seconds=seconds,
        full_batch_seconds=full_batch_seconds(measured, record.run["target_rows"]),
    )


def full_batch_seconds(batches: Sequence[Batch], target_rows: float) -> float | None:
    """The median of those that hold at least half of what is expected to take the target.

    What limits do is seen there alone: smaller batches took all that waited.
    """
    full = [one.end - one.begin for one in batches if one.rows >= target_rows / 2]
    return statistics.median(full) if full else None


def read_again(told: Sequence[dict[str, Any]], batches: Sequence[Batch]) -> int:
    """Rows of batches that were planned and not committed when their query was stopped."""
    rows = {batch.batch_id: batch.rows for batch in batches}
    cut = [one for one in told if one["event"] in ("restart", "failed")]
    return sum(rows.get(one["planned"], 0) for one in cut if one["planned"] > one["committed"])


def executor_seconds(executors: Sequence[dict[str, Any]], begin: float, end: float) -> float:
    """Of all executors together, between two epoch times."""
    found = (min(one["removed"] or end, end) - max(one["added"], begin) for one in executors)
    return float(sum(max(seconds, 0.0) for seconds in found))
