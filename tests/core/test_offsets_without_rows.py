"""Batches that take all that their limits let them and read no row: a limit of ours is no trap.

Spark plans offsets that retention has deleted, under ``failOnDataLoss=false``, or that hold nothing
but aborted transactions, as it plans others: "the input rows of a batch might be gradually reduced
until zero" (its guide of the Kafka source).
"""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import START_TIME, Driver

FIXED_SECONDS, ROWS_PER_SECOND, ARRIVING = 1.0, 3000.0, 2000.0
TARGET_SECONDS = 5.0
#: Of a topic that keeps a day, while the query stood for three.
GAP_OFFSETS = 345_600_000
LEFT_OFFSETS = 172_800_000


class World:
    """A query of Kafka's under the limits granted, before and after it stood."""

    def __init__(self, *, configured: int | None = None, **policy: Any) -> None:
        default = QueryPolicy(target_seconds=TARGET_SECONDS, **policy)
        self.fleet = Fleet(Policy(default=default), started_time=START_TIME - 1000)
        self.driver = Driver()
        self.configured = self.limit = configured
        self.next, self.gap = 0, (0, 0)
        self.batches: list[tuple[int, int, float]] = []  # offsets, rows, seconds
        self.view: Any = None

    def batch(self, latest: int) -> None:
        admitted = latest - self.next if self.limit is None else min(self.limit, latest - self.next)
        end = self.next + admitted
        rows = admitted - max(min(end, self.gap[1]) - max(self.next, self.gap[0]), 0)
        self.next = end
        seconds = FIXED_SECONDS + rows / ROWS_PER_SECOND
        said = {"source": 0, "unit": "rows", "limit": self.limit, "configured": self.configured}
        said |= {"backlog": latest - end, "admitted": admitted}
        event = self.driver.progress(rows, seconds, limits=[said])
        self.heard(self.fleet.receive(decode_request(self.driver.body(event)), self.driver.time))
        self.batches.append((admitted, rows, seconds))

    def heard(self, receipt: Any) -> None:
        if receipt.grants:
            self.limit = receipt.grants[0].limit
        self.view = self.fleet.view(("shop", "orders"), self.driver.time)

    def learn(self) -> World:
        """Its limit is learned while it keeps up under a backlog that it works off."""
        for _ in range(60):
            self.batch(self.next + 100_000)
        return self

    def stood_still(self) -> World:
        self.driver.time += 3 * 86_400
        self.driver.run_id = "r-2"
        body = self.driver.body(self.driver.started())
        self.heard(self.fleet.receive(decode_request(body), self.driver.time))
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


@pytest.mark.parametrize("deadline", [None, 60.0])
def test_offsets_without_rows_are_passed_in_minutes(deadline: float | None) -> None:
    world = World(deadline_seconds=deadline).learn()
    learned = world.limit
    assert learned is not None
    assert learned < 5 * ROWS_PER_SECOND
    world.stood_still()
    batches = world.across(GAP_OFFSETS // learned)
    if deadline is None:  # what a backlog may be caught up in, and no longer
        assert batches < 230
        assert world.batches[-1][2] <= 600.0
    else:
        assert batches < 3000
        assert world.batches[-1][2] <= deadline
    # The rows after it are read in batches of the target's length again.
    for _ in range(6):
        world.batch(world.latest)
    assert world.batches[-1][2] == pytest.approx(TARGET_SECONDS, rel=0.3)
    assert any("read no row" in one.detail for one in world.view.decisions) or deadline


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
        said = {"source": 0, "unit": "rows", "limit": world.limit, "configured": None}
        said |= {"backlog": 10**8, "admitted": world.limit}
        event = world.driver.progress(0, TARGET_SECONDS, limits=[said])
        body = world.driver.body(event)
        world.heard(world.fleet.receive(decode_request(body), world.driver.time))
    assert world.limit == before
    assert world.view.lag_state != "STALL"


def test_where_nothing_is_taken_it_stands_still() -> None:
    world = World().learn()
    for _ in range(10):
        said = {"source": 0, "unit": "rows", "limit": world.limit, "configured": None}
        event = world.driver.progress(0, 1.0, limits=[said | {"backlog": 10**8, "admitted": 0}])
        body = world.driver.body(event)
        world.heard(world.fleet.receive(decode_request(body), world.driver.time))
    assert world.view.lag_state == "STALL"
