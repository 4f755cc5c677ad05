"""A real agent asks a real broker between batches; what a query has read is told by events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.kafka.broker import Broker
from tests.service import wire
from tests.service.agents import AgentProcess, weir
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Needs the jars that only the stage with Spark brings.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
SERIES = 'application="orders",query="enrich",source="0"'


@pytest.fixture
def own_broker(kafka_jars: None, tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "kafka") as running:
        yield running


def asking(tmp_path: Path, broker: Broker, *options: str) -> AgentProcess:
    return AgentProcess(
        tmp_path,
        *("--kafka-bootstrap-servers", broker.bootstrap, "--kafka-every-seconds", "1"),
        *options,
    )


def read(agent: AgentProcess, sequence: int, topic: str, offsets: dict[str, int]) -> None:
    """A batch that ends at these offsets, with nothing left as of its planning."""
    event = wire.progress(sequence, name="enrich", batch_id=sequence, time=time.time(), limit=None)
    event.pop("limits", None)
    (source, *_) = event["body"]["sources"]
    source["startOffset"] = {topic: dict.fromkeys(offsets, 0)}
    source["endOffset"] = source["latestOffset"] = {topic: offsets}
    event["body"]["sources"] = [source]
    assert agent.post(wire.body([event], application="orders")).status_code == 200


def metric(agent: AgentProcess, name: str, labels: str = SERIES) -> float | None:
    return agent.metrics().get(f"weir_{name}{{{labels}}}")


def test_what_arrives_between_batches_is_seen_and_a_new_partition_too(
    broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("asked", partitions=2)
    with asking(tmp_path, broker, "--kafka-partition-series") as agent:
        read(agent, 1, "asked", {"0": 0, "1": 0})
        assert metric(agent, "backlog_rows") == 0
        broker.produce("asked", ["x"] * 70)
        until(lambda: metric(agent, "backlog_rows") == 70, "the first backlog")
        broker.add_partitions("asked", 3)
        until(lambda: broker.partitions("asked") == 3, "the new partition")
        broker.produce("asked", ["x"] * 5, partition=2)
        until(lambda: metric(agent, "backlog_rows") == 75, "the new partition's rows")
        place = f'{SERIES},topic="asked",partition="2"'
        assert metric(agent, "backlog_partition_rows", place) == 5
        read(agent, 2, "asked", {"0": 35, "1": 30, "2": 5})
        until(lambda: metric(agent, "backlog_rows") == 5, "the backlog left")


def test_retention_that_nears_and_overtakes_the_reader(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("kept", config={"retention.ms": "100000"})
    with asking(tmp_path, broker) as agent:
        read(agent, 1, "kept", {"0": 0})
        time.sleep(2.0)
        broker.produce("kept", ["x"] * 100)
        read(agent, 2, "kept", {"0": 40})
        near = until(lambda: metric(agent, "retention_loss_seconds"), "the loss ahead", seconds=90)
        assert 30 < near <= 100
        assert metric(agent, "retention_lost_rows") == 0
        broker.delete_rows_before("kept", {0: 60})
        until(lambda: metric(agent, "retention_loss_seconds") == 0, "the loss")
        assert metric(agent, "retention_lost_rows") == 20
        until(lambda: metric(agent, "backlog_rows") == 40, "the backlog left")


def test_a_broker_that_is_gone_is_said_once_and_asked_again(
    own_broker: Broker, tmp_path: Path
) -> None:
    own_broker.create_topic("lasting")
    with asking(tmp_path, own_broker) as agent:
        read(agent, 1, "lasting", {"0": 0})
        own_broker.produce("lasting", ["x"] * 10)
        until(lambda: metric(agent, "backlog_rows") == 10, "the first backlog")
        own_broker.kill()
        until(lambda: "cannot be asked" in agent.log_path.read_text(), "a warning", seconds=90)
        read(agent, 2, "lasting", {"0": 10})
        assert metric(agent, "backlog_rows") == 0
        time.sleep(6.0)
        assert agent.log_path.read_text().count("cannot be asked") == 1
        own_broker.start()
        own_broker.produce("lasting", ["x"] * 3)
        until(lambda: metric(agent, "backlog_rows") == 3, "the backlog's return", seconds=120)


def test_a_deleted_topic_is_left_to_progress(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("shortlived")
    with asking(tmp_path, broker) as agent:
        read(agent, 1, "shortlived", {"0": 0})
        broker.produce("shortlived", ["x"] * 10)
        until(lambda: metric(agent, "backlog_rows") == 10, "the first backlog")
        broker.delete_topic("shortlived")
        time.sleep(3.0)
        read(agent, 2, "shortlived", {"0": 10})
        time.sleep(2.0)
        assert metric(agent, "backlog_rows") == 0
        assert agent.http.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("sasl.password\n", ":1: not of the form key=value"),
        ("# fine\nbootstrap.servers=elsewhere:9092\n", ":2: bootstrap.servers is set by"),
        ("sasl.password=hunter2\nno.such.option=1\n", "no.such.option"),
    ],
)
def test_options_that_are_wrong_are_named_and_secrets_are_not(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(content)
    options = ("--kafka-bootstrap-servers", "127.0.0.1:1", "--kafka-options-file", str(file))
    done = weir("agent", "--port", "0", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "hunter2" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_secrets_stay_out_of_the_log_when_nobody_answers(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=u\n"
        "sasl.password=hunter2\n"
    )
    options = ("--kafka-bootstrap-servers", "127.0.0.1:1", "--kafka-options-file", str(file))
    with AgentProcess(tmp_path, *options) as agent:
        read(agent, 1, "any", {"0": 0})
        until(lambda: "cannot be asked" in agent.log_path.read_text(), "a warning")
        assert "hunter2" not in agent.log_path.read_text()
        assert metric(agent, "backlog_rows") == 0
