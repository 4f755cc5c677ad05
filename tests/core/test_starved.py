"""A limit set by hand that digests less than arrives is told, at once and while it stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from agent.core.fleet import Order
from agent.core.judge import starved as judge
from tests.core.test_fleet import KEY, World

if TYPE_CHECKING:
    from agent.core.query import Query

ARRIVING = 400.0  # rows per second
FIXED, THROUGHPUT = 1.0, 1000.0
DEARER = 3.5e-7  # seconds per row and row, where larger batches get dearer


def fed(batches: int = 20) -> tuple[World, float]:
    """A query that reads what arrives; batches of 1 s and 1,000 rows/s. And what waits."""
    world, waits = World(), 40_000.0
    for number in range(batches):
        waits = eat(world, waits, (1000, 3000)[number % 2])
    return world, waits


def eat(
    world: World, waits: float, limit: int, dearer: float = 0.0, arriving: float = ARRIVING
) -> float:
    rows = min(limit, int(waits))
    seconds = FIXED + rows / THROUGHPUT + dearer * rows * rows
    waits += arriving * seconds - rows
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


def test_without_a_trigger_it_is_looked_at_for_batches_that_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None is shorter than a millisecond: at each scrape it would be asked a thousand times."""
    world, _ = fed()
    world.fleet.control(*KEY, order(limit=300), world.now)
    asked: list[float] = []
    original = judge._least_seconds

    def counted(query: Query, rows: float) -> float:
        asked.append(rows)
        return original(query, rows)

    monkeypatch.setattr(judge, "_least_seconds", counted)
    assert world.view().advice
    assert 2 <= len(asked) <= 20


def test_what_is_not_known_starves_nobody() -> None:
    world = World()
    world.send(world.driver.progress(10, 1.0, limit=5, configured=5, backlog=None))
    (said,) = world.fleet.control(*KEY, order(limit=1), world.now)
    assert said.note == ""
    assert world.view().advice == []


class Two:
    """A query of two sources: batches of 1 s and 2,000 rows/s; the first alone obeys orders."""

    def __init__(self, first: float, second: float, *, control: str) -> None:
        self.world = World()
        self.arriving, self.control = (first, second), control
        self.waits = [40_000.0, 0.0]
        self.eat(10_000, 20)

    def eat(self, limit: int, batches: int) -> None:
        for _ in range(batches):
            second = limit if self.control == "live" else None
            limits = (limit, second)
            rows = [
                int(waits if most is None else min(waits, most))
                for waits, most in zip(self.waits, limits, strict=True)
            ]
            left = [int(waits - read) for waits, read in zip(self.waits, rows, strict=True)]
            seconds = FIXED + sum(rows) / 2000.0
            for place in (0, 1):
                self.waits[place] += self.arriving[place] * seconds - rows[place]
            event = self.world.driver.progress(
                sum(rows),
                seconds,
                limits=[
                    {"source": place, "unit": "rows", "limit": limits[place], "configured": None,
                     "backlog": left[place], "control": ("live", self.control)[place]}
                    for place in (0, 1)
                ],
                sources=[{"description": "Rows", "numInputRows": count} for count in rows],
            )  # fmt: skip
            self.world.send(event)

    def order(self, limit: int) -> list[str]:
        """What the order is answered, and what is advised thirty batches later."""
        (said,) = self.world.fleet.control(*KEY, order(limit=limit), self.world.now)
        self.eat(limit, 30)
        return [said.note, *self.world.view().advice]


@pytest.mark.parametrize(
    ("first", "limit", "starves"),
    [(113.0, 400, False), (113.0, 300, False), (113.0, 150, True), (10.0, 150, False)],
)
def test_a_limit_is_held_against_what_arrives_at_its_own_source(
    first: float, limit: int, starves: bool
) -> None:
    """Beside 1,100 rows/s of a source out of reach the first reads its limit in 2.2 s and more."""
    two = Two(first, 1100.0, control="advice")
    said = two.order(limit)
    assert (two.waits[0] > 3000) is starves
    if not starves:
        assert said == [""]
        return
    pattern = r"batches of 150 rows of source 0 digest \d\d(\.\d)? rows/s, and 11\d arrive"
    assert all(re.search(pattern, one) for one in said)
    assert len(said) == 2


def test_of_two_that_are_limited_the_one_that_starves_is_named() -> None:
    two = Two(50.0, 600.0, control="live")
    note, advice = two.order(500)
    for said in (note, advice):
        assert "batches of 500 rows of source 1 digest 3" in said
        assert "source 0" not in said
    assert Two(50.0, 600.0, control="live").order(2000) == ["done; each of 2 sources has it"]


def test_batches_that_would_get_dear_if_they_were_long_need_not_become_so() -> None:
    """In the 150 s that the limit would last so much comes to the other that it takes 600 s."""
    two = Two(1.0, 1100.0, control="advice")
    query = two.world.fleet._roster[KEY]
    query.sizing.cost.congestion = 2e-8
    (said,) = two.world.fleet.control(*KEY, order(limit=150), two.world.now)
    assert said.note == ""
    query.sources[0].arrival.amount = 1e-307  # next to nothing: it lasts for ever
    query.sources[1].arrival.amount = 0.0
    (said,) = two.world.fleet.control(*KEY, order(limit=150), two.world.now)
    assert said.note == ""


def congested(waits: float) -> World:
    """A query whose larger batches get dearer, after a quiet time: of 400 rows/s of late."""
    world = World()
    for number in range(60):
        waits = eat(world, waits, (1000, 4000, 8000)[number % 3], dearer=DEARER, arriving=100.0)
    for _ in range(20):
        waits = eat(world, waits, 2000, dearer=DEARER)
    return world


@pytest.mark.parametrize(("limit", "starves"), [(8000, True), (100_000, False)])
def test_of_sizes_far_beyond_those_seen_nothing_is_said(limit: int, starves: bool) -> None:
    # 31 s for 8,000 rows of 400/s are surely too long. The curve says an hour for 100,000, and six
    # minutes, so much a row as of the 8,000, is as good a guess.
    world = congested(400_000.0)
    (said,) = world.fleet.control(*KEY, order(limit=limit), world.now)
    assert ("what waits grows" in said.note) is starves


@pytest.mark.parametrize(("waits", "starves"), [(400_000.0, True), (160_000.0, False)])
def test_a_batch_is_no_larger_than_what_waits(waits: float, starves: bool) -> None:
    # While no more than 3,400 rows wait, batches settle at 800, of what arrives during them.
    world = congested(waits)
    (said,) = world.fleet.control(*KEY, order(limit=8000), world.now)
    assert ("what waits grows" in said.note) is starves
