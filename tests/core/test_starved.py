"""A limit set by hand that digests less than arrives is told, at once and while it stands."""

from __future__ import annotations

import re

import pytest

from agent.core.fleet import Order
from tests.core.test_fleet import KEY, World

ARRIVING = 400.0  # rows per second
FIXED, THROUGHPUT = 1.0, 1000.0


def fed(batches: int = 20) -> tuple[World, float]:
    """A query that reads what arrives; batches of 1 s and 1,000 rows/s. And what waits."""
    world, waits = World(), 40_000.0
    for number in range(batches):
        waits = eat(world, waits, (1000, 3000)[number % 2])
    return world, waits


def eat(world: World, waits: float, limit: int) -> float:
    rows = min(limit, int(waits))
    seconds = FIXED + rows / THROUGHPUT
    waits += ARRIVING * seconds - rows
    event = world.driver.progress(rows, seconds, limit=limit, configured=None, backlog=int(waits))
    world.send(event)
    return waits


def order(**said: object) -> Order:
    return Order(who="ann", **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "starves"),
    [(300, True), (500, True), (900, False), (3000, False)],  # 667 rows digest what arrives
)
def test_an_order_says_at_once_what_it_starves(limit: int, starves: bool) -> None:
    world, _ = fed()
    (said,) = world.fleet.control(*KEY, order(limit=limit), world.now)
    assert bool(said.note) is starves
    if limit == 300:
        assert re.fullmatch(
            r"done; batches of 300 rows digest 2[23]\d rows/s, and 4\d\d arrive: what waits grows",
            said.note,
        )


def test_it_is_advised_to_give_it_back_while_it_stands() -> None:
    world, waits = fed()
    assert world.view().advice == []
    world.fleet.control(*KEY, order(limit=300), world.now)
    for _ in range(3):
        waits = eat(world, waits, 300)
    (said,) = world.view().advice
    assert said.startswith("limit 300 rows by ann: batches of 300 rows digest 23")
    assert said.endswith("what waits grows; `weir release shop/orders` gives it back to Weir")
    world.fleet.control(*KEY, order(hold=False), world.now)
    assert world.view().advice == []


def test_a_held_limit_starves_as_one_by_number_does() -> None:
    world, waits = fed()
    world.fleet.control(*KEY, order(limit=300), world.now)
    waits = eat(world, waits, 300)
    world.fleet.control(*KEY, order(hold=True), world.now)
    eat(world, waits, 300)
    (said,) = world.view().advice
    assert "digest 23" in said


def test_what_is_not_known_starves_nobody() -> None:
    world = World()
    world.send(world.driver.progress(10, 1.0, limit=5, configured=5, backlog=None))
    (said,) = world.fleet.control(*KEY, order(limit=1), world.now)
    assert said.note == ""
    assert world.view().advice == []
