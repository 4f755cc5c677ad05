"""Batches that take all that their limits let them and read no row: a limit of ours is no trap.

Spark plans offsets that retention has deleted, under ``failOnDataLoss=false``, or that hold nothing
but aborted transactions, as it plans others: "the input rows of a batch might be gradually reduced
until zero" (its guide of the Kafka source).
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from agent.core.decide.limits import UNTOLD_BATCHES
from agent.core.decide.size import CATCH_UP_SECONDS
from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import START_TIME, Driver

FIXED_SECONDS, ROWS_PER_SECOND, ARRIVING = 1.0, 3000.0, 2000.0
TARGET_SECONDS = 5.0
#: Of a topic that keeps a day, while the query stood for an hour more.
GAP_OFFSETS = 7_200_000
LEFT_OFFSETS = 172_800_000


class World:
    """A query of Kafka's under the limits granted, before and after it stood."""

    def __init__(
        self,
        *,
        configured: int | None = None,
        fixed: float = FIXED_SECONDS,
        noise: float = 0.0,
        seed: int = 1,
        **policy: Any,
    ) -> None:
        default = QueryPolicy(**{"target_seconds": TARGET_SECONDS, **policy})
        self.fleet = Fleet(Policy(default=default), started_time=START_TIME - 1000)
        self.driver = Driver()
        self.configured = self.limit = configured
        self.fixed, self.noise, self.chance = fixed, noise, random.Random(seed)
        self.next, self.gap = 0, (0, 0)
        self.batches: list[tuple[int, int, float]] = []  # offsets, rows, seconds
        self.view: Any = None

    def batch(self, latest: int) -> None:
        admitted = latest - self.next if self.limit is None else min(self.limit, latest - self.next)
        end = self.next + admitted
        rows = admitted - max(min(end, self.gap[1]) - max(self.next, self.gap[0]), 0)
        self.next = end
        seconds = self.took(rows)
        self.tell(rows, seconds, admitted, latest - end, self.limit)
        self.batches.append((admitted, rows, seconds))

    def took(self, rows: int) -> float:
        """Seconds of a batch that reads so many."""
        noise = self.chance.lognormvariate(0.0, self.noise)
        return (self.fixed + rows / ROWS_PER_SECOND) * noise

    def tell(
        self, rows: int, seconds: float, admitted: int, backlog: int, limit: int | None
    ) -> None:
        """Of a batch that was planned under a limit."""
        said = {"source": 0, "unit": "rows", "limit": limit, "configured": self.configured}
        said |= {"backlog": backlog, "admitted": admitted}
        self.heard(self.driver.progress(rows, seconds, limits=[said]))

    def heard(self, event: dict[str, Any]) -> None:
        request = decode_request(self.driver.body(event))
        receipt = self.fleet.receive(request, self.driver.time)
        if receipt.grants:
            self.limit = receipt.grants[0].limit
        self.view = self.fleet.view(("shop", "orders"), self.driver.time)

    def learn(self) -> World:
        """Its limit is learned while it keeps up under a backlog that it works off."""
        for _ in range(60):
            self.batch(self.next + 100_000)
        return self

    def stood_still(self) -> World:
        self.driver.time += 25 * 3600
        self.driver.run_id = "r-2"
        self.heard(self.driver.started())
        self.gap = (self.next, self.next + GAP_OFFSETS)
        self.latest = self.gap[1] + LEFT_OFFSETS
        self.batches.clear()
        return self

    def across(self, most: int = 2000) -> int:
        """Batches until one reads a row."""
        for number in range(most):
            self.batch(self.latest)
            if self.batches[-1][1]:
                return number + 1
        return most


@pytest.mark.parametrize("deadline", [None, 40.0])
def test_offsets_without_rows_are_passed_in_batches_of_what_a_wait_may_be(
    deadline: float | None,
) -> None:
    """An hour and a half of batches of the learned size are a few minutes."""
    world = World(deadline_seconds=deadline).learn()
    learned = world.limit
    assert learned is not None
    assert learned < 5 * ROWS_PER_SECOND
    world.stood_still()
    longest = deadline or CATCH_UP_SECONDS
    batches = world.across()
    assert batches < 1.5 * GAP_OFFSETS / ((longest - FIXED_SECONDS) * ROWS_PER_SECOND) + 10
    assert batches < 0.5 * GAP_OFFSETS / learned
    assert world.batches[-1][2] <= longest
    assert any("read no row" in one.detail for one in world.view.decisions)
    # The rows after it are read in batches of the target's length again.
    for _ in range(6):
        world.batch(world.latest)
    assert world.batches[-1][1] == pytest.approx(learned, rel=0.3)


def test_where_an_empty_batch_takes_most_of_the_target_they_double_too() -> None:
    world = World(fixed=4.0).learn().stood_still()
    before = world.limit
    assert before is not None
    for _ in range(2):
        world.batch(world.latest)
    assert world.limit is not None
    assert world.limit > 1.5 * before


@pytest.mark.parametrize("seed", range(1, 7))
def test_noise_does_not_hide_that_batches_read_no_row(seed: int) -> None:
    world = World(noise=0.3, seed=seed).learn()
    learned = world.limit
    assert learned is not None
    world.stood_still()
    assert world.across() < 0.5 * GAP_OFFSETS / learned


def test_sources_share_what_a_batch_may_take() -> None:
    """Should the offsets of all hold rows after all, in one batch."""
    world = World().learn()
    said = {"unit": "rows", "configured": None, "backlog": GAP_OFFSETS}
    limits = {0: world.limit, 1: world.limit}
    for _ in range(30):
        told = [{**said, "source": n, "limit": one, "admitted": one} for n, one in limits.items()]
        sources = [{"description": f"s{n}", "numInputRows": 0} for n in limits]
        event = world.driver.progress(0, FIXED_SECONDS, limits=told, sources=sources)
        body = world.driver.body(event)
        receipt = world.fleet.receive(decode_request(body), world.driver.time)
        limits |= {grant.source: grant.limit for grant in receipt.grants}
    total = sum(limit or 0 for limit in limits.values())
    assert total <= CATCH_UP_SECONDS * ROWS_PER_SECOND
    assert total > 0.8 * (CATCH_UP_SECONDS - FIXED_SECONDS) * ROWS_PER_SECOND


def test_a_batch_says_nothing_of_a_limit_that_it_did_not_have() -> None:
    """The next one is often planned before what was granted is in force."""
    world = World().learn().stood_still()
    limit = world.limit
    assert limit is not None
    for number in range(4):
        world.tell(0, FIXED_SECONDS, limit, 10**8, limit)
        assert world.limit is not None
        assert world.limit <= 2 * limit + 1, number


def test_no_further_than_is_configured_or_ordered() -> None:
    world = World(configured=20_000).learn().stood_still()
    world.limit = 10_000
    world.across(50)
    assert max(admitted for admitted, _, _ in world.batches) <= 20_000
    world = World(maximum_limit=15_000).learn().stood_still()
    world.across(50)
    assert max(admitted for admitted, _, _ in world.batches[1:]) <= 15_000
    world = World(mode="dry-run", configured=20_000).learn().stood_still()
    world.across(50)
    assert {admitted for admitted, _, _ in world.batches} == {20_000}


def test_batches_that_take_long_without_a_row_get_no_larger() -> None:
    """Spark 3.5 tells no rows of some that it did read: time is all that is known of these."""
    world = World().learn().stood_still()
    before = world.limit
    for _ in range(10):
        world.tell(0, TARGET_SECONDS, world.limit or 0, 10**8, world.limit)
    assert world.limit == before
    assert world.view.lag_state != "STALL"


@pytest.mark.parametrize("seed", range(1, 13))
@pytest.mark.parametrize("noise", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("fixed", [0.2, 1.0])
def test_rows_that_were_read_and_not_told_make_no_limit_creep_up(
    fixed: float, noise: float, seed: int
) -> None:
    """Each batch that happens to be short must not count: nothing would lower the limit again."""
    world = World(fixed=fixed, noise=noise, seed=seed).learn()
    before, reasons = world.limit, []
    assert before is not None
    for _ in range(2 * UNTOLD_BATCHES):
        taken = world.limit or 0
        world.tell(0, world.took(taken), taken, 10**8, taken)
        reasons.append(world.view.limit.reason)
    assert world.limit == before
    assert set(reasons[: UNTOLD_BATCHES - 1]) == {"hold:empty"}
    assert set(reasons[UNTOLD_BATCHES:]) == {"hold:untold_rows"}
    world.tell(10_000, fixed + 10_000 / ROWS_PER_SECOND, before, 10**8, before)
    assert world.view.limit.reason != "hold:untold_rows"
    world.tell(0, fixed, before, 10**8, before)
    assert world.view.limit.reason != "hold:untold_rows"


def test_one_short_batch_of_each_row_of_them_makes_no_limit_creep_up() -> None:
    world = World().learn()
    before = world.limit
    assert before is not None
    for _ in range(5):
        world.tell(0, FIXED_SECONDS, before, 10**8, before)
        world.tell(before, world.took(before), before, 10**8, before)
        world.tell(0, TARGET_SECONDS, before // 2, 10**8, before // 2)  # another limit's
    assert world.limit == before


def test_a_new_run_may_have_another_plan() -> None:
    world = World().learn()
    for _ in range(UNTOLD_BATCHES):
        world.tell(0, TARGET_SECONDS, world.limit or 0, 10**8, world.limit)
    assert world.view.limit.reason == "hold:untold_rows"
    world.stood_still()
    world.tell(0, TARGET_SECONDS, world.limit or 0, 10**8, world.limit)
    assert world.view.limit.reason == "hold:empty"


def test_a_source_without_a_limit_beside_one_that_is_at_its_own() -> None:
    """In dry-run nothing limits the one: what a batch that reads no row could hold is not known."""
    world = World(mode="dry-run")
    said = {"unit": "rows", "backlog": 1000, "admitted": 500}
    told = [
        {**said, "source": 0, "limit": 500, "configured": 500},
        {**said, "source": 1, "limit": None, "configured": None},
    ]
    for rows in (500, 500, 500, 0):
        sources = [{"description": f"s{n}", "numInputRows": rows} for n in range(2)]
        world.heard(world.driver.progress(2 * rows, 1.0, limits=told, sources=sources))
    assert world.view.limit.reason == "hold:empty"


def test_where_nothing_is_taken_it_stands_still() -> None:
    world = World().learn()
    for _ in range(10):
        world.tell(0, 1.0, 0, 10**8, world.limit)
    assert world.view.lag_state == "STALL"


@pytest.mark.parametrize("before", [0.5, 0.1])
def test_units_that_hold_more_rows_at_once_keep_the_deadline_from_the_next_batch_on(
    before: float,
) -> None:
    """Markers of small transactions are half of a calm's offsets, and few of a burst's."""
    world = World(target_seconds=30.0, deadline_seconds=40.0)
    latest = 0
    for number in range(60):
        share = before if number < 40 else 1.0
        latest += 10**6
        limit = world.limit
        admitted = latest - world.next if limit is None else min(limit, latest - world.next)
        world.next += admitted
        rows = round(share * admitted)
        seconds = FIXED_SECONDS + rows / ROWS_PER_SECOND
        world.tell(rows, seconds, admitted, latest - world.next, limit)
        world.batches.append((admitted, rows, seconds))
        if number > 40:  # the first one was planned before anybody could know
            assert seconds <= 40.0, number
    assert world.batches[-1][2] > 20.0


def test_files_that_are_taken_are_no_standstill_though_no_row_is_told() -> None:
    """Spark 3.5 tells none of files that are joined with a cached table (SPARK-24050)."""
    world = World()
    said = {"source": 0, "unit": "files", "limit": 5, "configured": 5, "backlog": 1000}
    for taken, rows, state in ((5, 1000, "OK"), (5, 0, "OK"), (0, 0, "STALL")):
        for _ in range(10):
            world.heard(world.driver.progress(rows, 1.0, limits=[{**said, "admitted": taken}]))
        assert world.view.lag_state == state


@pytest.mark.parametrize("told", [{}, {"admitted": None}])
def test_what_was_taken_is_not_guessed_where_a_query_stands_still(told: dict[str, Any]) -> None:
    world = World()
    said = {"source": 0, "unit": "files", "limit": 5, "configured": 5, "backlog": 1000}
    for _ in range(10):
        world.heard(world.driver.progress(1000, 1.0, limits=[{**said, "admitted": 5}]))
    for _ in range(10):
        world.heard(world.driver.progress(0, 1.0, limits=[{**said, **told}]))
    assert world.view.lag_state == "STALL"


def test_a_limit_that_no_batch_reached_keeps_the_deadline_once_units_are_dense() -> None:
    world = World(target_seconds=20.0, deadline_seconds=120.0)
    latest = 0
    for number in range(50):
        calm = 200_000 if number < 40 else 100_000
        latest += 1_200_000 if 3 <= number <= 5 else calm if number <= 40 else 10**6
        limit = world.limit
        admitted = latest - world.next if limit is None else min(limit, latest - world.next)
        world.next += admitted
        rows = round((0.1 if number < 40 else 1.0) * admitted)
        seconds = FIXED_SECONDS + rows / ROWS_PER_SECOND
        world.tell(rows, seconds, admitted, latest - world.next, limit)
        assert seconds <= 120.0, (number, limit)
