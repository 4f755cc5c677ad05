"""What brings the rows: by a real broker, a row's offset is its number."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from tests.benchmarks.evidence.load import PARTITIONS, Feeder, Tick
from tests.benchmarks.evidence.workloads import generator_of

if TYPE_CHECKING:
    from tests.kafka.broker import Broker


def test_rows_come_at_their_times_and_each_at_the_offset_of_its_number(broker: Broker) -> None:
    for topic in ("person-f", "auction-f"):
        broker.create_topic(topic, PARTITIONS)
    feeder = Feeder(broker.bootstrap, generator_of("q8", 1).endless(), "-f")
    feeder.put(10)
    ticks = [Tick(0.1 * number, rows) for number, rows in enumerate((7, 0, 13))]
    begun = time.time()
    feeder.bring(ticks, begun)
    feeder.flush()
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
