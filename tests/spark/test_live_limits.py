"""Limits of running queries: set live, per source, renewed, expired, restored."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.spark.conftest import (
    ROWS_PER_FILE,
    assert_admitted,
    files_per_batch,
    in_force,
    progresses,
)
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_a_limit_changes_within_three_batches_and_the_run_stays(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    # A second between batches: a busy machine hears of one before the next but one is planned.
    query = start(folder(files=120).read(spark, 2), seconds=1.0)
    run_id = str(query.runId)
    agent.wait(lambda a: len(progresses(a, query)) >= 2)
    agent.grant(run_id, 7)
    before = len(progresses(agent, query))
    agent.wait(lambda a: len(progresses(a, query)) >= before + 5)
    taken = files_per_batch(agent, query)
    assert taken[0] == 2
    assert taken[before + 2 : before + 5] == [7, 7, 7], taken
    assert str(query.runId) == run_id
    assert query.isActive
    # Each batch is told with the limit it was planned under, and what it took.
    query.stop()
    admitted = []
    for event in progresses(agent, query):
        [entry] = event["limits"]
        files = event["body"]["numInputRows"] // ROWS_PER_FILE
        assert (entry["limit"], entry["configured"]) == (files, 2)
        admitted.append((entry["admitted"], files))
        assert (entry["unit"], entry["control"]) == ("files", "live")
    assert_admitted(admitted)


def test_agent_gone_the_configured_limit_is_back_after_the_grants_life(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any, warnings: Any
) -> None:
    attached(agent)
    query = start(folder(files=40).read(spark, 2))
    agent.grant(str(query.runId), 3, life=1.5)
    until(lambda: in_force(query) == ["MaxFiles: 3"], "the granted limit in force")
    agent.stop()
    until(lambda: in_force(query) == ["MaxFiles: 2"], "the configured limit in force")
    # The driver counts from when it heard the last answer, which is after this.
    assert time.monotonic() - agent.answered >= 1.4
    assert query.isActive
    assert len(warnings()) == 1
    agent.start()  # back again, it renews
    until(lambda: in_force(query) == ["MaxFiles: 3"], "the granted limit in force", seconds=30.0)


def test_agent_gone_with_nothing_configured_the_last_grant_stays(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    source = folder(files=5)
    query = start(source.read(spark))
    agent.grant(str(query.runId), 3, life=1.0)
    until(lambda: in_force(query) == ["MaxFiles: 3"], "the granted limit in force")
    agent.stop()
    time.sleep(2.5)
    assert in_force(query) == ["MaxFiles: 3"]
    source.add(6)
    until(
        lambda: 3 * ROWS_PER_FILE in [p["numInputRows"] for p in query.recentProgress][1:],
        "a batch of the last grant",
    )


def test_a_batch_that_outlasts_a_grant_does_not_end_it(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)

    def slow(frame: Any, batch_id: int) -> None:
        frame.count()
        if batch_id == 1:
            time.sleep(7.0)

    query = start(folder(files=60).read(spark, 2), batch=slow)
    agent.grant(str(query.runId), 4, life=3.0)
    limits = set()

    def watched(a: Any) -> bool:
        if a.of("progress", str(query.runId)):  # the grant is in force by now
            limits.update(in_force(query))
        return len(progresses(a, query)) >= 4

    agent.wait(lambda a: len(progresses(a, query)) >= 1)
    until(lambda: in_force(query) == ["MaxFiles: 4"], "the granted limit in force")
    agent.wait(watched)
    assert limits == {"MaxFiles: 4"}
    assert files_per_batch(agent, query)[2:4] == [4, 4]


def test_no_limit_means_the_configured_one(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    bounded, free = start(folder("a", 9).read(spark, 2)), start(folder("b", 9).read(spark))
    for query in (bounded, free):
        agent.grant(str(query.runId), 5)
        until(lambda query=query: in_force(query) == ["MaxFiles: 5"], "the granted limit in force")
        agent.grant(str(query.runId), None)
    until(lambda: in_force(bounded) == ["MaxFiles: 2"], "the configured limit in force")
    until(lambda: in_force(free) == ["All Available"], "no limit in force")


def test_a_union_of_two_file_sources_is_regulated_source_by_source(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    left, right = folder("left", 300), folder("right", 400)
    query = start(left.read(spark, 2).union(right.read(spark, 3)))
    agent.wait(lambda a: len(progresses(a, query)) >= 1)
    agent.grant(str(query.runId), 5, source=0)
    agent.grant(str(query.runId), 8, source=1)
    last = agent.wait(lambda a: of_rows(a, query, [50, 80]))
    assert str(left.path) in last["body"]["sources"][0]["description"]
    first = progresses(agent, query)[0]
    assert [entry["configured"] for entry in first["limits"]] == [2, 3]
    assert [entry["source"] for entry in last["limits"]] == [0, 1]
    assert [entry["limit"] for entry in last["limits"]] == [5, 8]
    assert_admitted(
        [
            (entry["admitted"], source["numInputRows"] // ROWS_PER_FILE)
            for event in progresses(agent, query)
            for entry, source in zip(event["limits"], event["body"]["sources"], strict=True)
        ]
    )
    agent.grant(str(query.runId), 1, source=0)  # one moves, the other stays
    agent.wait(lambda a: of_rows(a, query, [10, 80]))


def of_rows(agent: Any, query: Any, rows: list[int]) -> dict[str, Any] | None:
    """The newest event, if its sources took so many rows each."""
    last = progresses(agent, query)[-1]
    taken = [source["numInputRows"] for source in last["body"]["sources"]]
    return last if taken == rows else None


def test_under_available_now_too_and_every_row_comes_once(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    rows: list[int] = []

    def count(frame: Any, _: int) -> None:
        rows.append(frame.count())
        time.sleep(0.3)

    query = start(folder(files=40).read(spark, 2), trigger={"availableNow": True}, batch=count)
    agent.wait(lambda a: len(progresses(a, query)) >= 1)
    agent.grant(str(query.runId), 9)
    assert query.awaitTermination(60)
    agent.wait(lambda a: a.of("terminated", str(query.runId)))
    assert sum(rows) == 40 * ROWS_PER_FILE
    assert 9 in files_per_batch(agent, query)
    assert files_per_batch(agent, query)[0] == 2


def test_ten_first_batches_of_ten_are_limited(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent, first_batch_seconds=10.0)  # a busy machine may take longer than the usual 2 s

    def decide(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {"id": "any", "runId": event["body"]["runId"], "source": 0, "unit": "files",
             "limit": 3, "expires_seconds": 60, "reason": "first_batch"}
            for event in events
            if event["type"] == "started"
        ]  # fmt: skip

    agent.decide = decide
    source = folder(files=30)
    first: list[int] = []
    for _ in range(10):
        query = start(source.read(spark), seconds=0.1)
        agent.wait(lambda a, query=query: progresses(a, query))
        event = progresses(agent, query)[0]
        assert event["body"]["batchId"] == 0
        assert event["limits"][0]["limit"] == 3  # what held when it was planned
        first.append(files_per_batch(agent, query)[0])
        query.stop()
    assert first == [3] * 10


def test_detaching_puts_configured_limits_back(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    made = attached(agent)
    queries = [start(folder("a", 9).read(spark, 2)), start(folder("b", 9).read(spark))]
    for query in queries:
        agent.grant(str(query.runId), 5)
        until(lambda query=query: in_force(query) == ["MaxFiles: 5"], "the granted limit in force")
    made.detach()
    made.detach()
    assert not made.active
    assert [in_force(query) for query in queries] == [["MaxFiles: 2"], ["All Available"]]
    quiet = len(agent.events)
    time.sleep(1.0)
    assert len(agent.events) == quiet
    assert all(query.isActive for query in queries)


def test_a_limit_that_someone_else_set_is_left_alone(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any, warnings: Any
) -> None:
    attached(agent)
    query = start(folder(files=30).read(spark, 2))
    until(lambda: in_force(query) == ["MaxFiles: 2"], "the configured limit in force")
    agent.wait(lambda a: progresses(a, query))
    execution = query._jsq.streamingQuery()
    limits = spark._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
    key = execution.uniqueSources().keysIterator().next()
    getattr(execution, "uniqueSources_$eq")(
        execution.uniqueSources().updated(key, limits.allAvailable())
    )
    agent.grant(str(query.runId), 5)
    until(lambda: any("something else has changed" in said for said in warnings()), "the warning")
    assert in_force(query) == ["All Available"]
    assert query.isActive


def test_watching_only(agent: Any, attached: Any, folder: Any, start: Any, spark: Any) -> None:
    attached(agent, control=False)
    query = start(folder(files=30).read(spark, 2))
    agent.grant(str(query.runId), 5)
    agent.wait(lambda a: len(progresses(a, query)) >= 3)
    assert in_force(query) == ["MaxFiles: 2"]
    [entry] = progresses(agent, query)[-1]["limits"]
    assert (entry["control"], entry["note"]) == ("advice", "spark.weir.control is false")
    assert agent.of("started", str(query.runId))[0]["body"]["control"] == "advice"
