"""A fixed cost that was high for a while, and one stall in a phase that is fixed: both pass."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy
from tests.core.events import START_TIME, Driver

TARGET_SECONDS, SECONDS_PER_ROW, UNREAD_ROWS = 5.0, 0.0045, 10**9
BATCHES, CHANGE = 400, 40


class Plant:
    """A query with more unread than it ever reads; what is granted acts a batch later."""

    def __init__(self, limit: int, sigma: float, seed: int) -> None:
        self.draw, self.sigma = random.Random(seed), sigma
        self.fleet = Fleet(Policy(), started_time=START_TIME - 1000)
        self.driver = Driver()
        self.limit = self.granted = limit
        self.unread = UNREAD_ROWS

    def batch(self, fixed_seconds: float, stall_seconds: float = 0.0) -> float:
        """The seconds of the next batch; a stall is told of as what finding the rows took."""
        rows, self.limit = self.limit, self.granted
        noise = math.exp(self.draw.gauss(0.0, self.sigma))
        seconds = (fixed_seconds + SECONDS_PER_ROW * rows) * noise + stall_seconds
        self.unread -= rows
        event = self.driver.progress(
            rows,
            seconds,
            limit=rows,
            backlog=self.unread,
            phases={"latestOffset": stall_seconds} if stall_seconds else None,
        )
        receipt = self.fleet.receive(decode_request(self.driver.body(event)), self.driver.time)
        if receipt.grants and receipt.grants[0].limit is not None:
            self.granted = receipt.grants[0].limit
        return seconds


@pytest.mark.parametrize("seed", range(8))
def test_a_fixed_cost_that_was_high_for_ten_batches_is_not_believed_for_ever(seed: int) -> None:
    """Batches of one size, far beyond the target by then, would never disprove it."""
    plant = Plant(600, 0.1, seed)

    def fixed(number: int) -> float:
        return 10.0 if CHANGE <= number < CHANGE + 10 else 1.0

    seconds = [plant.batch(fixed(number)) for number in range(BATCHES)]
    assert statistics.median(seconds[-50:]) < 1.3 * TARGET_SECONDS


@pytest.mark.parametrize("stalls", [1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_a_stall_in_a_fixed_phase_passes_with_its_batches(seed: int, stalls: int) -> None:
    plant = Plant(1000, 0.05, seed)

    def stall(number: int) -> float:
        return 600.0 if CHANGE <= number < CHANGE + stalls else 0.0

    seconds = [plant.batch(0.5, stall(number)) for number in range(BATCHES)]
    assert max(seconds[CHANGE + stalls :]) < 5.0 * TARGET_SECONDS
