"""Iceberg as a source: from 1.10 on its limit moves while the query runs, before that it stays.

Run by tests.matrix with each release of Iceberg that there is for a Spark. What is told is held
against the table's own history, as Iceberg shows it in SQL.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener import sources
from spark_listener.actuator import DISOBEYS
from spark_listener.query import fingerprint
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
RELEASE = tuple(int(part) for part in os.environ.get("WEIR_ICEBERG", "0.0").split(".")[:2])
OBEYS = RELEASE >= (1, 10)
CONFIGURED: dict[str, dict[str, str]] = {
    "none": {},
    "files": {"streaming-max-files-per-micro-batch": "4"},
    "rows": {"streaming-max-rows-per-micro-batch": "40"},
    "both": {
        "streaming-max-files-per-micro-batch": "4",
        "streaming-max-rows-per-micro-batch": "400",
    },
}


class Table:
    """A table that files of as many rows arrive in."""

    def __init__(self, spark: Any, place: Path) -> None:
        self.spark, self.name = spark, "weir.db.arrivals"
        catalog = "spark.sql.catalog.weir"
        spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{catalog}.type", "hadoop")
        spark.conf.set(f"{catalog}.warehouse", str(place))
        self.name = f"weir.{place.name.replace('-', '_')}.arrivals"
        spark.sql(f"create table {self.name} (id long) using iceberg")
        self.files = 0

    def add(self, files: int) -> None:
        first = self.files * ROWS_PER_FILE
        self.files += files
        rows = self.spark.range(first, self.files * ROWS_PER_FILE, 1, files)
        rows.writeTo(self.name).append()

    def read(self, **options: str) -> Any:
        return self.spark.readStream.format("iceberg").options(**options).load(self.name)

    def files_after(self) -> list[int]:
        """How many files had been appended in all after each of its snapshots, by its history."""
        rows = self.spark.sql(
            f"select summary['added-data-files'] from {self.name}.snapshots order by committed_at"
        ).collect()
        found = [0]
        for row in rows:
            found.append(found[-1] + int(row[0] or 0))
        return found


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Table:
    made = Table(spark, tmp_path)
    made.add(4)
    made.add(8)
    made.add(1)
    return made


@pytest.mark.parametrize("configured", CONFIGURED)
def test_a_limit_is_obeyed_or_none_is_set(
    agent: Any, attached: Any, start: Any, table: Table, configured: str
) -> None:
    attached(agent, first_batch_seconds=10.0)
    seen: list[int] = []

    def batch(frame: Any, _: int) -> None:
        seen.extend(row["id"] for row in frame.collect())

    query = start(table.read(**CONFIGURED[configured]), batch=batch)
    run_id = str(query.runId)
    [entry] = agent.wait(lambda a: progresses(a, query))[0]["limits"]
    unit = "rows" if configured == "rows" else "files"
    assert entry["unit"] == unit
    assert entry["control"] == ("live" if OBEYS else "advice"), entry
    assert entry["configured"] == {"none": None, "rows": 40}.get(configured, 4)
    assert entry["identity"] == fingerprint(f"{table.name} ")
    before = in_force(query)
    one = ROWS_PER_FILE if unit == "rows" else 1
    agent.grant(run_id, one, unit=unit)
    for files in (3, 5, 2, 6):
        table.add(files)
    agent.wait(lambda _: len(set(seen)) == table.files * ROWS_PER_FILE, 120)
    assert sorted(seen) == list(range(table.files * ROWS_PER_FILE))  # each row once
    agent.wait(lambda a: told(a, query)[-1]["backlog"] == 0)
    assert query.isActive
    assert query.exception() is None
    if OBEYS:
        limited = [entry for entry in told(agent, query) if entry["limit"] == one]
        assert len(limited) > 5
        assert max(entry["admitted"] for entry in limited) == one
    else:
        assert in_force(query) == before
        assert "1.10" in entry["note"]


def told(agent: Any, query: Any) -> list[dict[str, Any]]:
    """What was said beside each progress that had rows."""
    return [
        event["limits"][0] for event in progresses(agent, query) if event["body"]["numInputRows"]
    ]


@pytest.mark.parametrize("configured", ["files", "rows"])
def test_what_was_read_and_what_waits_are_the_tables_own_history(
    agent: Any, attached: Any, start: Any, table: Table, configured: str
) -> None:
    attached(agent)
    query = start(table.read(**CONFIGURED[configured]), batch=lambda frame, _: frame.collect())
    for files in (7, 1, 12, 5, 3):
        table.add(files)
    every = table.files
    agent.wait(lambda a: rows_of(a, query) == every * ROWS_PER_FILE, 120)
    scale = ROWS_PER_FILE if configured == "rows" else 1
    history = [files * scale for files in table.files_after()]
    assert history[-1] == every * scale
    read = 0
    for event in progresses(agent, query):
        if not event["body"]["numInputRows"]:
            continue
        [entry] = event["limits"]
        assert entry["admitted"] * ROWS_PER_FILE == event["body"]["numInputRows"] * scale
        read += entry["admitted"]
        assert read + entry["backlog"] in history, (read, entry, history)
    assert read == history[-1]


def test_what_waits_is_told_while_a_batch_runs(
    agent: Any, attached: Any, start: Any, table: Table, tmp_path: Path
) -> None:
    attached(agent)
    go = tmp_path / "go"

    def batch(_: Any, __: int) -> None:
        while not go.exists():
            time.sleep(0.05)

    query = start(table.read(**CONFIGURED["files"]), batch=batch)
    [entry] = agent.wait(
        lambda a: [
            item["limits"]
            for event in a.of("heartbeat")
            for item in event["body"]["queries"]
            if item["runId"] == str(query.runId)
            and item.get("running_seconds")
            and item["limits"]
            and item["limits"][0].get("admitted")
        ],
        60,
    )[0]
    go.touch()
    assert (entry["admitted"], entry["backlog"]) == (4, table.files - 4)


def test_whether_a_source_that_nobody_has_tried_keeps_to_its_limit_is_seen(
    agent: Any, attached: Any, start: Any, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its batches alone, as if no release of it had been tried."""
    # Nor its options, which are read by its release.
    unknown = replace(
        sources.ICEBERG, obeys=False, obeys_from=None, couples=sources.Known(()).couples
    )
    monkeypatch.setitem(sources._BY_CLASS, sources.ICEBERG.classes[0], unknown)
    table.add(60)
    attached(agent, first_batch_seconds=10.0)
    query = start(table.read(**{"streaming-max-rows-per-micro-batch": "100"}))
    before = agent.wait(lambda _: in_force(query))
    agent.wait(lambda a: told(a, query))
    if OBEYS:
        agent.grant(str(query.runId), 200, unit="rows")
        entry = agent.wait(lambda a: [one for one in told(a, query) if one.get("obeyed")])[0]
        assert (entry["control"], entry["limit"], entry["admitted"]) == ("live", 200, 200)
        return
    agent.grant(str(query.runId), 30, unit="rows")
    entry = agent.wait(lambda a: [one for one in told(a, query) if one["control"] == "advice"])[0]
    assert (entry["note"], entry["obeyed"], entry["limit"]) == (DISOBEYS, False, 30)
    agent.wait(lambda _: in_force(query) == before)
    after = agent.wait(lambda a: told(a, query)[-1]["limit"] == 100 and told(a, query)[-1])
    assert (after["control"], after["next_limit"], after["configured"]) == ("advice", 100, 100)
    assert query.isActive


#: From 1.11 on files may be planned by a thread of the source's own, ahead of the batches.
ASYNCHRONOUS = {
    "async-micro-batch-planning-enabled": "true",
    "streaming-snapshot-polling-interval-ms": "50",
}


@pytest.mark.skipif(RELEASE < (1, 11), reason="files are planned ahead from 1.11 on")
def test_planned_ahead_a_run_that_ends_is_given_a_limit_only_by_its_owners_word(
    agent: Any, attached: Any, start: Any, table: Table
) -> None:
    """Under a limit Iceberg says that nothing waits where no file is planned just then.

    (``AsyncSparkMicroBatchPlanner.computeLimitedOffset``: null for an empty queue, which is the end
    of such a run; it takes slower storage than a test has.)
    """
    agent.decide = at_random(random.Random(1))
    attached(agent, first_batch_seconds=10.0)
    for name, available_now in (("files-ends", True), ("files-goes-on", False)):
        trigger = {"availableNow": True} if available_now else None
        query = start(
            table.read(**ASYNCHRONOUS),
            trigger=trigger,
            batch=lambda frame, _: frame.collect(),
            name=name,
        )
        agent.wait(lambda a, query=query: rows_of(a, query) == table.files * ROWS_PER_FILE, 60)
        assert query.exception() is None
        [entry] = progresses(agent, query)[0]["limits"]
        assert entry["control"] == ("advice" if available_now else "live")
        assert entry.get("note", "").startswith(sources.PLANNED_AHEAD) is available_now
        assert (len(told(agent, query)) == 1) is available_now


#: With each of them the rows must not depend on how batches are cut.
OPTIONS: dict[str, dict[str, str]] = {
    "none": {},
    "files": CONFIGURED["files"],
    "both": CONFIGURED["both"],
    "from a time": {"stream-from-timestamp": "1"},
}
if RELEASE >= (1, 11):
    OPTIONS |= {"planned ahead": ASYNCHRONOUS, "ahead, files": ASYNCHRONOUS | CONFIGURED["files"]}
#: Batches that a job breaks in, before it has committed them.
BREAKS = (0, 2, 5, 9)


@pytest.mark.parametrize("breaks", [(), BREAKS], ids=["in one run", "broken off"])
def test_the_same_rows_as_without_weir(
    agent: Any, attached: Any, start: Any, table: Table, tmp_path: Path, breaks: tuple[int, ...]
) -> None:
    catalog, place = table.name.split(".", 1)

    def compact() -> None:
        options = "map('rewrite-all', 'true')"
        table.spark.sql(
            f"call {catalog}.system.rewrite_data_files(table => '{place}', options => {options})"
        )

    table.add(6)
    table.spark.sql(f"delete from {table.name} where id % 20 = 5")
    table.add(3)
    compact()
    table.add(9)
    for files in (2, 1, 4):
        compact()
        table.add(files)
    compact()
    skips = {
        "streaming-skip-delete-snapshots": "true",
        "streaming-skip-overwrite-snapshots": "true",
    }

    def read(name: str, suffix: str) -> list[int]:
        batches: dict[int, list[int]] = {}  # one that runs again has its rows once
        left = list(breaks)

        def batch(frame: Any, number: int) -> None:
            batches[number] = [row["id"] for row in frame.collect()]
            if number in left:
                left.remove(number)
                raise RuntimeError("the job breaks here, and begins again")

        while True:
            query = start(
                table.read(**skips, **OPTIONS[name]),
                batch=batch,
                name=f"files-{name}{suffix}",
                checkpoint=str(tmp_path / f"{name}{suffix}"),
            )
            before = len(left)
            try:
                query.processAllAvailable()
            except Exception:
                assert len(left) < before
                continue
            query.stop()
            return sorted(row for rows in batches.values() for row in rows)

    def all_of_them(suffix: str) -> dict[str, list[int]]:
        with ThreadPoolExecutor(4) as pool:
            runs = {name: pool.submit(read, name, suffix) for name in OPTIONS}
            return {name: run.result() for name, run in runs.items()}

    alone = all_of_them("")
    agent.decide = at_random(random.Random(1))
    attached(agent, first_batch_seconds=10.0)
    under_weir = all_of_them(" again")
    for name, expected in alone.items():
        assert under_weir[name] == expected, name
        assert expected == alone["none"]
    assert len(alone["none"]) == table.files * ROWS_PER_FILE
    limits = {entry["limit"] for event in agent.of("progress") for entry in event["limits"]}
    assert (len(limits) > 3) == OBEYS  # they did move


def rows_of(agent: Any, query: Any) -> int:
    return sum(event["body"]["numInputRows"] for event in progresses(agent, query))
