"""The broker that tests on Kafka stand on: it keeps what it is given, and PySpark reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, Producer

from tests.checkpoint.kills import Driver
from tests.kafka.broker import Broker, connector
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
OWN_TOOL = pytest.mark.slow("of the tests' own broker, with which other tests do as much")


@pytest.fixture
def own_broker(kafka_jars: None, tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "kafka") as running:
        yield running


def test_rows_partitions_and_offsets(broker: Broker) -> None:
    broker.create_topic("counted", partitions=2)
    broker.produce("counted", [str(number) for number in range(5)])
    assert broker.end_offsets("counted") == {0: 3, 1: 2}
    broker.add_partitions("counted", 3)
    until(lambda: broker.partitions("counted") >= 3, "the new partition", seconds=20)
    broker.produce("counted", ["late"], partition=2)
    assert broker.end_offsets("counted") == {0: 3, 1: 2, 2: 1}
    assert sorted(broker.read("counted")) == [
        *[(0, "0"), (0, "2"), (0, "4")],
        *[(1, "1"), (1, "3")],
        (2, "late"),
    ]
    broker.delete_rows_before("counted", {0: 2})
    assert broker.beginning_offsets("counted") == {0: 2, 1: 0, 2: 0}
    broker.delete_topic("counted")


def test_only_committed_rows_are_read(broker: Broker) -> None:
    broker.create_topic("transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "one"})
    producer.init_transactions(20)
    for value, good in (("kept", True), ("dropped", False)):
        producer.begin_transaction()
        producer.produce("transactions", value)
        producer.flush(20)
        (producer.commit_transaction if good else producer.abort_transaction)(20)
    assert broker.read("transactions") == [(0, "kept")]
    assert broker.read("transactions", isolation="read_uncommitted") == [
        (0, "kept"),
        (0, "dropped"),
    ]


@OWN_TOOL
def test_killed_and_started_again_it_has_everything(own_broker: Broker) -> None:
    own_broker.create_topic("lasting")
    own_broker.produce("lasting", ["a", "b"])
    bootstrap = own_broker.bootstrap
    own_broker.kill()
    with pytest.raises(KafkaException):
        own_broker._admin.list_topics(timeout=1)
    own_broker.start()
    assert own_broker.bootstrap == bootstrap
    assert own_broker.read("lasting") == [(0, "a"), (0, "b")]
    own_broker.pause()
    with pytest.raises(KafkaException):
        own_broker._admin.list_topics(timeout=1)
    own_broker.resume()
    own_broker.restart()
    assert own_broker.end_offsets("lasting") == {0: 2}


@OWN_TOOL
def test_pyspark_reads_it_and_its_offsets_are_the_brokers(broker: Broker, tmp_path: Path) -> None:
    from importlib.metadata import version

    broker.create_topic("rows-left", partitions=2)
    rows = [
        json.dumps({"id": i, "k": i % 7, "v": i, "t": "2026-01-01T00:00:00Z"}) for i in range(50)
    ]
    broker.produce("rows-left", rows)
    order = {
        "kafka": broker.bootstrap,
        "topic": "rows",
        "operator": "aggregation",
        "store": "hdfs",
        "limit": 20,
        "checkpoint": str(tmp_path / "ck"),
        "sink": str(tmp_path / "sink.db"),
    }
    with Driver(tmp_path / "log", settings={"spark.jars": connector(version("pyspark"))}) as driver:
        answer = driver.ask({"run": order})
    assert "error" not in answer, answer
    last = max((tmp_path / "ck/offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offsets = json.loads(last.read_text().splitlines()[2])
    assert {int(p): n for p, n in offsets["rows-left"].items()} == broker.end_offsets("rows-left")
    assert int(last.name) >= 2
