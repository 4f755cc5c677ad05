"""Which rows a Kafka source reads does not depend on Weir, whatever its options: docs/driver.md."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from spark_listener.sources import KAFKA
from tests import waiting
from tests.spark.conftest import agent, in_force, progresses
from tests.spark.file_options import at_random

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.broker import Broker

__all__ = ["agent"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
ROWS, PARTITIONS = 60, 3
#: So many rows a limit is, times one to five.
SIZES = {"rows": 4}

OPTIONS: dict[str, dict[str, str]] = {
    "none": {},
    "maxOffsetsPerTrigger": {"maxOffsetsPerTrigger": "50"},
    "startingOffsets": {"startingOffsets": '{"options":{"0":3,"1":5,"2":0}}'},
    "startingTimestamp": {"startingTimestamp": "1000"},
    "startingOffsetsByTimestamp": {
        "startingOffsetsByTimestamp": '{"options":{"0":1000,"1":1000,"2":1000}}'
    },
    "what says nothing of which rows": {
        "failOnDataLoss": "false",
        "minPartitions": "7",
        "maxRecordsPerPartition": "2",
        "includeHeaders": "true",
        "groupIdPrefix": "weir",
        "kafka.isolation.level": "read_committed",
        "fetchOffset.numRetries": "1",
        "kafkaConsumer.pollTimeoutMs": "30000",
    },
    "minOffsetsPerTrigger": {"minOffsetsPerTrigger": "40"},
    "minimum and maximum": {"minOffsetsPerTrigger": "40", "maxOffsetsPerTrigger": "60"},
}


def topic(spark: Any, broker: Broker, name: str, options: dict[str, str]) -> Any:
    """A topic as a stream."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", name).options(**options).load()


def read(
    spark: Any, broker: Broker, start: Any, place: Path, name: str, options: dict[str, str]
) -> list[Any]:
    """What one run under AvailableNow reads, sorted."""
    rows: list[Any] = []
    begin = {} if name.startswith("rows-starting") else EARLIEST
    frame = topic(spark, broker, "options", {**begin, **options})
    columns = ["partition", "offset", "cast(value as string) as value"]
    if "includeHeaders" in options:
        columns.append("to_json(headers) as headers")

    def batch(part: Any, _: int) -> None:
        rows.extend(tuple(row) for row in part.selectExpr(*columns).collect())

    checkpoint = str(place / name)
    query = start(
        frame, trigger={"availableNow": True}, batch=batch, name=name, checkpoint=checkpoint
    )
    query.awaitTermination()
    return sorted(rows)


EARLIEST = {"startingOffsets": "earliest"}


@pytest.mark.slow("each option twice; files, of which an option lost rows, are read every time")
def test_the_same_rows_as_without_weir(
    agent: Any, attached: Any, broker: Broker, spark: Any, start: Any, tmp_path: Path
) -> None:
    broker.create_topic("options", partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(ROWS):
        producer.produce(
            "options",
            str(number),
            partition=number % PARTITIONS,
            headers=[("number", str(number).encode())],
        )
    producer.flush(20)

    def all_of_them(suffix: str) -> dict[str, list[Any]]:
        with ThreadPoolExecutor(4) as pool:
            runs = {
                name: pool.submit(
                    read, spark, broker, start, tmp_path, f"rows-{name}{suffix}", options
                )
                for name, options in OPTIONS.items()
            }
            return {name: run.result() for name, run in runs.items()}

    alone = all_of_them("")
    agent.decide = at_random(random.Random(1), SIZES)
    attached(agent, first_batch_seconds=10.0)
    under_weir = all_of_them(" again")
    for name, expected in alone.items():
        assert under_weir[name] == expected, name
    assert len(alone["none"]) == ROWS  # what is compared is all of it
    notes = {
        entry["note"]
        for event in agent.of("heartbeat") + agent.of("progress")
        for entry in event.get("limits", [])
        if "note" in entry
    }
    assert {note.partition(":")[0] for note in notes} == {"minOffsetsPerTrigger"}
    # And what the note spares: a run that ends with rows unread.
    agent.give_limits = True
    cut = read(spark, broker, start, tmp_path, "rows-cut", OPTIONS["minOffsetsPerTrigger"])
    assert len(cut) < ROWS


@pytest.mark.slow("a broker's rows; that such a source is left alone is looked at every time")
def test_no_limit_of_ours_leaves_rows_that_wait_for_a_minimum(
    agent: Any, attached: Any, broker: Broker, spark: Any, start: Any
) -> None:
    """Under one, what is left after the first batch would wait for ten minutes."""
    broker.create_topic("waiting")
    broker.produce("waiting", [str(number) for number in range(90)])
    agent.decide = at_random(random.Random(1), {"rows": 10})  # and never below the minimum
    attached(agent, first_batch_seconds=10.0)
    minimum = {"minOffsetsPerTrigger": "50", "maxTriggerDelay": "10m"}
    frame = topic(spark, broker, "waiting", {**EARLIEST, **minimum})
    query = start(frame, name="rows-waiting")
    waiting.until(
        lambda: sum(one["numInputRows"] for one in query.recentProgress) == 90,
        "every row",
        seconds=60.0,
        every=0.2,
    )
    assert "MaxRows" not in str(in_force(query))


@pytest.mark.slow("a broker's rows; of which class it is, is looked at every time")
def test_the_older_of_sparks_kafka_sources_is_steered_too(
    agent: Any, attached: Any, broker: Broker, spark: Any, start: Any
) -> None:
    broker.create_topic("older")
    broker.produce("older", [str(number) for number in range(90)])
    agent.decide = lambda events: [
        {"id": "any", "runId": event["body"]["runId"], "source": 0, "unit": "rows",
         "reason": "lower", "limit": 20, "expires_seconds": 60}
        for event in events if event["type"] == "started"
    ]  # fmt: skip
    attached(agent, first_batch_seconds=10.0)
    other = "spark.sql.streaming.disabledV2MicroBatchReaders"
    spark.conf.set(other, "org.apache.spark.sql.kafka010.KafkaSourceProvider")
    try:
        frame = topic(spark, broker, "older", EARLIEST)
        query = start(frame, name="rows-older")
        told = agent.wait(lambda a: len(seen := progresses(a, query)) >= 5 and seen, 60)
    finally:
        spark.conf.unset(other)
    limits = [event["limits"][0] for event in told]
    assert {(one["source_class"], one["control"]) for one in limits} == {(KAFKA.classes[1], "live")}
    assert [(one["limit"], one["backlog"]) for one in limits] == [
        (20, 70), (20, 50), (20, 30), (20, 10), (20, 0)
    ]  # fmt: skip
