"""Drivers that are rolled out in a batch, which comes again cold, under a deadline.

The first batch of a driver takes the same seconds beside, whatever it holds: 2 to 20 on a real
Spark.
"""

from __future__ import annotations

from collections import Counter

import pytest

from agent.simulation import plant
from agent.simulation.live import Live, policy_of
from agent.simulation.oracle import Oracle
from agent.simulation.yardsticks import Static
from tests.simulation.scenarios import scenario_of

#: A backlog is worked off in batches that take all of the deadline that a warm driver may.
ROLLED = {
    "duration_seconds": 1500,
    "initial_backlog_rows": 20_000_000,
    "arrival_rows_per_second": [[0, 3000]],
    "batch_timeout_seconds": 8,
    "rollout_seconds": [400, 800, 1200],
}


def kills(trace: plant.Trace) -> int:
    """How often the batch was timed out that was so most often."""
    late = Counter(one.batch_id for one in trace.attempts if one.killed and not one.stopped)
    return max(late.values(), default=0)


def run(start: float, seed: int, controller: plant.Controller | None = None) -> plant.Trace:
    scenario = scenario_of(**ROLLED, cold_start_seconds=start)
    noise = plant.Noise(scenario.noise_sigma, seed)
    return plant.run(scenario, noise, controller or Live(scenario))


@pytest.mark.parametrize(("start", "seed"), [(5.0, 0), (5.0, 3), (3.0, 0)])
def test_no_rollout_begins_a_loop_of_kills(start: float, seed: int) -> None:
    trace = run(start, seed)
    assert kills(trace) <= 1  # by noise: the next one is through
    assert sum(one.stopped for one in trace.attempts) == 3
    after = [one for one in trace.attempts if one.start_seconds > 1260 and not one.killed]
    assert len(after) > 60


def test_a_limit_by_what_a_warm_driver_does_loops_for_ever() -> None:
    """Four fifths of the deadline less the noise, as was granted before: 4.7 s of 8."""
    trace = run(5.0, 0, Static(35_000))
    assert kills(trace) > 20
    assert trace.attempts[-1].killed


def test_the_oracle_knows_of_it() -> None:
    scenario = scenario_of(**ROLLED, cold_start_seconds=5.0)
    trace = run(5.0, 0, Oracle(scenario, policy_of(scenario)))
    assert kills(trace) == 0
    assert sum(one.stopped for one in trace.attempts) == 3


def test_a_start_that_is_hardly_slower_costs_nothing() -> None:
    with_it, without = run(0.0, 0), run(0.3, 0)
    assert kills(with_it) == kills(without) == 0
    assert without.committed_rows > 0.97 * with_it.committed_rows
