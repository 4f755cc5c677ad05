"""What is told beside the judgement: who steers, and what dry-run would do."""

from __future__ import annotations

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet, Order
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import Driver
from tests.core.test_fleet import KEY, World


def test_whose_order_holds_is_told_and_outlives_the_agent() -> None:
    world = World()
    world.batches(3)
    assert world.view().held_by is None
    hold = Order(who="kim", reason="deploy", hold=True)
    world.fleet.control("*", "*", hold, world.now)
    said_time = world.now
    parts = world.fleet.changes()
    world.fleet = Fleet.restore(world.policy, parts, started_time=world.now)
    world.batches(2)
    held = world.view().held_by
    assert held is not None
    assert (held.who, held.what, held.reason) == ("kim", "hold", "deploy")
    assert held.time == said_time
    world.fleet.control("*", "*", Order(who="lee", mode="off"), world.now)
    view = world.view()
    assert view.mode_by is not None
    assert (view.mode_by.who, view.mode_by.what) == ("lee", "mode off")
    assert view.held_by == held, "a mode ends no hold"
    world.fleet.control(*KEY, Order(who="lee", hold=False), world.now)
    assert world.view().held_by is None
    world.fleet.control(*KEY, Order(who="lee", limit=9, unit="rows"), world.now)
    by_hand = world.view().held_by
    assert by_hand is not None
    assert by_hand.what == "limit 9 rows"


def test_since_when_a_mode_by_hand_holds_is_told_of_whom_it_greeted_too() -> None:
    """They began to run later, and the order stands as long as it did for the others."""
    world = World()
    world.batches(3)
    assert world.view().mode_since_time is None
    said_time = world.now
    world.fleet.control("*", "*", Order(who="lee", mode="off"), said_time)
    fleet = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    later = Driver(query="later", query_id="q-2", run_id="r-2", instance="two", time=world.now + 60)
    later.application_id = "local-2"
    fleet.receive(decode_request(later.body(later.started())), later.time)
    for key in (KEY, ("shop", "later")):
        view = fleet.view(key, later.time)
        assert (view.mode, view.mode_overridden) == ("off", True)
        assert view.mode_since_time == said_time
    assert fleet.view(("shop", "later"), later.time).mode_by is None, "it is let go of as any other"
    fleet.control("*", "*", Order(who="lee", mode="on"), later.time)
    assert fleet.view(KEY, later.time).mode_overridden is False


def test_a_point_holds_the_limit_in_force_and_apart_what_it_would_be() -> None:
    world = World(Policy(default=QueryPolicy(above_configured=True, mode="dry-run")))
    points = [point for receipt in world.batches(15) for _, point in receipt.batches]
    assert {point.limit for point in points} == {500}
    assert points[-1].would_be_limit is not None
    assert points[-1].would_be_limit > 500
    world = World()
    points = [point for receipt in world.batches(15) for _, point in receipt.batches]
    assert points[-1].limit is not None
    assert points[-1].limit > 500
    assert {point.would_be_limit for point in points} == {None}


@pytest.mark.parametrize("said", [None, "rows"])
def test_a_limit_set_by_hand_keeps_its_unit(said: str | None) -> None:
    world = World()
    world.batches(3)
    (record,) = world.fleet.control(*KEY, Order(who="lee", limit=500_000, unit=said), world.now)
    assert record.what == "limit 500000 rows"
    assert world.view().held_by.what == "limit 500000 rows"
    (grant,) = world.send(world.driver.heartbeat()).grants
    assert (grant.unit, grant.limit) == ("rows", 500_000)
    # The same query, its source now one that is limited in bytes.
    other = {"source": 0, "unit": "bytes", "limit": 10**9, "configured": 10**9, "backlog": 10**12}
    world.driver.run_id = "r-2"
    world.send(world.driver.started())
    beat = world.driver.heartbeat(limits=[{**other, "next_limit": 10**9}])
    assert world.send(beat).grants == []
    assert world.send(world.driver.progress(5000, 2.0, limits=[other])).grants == []
    view = world.view()
    assert (view.manual_limit, view.manual_unit) == (500_000, "rows")
    assert any("no source is limited in rows now" in line for line in view.missing)
    again = Fleet.restore(world.policy, world.fleet.changes(), started_time=world.now)
    assert again.view(KEY, world.now).manual_unit == "rows"


def test_a_limit_set_by_hand_before_its_source_is_known_takes_the_first_unit() -> None:
    world = World()
    world.send(world.driver.started())
    (record,) = world.fleet.control(*KEY, Order(who="lee", limit=7), world.now)
    assert record.what == "limit 7"
    world.driver.unit = "files"
    world.batches(2)
    assert world.view().manual_unit == "files"
