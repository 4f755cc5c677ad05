"""Late rows on a real Spark: smaller batches lose some, and Weir goes back for good."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.test_main_path import files_of, started, view
from tests.spark.conftest import in_force
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
BEGIN = 1_800_000_000  # an event time, epoch seconds
CONFIGURED = 50  # files
#: Behind the newest row of the file before its own each late row lies; the delay is 10. Times move
#: on by a second from file to file, as the trigger comes: what came at once lies no further apart.
LATE_SECONDS = 12


def put(folder: Path, number: int, *times: int) -> None:
    """A file that is read after those of lesser numbers; ten rows, as ``files_of`` counts."""
    rows = [{"t": times[min(n, len(times) - 1)]} for n in range(10)]
    arriving = folder / f".{number}.json"
    arriving.write_text("\n".join(map(json.dumps, rows)))
    os.utime(arriving, (number, number))
    arriving.rename(folder / f"{number}.json")


def dropped(query: Any) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def test_where_smaller_batches_drop_late_rows_they_are_as_configured_again(
    tmp_path: Path, spark: Any, attached: Any, start: Any
) -> None:
    """In one batch none of the late rows is dropped; in one a file all but the first are."""
    from pyspark.sql import functions

    folder = tmp_path / "in"
    folder.mkdir()
    put(folder, 1000, BEGIN)
    frame = (
        spark.readStream.schema("t timestamp")
        .option("maxFilesPerTrigger", CONFIGURED)
        .json(str(folder))
        .withWatermark("t", "10 seconds")
        .groupBy(functions.window("t", "1 second"))
        .count()
    )
    with started(tmp_path) as agent:
        attached(agent.address)
        query = start(frame, name="late", mode="update", seconds=1.0)
        # Before anything is lost: what the query's delay means for smaller batches.
        until(lambda: (view(agent, "late") or {}).get("late_rows_held") is False, "the watermark")
        (finding,) = [one for one in view(agent, "late")["findings"] if one["check"] == "late_rows"]
        assert finding["severity"] == "info"
        agent.http.post(
            "/v1/queries/*/late/control", json={"limit": 1, "unit": "files", "reason": "a test"}
        )
        until(lambda: in_force(query) == ["MaxFiles: 1"], "the limit set by hand")
        for number in range(3, 63):
            time = BEGIN + number
            put(folder, 1000 + number, time, time - 1 - LATE_SECONDS, time)
        until(lambda: view(agent, "late")["late_rows_held"], "the guard")
        until(lambda: in_force(query) == [f"MaxFiles: {CONFIGURED}"], "the configured limit")
        until(lambda: sum(files_of(query)) == 61, "every file")
        counts = files_of(query)
        assert max(counts) > 1
        assert 1 <= dropped(query) <= counts.index(max(counts)) + 1
        assert dropped(query) < 10  # of 60; those of the batches that were on their way
        seen = view(agent, "late")
        assert seen["limit"]["reason"] == "hold:late_rows"
        assert seen["watermark_delay_seconds"] == pytest.approx(10.0)
        assert seen["lateness_seconds"] == pytest.approx(LATE_SECONDS)
        (finding,) = [one for one in seen["findings"] if one["check"] == "late_rows"]
        assert finding["severity"] == "warning"
        assert 'weir_late_rows_held{application="weir tests",query="late"} 1' in (
            agent.http.get("/metrics").text
        )
        # It stays, whatever comes; until somebody decides otherwise.
        put(folder, 2000, BEGIN + 3000)
        until(lambda: sum(files_of(query)) == 62, "one file more")
        assert in_force(query) == [f"MaxFiles: {CONFIGURED}"]
        agent.http.post("/v1/queries/*/late/control", json={"hold": False, "reason": "a test"})
        until(lambda: view(agent, "late")["late_rows_held"] is False, "another try")
