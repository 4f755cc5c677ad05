"""What brings the rows: by a real broker, a row's offset is its number."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.evidence.load import (
    BATCH_BYTES,
    PARTITIONS,
    TOPIC_SETTINGS,
    Feeder,
    Packer,
    Tick,
)
from tests.benchmarks.evidence.workloads import generator_of

if TYPE_CHECKING:
    from tests.kafka.broker import Broker


def test_rows_come_at_their_times_and_each_at_the_offset_of_its_number(broker: Broker) -> None:
    for topic in ("person-f", "auction-f"):
        broker.create_topic(topic, PARTITIONS, TOPIC_SETTINGS)
    feeder = Feeder(broker.bootstrap, Packer(generator_of("q8", 1).endless()), "-f")
    feeder.put(feeder.prepare(10))
    ticks = [Tick(0.1 * number, rows) for number, rows in enumerate((7, 0, 13))]
    begun = time.time()
    feeder.bring(ticks, begun)
    feeder.close()
    assert feeder.ends() == {topic: broker.end_offsets(topic) for topic in feeder.ends()}
    came: Counter[str] = Counter()
    for arrival in feeder.arrivals:
        assert arrival.first == came[arrival.topic], "numbers follow on each other"
        came[arrival.topic] += arrival.rows
    assert came == {"person": 8, "auction": 22}
    assert {one.time < begun for one in feeder.arrivals} == {True, False}
    # The rows themselves, in the order of their numbers.
    drawn = [json.loads(value) for _, value in islice(generator_of("q8", 1).endless(), 30)]
    for topic, field in (("person", "name"), ("auction", "itemName")):
        mine = [row for row in drawn if field in row]
        read: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        for partition, value in broker.read(f"{topic}-f"):
            read[partition].append(json.loads(value)["id"])
        assert read == {p: [row["id"] for row in mine[p::PARTITIONS]] for p in range(PARTITIONS)}


def test_what_fills_several_record_batches_comes_in_order(broker: Broker) -> None:
    broker.create_topic("long-f", PARTITIONS, TOPIC_SETTINGS)
    # Three batches a partition; nothing in them compresses.
    values = [random.Random(n).randbytes(BATCH_BYTES // 8).hex().encode() for n in range(40)]
    feeder = Feeder(broker.bootstrap, Packer(("long", one) for one in values), "-f")
    feeder.put(parcel := feeder.prepare(40))
    feeder.close()
    assert len(parcel.requests) > 2
    read: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for partition, value in broker.read("long-f"):
        read[partition].append(value.encode())
    assert read == {p: values[p::PARTITIONS] for p in range(PARTITIONS)}
    assert broker.end_offsets("long-f") == feeder.ends()["long-f"]


def test_rows_that_the_broker_does_not_take_as_they_are_end_the_run(broker: Broker) -> None:
    broker.create_topic("other-f", PARTITIONS, TOPIC_SETTINGS)
    broker.produce("other-f", ["not of this run"], partition=0)
    feeder = Feeder(broker.bootstrap, Packer(("other", b"row") for _ in range(8)), "-f")
    with pytest.raises(RuntimeError, match=r"other-f/0: NoError, offset 1, not 0"):
        feeder.put(feeder.prepare(4))
    gone = Feeder(broker.bootstrap, Packer(("none", b"row") for _ in range(8)), "-f")
    with pytest.raises(RuntimeError, match=r"none-f/\d: UnknownTopicOrPartitionError, "):
        gone.put(gone.prepare(4))
    feeder.close()
    gone.close()
