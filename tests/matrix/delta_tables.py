"""Delta Lake as a source: its limits in files and bytes move while the query runs.

Run by tests.matrix on each Spark that Delta has a release for.
"""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from tests.spark.conftest import (
    agent,
    attached,
    in_force,
    own_logger,
    progresses,
    spark,
    start,
)
from tests.spark.file_options import at_random

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["agent", "attached", "own_logger", "spark", "start"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
ROWS_PER_FILE = 10


class Table:
    """A table that files of as many rows arrive in.

    ``by_kernel``: it is read as Delta reads tables that a catalog manages.
    """

    def __init__(self, spark: Any, place: Path, *, by_kernel: bool = False) -> None:
        self.spark, self.place = spark, str(place)
        self.files = 0
        self._by_kernel = by_kernel

    def add(self, files: int) -> None:
        first = self.files * ROWS_PER_FILE
        self.files += files
        rows = self.spark.range(first, self.files * ROWS_PER_FILE, 1, files)
        rows.write.format("delta").mode("append").save(self.place)

    def read(self, **options: str) -> Any:
        reader = self.spark.readStream.format("delta").options(**options)
        if not self._by_kernel:
            return reader.load(self.place)
        self.spark.conf.set(_BY_KERNEL, "STRICT")
        try:
            return reader.table(f"delta.`{self.place}`")
        finally:
            self.spark.conf.unset(_BY_KERNEL)


_BY_KERNEL = "spark.databricks.delta.v2.enableMode"
#: Delta reads by its kernel from 4.1 on; the one for Spark 4.1 is 4.2.
READERS = [False, *([True] if pyspark.__version__ >= "4.1" else [])]


@pytest.fixture(params=READERS, ids=lambda by_kernel: "kernel" if by_kernel else "path")
def table(spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    spark.conf.set("spark.databricks.delta.snapshotPartitions", "2")
    made = Table(spark, tmp_path / "table", by_kernel=request.param)
    made.add(16)
    return made


@pytest.mark.parametrize(("options", "configured"), [({"maxFilesPerTrigger": "8"}, 8), ({}, 1000)])
def test_files_a_batch_are_changed_while_it_runs(
    agent: Any,
    attached: Any,
    start: Any,
    table: Table,
    options: dict[str, str],
    configured: int,
) -> None:
    attached(agent)
    seen: list[int] = []

    def batch(frame: Any, _: int) -> None:
        seen.extend(row["id"] for row in frame.collect())

    query = start(table.read(**options), batch=batch)
    run_id = str(query.runId)
    [entry] = agent.wait(lambda a: progresses(a, query))[0]["limits"]
    assert (entry["unit"], entry["control"], entry["configured"]) == ("files", "live", configured)
    agent.grant(run_id, 3, unit="files")

    def three() -> bool:
        if left(agent, query, table) < 8 * ROWS_PER_FILE:
            table.add(16)
        return progresses(agent, query)[-1]["body"]["numInputRows"] == 3 * ROWS_PER_FILE

    agent.wait(lambda _: three(), 200)
    agent.grant(run_id, None, unit="files")
    agent.wait(lambda a: left(a, query, table) == 0, 200)
    assert str(query.runId) == run_id
    assert query.isActive
    assert query.exception() is None
    # Each row once, whatever the batches were.
    assert sorted(seen) == list(range(table.files * ROWS_PER_FILE))


@pytest.mark.parametrize(
    ("options", "unit", "granted", "in_place"),
    [
        ({"maxBytesPerTrigger": "10m"}, "bytes", 1, "ReadMaxBytes(1)"),
        (
            {"maxFilesPerTrigger": "5", "maxBytesPerTrigger": "10m"},
            "files",
            1,
            "CompositeLimit(ReadMaxBytes(10485760),MaxFiles: 1,",
        ),
    ],
)
def test_bytes_a_batch_are_of_its_own_class_and_stay_so(
    agent: Any,
    attached: Any,
    start: Any,
    table: Table,
    options: dict[str, str],
    unit: str,
    granted: int,
    in_place: str,
) -> None:
    attached(agent)
    query = start(table.read(**options))
    agent.wait(lambda a: left(a, query, table) == 0, 120)
    before = in_force(query)
    agent.grant(str(query.runId), granted, unit=unit)
    agent.wait(lambda _: in_place in in_force(query)[0])
    told = len(progresses(agent, query))
    table.add(6)
    agent.wait(lambda a: left(a, query, table) == 0, 120)
    events = progresses(agent, query)[told:]
    rows = [event["body"]["numInputRows"] for event in events if event["body"]["numInputRows"]]
    assert rows == [ROWS_PER_FILE] * 6  # at least one file, and no more
    [entry] = events[-1]["limits"]
    assert (entry["control"], entry["unit"]) == ("live", unit)
    assert entry["configured"] == {"files": 5, "bytes": 10485760}[unit]
    for other in {"rows", "files", "bytes"} - {unit}:
        agent.grant(str(query.runId), 3, unit=other)
    agent.grant(str(query.runId), None, unit=unit)
    agent.wait(lambda _: in_force(query) == before)
    assert query.isActive


@pytest.mark.parametrize("unit", ["files", "bytes"])
def test_what_was_read_and_what_waits_are_the_tables_own_history(
    agent: Any, attached: Any, start: Any, spark: Any, tmp_path: Path, table: Table, unit: str
) -> None:
    """Of a table that is changed and compacted as well, beside a stream that passes over that."""
    spark.sql(f"delete from delta.`{table.place}` where id % 40 = 5")
    table.add(3)
    attached(agent, files_pause_seconds=0.1)
    option = {"files": ("maxFilesPerTrigger", "4"), "bytes": ("maxBytesPerTrigger", "1500")}[unit]
    query = start(table.read(skipChangeCommits="true", **dict([option])))
    for files in (5, 2):
        table.add(files)
    spark.sql(f"update delta.`{table.place}` set id = id + 10000 where id % 40 = 7")
    spark.sql(f"optimize delta.`{table.place}`")
    for files in (7, 4):
        table.add(files)
    agent.wait(
        lambda a: beats(a, query)[-1:] == [0] and not rests(a, query, tmp_path / "table"), 120
    )
    entries = told(agent, query)
    log = commits(tmp_path / "table")
    known = [entry for entry in entries if entry["backlog"] is not None]
    assert len(known) > 2
    assert {entry["backlog_bound"] for entry in known} == {"exact"}
    for event in progresses(agent, query):
        source = event["body"]["sources"][0]
        [entry] = event["limits"]
        if entry["backlog"] is None or source["endOffset"]["isStartingVersion"]:
            continue
        end = source["endOffset"]
        if unit == "files" and not source["startOffset"]["isStartingVersion"]:
            assert entry["admitted"] * ROWS_PER_FILE == event["body"]["numInputRows"]
        unread = [
            [sizes[end["index"] + 1 :] if at == end["reservoirVersion"] else sizes]
            for at, sizes in log.items()
            if at >= end["reservoirVersion"]
        ]
        counts = [len(one) if unit == "files" else sum(one) for [one] in unread]
        # All of them, or as many as there were when it looked.
        assert entry["backlog"] in {sum(counts[:place]) for place in range(len(counts) + 1)}


def commits(place: Path) -> dict[int, list[int]]:
    """By its version, the sizes of the files that a stream reads of a commit."""
    found = {}
    for path in sorted((place / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        changed = any(one["remove"]["dataChange"] for one in actions if "remove" in one)
        added = [one["add"] for one in actions if "add" in one and one["add"]["dataChange"]]
        found[int(path.stem)] = [] if changed else [one["size"] for one in added]
    return found


def beats(agent: Any, query: Any) -> list[int | None]:
    """What heartbeats told to wait, while no batch ran."""
    return [
        pulse["limits"][0]["backlog"]
        for event in agent.of("heartbeat")
        for pulse in event["body"]["queries"]
        if pulse["runId"] == str(query.runId) and pulse["limits"] and not pulse["running_seconds"]
    ]


def rests(agent: Any, query: Any, place: Path) -> bool:
    """Whether the last offset that was told is before the table's last commit."""
    events = progresses(agent, query)
    if not events:
        return True
    [source] = events[-1]["body"]["sources"]
    log = commits(place)
    return bool(source["endOffset"]["reservoirVersion"] <= max(log))


def told(agent: Any, query: Any) -> list[dict[str, Any]]:
    return [event["limits"][0] for event in progresses(agent, query)]


#: With each of them the rows must not depend on how batches are cut. Changed rows are skipped, but
#: where an option says otherwise.
OPTIONS: dict[str, dict[str, str]] = {
    "none": {},
    "maxFilesPerTrigger": {"maxFilesPerTrigger": "4"},
    "both": {"maxFilesPerTrigger": "4", "maxBytesPerTrigger": "10m"},
    "skipChangeCommits": {"skipChangeCommits": "true"},
    "ignoreChanges": {"ignoreChanges": "true"},
    "ignoreDeletes": {"ignoreDeletes": "true", "skipChangeCommits": "true"},
    "startingVersion": {"startingVersion": "1"},
    "startingVersion latest": {"startingVersion": "latest"},
    "startingTimestamp": {"startingTimestamp": "2020-01-01"},
    "readChangeFeed": {"readChangeFeed": "true"},
    "readChangeFeed, startingVersion": {"readChangeFeed": "true", "startingVersion": "1"},
    "excludeRegex": {"excludeRegex": "part-0000[13]"},
    "failOnDataLoss": {"failOnDataLoss": "false"},
}
_CHANGED_ROWS = ("ignoreChanges", "readChangeFeed")


def test_the_same_rows_as_without_weir(
    agent: Any, attached: Any, start: Any, spark: Any, tmp_path: Path
) -> None:
    place = tmp_path / "changing"
    spark.conf.set("spark.databricks.delta.snapshotPartitions", "2")
    spark.sql(
        f"create table delta.`{place}` (id long) using delta "
        "tblproperties (delta.enableChangeDataFeed = true)"
    )
    table = Table(spark, place)
    table.add(8)
    spark.sql(f"update delta.`{place}` set id = id + 1000 where id % 20 = 3")
    table.add(4)
    spark.sql(f"delete from delta.`{place}` where id % 20 = 5")
    spark.sql(f"optimize delta.`{place}`")
    table.add(3)

    def read(name: str, suffix: str) -> list[Any]:
        rows: list[Any] = []

        def batch(frame: Any, _: int) -> None:
            columns = ["id", "_change_type"] if "readChangeFeed" in name else ["id"]
            rows.extend(tuple(row) for row in frame.select(*columns).collect())

        options = OPTIONS[name]
        if not set(_CHANGED_ROWS) & set(options):
            options = {"skipChangeCommits": "true", **options}
        query = start(
            table.read(**options),
            trigger={"availableNow": True},
            batch=batch,
            name=f"files-{name}{suffix}",
            checkpoint=str(tmp_path / f"{name}{suffix}"),
        )
        query.awaitTermination()
        return sorted(rows)

    def all_of_them(suffix: str) -> dict[str, list[Any]]:
        with ThreadPoolExecutor(4) as pool:
            runs = {name: pool.submit(read, name, suffix) for name in OPTIONS}
            return {name: run.result() for name, run in runs.items()}

    alone = all_of_them("")
    agent.decide = at_random(random.Random(1))
    attached(agent, first_batch_seconds=10.0)
    under_weir = all_of_them(" again")
    for name, expected in alone.items():
        assert under_weir[name] == expected, name
    assert all(rows for name, rows in alone.items() if name != "startingVersion latest")
    limits = {entry["limit"] for event in agent.of("progress") for entry in event["limits"]}
    assert len(limits) > 3  # they did move


def left(agent: Any, query: Any, table: Table) -> int:
    """Rows that no batch has told of."""
    done = sum(event["body"]["numInputRows"] for event in progresses(agent, query))
    return int(table.files * ROWS_PER_FILE - done)
