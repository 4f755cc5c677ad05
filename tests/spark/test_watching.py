"""What the agent is told: starts, ends, heartbeats, hung batches, backlog, of many queries."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import spark_listener
from spark_listener import attachment
from spark_listener.intake import Intake
from spark_listener.redact import redact_long
from tests.spark.conftest import (
    NO_SECOND_BATCH_SECONDS,
    ROWS_PER_FILE,
    assert_admitted,
    in_force,
    progresses,
)
from tests.waiting import until

if TYPE_CHECKING:
    from spark_listener.listener import Waiting
    from tests.driver.fake_agent import FakeAgent

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def pulses(agent: FakeAgent, query: Any) -> list[dict[str, Any]]:
    return [
        found
        for event in agent.of("heartbeat")
        for found in event["body"]["queries"]
        if found["runId"] == str(query.runId)
    ]


def last_limit(agent: FakeAgent, query: Any) -> dict[str, Any]:
    """Of the first source, in the newest heartbeat; empty before one has named it."""
    limits = [pulse["limits"] for pulse in pulses(agent, query) if pulse.get("limits")]
    return limits[-1][0] if limits else {}


def test_a_hung_batch_shows_its_growing_age(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    hang = threading.Event()

    def batch(frame: Any, batch_id: int) -> None:
        frame.count()
        if batch_id == 1:
            hang.wait(120)

    query = start(folder(files=20).read(spark, 2), batch=batch, name="hung")

    def grown(a: Any) -> bool:
        of_it = [p["running_seconds"] or 0 for p in pulses(a, query) if p["batchId"] == 1]
        return len(of_it) >= 5 and of_it[-1] > 2

    agent.wait(grown)
    ages = [
        pulse["running_seconds"]
        for pulse in pulses(agent, query)
        if pulse["batchId"] == 1 and pulse["running_seconds"] is not None
    ]
    assert ages == sorted(ages)
    assert len(ages) >= 4
    assert pulses(agent, query)[-1]["name"] == "hung"
    assert [entry["limit"] for entry in pulses(agent, query)[-1]["limits"]] == [2]
    hang.set()
    agent.wait(lambda a: len(progresses(a, query)) >= 3)


def test_a_progress_that_spark_cannot_write_as_json_is_told_all_the_same(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    """Spark 3.5 cannot, where an interval is observed."""
    from pyspark.sql import functions

    attached(agent)
    worst = functions.expr("max(make_dt_interval(0, 0, 0, v))").alias("worst")
    query = start(folder(files=3).read(spark, 1).observe("ages", worst))
    agent.wait(lambda a: len(progresses(a, query)) >= 3)
    told = [event["body"] for event in progresses(agent, query)]
    assert [body["batchId"] for body in told[:3]] == [0, 1, 2]
    assert [body["sources"][0]["numInputRows"] for body in told[:3]] == [ROWS_PER_FILE] * 3


def test_no_age_between_batches(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    query = start(folder(files=1).read(spark), seconds=NO_SECOND_BATCH_SECONDS)
    agent.wait(lambda a: progresses(a, query))
    seen = len(pulses(agent, query))
    agent.wait(lambda a: len(pulses(a, query)) >= seen + 3)
    assert pulses(agent, query)[-1]["running_seconds"] is None
    assert pulses(agent, query)[-1]["batchId"] is not None


def test_start_progress_idle_and_end_are_told_in_order(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    query = start(folder(files=2).read(spark, 2), name='a "name" <b>\n☃')
    run_id = str(query.runId)
    agent.wait(lambda a: a.of("idle", run_id))
    query.stop()
    ended = agent.wait(lambda a: a.of("terminated", run_id))[0]
    [started] = agent.of("started", run_id)
    body = started["body"]
    assert body["id"] == str(query.id)
    assert body["name"] == 'a "name" <b>\n☃'
    assert body["trigger"] == "ProcessingTimeTrigger(300)"
    assert (body["control"], body["outputMode"]) == ("live", "append")
    assert body["checkpointLocation"].startswith("file:")
    assert body["conf"]["spark.sql.shuffle.partitions"] == "2"
    assert "Noop" in body["sink"]
    assert ended["body"]["exception"] is None
    kinds = [event["type"] for event in agent.events if event["body"].get("runId") == run_id]
    assert (kinds[0], kinds[-1]) == ("started", "terminated")
    numbers = [event["sequence"] for event in agent.events]
    assert numbers == sorted(set(numbers))
    # What the JVM counts is asked for with each heartbeat.
    agent.wait(lambda a: a.requests[-1]["listener"]["callbacks_total"] >= 3)
    listener = agent.requests[-1]["listener"]
    assert listener["callback_seconds_total"] > 0.0
    assert listener["jvm_pid"] > 0
    assert listener["python_pid"] > 0
    assert agent.requests[-1]["application"]["spark_version"] == spark.version


def test_a_failure_is_told_with_its_exception(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)

    def fail(_: Any, __: int) -> None:
        raise ValueError("user code is wrong here")

    query = start(folder(files=2).read(spark, 2), batch=fail)
    ended = agent.wait(lambda a: a.of("terminated", str(query.runId)))[0]
    assert "user code is wrong here" in ended["body"]["exception"]


def test_a_failure_is_told_as_spark_does_where_the_job_detaches_before_that(
    agent: Any,
    attached: Any,
    folder: Any,
    start: Any,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    take = Intake._take

    def late(intake: Intake, waiting: Waiting) -> None:
        if waiting.kind == "terminated":
            said.append(str(waiting.event.exception().get()))
        else:
            take(intake, waiting)

    monkeypatch.setattr(Intake, "_take", late)
    made = attached(agent)

    def fail(_: Any, __: int) -> None:
        raise ValueError("user code is wrong here")

    query = start(folder(files=2).read(spark, 2), batch=fail)
    with pytest.raises(Exception, match="user code is wrong here"):
        query.awaitTermination(60)
    until(lambda: said, "Spark's word of the end")
    made.detach()
    ended = agent.wait(lambda a: a.of("terminated", str(query.runId)))[0]
    assert ended["body"]["exception"] == redact_long(said[0])
    assert not [one for one in agent.of("idle") if "left" in one["body"]]


def test_queries_that_already_run_are_found(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    query = start(folder(files=60).read(spark, 2), name="early")
    until(lambda: query.lastProgress, "a first progress")
    attached(agent)
    started = agent.wait(lambda a: a.of("started", str(query.runId)))[0]
    assert started["body"]["name"] == "early"
    assert started["limits"][0]["configured"] == 2
    agent.grant(str(query.runId), 5)
    until(lambda: in_force(query) == ["MaxFiles: 5"], "the granted limit in force")
    assert len(agent.of("started", str(query.runId))) == 1


def test_attaching_twice_is_attaching_once(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    attached(agent)
    query = start(folder(files=6).read(spark, 2))
    agent.wait(lambda a: len(progresses(a, query)) >= 3)
    batches = [event["body"]["batchId"] for event in progresses(agent, query)]
    assert batches == [0, 1, 2]
    assert len({request["listener"]["instance"] for request in agent.requests}) == 1


def test_attaching_an_attached_session_reads_no_configuration(
    agent: Any, attached: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job may do so in foreachBatch, be it once a batch."""
    attached(agent)
    read: list[Any] = []
    real = attachment.conf_of
    monkeypatch.setattr(attachment, "conf_of", lambda one: read.append(one) or real(one))
    assert spark_listener.attach(spark).active
    assert spark_listener.attach(spark, heartbeat_seconds=3.0).active
    assert read == []
    refused = spark_listener.attach(spark, heartbeat_secods=3.0)
    assert "heartbeat_secods" in refused.reason
    other = spark.newSession()
    assert spark_listener.attach(other).active
    assert read == [other._jsparkSession]


def test_sessions_of_one_application_share_one_sender(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    first = attached(agent)
    other = spark.newSession()
    second = spark_listener.attach(other)
    assert second.active
    queries = [start(folder("a", 6).read(spark, 2)), start(folder("b", 6).read(other, 2))]
    for query in queries:
        agent.wait(lambda a, query=query: progresses(a, query))
        agent.grant(str(query.runId), 1)
        until(lambda query=query: in_force(query) == ["MaxFiles: 1"], "the granted limit in force")
    assert len({request["listener"]["instance"] for request in agent.requests}) == 1
    second.detach()
    assert in_force(queries[1]) == ["MaxFiles: 2"]
    assert in_force(queries[0]) == ["MaxFiles: 1"]
    assert first.active


def test_many_queries_in_one_driver(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    queries = [
        start(folder(f"in{n}", 12).read(spark, 2), seconds=0.5, name=f"q{n}") for n in range(6)
    ]
    for number, query in enumerate(queries):
        agent.grant(str(query.runId), number + 1)
    for number, query in enumerate(queries):
        until(
            lambda q=query, n=number: in_force(q) == [f"MaxFiles: {n + 1}"],
            "the granted limit in force",
        )
        agent.wait(lambda a, q=query: progresses(a, q))
    agent.wait(lambda a: len(a.of("heartbeat")[-1]["body"]["queries"]) == 6)


def test_backlog_of_files_sees_what_arrives_and_what_is_read(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    """Spark's own list of unread files misses arrivals until it is drained; a listing does not."""
    attached(agent, files_pause_seconds=0.2)
    hang = threading.Event()

    def batch(frame: Any, batch_id: int) -> None:
        frame.count()
        if batch_id == 1:
            hang.wait(120)

    source = folder(files=10)
    query = start(source.read(spark, 3), batch=batch)
    agent.wait(lambda a: any(p["batchId"] == 1 for p in pulses(a, query)))
    agent.wait(lambda a: last_limit(a, query).get("arrived") is not None)  # listed before more come
    source.add(25)

    def backlog(a: Any) -> int | None:
        entries = pulses(a, query)[-1]["limits"]
        return entries[0]["backlog"] if entries else None

    agent.wait(lambda a: backlog(a) == 29)  # 35 less two batches of three
    entry = pulses(agent, query)[-1]["limits"][0]
    assert entry["backlog_bound"] == "exact"
    assert entry["observed_time"]
    hang.set()
    agent.wait(lambda a: backlog(a) == 0)
    assert_admitted(
        [
            (event["limits"][0]["admitted"], event["body"]["numInputRows"] // ROWS_PER_FILE)
            for event in progresses(agent, query)
        ]
    )
    # While a first batch is held, heartbeats tell the source and its limit, nothing of its files.
    entries = [pulse["limits"][0] for pulse in pulses(agent, query) if pulse["limits"]]
    arrived = [entry.get("arrived") for entry in entries]
    known = [count for count in arrived if count is not None]
    assert known == sorted(known)
    assert known[-1] - known[0] >= 25


def test_backlog_of_files_with_a_pattern_and_hidden_ones(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent, files_pause_seconds=0.2)
    source = folder(files=8)
    for name in ("_SUCCESS", ".hidden.json", "note.txt"):
        (source.path / name).write_text("{}")
    query = start(source.read(spark, 2, pathGlobFilter="*.json"), seconds=NO_SECOND_BATCH_SECONDS)
    agent.wait(lambda a: progresses(a, query))
    agent.wait(lambda a: last_limit(a, query).get("backlog_bound") == "exact")
    assert last_limit(agent, query)["backlog"] == 6


def test_backlog_of_folders_in_folders(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent, files_pause_seconds=0.2)
    for day in range(3):
        folder(f"in/_day={day}", 4)
    for name in ("x.json._COPYING_", "_SUCCESS"):
        (folder("in/_day=0").path / name).write_text("{}")
    query = start(folder("in").read(spark, 2), seconds=NO_SECOND_BATCH_SECONDS)
    agent.wait(lambda a: progresses(a, query))
    agent.wait(lambda a: last_limit(a, query).get("backlog_bound") == "exact")
    assert last_limit(agent, query)["backlog"] == 10


def test_where_the_source_deletes_what_it_read_backlog_is_a_lower_bound(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent, files_pause_seconds=0.2)
    query = start(folder(files=12).read(spark, 2, cleanSource="delete"))
    agent.wait(lambda a: len(progresses(a, query)) >= 4)
    entries = [event["limits"][0] for event in progresses(agent, query)]
    assert {entry["backlog_bound"] for entry in entries} == {"lower"}
    backlogs = [entry["backlog"] for entry in entries]
    assert all(backlog is None or 0 < backlog <= 10 for backlog in backlogs), "never a false 0"


def test_a_directory_with_a_file_past_its_age_is_not_listed_until_that_is_gone(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent, files_pause_seconds=0.2)
    source = folder(files=8)
    old = source.path / "00000.json"
    os.utime(old, (time.time() - 7200,) * 2)
    query = start(source.read(spark, 2, maxFileAge="1h"), seconds=NO_SECOND_BATCH_SECONDS)
    agent.wait(lambda a: progresses(a, query))
    agent.wait(lambda a: last_limit(a, query).get("backlog_bound") == "lower")
    assert last_limit(agent, query)["backlog"] == 6  # Spark's own list
    old.unlink()
    agent.wait(lambda a: last_limit(a, query).get("backlog_bound") == "exact")
    assert last_limit(agent, query)["backlog"] == 6


def test_a_directory_that_is_too_large_is_not_listed(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any, warnings: Any
) -> None:
    attached(agent, files_max_entries=10, files_pause_seconds=0.1)
    query = start(folder(files=40).read(spark, 2))
    agent.wait(lambda a: len(progresses(a, query)) >= 3)
    assert {event["limits"][0]["backlog_bound"] for event in progresses(agent, query)} == {"lower"}
    until(lambda: any("more than 10 entries" in said for said in warnings()), "the warning")
    assert progresses(agent, query)[1]["limits"][0]["backlog"] > 0  # Spark's own list still tells


def test_progress_is_passed_on_unchanged(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    frame = folder(files=4).read(spark, 4).groupBy("k").count()
    writer = frame.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(folder("ck").path)).start()
    event = agent.wait(lambda a: progresses(a, query))[0]
    own = next(p for p in query._jsq.recentProgress() if p.batchId() == event["body"]["batchId"])
    assert event["body"] == json.loads(own.json())
    query.stop()
