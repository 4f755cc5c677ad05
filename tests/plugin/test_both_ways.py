"""What is told of one run is the same from within the driver and through the door, line by line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.plugin.cluster import SPARK
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugin.conftest import Bench

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow("runs one job twice"),
    pytest.mark.timeout(300),
]
JOB = __file__.replace("test_both_ways.py", "jobs/both_ways_job.py")
#: What differs from run to run, whoever tells it.
TIMES = {
    *("id", "runId", "timestamp", "durationMs", "inputRowsPerSecond", "processedRowsPerSecond"),
    *(
        "batchDuration",
        "observed_time",
        "checkpointLocation",
        "uiUrl",
        "commitTimeMs",
        "allUpdatesTimeMs",
    ),
    *("allRemovalsTimeMs", "memoryUsedBytes", "customMetrics", "observedMetrics"),
}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def told(record: Path) -> list[dict[str, Any]]:
    """Of the one query: each event but heartbeats, which come by the clock."""
    found = []
    for line in record.read_text().splitlines():
        event = json.loads(line)
        event = event.get("event", event)
        if event.get("type") in {"started", "progress", "terminated"}:
            kept = {key: event[key] for key in ("type", "body", "limits") if key in event}
            found.append(without_times(kept))
    return found


def run(bench: Bench, tmp_path: Path, way: str, *more: str) -> list[dict[str, Any]]:
    folder = tmp_path / way
    folder.mkdir()
    record = folder / "record.jsonl"
    options = ("--doors", str(bench.doors), "--mode", "dry-run", "--record-file", str(record))
    with AgentProcess(folder, *options) as agent:
        address = agent.address if way == "within" else ""
        plugin = [] if way == "within" else bench.plugin("spark.extraListeners")
        job = bench.run(
            folder / "job",
            str(SPARK / "bin/spark-submit"),
            *("--master", "local[2]", "--name", "a job", "--conf", "spark.ui.enabled=false"),
            *("--conf", "spark.sql.shuffle.partitions=2", *plugin),
            *(JOB, str(bench.input), str(folder / "out"), str(folder / "ck"), address, *more),
        )
        assert job.wait() == 0, job.err[-2000:]
        until(lambda: any(one["type"] == "terminated" for one in told(record)), "the run's end")
    return told(record)


def test_what_is_told_is_the_same_line_by_line(bench: Bench, tmp_path: Path) -> None:
    bench.files(12)
    within, beyond = run(bench, tmp_path, "within"), run(bench, tmp_path, "beyond")
    assert [one["type"] for one in within][:1] == ["started"]
    assert sum(one["type"] == "progress" for one in within) >= 4
    for inside, outside in zip(within, beyond, strict=True):
        # How soon a directory is first listed differs from run to run.
        for one in (*inside.get("limits", ()), *outside.get("limits", ())):
            for key in ("backlog", "arrived", "backlog_bound"):
                one.pop(key, None)
        assert inside == outside


def test_why_a_query_failed_is_told_though_its_driver_ends_at_once(
    bench: Bench, tmp_path: Path
) -> None:
    bench.files(3)
    for way in ("within", "beyond"):
        end = run(bench, tmp_path, way, "fails")[-1]
        assert end["type"] == "terminated"
        assert "mine" in end["body"]["exception"]
        assert not end["body"].get("driverEnded")
