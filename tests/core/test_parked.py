"""What was learned of a query that ended well is there at its next run, however late that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.core.fleet import Fleet, Order
from agent.core.policy import Policy, QueryPolicy, Rule
from tests.core.events import START_TIME, Driver
from tests.core.test_fleet import KEY, World

if TYPE_CHECKING:
    from agent.core.fleet import Grant
    from agent.core.judgement import Mode

DAY = 86_400.0
RETIRE = Order(who="kim", retire=True, must_exist=True)


def begin(world: World, night: int) -> list[Grant]:
    """A run in an application of its own; what it is granted before its first batch."""
    driver = world.driver = Driver(
        application_id=f"local-{night}", instance=f"night-{night}", run_id=f"r-{night}"
    )
    driver.time = START_TIME + DAY * night
    return world.send(driver.started()).grants


def end(world: World) -> None:
    """Its owner's end, and more than an hour in which nobody asks."""
    world.send(world.driver.terminated())
    world.fleet.tick(world.now + world.policy.forget_seconds + 1.0)
    assert not world.fleet.has(KEY)
    assert not list(world.fleet.views(world.now))


def restarted(world: World) -> None:
    """The agent ends and comes back with what it had saved."""
    world.fleet = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    assert not world.fleet.unreadable


def test_the_next_night_begins_with_what_the_night_before_learned() -> None:
    world = World(Policy(default=QueryPolicy(target_seconds=5.0, above_configured=True)))
    assert begin(world, 1) == []
    world.batches(20)
    batches = sum(world.view().totals.batches.values())
    end(world)
    restarted(world)
    (grant,) = begin(world, 2)
    # A batch takes 1 s and a millisecond a row: 4,000 rows take the target.
    assert grant.limit is not None
    assert 3_000 < grant.limit < 5_000
    assert grant.reason == "first_batch"
    world.batches(1)
    assert sum(world.view().totals.batches.values()) == batches + 1, "its counters go on"
    end(world)
    assert begin(world, 30)


def test_what_was_retired_by_hand_or_failed_for_good_is_not_kept() -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True)))
    begin(world, 1)
    world.batches(20)
    world.send(world.driver.terminated())
    world.fleet.control("*", "*", RETIRE, world.now)
    assert not world.fleet.has(KEY)
    assert begin(world, 2) == []
    assert len(world.fleet._roster.parked) == 0


@pytest.mark.parametrize("one", [("*", "*"), ("sh*", "*")])
@pytest.mark.parametrize(("before", "after"), [("on", "off"), ("off", "on"), ("on", "dry-run")])
def test_what_is_ordered_of_many_meanwhile_holds_for_the_next_night(
    before: Mode, after: Mode, one: tuple[str, str]
) -> None:
    """The kill switch, above all; also where the order before it was given while the query ran."""
    world = World(Policy(default=QueryPolicy(mode="dry-run")))
    begin(world, 1)
    world.batches(5)
    world.fleet.control("*", "*", Order(who="kim", mode=before), world.now)
    assert world.view().mode == before
    end(world)
    restarted(world)
    given = world.now
    world.fleet.control(*one, Order(who="lee", mode=after), given)
    grants = begin(world, 2)
    assert world.view().mode == after
    assert (world.view().mode_since_time, world.view().mode_by) == (given, None)
    assert after == "on" or grants == []
    end(world)
    begin(world, 3)
    assert world.view().mode == after, "it stands"


@pytest.mark.parametrize("what", [{"mode": "off"}, {"hold": True}, {"limit": 300}])
def test_what_was_ordered_of_a_query_alone_is_there_at_its_next_run(what: dict[str, Any]) -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True)))
    world.fleet.control("*", "*", Order(who="kim", mode="on"), START_TIME)
    begin(world, 1)
    world.batches(5)
    world.fleet.control(*KEY, Order(who="kim", **what), world.now)
    before = world.view()
    world.send(world.driver.terminated())
    world.fleet.tick(world.now + world.policy.forget_seconds + 1.0)
    assert world.fleet.has(KEY), "it waits for its next run, and is not parked"
    world.fleet.control("*", "*", Order(who="lee", mode="on"), world.now)
    begin(world, 2)
    now = world.view()
    assert (now.held_by, now.manual_limit) == (before.held_by, before.manual_limit)
    assert now.mode == "on", "the switch for all is of all"


def test_no_more_are_kept_than_there_is_room_for_and_the_oldest_go_first() -> None:
    world = World(Policy(max_queries=3))
    for night in range(5):
        driver = world.driver = Driver(
            instance=f"n-{night}", query_id=f"q-{night}", query=f"n-{night}", run_id=f"r-{night}"
        )
        driver.time = START_TIME + DAY * night
        world.send(driver.started(), driver.progress(10, 1.0), driver.terminated())
        world.fleet.tick(world.now + world.policy.forget_seconds + 1.0)
    parked = world.fleet._roster.parked
    assert len(world.fleet) == 0
    assert len(parked) == 3
    restarted(world)
    kept = [f"n-{n}" for n in range(5) if world.fleet._roster.parked.take((KEY[0], f"n-{n}"))]
    assert kept == ["n-2", "n-3", "n-4"]
    restarted_without = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    assert len(restarted_without._roster.parked) == 0


def test_one_that_cannot_be_read_any_more_begins_anew() -> None:
    world = World()
    begin(world, 1)
    world.batches(5)
    end(world)
    parked = world.fleet._roster.parked
    (change,) = (one for one in world.fleet.changes() if one.part.startswith("parked:"))
    assert change.data is not None
    other = Fleet.restore(world.policy, [change], started_time=world.now)
    assert len(other._roster.parked) == len(parked) == 1
    kept = other._roster.parked._queries[KEY]
    other._roster.parked._queries[KEY] = type(kept)(kept.since_time, b"\x81\xa3run\xc0")
    world.fleet = other
    assert begin(world, 2) == []
    assert world.fleet.has(KEY)


def test_what_was_ordered_of_many_and_is_forgotten_since_holds_for_who_was_away() -> None:
    """As for one that was there: of many patterns the newest are kept."""
    world = World(Policy(default=QueryPolicy(mode="on")))
    begin(world, 1)
    world.batches(5)
    world.fleet.control("sh*", "*", Order(who="kim", mode="off"), world.now)
    end(world)
    for number in range(120):
        world.fleet.control(f"x{number}*", "*", Order(who="kim", mode="on"), world.now)
    begin(world, 2)
    assert world.view().mode == "off"


def test_a_rule_that_goes_again_leaves_what_was_ordered_of_many() -> None:
    world = World(Policy(default=QueryPolicy(mode="dry-run")))
    begin(world, 1)
    world.batches(3)
    world.fleet.control("shop", "*", Order(who="kim", mode="on"), world.now)
    ruled = Policy(default=QueryPolicy(mode="dry-run"), rules=(Rule(match="*", mode="dry-run"),))
    saved = {change.part: change for change in world.fleet.changes()}
    for policy, mode in ((ruled, "dry-run"), (world.policy, "on")):
        world.fleet = Fleet.restore(policy, list(saved.values()), started_time=world.now)
        assert world.view().mode == mode
        world.batches(2)
        saved |= {change.part: change for change in world.fleet.changes()}
