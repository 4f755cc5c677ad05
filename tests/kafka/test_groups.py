"""Lag where Kafka's users look: a real agent writes groups of a real broker, read by its own tool.

Held against Spark's own commit log while agent and query are killed.
"""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    Consumer,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.kafka.broker import Broker
from tests.kafka.test_live import costing, numbers, reading
from tests.service import wire
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
PATTERN = "weir-{application}-{query}"
GROUP = "weir-orders-enrich"
KILLS = 4


def telling(tmp_path: Path, broker: Broker, **more: Any) -> AgentProcess:
    return AgentProcess(
        tmp_path,
        *("--kafka-bootstrap-servers", broker.bootstrap),
        *("--kafka-commit-group", PATTERN, "--state-dir", str(tmp_path / "state")),
        **more,
    )


def read(agent: AgentProcess, sequence: int, topic: str, *offsets: int) -> None:
    """A batch that ends at these offsets of the topic's partitions."""
    event = wire.progress(sequence, name="enrich", batch_id=sequence, time=time.time(), limit=None)
    event.pop("limits", None)
    (source, *_) = event["body"]["sources"]
    ends = {str(partition): offset for partition, offset in enumerate(offsets)}
    source["description"] = f"KafkaV2[Subscribe[{topic}]]"
    source["startOffset"] = {topic: dict.fromkeys(ends, 0)}
    source["endOffset"] = source["latestOffset"] = {topic: ends}
    event["body"]["sources"] = [source]
    assert agent.post(wire.body([event], application="orders")).status_code == 200


def asked(broker: Broker, group: str, topic: str) -> dict[tuple[str, str], int]:
    """A group's offsets, without the second that Kafka's own tool takes to start.

    By a consumer: asking for a group by the admin's client can abort this very process (see
    agent/sources/kafka_groups.py). Nothing while the broker still finds the group's coordinator.
    """
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    places = [TopicPartition(topic, number) for number in range(broker.partitions(topic))]
    try:
        found = consumer.committed(places, timeout=20)
    except KafkaException as error:
        if "oordinator" not in str(error):
            raise
        return {}
    finally:
        consumer.close()
    return {(mark.topic, str(mark.partition)): mark.offset for mark in found if mark.offset >= 0}


def standing(agent: AgentProcess, state: str) -> float | None:
    return agent.metrics().get(f'weir_kafka_groups{{state="{state}"}}')


def test_a_group_shows_what_is_committed_and_kafkas_own_tool_reads_it(
    broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("lagging", partitions=2)
    with telling(tmp_path, broker) as agent:
        read(agent, 1, "lagging", 5, 7)
        until(lambda: asked(broker, GROUP, "lagging"), "the first offsets")
        assert broker.group(GROUP) == {("lagging", "0"): 5, ("lagging", "1"): 7}
        assert standing(agent, "written") == 1
        read(agent, 2, "lagging", 6, 9)
        until(lambda: asked(broker, GROUP, "lagging")["lagging", "1"] == 9, "the next offsets")


def test_a_group_with_members_and_one_of_others_are_left_alone(
    broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("owned", partitions=1)
    broker.produce("owned", numbers(20))
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["owned"])
    until(lambda: consumer.poll(0.2) is not None, "a row", seconds=60.0)
    with telling(tmp_path, broker) as agent:
        read(agent, 1, "owned", 12)
        until(lambda: standing(agent, "refused") == 1, "the refusal")
        assert ("owned", "0") not in asked(broker, GROUP, "owned")
        assert "it has members" in agent.log_path.read_text()
    consumer.commit(offsets=[TopicPartition("owned", 0, 3)], asynchronous=False)
    consumer.close()
    with telling(tmp_path, broker) as agent:  # it knows the query from its state
        until(lambda: standing(agent, "refused") == 1, "the refusal")
        assert asked(broker, GROUP, "owned")["owned", "0"] == 3
        assert "offsets that Weir did not write" in agent.log_path.read_text()


@pytest.mark.slow("waits for time-outs of a broker that is gone")
def test_brokers_that_are_gone_are_told_again_when_they_are_back(
    kafka_jars: None, tmp_path: Path
) -> None:
    with Broker(tmp_path / "kafka") as own, telling(tmp_path, own) as agent:
        own.create_topic("gone", partitions=1)
        own.kill()
        read(agent, 1, "gone", 4)
        until(lambda: standing(agent, "failed") == 1, "the failure", seconds=60.0)
        own.start()
        until(lambda: standing(agent, "written") == 1, "its end", seconds=60.0)
        assert asked(own, GROUP, "gone") == {("gone", "0"): 4}


def committed(checkpoint: Path) -> dict[tuple[str, str], int]:
    """What Spark's own logs say that the query has read: of the last batch that is committed."""
    batches = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if not batches:
        return {}
    text = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()
    return {
        (topic, partition): offset
        for topic, partitions in json.loads(text[2]).items()
        for partition, offset in partitions.items()
    }


@pytest.mark.slow("kills agent and query several times")
def test_it_is_the_commit_log_s_word_while_agent_and_query_are_killed(
    spark: Any, broker: Broker, start: Any, attached: Any, tmp_path: Path
) -> None:
    draw = random.Random(1)
    broker.create_topic("killed", partitions=3)
    broker.produce("killed", numbers(200))
    checkpoint = tmp_path / "checkpoint"

    def begin() -> Any:
        return start(
            reading(spark, broker, "killed", maxOffsetsPerTrigger=40),
            batch=costing(0.002),
            name="killed",
            checkpoint=str(checkpoint),
        )

    groups: list[str] = []

    def never_ahead() -> bool:
        groups[:] = [name for name in all_groups(broker) if name.endswith("-killed")]
        if not groups:
            return False
        shown = asked(broker, groups[0], "killed")
        said = committed(checkpoint)  # asked for after, so that it can only be further
        assert all(offset <= said[place] for place, offset in shown.items()), (shown, said)
        return shown == said

    agent = telling(tmp_path, broker)
    try:
        port = int(agent.address.rsplit(":", 1)[1])
        attached(agent.address)
        query = begin()
        for kill in range(KILLS):
            broker.produce("killed", numbers(draw.randrange(50, 200)))
            until(lambda: never_ahead() or True, "a look")
            time.sleep(draw.uniform(0.0, 1.0))
            if draw.random() < 0.5:
                agent.process.kill()
                agent.process.wait()
                agent = telling(tmp_path, broker, port=port)
            else:
                query.stop()
                query = begin()
            until(never_ahead, f"the commit log's word after kill {kill}", seconds=90.0, every=0.1)
        query.processAllAvailable()
        until(never_ahead, "the commit log's last word", seconds=60.0)
        assert broker.group(groups[0]) == committed(checkpoint)
    finally:
        agent.process.kill()
        agent.process.wait()


def all_groups(broker: Broker) -> list[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return [found.group_id for found in admin.list_consumer_groups().result(20).valid]
