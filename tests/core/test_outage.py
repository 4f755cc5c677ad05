"""A sink that is away for an hour, and back: one batch sits that out, and those after it do not."""

from __future__ import annotations

import math
import random

import pytest

from agent.core.decode.events import decode_request
from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from tests.core.events import START_TIME, Driver

CALM, FULL = 60, 8


def batches_after(
    outage_targets: float, *, fixed: float, throughput: float, target: float, seed: int
) -> list[float]:
    """How many targets each of sixty batches takes, of a query that digests 0.6 of its capacity.

    The one before them was full, as some before it after a burst, and waited for its sink.
    """
    noise, driver = random.Random(seed), Driver()
    policy = Policy(default=QueryPolicy(target_seconds=target))
    fleet = Fleet(policy, started_time=START_TIME - 1000)
    target_rows = throughput * (target - fixed)
    arriving = 0.6 * target_rows / target
    limit, waiting, took = int(target_rows), 5.0 * target_rows, []
    for number in range(CALM + 1 + 60):
        rows = int(min(limit, max(waiting, 1.0)))
        seconds = (fixed + rows / throughput) * math.exp(noise.gauss(0.0, 0.08))
        if number == CALM:
            assert rows == limit, "it is as large as any"
            seconds = outage_targets * target
        left, waiting = waiting - rows, waiting + arriving * seconds - rows
        if number == CALM - FULL:
            waiting += 12.0 * target_rows
        event = driver.progress(rows, seconds, limit=limit, configured=None, backlog=int(left))
        receipt = fleet.receive(decode_request(driver.body(event)), driver.time + 0.05)
        if receipt.grants and receipt.grants[0].limit is not None:
            limit = receipt.grants[0].limit
        if number > CALM:
            took.append(seconds / target)
    return took


@pytest.mark.parametrize("outage_targets", [3.0, 12.0, 120.0, 240.0, 720.0])
@pytest.mark.parametrize(
    ("fixed", "throughput", "target"),
    [(1.0, 5000.0, 10.0), (4.0, 5000.0, 10.0), (2.0, 10_000.0, 60.0)],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_batches_are_no_longer_for_it(
    outage_targets: float, fixed: float, throughput: float, target: float, seed: int
) -> None:
    took = batches_after(
        outage_targets, fixed=fixed, throughput=throughput, target=target, seed=seed
    )
    assert max(took) < 2.3
    assert sum(1 for targets in took if targets > 1.5) <= 1
