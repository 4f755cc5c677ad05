"""A real agent asks a real broker between batches; what a query has read is told by events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from spark_listener.wire import format_time
from tests.kafka.broker import Broker
from tests.service import wire
from tests.service.agents import AgentProcess, weir
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Needs the jars that only the stage with Spark brings.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
OF_QUERY = 'application="orders",query="enrich"'
SERIES = f'{OF_QUERY},source="0"'


@pytest.fixture
def own_broker(kafka_jars: None, tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "kafka") as running:
        yield running


def asking(tmp_path: Path, broker: Broker, *options: str) -> AgentProcess:
    return AgentProcess(
        tmp_path,
        *("--kafka-bootstrap-servers", broker.bootstrap, "--kafka-every-seconds", "1"),
        *("--silent-seconds", "600"),  # what a query reads is told seldom here
        *options,
    )


def read(agent: AgentProcess, sequence: int, topic: str, offsets: dict[str, int]) -> None:
    """A batch that ends at these offsets, with nothing left as of its planning."""
    event = wire.progress(sequence, name="enrich", batch_id=sequence, time=time.time(), limit=None)
    event.pop("limits", None)
    (source, *_) = event["body"]["sources"]
    source["description"] = f"KafkaV2[Subscribe[{topic}]]"
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


class Told:
    """What a driver tells of a query that reads partition 0 of a topic."""

    def __init__(self, agent: AgentProcess, topic: str) -> None:
        self.agent = agent
        self.topic = topic
        self.sequence = 0

    def _post(self, event: dict[str, Any]) -> None:
        assert self.agent.post(wire.body([event], application="orders")).status_code == 200

    def ended(self, batch_id: int, begun: float, start: int, end: int, latest: int) -> None:
        """A batch that was planned at ``begun`` and ends now, as Spark tells it."""
        self.sequence += 1
        event = wire.progress(self.sequence, name="enrich", batch_id=batch_id, rows=end - start)
        event["time"] = format_time(time.time())
        event["body"]["timestamp"] = format_time(begun)
        event["body"]["durationMs"]["triggerExecution"] = int(1000 * (time.time() - begun))
        (source, *_) = event["body"]["sources"]
        source["description"] = f"KafkaV2[Subscribe[{self.topic}]]"
        offsets = {"startOffset": start, "endOffset": end, "latestOffset": latest}
        source |= {name: {self.topic: {"0": offset}} for name, offset in offsets.items()}
        (limit,) = event["limits"]
        limit |= {"backlog": latest - end, "admitted": end - start, "limit": None}
        self._post(event)

    def runs(self, batch_id: int, begun: float, start: int, end: int, latest: int) -> None:
        """A heartbeat while a batch runs that was planned at ``begun``."""
        self.sequence += 1
        query_id, run_id = wire.query_ids(0)
        limit = {
            "source": 0,
            "unit": "rows",
            "limit": None,
            "configured": None,
            "backlog": latest - end,
            "admitted": end - start,
            "observed_time": format_time(begun),
            "offsets": {self.topic: {"0": end}},
        }
        running = {
            "id": query_id,
            "runId": run_id,
            "name": "enrich",
            "batchId": batch_id,
            "running_seconds": time.time() - begun,
            "limits": [limit],
        }
        event = wire.heartbeat(self.sequence, [running])
        self._post(event | {"time": format_time(time.time())})


def test_one_figure_whoever_told_last(broker: Broker, tmp_path: Path) -> None:
    """The broker's end less what was planned: by its own answers, by progress, by heartbeats."""
    broker.create_topic("whose")
    with asking(tmp_path, broker) as agent:
        told = Told(agent, "whose")
        begun = time.time()
        told.ended(1, begun, 0, 0, 0)
        broker.produce("whose", ["x"] * 5673)
        until(lambda: metric(agent, "backlog_rows") == 5673, "what the broker holds")
        # The batch was planned before they came, and ends now: they still stand there.
        told.ended(2, begun + 0.001, 0, 0, 0)
        assert metric(agent, "backlog_rows") == 5673
        # The next one has them all in hand: nothing more waits, whoever is asked.
        begun = time.time()
        told.runs(3, begun, 0, 5673, 5673)
        for _ in range(30):
            assert metric(agent, "backlog_rows") == 0
            said = agent.http.get("/v1/queries").json()["queries"][0]
            assert said["backlog_rows"] == 0, "and a burst that is over is not taken to go on"
            assert said["sources"][0]["backlog"] == 0
            time.sleep(0.1)
        broker.produce("whose", ["x"] * 40)
        until(lambda: metric(agent, "backlog_rows") == 40, "what came since")
        told.ended(3, begun, 0, 5673, 5673)
        assert metric(agent, "backlog_rows") == 40
        until(lambda: metric(agent, "backlog_estimated_rows", OF_QUERY) == 40, "the same figure")


@pytest.mark.slow("waits for the broker's retention")
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


@pytest.mark.slow("waits for time-outs of a broker that is gone")
def test_a_broker_that_is_gone_is_said_once_and_asked_again(
    own_broker: Broker, tmp_path: Path
) -> None:
    own_broker.create_topic("lasting")
    with asking(tmp_path, own_broker) as agent:
        read(agent, 1, "lasting", {"0": 0})
        own_broker.produce("lasting", ["x"] * 10)
        until(lambda: metric(agent, "backlog_rows") == 10, "the first backlog")
        assert agent.metrics()["weir_kafka_up"] == 1
        own_broker.kill()
        until(lambda: "cannot be asked" in agent.log_path.read_text(), "a warning", seconds=90)
        until(lambda: agent.metrics()["weir_kafka_up"] == 0, "the metric")
        read(agent, 2, "lasting", {"0": 10})
        assert metric(agent, "backlog_rows") == 0
        time.sleep(6.0)
        assert agent.log_path.read_text().count("cannot be asked") == 1
        own_broker.start()
        own_broker.produce("lasting", ["x"] * 3)
        until(lambda: metric(agent, "backlog_rows") == 3, "the backlog's return", seconds=120)
        assert agent.metrics()["weir_kafka_up"] == 1


def test_rows_of_an_open_transaction_wait_for_who_reads_them(
    broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("open")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "open"})
    producer.init_transactions(20)
    with asking(tmp_path, broker) as agent:
        read(agent, 1, "open", {"0": 0})
        broker.produce("open", ["x"] * 10)
        producer.begin_transaction()
        for _ in range(40):
            producer.produce("open", "x")
        producer.flush(20)
        until(lambda: metric(agent, "backlog_rows") == 10, "what is committed")
        read(agent, 2, "open", {"0": 30})
        until(lambda: metric(agent, "backlog_rows") == 20, "the rest of the transaction")
        for _ in range(20):
            producer.produce("open", "x")
        producer.flush(20)
        until(lambda: metric(agent, "backlog_rows") == 40, "what came to it since")
        producer.abort_transaction(20)


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
        ("oauth_cb=hunter2\n", ":1: oauth_cb takes"),
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
        assert "Connection refused" in agent.log_path.read_text()
        assert "hunter2" not in agent.log_path.read_text()
        assert metric(agent, "backlog_rows") == 0
