"""PySpark reads a real Kafka under Weir: the limit adapts, and every figure is the broker's own."""

from __future__ import annotations

import json
import re
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests import waiting
from tests.kafka.broker import Broker
from tests.service.agents import AgentProcess
from tests.spark.conftest import in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
#: maxOffsetsPerTrigger where a test awaits that Weir lowers it.
CONFIGURED = 600
#: Each look asks the agent, the broker or Spark; what is awaited may take many batches.
until = partial(waiting.until, seconds=240.0, every=0.2)


@pytest.fixture
def agent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[AgentProcess]:
    more = getattr(request, "param", ())
    options = ("--state-dir", str(tmp_path / "state"), "--target-seconds", "3", *more)
    with AgentProcess(tmp_path, *options) as running:
        yield running


@pytest.fixture
def own_broker(kafka_jars: None, tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "kafka") as running:
        yield running


def reading(spark: Any, broker: Broker, topic: str, **options: Any) -> Any:
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def costing(seconds_per_row: float) -> Callable[[Any, int], None]:
    def run(frame: Any, _: int) -> None:
        time.sleep(seconds_per_row * frame.count())

    return run


def fill(broker: Broker, *topics: str) -> int:
    """Rows for two batches as configured into each topic, before a query reads it; how many in all.

    The query's first batch is full then. One that is planned while rows still come is smaller, and
    is enough to size the next ones by: on a busy machine no batch was ever as large as configured.
    """
    for topic in topics:
        broker.produce(topic, numbers(2 * CONFIGURED))
    return 2 * CONFIGURED * len(topics)


def fed_until(
    ready: Callable[[], Any], broker: Broker, query: Any, *topics: str, sent: int = 0
) -> int:
    """Keeps a backlog in the topics until ``ready``; how many rows were ``sent`` then in all.

    A fixed amount would be read through on a machine where what is awaited comes later.
    """

    def looked() -> bool:
        nonlocal sent
        if ready():
            return True
        if sent - sum(rows_of(query)) < 1.5 * CONFIGURED * len(topics):
            for topic in topics:
                broker.produce(topic, numbers(CONFIGURED))
                sent += CONFIGURED
        return False

    until(looked, "what the test feeds the query for")
    return sent


def batches_to_adapt(rows: list[int]) -> int | None:
    """Batches from the first that was as large as configured to the first one that is smaller."""
    full = (place for place, count in enumerate(rows) if count >= 0.99 * CONFIGURED)
    begun = next(full, len(rows))
    return next((n for n, count in enumerate(rows[begun:]) if count < 0.9 * CONFIGURED), None)


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def view(agent: AgentProcess, name: str) -> dict[str, Any]:
    answer = agent.http.get("/v1/queries").json()
    return next((query for query in answer["queries"] if query["query"] == name), {})


def rows_of(query: Any) -> list[int]:
    return [rows for p in query.recentProgress if (rows := p["numInputRows"])]


def backlog_by_the_broker(broker: Broker, topic: str, offsets: dict[str, int]) -> int:
    ends = broker.end_offsets(topic)
    return sum(end - offsets.get(str(partition), 0) for partition, end in ends.items())


def checkpointed(place: Path, topic: str) -> dict[str, int]:
    """Offsets of the newest batch that was committed."""
    return _newest(place, "commits", topic)


def planned(place: Path, topic: str) -> dict[str, int]:
    """Offsets of the newest batch that was planned, ended or not."""
    return _newest(place, "offsets", topic)


def _newest(place: Path, log: str, topic: str) -> dict[str, int]:
    newest = max(int(path.name) for path in (place / log).iterdir() if path.name.isdigit())
    text = (place / "offsets" / str(newest)).read_text().splitlines()[-1]
    return dict(json.loads(text)[topic])


def test_a_burst_adapts_the_limit_and_the_backlog_is_exact(
    agent: AgentProcess, broker: Broker, spark: Any, attached: Any, start: Any, tmp_path: Path
) -> None:
    """600 rows of 10 ms each per batch as configured: 6 s against a target of 3 s."""
    broker.create_topic("burst", partitions=3)
    sent = fill(broker, "burst")
    attached(agent.address)
    place = tmp_path / "checkpoint"
    query = start(
        reading(spark, broker, "burst", maxOffsetsPerTrigger=CONFIGURED),
        batch=costing(0.01),
        name="burst",
        checkpoint=str(place),
    )
    run_id = str(query.runId)
    sent = fed_until(
        lambda: batches_to_adapt(rows_of(query)) is not None, broker, query, "burst", sent=sent
    )
    taken = batches_to_adapt(rows_of(query))
    assert taken is not None
    assert taken <= 5, rows_of(query)
    assert str(query.runId) == run_id
    assert query.isActive
    found = re.fullmatch(r"MaxRows: (\d+)", *in_force(query))
    assert found is not None
    assert int(found[1]) < 0.9 * CONFIGURED
    broker.produce("burst", numbers(1500))  # several batches, however late one looks

    # Nothing arrives any more: what the broker holds past the newest commit is what Weir says.
    def agrees() -> bool:
        committed = checkpointed(place, "burst")
        (source,) = view(agent, "burst")["sources"]  # as told; what is estimated to arrive is added
        said = source["backlog"]
        expected = backlog_by_the_broker(broker, "burst", committed)
        return bool(expected) and said == expected

    until(agrees, "the broker's backlog")
    broker.add_partitions("burst", 4)
    until(lambda: broker.partitions("burst") == 4, "the new partition")
    broker.produce("burst", numbers(700), partition=3)
    until(lambda: "3" in checkpointed(place, "burst"), "the new partition in a commit")
    until(agrees, "the broker's backlog")
    until(
        lambda: backlog_by_the_broker(broker, "burst", checkpointed(place, "burst")) == 0,
        "the last row's commit",
    )
    until(lambda: view(agent, "burst")["backlog_rows"] == 0, "a backlog of nothing")
    until(lambda: sum(rows_of(query)) == sent + 1500 + 700, "every row")
    assert str(query.runId) == run_id


@pytest.mark.parametrize("agent", [("--give-limits", "all")], indirect=True)
@pytest.mark.slow("the limit beside a minimum is built and looked at every time")
def test_a_configured_minimum_stays_beside_the_granted_maximum(
    agent: AgentProcess, broker: Broker, spark: Any, attached: Any, start: Any
) -> None:
    broker.create_topic("composite", partitions=2)
    sent = fill(broker, "composite")
    attached(agent.address)
    frame = reading(
        spark,
        broker,
        "composite",
        maxOffsetsPerTrigger=CONFIGURED,
        minOffsetsPerTrigger=50,
        maxTriggerDelay="2s",
    )
    query = start(frame, batch=costing(0.01), name="composite")
    sent = fed_until(
        lambda: batches_to_adapt(rows_of(query)) is not None, broker, query, "composite", sent=sent
    )
    (limit,) = in_force(query)
    assert "50" in limit
    assert "2000" in limit
    assert str(CONFIGURED) not in limit
    assert query.isActive
    until(lambda: sum(rows_of(query)) == sent, "every row")
    broker.produce("composite", numbers(10))  # below the minimum: the delay lets them through
    until(lambda: sum(rows_of(query)) == sent + 10, "the last few rows")


@pytest.mark.slow("of offsets alone, which the core's tests hold")
def test_gaps_of_transactions_are_no_backlog(
    agent: AgentProcess, broker: Broker, spark: Any, attached: Any, start: Any
) -> None:
    broker.create_topic("gaps")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "gaps"})
    producer.init_transactions(20)
    attached(agent.address)
    frame = reading(
        spark,
        broker,
        "gaps",
        maxOffsetsPerTrigger=40,
        **{"kafka.isolation.level": "read_committed"},
    )
    query = start(frame, name="gaps")
    for turn in range(40):
        producer.begin_transaction()
        for number in range(5):
            producer.produce("gaps", str(number))
        producer.flush(20)
        (producer.abort_transaction if turn % 4 == 3 else producer.commit_transaction)(20)
    until(lambda: sum(rows_of(query)) == 150, "every committed row")
    until(lambda: view(agent, "gaps").get("backlog_rows") == 0, "a backlog of nothing")
    assert broker.end_offsets("gaps") == {0: 240}  # 200 rows, 50 of them aborted, 40 markers
    assert view(agent, "gaps")["lag_state"] == "OK"


@pytest.mark.slow("a broker that is gone is asked for every time, by an agent alone")
def test_a_broker_that_dies_and_comes_back_under_load(
    agent: AgentProcess, own_broker: Broker, spark: Any, attached: Any, start: Any, tmp_path: Path
) -> None:
    own_broker.create_topic("lasting", partitions=2)
    own_broker.produce("lasting", numbers(2000))
    attached(agent.address)
    place = tmp_path / "checkpoint"
    query = start(
        reading(spark, own_broker, "lasting", maxOffsetsPerTrigger=400),
        batch=costing(0.005),
        name="lasting",
        checkpoint=str(place),
    )
    until(lambda: len(rows_of(query)) >= 2, "two batches")
    own_broker.kill()

    # Nobody can add a row now: what is left is what the newest plan left of those there were.
    def agrees() -> bool:
        taken = sum(planned(place, "lasting").values())
        (source,) = view(agent, "lasting")["sources"]
        return bool(source["backlog"] == 2000 - taken)

    until(agrees, "what the newest plan left")
    for _ in range(4):
        time.sleep(1.0)
        assert view(agent, "lasting")["state"] not in {"silent", "terminated"}
    until(agrees, "what the newest plan left")
    own_broker.start()
    own_broker.produce("lasting", numbers(1000))
    until(lambda: sum(rows_of(query)) == 3000, "every row")
    until(lambda: view(agent, "lasting").get("backlog_rows") == 0, "a backlog of nothing")
    assert query.isActive
    assert query.exception() is None
    assert backlog_by_the_broker(own_broker, "lasting", checkpointed(place, "lasting")) == 0
    seen = until(lambda: (v := view(agent, "lasting"))["totals"]["rows"] >= 3000 and v, "all rows")
    assert seen["totals"]["rows"] == 3000
    assert seen["totals"]["batches"].get("replayed", 0) == 0


@pytest.mark.slow("a file and a topic in one query are regulated one by one every time")
def test_a_join_of_two_topics_is_regulated_topic_by_topic(
    agent: AgentProcess, broker: Broker, spark: Any, attached: Any, start: Any
) -> None:
    # All waits from the start: what comes as fast as it is read keeps batches as large as they are.
    times = 10
    for topic in ("left", "right"):
        broker.create_topic(topic, partitions=2)
        for _ in range(times):
            broker.produce(topic, numbers(CONFIGURED))
    attached(agent.address)
    # Of what arrives again and again on both sides only two keys meet, and how often is known.
    # Each row costs 10 ms of a core: fewer rows are a shorter batch, whatever was seen first.
    costly = "reflect('java.lang.Thread', 'sleep', 10L) is not null"
    sides = [
        reading(spark, broker, topic, maxOffsetsPerTrigger=400)
        .selectExpr("cast(value as string) as k")
        .where(f"{costly} and k in ('1', '2')")
        for topic in ("left", "right")
    ]
    joined: list[int] = []

    def batch(frame: Any, _: int) -> None:
        joined.append(frame.count())

    query = start(sides[0].join(sides[1], "k"), batch=batch, name="both")

    moved: set[int] = set()

    def granted() -> bool:
        # One may be back at its configured limit while the other is moved: each counts once seen.
        sources = view(agent, "both").get("sources", [])
        moved.update(place for place, source in enumerate(sources) if source["granted"])
        return len(moved) == 2

    until(granted, "a limit for each topic", seconds=120)
    seen = view(agent, "both")
    assert [source["unit"] for source in seen["sources"]] == ["rows", "rows"]
    assert all(source["control"] == "live" for source in seen["sources"])
    sent = 2 * times * CONFIGURED
    until(lambda: sum(rows_of(query)) == sent, "every row of both", seconds=240)
    until(lambda: view(agent, "both")["backlog_rows"] == 0, "a backlog of nothing")
    assert sum(joined) == 2 * times**2
    assert query.isActive


def asking(tmp_path: Path, broker: Broker) -> AgentProcess:
    """An agent that asks the broker between batches."""
    return AgentProcess(
        tmp_path,
        *("--kafka-bootstrap-servers", broker.bootstrap, "--kafka-every-seconds", "1"),
    )


def figures(agent: AgentProcess, query: str) -> list[float | None]:
    """The backlog, by every name under which it is told."""
    labels = f'application="weir tests",query="{query}"'
    metrics = agent.metrics()
    said = view(agent, query)
    return [
        metrics.get(f'weir_backlog_rows{{{labels},source="0"}}'),
        metrics.get(f"weir_backlog_estimated_rows{{{labels}}}"),
        said.get("backlog_rows"),
        said["sources"][0]["backlog"] if said.get("sources") else None,
    ]


def test_the_backlog_is_the_brokers_end_less_what_was_planned(
    broker: Broker, spark: Any, attached: Any, start: Any, tmp_path: Path
) -> None:
    """Bursts come under batches that take all there is; every look finds the one true figure."""
    broker.create_topic("figure")
    broker.produce("figure", numbers(100))
    place = tmp_path / "checkpoint"
    ends = threading.Semaphore(0)

    def batch(frame: Any, _: int) -> None:
        frame.count()
        ends.acquire(timeout=200)

    def standing() -> int:
        return backlog_by_the_broker(broker, "figure", planned(place, "figure"))

    with asking(tmp_path, broker) as agent:
        attached(agent.address, control=False)
        query = start(
            reading(spark, broker, "figure"), batch=batch, name="figure", checkpoint=str(place)
        )
        until(lambda: view(agent, "figure").get("running_batch_id") == 0, "the first batch")
        ends.release()
        until(lambda: figures(agent, "figure") == [0, 0, 0, 0], "the first batch's end")
        broker.produce("figure", numbers(300))  # at once in the hands of the second batch
        until(lambda: view(agent, "figure").get("running_batch_id") == 1, "the second batch")
        until(lambda: standing() == 0, "its plan in the offset log")
        for burst in (5673, 40, 2000):
            until(lambda: figures(agent, "figure") == [0, 0, 0, 0], "a batch that has it all")
            broker.produce("figure", numbers(burst))
            assert standing() == burst
            until(lambda: figures(agent, "figure") == [standing()] * 4, "the broker's figure")
            for _ in range(10):
                assert figures(agent, "figure") == [burst] * 4
            ends.release()
            seen: list[float] = []
            while not seen or seen[-1] != 0:  # it falls once, when the next batch is known to run
                assert query.isActive
                seen += [one for one in figures(agent, "figure") if one is not None]
            assert set(seen) == {burst, 0}, seen
            until(lambda: standing() == 0, "the plan in the offset log")
            for _ in range(10):
                assert figures(agent, "figure") == [standing()] * 4 == [0] * 4
        ends.release(10)


@pytest.mark.slow(
    "waits for the broker; what a reader then is told is looked at without one every time"
)
def test_retention_that_overtakes_a_reader_is_told(
    broker: Broker, spark: Any, attached: Any, start: Any, tmp_path: Path
) -> None:
    broker.create_topic("overtaken")
    broker.produce("overtaken", numbers(1000))
    go_on = threading.Event()

    def batch(frame: Any, batch_id: int) -> None:
        frame.count()
        if batch_id == 1:
            go_on.wait(200)

    with asking(tmp_path, broker) as agent:
        attached(agent.address, control=False)
        options = {"maxOffsetsPerTrigger": 100, "failOnDataLoss": "false"}
        frame = reading(spark, broker, "overtaken", **options)
        query = start(frame, batch=batch, name="overtaken")
        until(lambda: view(agent, "overtaken").get("running_batch_id") == 1, "the second batch")
        broker.delete_rows_before("overtaken", {0: 500})
        # Only batch 0 is known to be read; batch 1 has its rows in hand.
        until(lambda: metric(agent, "retention_lost_rows", "overtaken") == 400, "the lost rows")
        assert metric(agent, "retention_loss_seconds", "overtaken") == 0
        until(lambda: metric(agent, "backlog_rows", "overtaken") == 500, "the backlog left")
        go_on.set()
        until(lambda: any(p["batchId"] == 1 for p in query.recentProgress), "the batch's end")
        # It reads on, past the gap, as fast as it can: how far it is when looked at is chance.
        until(lambda: (metric(agent, "retention_lost_rows", "overtaken") or 0) < 400, "fewer lost")
        assert query.isActive
        assert query.exception() is None


@pytest.mark.slow("some batches of a second each; the core's tests play it every time")
def test_offsets_that_retention_deleted_are_passed_by_limits_that_double(
    agent: AgentProcess, broker: Broker, spark: Any, attached: Any, start: Any
) -> None:
    """Spark plans them as it plans others, and reads no row: under a learned limit for long."""
    deleted, left = 60_000, 1_000
    broker.create_topic("passed")
    broker.produce("passed", numbers(CONFIGURED))
    holds, go_on = threading.Event(), threading.Event()
    limits: list[int] = []

    def batch(frame: Any, _: int) -> None:
        time.sleep(0.005 * frame.count())
        limits.append(view(agent, "passed").get("sources", [{}])[0].get("limit") or 0)
        if holds.is_set():
            go_on.wait(200)

    attached(agent.address)
    frame = reading(spark, broker, "passed", failOnDataLoss="false")
    query = start(frame, batch=batch, name="passed")
    sent = fed_until(lambda: limits and limits[-1], broker, query, "passed", sent=CONFIGURED)
    holds.set()
    until(lambda: view(agent, "passed").get("running_batch_id") is not None, "a batch in hand")
    end = broker.end_offsets("passed")[0]
    broker.produce("passed", numbers(deleted + left))
    broker.delete_rows_before("passed", {0: end + deleted})
    learned, before = limits[-1], len(limits)
    go_on.set()
    until(lambda: sum(rows_of(query)) >= sent + left, "the rows after the gap")
    assert query.exception() is None
    assert len(limits) - before < deleted / learned / 2


@pytest.mark.slow("as one that is deleted while the agent asks for it")
def test_a_topic_deleted_while_it_is_read(
    broker: Broker, spark: Any, attached: Any, start: Any, tmp_path: Path
) -> None:
    """The query ends as Spark ends it; Weir says why, and its figures are unknown, not wrong."""
    broker.create_topic("deleted")
    broker.produce("deleted", numbers(300))
    with asking(tmp_path, broker) as agent:
        attached(agent.address)
        query = start(reading(spark, broker, "deleted", maxOffsetsPerTrigger=100), name="deleted")
        until(lambda: sum(rows_of(query)) == 300, "every row")
        until(lambda: metric(agent, "backlog_rows", "deleted") == 0, "a backlog of nothing")
        broker.delete_topic("deleted")
        until(lambda: not query.isActive, "the query's end")
        ended = until(
            lambda: (v := view(agent, "deleted"))["state"] == "terminated" and v,
            "the word of the query's end",
        )
        assert ended["failure"]["cause"] == "source_data_loss", ended["failure"]
        assert agent.http.get("/readyz").status_code == 200


@pytest.mark.parametrize("agent", [("--deadline-seconds", "12")], indirect=True)
@pytest.mark.slow("two batches of some time each; what is told of them the core's tests hold")
def test_a_batch_in_real_time_mode_lasts_as_long_as_it_was_told_to_and_is_no_alarm(
    agent: AgentProcess, broker: Broker, spark: Any, attached: Any, tmp_path: Path
) -> None:
    if tuple(map(int, spark.version.split(".")[:2])) < (4, 1):
        pytest.skip("real-time mode came with Spark 4.1")
    for topic in ("instant", "at-once"):
        broker.create_topic(topic)
    attached(agent.address)
    writer = (
        reading(spark, broker, "instant")
        .select("value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", "at-once")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = writer.outputMode("update").queryName("instant").trigger(realTime="15 seconds").start()
    seen: list[dict[str, Any]] = []
    past: set[int] = set()  # batches that were seen past the deadline

    def two_are_past_the_deadline() -> bool:
        broker.produce("instant", numbers(10))
        told = view(agent, "instant")
        running_seconds = told.get("running_seconds") or 0.0
        if told.get("up") and running_seconds < 15.0 + 12.0:  # a busy machine's may last longer
            seen.append(told)
        if running_seconds > 12.0:
            past.add(told["running_batch_id"])
        return len(past) == 2

    until(two_are_past_the_deadline, "two batches longer than the deadline")
    assert broker.end_offsets("at-once")[0] > 0
    assert {one["state"] for one in seen} <= {"busy", "idle"}
    assert {one["attention"]["level"] for one in seen} <= {"ok", "idle"}
    assert {one["required_capacity_ratio"] for one in seen} == {None}
    assert {one["backlog_rows"] for one in seen} == {None}
    query.stop()
    ended = until(lambda: (v := view(agent, "instant"))["state"] == "terminated" and v, "its end")
    assert (ended["stopped"], ended["failure"]) == (True, None)


def metric(agent: AgentProcess, name: str, query: str) -> float | None:
    """Of the application's one source."""
    labels = f'application="weir tests",query="{query}",source="0"'
    return agent.metrics().get(f"weir_{name}{{{labels}}}")
