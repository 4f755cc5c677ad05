"""Figures of a run, from records that are small enough to be reckoned by hand."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from tests.benchmarks.evidence.figures import executor_seconds, figures, read_again
from tests.benchmarks.evidence.load import PARTITIONS, Arrival
from tests.benchmarks.evidence.record import Record, of_event_log, read

if TYPE_CHECKING:
    from pathlib import Path

BEGUN = 1_000_000.0


def progress(
    number: int, begin: float, seconds: float, rows: tuple[int, int], *, dropped: int = 0
) -> dict[str, Any]:
    """A batch that took the rows of these numbers, from one to before the other."""

    def offsets(row: int) -> str:
        told = {str(p): -(-(row - p) // PARTITIONS) for p in range(PARTITIONS)}
        return json.dumps({"bid-7": told})

    stamp = datetime.fromtimestamp(BEGUN + begin, timezone.utc).isoformat(timespec="milliseconds")
    return {
        "batchId": number,
        "runId": "one",
        "timestamp": stamp.replace("+00:00", "Z"),
        "durationMs": {"triggerExecution": round(1000 * seconds)},
        "stateOperators": [{"numRowsDroppedByWatermark": dropped}],
        "sources": [
            {
                "description": "KafkaV2[Subscribe[bid-7]]",
                "startOffset": offsets(rows[0]) if rows[0] else None,
                "endOffset": offsets(rows[1]),
                "numInputRows": rows[1] - rows[0],
            }
        ],
    }


def record(**changes: Any) -> Record:
    """100 rows before it is measured; then 40 at once, 40 two seconds later, 20 at 20 s."""
    arrivals = [
        Arrival(BEGUN - 5, "bid", 0, 100),
        Arrival(BEGUN, "bid", 100, 40),
        Arrival(BEGUN + 2, "bid", 140, 40),
        Arrival(BEGUN + 20, "bid", 180, 20),
    ]
    batches = [
        progress(0, -4, 1, (0, 100)),
        progress(1, 0, 4, (100, 140)),
        progress(2, 4, 6, (140, 180), dropped=3),
        progress(3, 20, 1, (180, 200)),
    ]
    end = {"begun": BEGUN, "fed": BEGUN + 20, "over": BEGUN + 21}
    executors = [{"id": "0", "added": BEGUN - 9, "removed": None, "cores": 1}]
    made = Record({"target_rows": 80}, {}, arrivals, batches, executors, [], {}, end)
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def test_waits_and_the_time_without_a_result_count_only_while_rows_wait() -> None:
    found = figures(record())
    # 40 rows wait 4 s, 40 wait 8 s, 20 wait 1 s.
    assert found.wait_p50_seconds == pytest.approx(4)
    assert found.wait_p99_seconds == pytest.approx(8)
    assert found.longest_without_result_seconds == pytest.approx(6), "not the 10 s of silence"
    assert found.rows == 100, "the warm-up's are not counted"
    assert found.rows_per_executor_second == pytest.approx(100 / 21)
    assert found.dropped_rows == 3
    assert found.longest_batch_seconds == pytest.approx(6)
    assert (found.batches, found.failures, found.rows_left) == (3, 0, 0)


def test_a_full_batch_holds_half_of_a_targets_rows() -> None:
    assert figures(record()).full_batch_seconds == 5.0  # of 4 s and of 6 s, 40 rows each
    assert figures(record(run={"target_rows": 40})).full_batch_seconds == 4.0  # 20 rows too
    assert figures(record(run={"target_rows": 81})).full_batch_seconds is None


def test_rows_that_wait_in_vain_are_time_without_a_result() -> None:
    end = {"begun": BEGUN, "fed": BEGUN + 20, "over": BEGUN + 50}
    found = figures(record(progress=record().progress[:3], end=end))
    assert found.longest_without_result_seconds == pytest.approx(40)
    assert found.rows_left == 20


def test_a_batch_that_was_not_told_counts_when_the_next_one_is() -> None:
    batches = record().progress
    del batches[2]
    found = figures(record(progress=batches))
    assert found.rows == 100
    assert found.wait_p99_seconds == pytest.approx(19)


def test_rows_of_what_was_planned_and_not_committed_are_read_again() -> None:
    told = [
        {"event": "restart", "planned": 2, "committed": 1},
        {"event": "restart", "planned": 3, "committed": 3},
        {"event": "failed", "planned": 1, "committed": 0},
        {"event": "stop", "planned": 3, "committed": 2},
    ]
    found = figures(record(told=told))
    assert found.read_again_rows == 80
    assert found.failures == 1
    assert read_again([], []) == 0


def test_executors_count_while_they_are_there() -> None:
    executors: list[dict[str, Any]] = [
        {"added": 0.0, "removed": 4.0},
        {"added": 7.0, "removed": None},
        {"added": 30.0, "removed": None},
    ]
    assert executor_seconds(executors, 2.0, 10.0) == 5.0


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl.gz"
    record(results={"rows": 1}, told=[{"event": "stop"}]).write(path)
    assert read(path) == record(results={"rows": 1}, told=[{"event": "stop"}])
    record(end={}).write(path)
    with pytest.raises(ValueError, match="the run's end is missing"):
        read(path)


def test_an_event_log_without_events_of_interest_is_empty(tmp_path: Path) -> None:
    (tmp_path / "eventlog_v2_app").mkdir()
    lines = ['{"Event":"SparkListenerTaskEnd","Stage ID":0}', ""]
    (tmp_path / "eventlog_v2_app" / "events_1_app").write_text("\n".join(lines))
    assert of_event_log(tmp_path) == ([], [])
