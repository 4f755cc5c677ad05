"""Which group shows which query's lag, and when it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.lag_groups import RENEW_SECONDS, Written, check_pattern, group_of, groups_of
from agent.core.policy import Policy
from agent.sources.spark_events import shape
from spark_listener.wire import format_time
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from agent.core.decode.kafka_offsets import Offsets

HERE: Offsets = {("orders", "0"): 10, ("orders", "1"): 20}
KEY = ("shop", "orders")
PATTERN = "weir-{application}-{query}"


@pytest.mark.parametrize("pattern", [PATTERN, "{query}.{application}", "{application}{query}{{x}}"])
def test_a_pattern_that_names_each_query(pattern: str) -> None:
    check_pattern(pattern)
    assert group_of(pattern, ("a", "b")) != group_of(pattern, ("a", "c"))


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "weir",
        "weir-{query}",
        "weir-{application}",
        "weir-{application}-{query}-{user}",
        "{application}-{query",
        "{}-{application}-{query}",
        "{application!r}-{query}",
        "{application:>9}-{query}",
    ],
)
def test_one_that_does_not_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"each query|brace|field|\}"):
        check_pattern(pattern)


def test_a_group_is_one_word_for_every_tool() -> None:
    assert group_of(PATTERN, ("my jobs", "käufe:1")) == "weir-my_jobs-k_ufe_1"


def test_queries_that_would_share_a_group_have_none() -> None:
    committed = {("a-b", "c"): HERE, ("a", "b-c"): HERE, ("a", "d"): HERE}
    assert groups_of(PATTERN, committed) == {"weir-a-d": HERE}


def test_a_group_is_written_when_offsets_move_and_before_they_are_forgotten() -> None:
    written = Written()
    assert written.due({"g": HERE}, 0.0) == {"g": HERE}
    written.note("g", HERE, 0.0)
    assert written.due({"g": HERE}, 3599.0) == {}
    assert written.due({"g": HERE}, RENEW_SECONDS) == {"g": HERE}
    moved = {**HERE, ("orders", "1"): 21}
    assert written.due({"g": moved}, 1.0) == {"g": moved}
    written.forget("g")
    assert written.due({"g": HERE}, 1.0) == {"g": HERE}


def test_groups_of_queries_that_are_gone_are_forgotten() -> None:
    written = Written()
    written.note("g", HERE, 0.0)
    written.note("h", HERE, 0.0)
    written.keep({"h": HERE})
    assert written.due({"g": HERE, "h": HERE}, 1.0) == {"g": HERE}


def reading(**offsets: dict[str, int]) -> dict[str, Any]:
    return {"description": "KafkaV2", "endOffset": offsets, "numInputRows": 1}


def fleet() -> Fleet:
    found = Fleet(Policy(), started_time=START_TIME - 1000)
    found.keep_offsets()
    return found


def send(to: Fleet, driver: Driver, *events: dict[str, Any]) -> None:
    to.receive(decode_request(driver.body(*events)), driver.time + 0.05)


def test_what_is_committed_is_what_the_last_batch_told_through_an_agent_s_restart() -> None:
    one, driver = fleet(), Driver()
    send(one, driver, driver.started(), driver.progress(9, 1.0, sources=[reading(t={"0": 7})]))
    assert one.committed() == {KEY: {("t", "0"): 7}}
    saved = one.changes()
    again = Fleet.restore(Policy(), saved, started_time=driver.time)
    assert again.committed() == {KEY: {("t", "0"): 7}}
    driver.run_id = "r-2"  # the same checkpoint: nothing else is committed yet
    send(one, driver, driver.started())
    assert one.committed() == {KEY: {("t", "0"): 7}}
    send(one, driver, driver.progress(9, 1.0, sources=[reading(t={"0": 5})]))  # set back by hand
    assert one.committed() == {KEY: {("t", "0"): 5}}
    send(one, driver, driver.terminated())
    driver.run_id, driver.query_id = "r-3", "another checkpoint"
    send(one, driver, driver.started())
    assert one.committed() == {}


@pytest.mark.parametrize(
    ("description", "source_class", "held"),
    [
        ("KafkaV2[Subscribe[t]]", "", True),
        ("KafkaSource[SubscribePattern[t.*]]", "", True),
        ("MyOwn", "org.apache.spark.sql.kafka010.KafkaMicroBatchStream", True),
        ("", "", True),  # nobody told
        ("org.apache.spark.sql.eventhubs.EventHubsSource@1a2b", "", False),
        ("EventHubs", "org.apache.spark.sql.eventhubs.EventHubsSource", False),
    ],
)
def test_another_source_whose_offsets_look_like_kafka_s_is_no_concern_of_brokers(
    description: str, source_class: str, *, held: bool
) -> None:
    """Event Hubs counts by name and partition, too, and brokers may have a topic of that name."""
    one, driver = fleet(), Driver()
    source = {**reading(t={"0": 7}), "description": description}
    limit: dict[str, Any] = {"source": 0, "unit": "rows", "limit": None, "configured": None}
    limit["source_class"] = source_class
    send(one, driver, driver.progress(9, 1.0, sources=[source], limits=[limit]))
    assert bool(one.readings()) is held
    assert one.committed() == ({KEY: {("t", "0"): 7}} if held else {})
    plan = {**limit, "control": "live", "admitted": 3, "backlog": 0, "offsets": {"t": {"0": 10}}}
    send(one, driver, driver.heartbeat(1, 0.5, limits=[plan]))
    assert bool(one.readings()) is held


def test_what_an_agent_before_took_for_kafka_s_is_given_up() -> None:
    one, driver = fleet(), Driver()
    source = {**reading(t={"0": 7}), "description": ""}
    send(one, driver, driver.progress(9, 1.0, sources=[source]))
    assert one.committed() == {KEY: {("t", "0"): 7}}
    again = Fleet.restore(Policy(), one.changes(), started_time=driver.time)
    again.keep_offsets()
    source["description"] = "org.apache.spark.sql.eventhubs.EventHubsSource@1a2b"
    send(again, driver, driver.progress(9, 1.0, sources=[source]))
    assert not again.readings()
    assert again.committed() == {}


def test_of_two_sources_of_one_partition_the_one_behind_counts() -> None:
    one, driver = fleet(), Driver()
    both = [reading(t={"0": 7, "1": 3}), reading(t={"0": 5}), reading(u={"0": -1})]
    send(one, driver, driver.started(), driver.progress(9, 1.0, sources=both))
    assert one.committed() == {KEY: {("t", "0"): 5, ("t", "1"): 3}}


@pytest.mark.parametrize(
    "started",
    [
        {"conf": {"asyncProgressTrackingEnabled": "true"}},
        {"trigger": "ContinuousTrigger(1000)"},
        {
            "conf": {"asyncProgressTrackingEnabled": "true"},
            "trigger": "RealTimeTrigger(300000)",
        },
    ],
)
def test_a_query_whose_progress_runs_ahead_of_its_commit_log_has_no_group(
    started: dict[str, Any],
) -> None:
    one, driver = fleet(), Driver()
    begun = driver.started(**started)
    send(one, driver, begun, driver.progress(9, 1.0, sources=[reading(t={"0": 7})]))
    assert one.committed() == {}


KAFKA_TABLE = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1f"
FOREACH_BATCH = "ForeachBatchSink"


@pytest.mark.parametrize("told_before", [False, True])
@pytest.mark.parametrize(
    ("sink", "stateful", "held"),
    [
        (KAFKA_TABLE, False, False),
        (KAFKA_TABLE, True, True),
        ("org.apache.spark.sql.execution.streaming.ConsoleTable$@5c", False, False),
        ("org.apache.spark.sql.execution.datasources.noop.NoopTable$@2b", False, False),
        ("MemorySink", False, False),
        ("ForeachWriterTable(org.apache.spark.sql.Writer@1f)", False, False),
        ("", False, False),
        (FOREACH_BATCH, False, True),
        ("FileSink[s3://lake/KafkaTable]", False, True),
        ("DeltaSink[s3://lake/MemorySink]", False, True),
    ],
)
def test_where_only_an_event_log_tells_what_may_run_ahead_has_no_group(
    sink: str, *, stateful: bool, held: bool, told_before: bool
) -> None:
    """It holds neither the query's options nor its trigger, and an earlier run's may be others."""
    one, driver = fleet(), Driver(application="shop")
    if told_before:
        batch = driver.progress(9, 1.0, sources=[reading(t={"0": 5})])
        batch["body"]["sink"]["description"] = sink
        send(one, driver, driver.started(sink=sink), batch)
        assert one.committed() == {KEY: {("t", "0"): 5}}
        driver.run_id = "r-2"
    name = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
    began = {"Event": f"{name}StartedEvent", **driver.ids(), "timestamp": format_time(driver.time)}
    operator = {"operatorName": "dedupe", "numRowsTotal": 5}
    body = {
        **driver.ids(),
        "timestamp": format_time(driver.time),
        "batchId": driver.batch_id + 1,
        "durationMs": {"addBatch": 900, "triggerExecution": 1000},
        "stateOperators": [operator] if stateful else [],
        "sources": [{**reading(), "endOffset": '{"t": {"0": 7}}'}],
        "sink": {"description": sink},
    }
    ended = {"Event": f"{name}ProgressEvent", "progress": body}
    for number, line in enumerate((began, ended)):
        event = shape(line, None)
        assert event is not None
        send(one, driver, {"sequence": driver.sequence + 1 + number, **event})
    assert one.committed() == ({KEY: {("t", "0"): 7}} if held else {})


def test_what_a_run_told_of_its_logs_holds_for_one_that_only_its_event_log_tells_of() -> None:
    one, driver = fleet(), Driver()
    asked = {"asyncProgressTrackingEnabled": "true"}
    send(one, driver, driver.started(conf=asked))
    driver.run_id, driver.tells_trigger = "r-2", False
    send(one, driver, driver.started(trigger="", conf={}))
    send(one, driver, driver.progress(9, 1.0, sources=[reading(t={"0": 7})]))
    assert one.committed() == {}


def test_nothing_is_kept_where_nobody_asks() -> None:
    one, driver = Fleet(Policy(), started_time=START_TIME - 1000), Driver()
    send(one, driver, driver.started(), driver.progress(9, 1.0, sources=[reading(t={"0": 7})]))
    assert one.committed() == {}
