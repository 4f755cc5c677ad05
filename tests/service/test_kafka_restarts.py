"""Brokers asked about a query: what they say outlasts its runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.core.decode.events import decode_request
from agent.core.decode.kafka_offsets import Held
from agent.core.fleet import Fleet
from agent.core.policy import Policy
from agent.service.kafka_watch import KafkaWatch
from tests.core.events import START_TIME, Driver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.core.measure.partitions import PartitionView
    from agent.sources.kafka import Place

KEY = ("shop", "orders")
PLACE = ("t", "0")
RETENTION_SECONDS = 10_000.0


class Cluster:
    """A topic of one partition, of which nothing was deleted yet; ten rows come a second."""

    def __init__(self) -> None:
        self.now = START_TIME
        self.places = [PLACE]

    def retention_seconds(self, topics: Iterable[str]) -> dict[str, float]:
        return dict.fromkeys(topics, RETENTION_SECONDS)

    def partitions(self, _topics: Iterable[str]) -> list[Place]:
        return self.places

    def held(self, places: Iterable[Place]) -> Mapping[Place, Held]:
        return dict.fromkeys(places, Held(0, 1000 + int(10.0 * (self.now - START_TIME))))


class World:
    """An agent that asks it, and a query that has read up to row 1000."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.fleet = Fleet(Policy(), started_time=START_TIME - 1000.0)
        self.watch = KafkaWatch(
            lambda: self.fleet,
            self.cluster,  # type: ignore[arg-type]
            lambda: self.cluster.now,
            every_seconds=30.0,
            series=False,
        )
        self.driver = Driver()

    def send(self, *events: dict) -> None:  # type: ignore[type-arg]
        request = decode_request(self.driver.body(*events))
        self.fleet.receive(request, self.driver.time)

    def read(self, offset: int) -> None:
        at = {"t": {partition: offset for _, partition in self.cluster.places}}
        source = {"description": "KafkaV2", "startOffset": at, "endOffset": at, "numInputRows": 10}
        self.send(self.driver.progress(10, 1.0, sources=[source]))

    def goes_on(self, seconds: float) -> list[PartitionView]:
        until = self.cluster.now + seconds
        while self.cluster.now < until:
            self.cluster.now += 30.0
            asyncio.run(self.watch.look())
        self.driver.time = self.cluster.now
        return self.fleet.view(KEY, self.cluster.now).partitions


def test_a_loss_that_is_near_is_told_through_a_crash_loop() -> None:
    world = World()
    asyncio.run(world.watch.look())
    world.read(1000)
    (view,) = world.goes_on(6000.0)
    assert view.retention_loss_seconds is not None
    assert abs(view.retention_loss_seconds - 4000.0) < 100.0
    for number in range(2, 12):
        world.send(world.driver.terminated("java.io.IOException: x"))
        assert world.goes_on(60.0)
        world.driver.run_id = f"r-{number}"
        world.send(world.driver.started())
        (view,) = world.goes_on(60.0)
    left = 4000.0 - 10 * 120.0
    assert view.retention_loss_seconds is not None
    assert abs(view.retention_loss_seconds - left) < 100.0, "how old its next row is was not lost"
    assert view.backlog_rows > 70_000


def test_a_new_checkpoint_begins_anew() -> None:
    world = World()
    asyncio.run(world.watch.look())
    world.read(1000)
    world.goes_on(6000.0)
    world.driver.query_id, world.driver.run_id = "q-2", "r-2"
    world.send(world.driver.started())
    assert not world.goes_on(30.0), "where it begins nobody has said"
    world.read(60_000)
    (view,) = world.goes_on(60.0)
    assert view.retention_loss_seconds is None or view.retention_loss_seconds > 9000.0


def test_a_partition_that_has_no_leader_for_a_moment_makes_no_row_younger() -> None:
    world = World()
    both = world.cluster.places = [PLACE, ("t", "1")]
    asyncio.run(world.watch.look())
    world.read(1000)
    world.goes_on(6000.0)
    world.cluster.places = [PLACE]
    world.goes_on(30.0)
    world.cluster.places = both
    for view in world.goes_on(30.0):
        assert view.retention_loss_seconds is not None
        assert abs(view.retention_loss_seconds - 3940.0) < 100.0
