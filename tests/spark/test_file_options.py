"""Which rows a file source reads does not depend on Weir, whatever its options: docs/driver.md."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.spark.conftest import in_force, progresses
from tests.spark.file_options import FIRST, LATER, Case, all_read, at_random, rows_read
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

EVERYTHING = len(FIRST) + len(LATER) - 1  # but for the old file that comes late
CASES = [
    Case(latest_first=True),
    Case(latest_first=True, available_now=True),
    Case(latest_first=True, limit="files"),
    Case(latest_first=True, limit="bytes"),
    Case(file_name_only=True, available_now=True),
    Case(file_name_only=True, available_now=True, limit="files"),
    Case(short_age=True, clean="delete"),
    Case(short_age=True, clean="archive", limit="files", available_now=True),
    Case(limit="bytes"),
]


@pytest.mark.slow("every option with and without; what loses rows is refused every time")
def test_the_same_rows_as_without_weir(
    agent: Any, attached: Any, spark: Any, tmp_path: Any
) -> None:
    cases = [case for case in CASES if case.limit != "bytes" or not spark.version.startswith("3.")]
    alone = [rows for rows, _ in all_read(spark, cases, tmp_path / "alone")]
    agent.decide = at_random(random.Random(1))
    attached(agent, first_batch_seconds=10.0)
    under_weir = [rows for rows, _ in all_read(spark, cases, tmp_path / "weir")]
    differ = {
        str(case): f"{len(found)} rows, not {len(expected)}"
        for case, expected, found in zip(cases, alone, under_weir, strict=True)
        if found != expected
    }
    assert differ == {}
    limits = {entry["limit"] for event in agent.of("progress") for entry in event["limits"]}
    assert len(limits) > 3  # they did move


def test_a_latest_first_source_is_given_a_limit_only_by_its_owners_word(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    query = start(folder(files=20).read(spark, latestFirst="true"))
    run_id = str(query.runId)
    agent.grant(run_id, 3)
    [entry] = agent.wait(lambda a: progresses(a, query))[0]["limits"]
    assert (entry["control"], entry["limit"], entry["next_limit"]) == ("advice", None, None)
    assert entry["note"].startswith("latestFirst:")
    agent.give_limits = True
    until(lambda: in_force(query) == ["MaxFiles: 3"], "the granted limit in force")
    told = agent.wait(lambda a: [e for e in entries(a, run_id) if e["control"] == "live"])[-1]
    assert told["note"].startswith("latestFirst:")
    agent.give_limits = False
    until(lambda: in_force(query) == ["All Available"], "no limit in force")
    assert query.isActive


def test_that_the_newest_files_are_read_first_is_told(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    """Beside a limit of its own it is steered, but not where a watermark drops what is old."""
    attached(agent)
    options = {"maxFilesPerTrigger": "5"}
    newest = start(folder("newest", files=20).read(spark, latestFirst="true", **options))
    oldest = start(folder("oldest", files=20).read(spark, **options))
    for query, in_order in ((newest, False), (oldest, None)):
        [entry] = agent.wait(lambda a, query=query: progresses(a, query))[0]["limits"]
        assert (entry["control"], entry.get("in_order")) == ("live", in_order)


def test_what_the_owners_word_costs_is_real(
    agent: Any, attached: Any, spark: Any, tmp_path: Any
) -> None:
    """Else the tests above would show nothing: Spark does forget these files."""
    agent.give_limits = True
    agent.decide = at_random(random.Random(1))
    attached(agent, first_batch_seconds=10.0)
    case = Case(latest_first=True, available_now=True)
    rows, batches = rows_read(spark, case, tmp_path / "weir", "files-0")
    assert max(batches) <= 5
    assert len(rows) < EVERYTHING
    assert not {name for name, age in FIRST if age > 7.0} & set(rows)


def test_an_agent_that_says_nothing_of_it_changes_nothing(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    query = start(folder(files=20).read(spark, latestFirst="true"))
    agent.grant(str(query.runId), 3)
    agent.give_limits = True
    until(lambda: in_force(query) == ["MaxFiles: 3"], "the granted limit in force")
    agent.give_limits = None  # an older one in its place
    heard = len(agent.requests)
    agent.wait(lambda a: len(a.requests) > heard + 2)
    assert in_force(query) == ["MaxFiles: 3"]


def entries(agent: Any, run_id: str) -> list[dict[str, Any]]:
    """What heartbeats told of a run's only source."""
    return [
        query["limits"][0]
        for event in agent.of("heartbeat")
        for query in event["body"]["queries"]
        if query["runId"] == run_id and query.get("limits")
    ]


def test_a_grant_reaches_its_source_when_a_job_reads_them_in_another_order(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    left, right = folder("left", 30), folder("right", 30)
    first = start(left.read(spark, 2).union(right.read(spark, 2)))
    seen = agent.wait(lambda a: progresses(a, first))[0]
    names = [entry["identity"] for entry in seen["limits"]]
    assert len(set(names)) == 2
    first.stop()
    swapped = start(right.read(spark, 2).union(left.read(spark, 2)))
    agent.grant(str(swapped.runId), 5, source=0)
    agent.grant(str(swapped.runId), 3, source=1)
    for grant, name in zip(agent.grants, names, strict=True):
        grant["identity"] = name  # as an agent says it that knows the first run only

    def obeyed() -> dict[str, Any] | None:
        told = progresses(agent, swapped)
        return told[-1] if told and [e["limit"] for e in told[-1]["limits"]] == [3, 5] else None

    last = agent.wait(lambda _: obeyed())
    assert str(right.path) in last["body"]["sources"][0]["description"]
    assert [entry["identity"] for entry in last["limits"]] == names[::-1]
