"""Schedulers that name an application anew at each start: its queries are what they were."""

from __future__ import annotations

import pytest

from agent.core.fleet import Fleet, Order
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import Driver
from tests.core.test_fleet import World

PLACE = "s3a://bucket/checkpoints/orders"
POLICY = Policy(default=QueryPolicy(target_seconds=5.0, above_configured=True))
HOUR = 3600.0


def begin(
    world: World, number: int, *, after_seconds: float, place: str = PLACE, query_id: str = "q-1"
) -> list[str]:
    """A run in an application of its own, and twenty batches; why it was granted a first limit."""
    driver = Driver(
        application=f"orders-{number}",
        application_id=f"spark-{number}",
        instance=f"listener-{number}",
        query_id=query_id,
        run_id=f"r-{number}",
        time=world.driver.time + after_seconds,
    )
    for seconds in range(5, min(int(after_seconds), 60), 5):
        world.fleet.tick(world.driver.time + seconds)
    world.driver = driver
    world.fleet.tick(driver.time)
    granted = world.send(driver.started(checkpointLocation=place)).grants
    for _ in range(20):
        world.batches(1)
        world.fleet.tick(driver.time)
    return [grant.reason for grant in granted]


def wait(world: World, seconds: float) -> None:
    """Time in which only the last one begun says that it lives."""
    driver = world.driver
    for _ in range(int(seconds / 5.0)):
        driver.time += 5.0
        world.send(driver.heartbeat(driver.batch_id + 1, 1.0))
        world.fleet.tick(driver.time)


def known(world: World) -> dict[str, tuple[bool, bool, int]]:
    """By application: up, ended well, batches."""
    return {
        view.application: (view.up, view.stopped, sum(view.totals.batches.values()))
        for view in world.fleet.views(world.now)
    }


@pytest.mark.parametrize("after_seconds", [60.0, 3.0])
def test_a_driver_that_was_killed_and_is_back_under_another_name_is_nobodys_alarm(
    after_seconds: float,
) -> None:
    """``WeirQueryGone`` asks for what is not up and was not stopped."""
    world = World(POLICY)
    for number in range(3):
        begin(world, number, after_seconds=after_seconds)
    wait(world, 60.0)
    found = known(world)
    assert [name for name, (up, _, _) in found.items() if up] == ["orders-2"]
    assert all(up or stopped for up, stopped, _ in found.values()), found
    if after_seconds == 60.0:
        assert found == {"orders-2": (True, False, 60)}, "what was known of it went with it"


def test_what_was_learned_goes_with_the_checkpoint() -> None:
    world = World(POLICY)
    assert begin(world, 1, after_seconds=0.0) == []
    world.send(world.driver.terminated())
    assert begin(world, 2, after_seconds=60.0) == ["first_batch"]
    world.send(world.driver.terminated())
    world.fleet.tick(world.now + 2.0 * HOUR)
    assert known(world) == {}
    world.fleet = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    assert begin(world, 3, after_seconds=24.0 * HOUR) == ["first_batch"]
    assert known(world) == {"orders-3": (True, False, 60)}


@pytest.mark.parametrize(
    "other", [{"place": "s3a://bucket/copy"}, {"query_id": "q-2"}, {"place": ""}]
)
def test_another_checkpoint_is_another_query(other: dict[str, str]) -> None:
    world = World(POLICY)
    begin(world, 1, after_seconds=0.0)
    assert begin(world, 2, after_seconds=60.0, **other) == []
    wait(world, 60.0)
    assert known(world) == {"orders-1": (False, False, 20), "orders-2": (True, False, 20)}


def test_of_two_that_ran_beside_each_other_on_like_checkpoints_the_end_of_one_is_told() -> None:
    """Clones of a volume: the same id and path, and not the same place."""
    world = World(POLICY)
    begin(world, 1, after_seconds=0.0)
    first = world.driver
    begin(world, 2, after_seconds=-10.0)
    second = world.driver
    for _ in range(12):
        first.time = second.time = second.time + 5.0
        for driver in (first, second):
            world.driver = driver
            world.send(driver.heartbeat(driver.batch_id + 1, 1.0))
        world.fleet.tick(world.now)
    wait(world, 60.0)
    assert known(world) == {"orders-1": (False, False, 20), "orders-2": (True, False, 20)}


def test_one_that_was_only_out_of_reach_is_itself_again() -> None:
    world = World(POLICY)
    begin(world, 1, after_seconds=0.0)
    first = world.driver
    begin(world, 2, after_seconds=3.0)
    wait(world, 60.0)
    assert known(world)["orders-1"] == (False, True, 20)
    first.time, world.driver = world.driver.time, first
    world.send(first.heartbeat(first.batch_id + 1, 1.0))
    assert known(world)["orders-1"] == (True, False, 20)


@pytest.mark.parametrize("parked", [False, True])
def test_what_was_ordered_of_many_holds_under_each_new_name(*, parked: bool) -> None:
    world = World(POLICY)
    begin(world, 1, after_seconds=0.0)
    world.send(world.driver.terminated())
    if parked:
        world.fleet.tick(world.now + 2.0 * HOUR)
    world.fleet.control("*", "*", Order(mode="off", who="kim"), world.now)
    assert begin(world, 2, after_seconds=3.0 * HOUR) == []
    assert world.view(("orders-2", "orders")).mode == "off"


@pytest.mark.parametrize("parked", [False, True])
def test_of_several_runs_before_the_last_one_is_known(*, parked: bool) -> None:
    world = World(POLICY)
    begin(world, 0, after_seconds=0.0)
    begin(world, 1, after_seconds=3.0)  # before the first one counts as gone: a name of its own
    wait(world, 1.5 * HOUR if parked else 60.0)
    assert ("orders-0" in known(world)) is not parked
    begin(world, 2, after_seconds=60.0)
    wait(world, 60.0)
    found = known(world)
    assert found.pop("orders-2") == (True, False, 40), "of the second and the third"
    assert all(stopped for _, stopped, _ in found.values()), found


def test_what_a_hand_ordered_stays_its_own_beside_one_that_has_the_new_name() -> None:
    world = World(POLICY)
    begin(world, 1, after_seconds=0.0)
    world.fleet.control("orders-1", "orders", Order(mode="off", who="kim"), world.now)
    world.send(world.driver.terminated())
    begin(world, 2, after_seconds=60.0, place="s3a://bucket/other", query_id="q-2")
    limit = Order(limit=7, unit="rows", who="lee")
    world.fleet.control("orders-2", "orders", limit, world.now)
    beside = world.driver
    driver = world.driver = Driver(
        application="orders-2",
        application_id="spark-3",
        instance="listener-3",
        run_id="r-3",
        time=beside.time + 1.0,
    )
    world.send(driver.started(checkpointLocation=PLACE))
    (name,) = [view.application for view in world.fleet.views(world.now) if view.mode == "off"]
    view = world.view((name, "orders"))
    assert name != "orders-2"
    assert view.manual_limit is None
    assert view.mode_by is not None
    assert view.mode_by.who == "kim"
