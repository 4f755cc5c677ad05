"""The best static limit in hindsight: what nobody could have configured beforehand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.simulation import plant, summary
from agent.simulation.yardsticks import Static

if TYPE_CHECKING:
    from agent.simulation.plant import Noise
    from agent.simulation.scenario import Scenario

CANDIDATES: Final = 60
#: The best may be slower than the oracle at the 95th percentile by so much.
P95_ALLOWANCE: Final = 1.1
#: The smallest candidate: the rows of this share of a target in the plant's slowest moment, but
#: not so few that a run has more than ``MOST_BATCHES`` batches.
SMALLEST_SHARE: Final = 0.05
MOST_BATCHES: Final = 50_000.0


def candidates(scenario: Scenario) -> list[int]:
    """Limits from far too small to unlimited, evenly spaced on the log scale."""
    rates = scenario.arrival_rows_per_second
    arrived = plant.Arrivals(rates, scenario.initial_backlog_rows).until(scenario.duration_seconds)
    slowest = min(scenario.throughput_rows_per_second.values)
    fastest = max(scenario.throughput_rows_per_second.values)
    low = max(
        1.0,
        SMALLEST_SHARE * scenario.target_seconds * slowest,
        scenario.duration_seconds * fastest / MOST_BATCHES,
    )
    # Beyond what a run can process in all, a larger limit is no other limit.
    high = max(min(arrived, 2.0 * scenario.duration_seconds * fastest), low + 1.0)
    step = math.log(high / low) / (CANDIDATES - 1)
    return [max(1, round(low * math.exp(step * index))) for index in range(CANDIDATES)]


def search(
    scenario: Scenario, noise: Noise, oracle_p95_seconds: float | None
) -> summary.StaticReference:
    """Of the candidates, the one that commits most among those not slower than allowed.

    Of equals the one with the smaller 95th percentile, then the smaller limit.
    """
    allowed = math.inf if oracle_p95_seconds is None else P95_ALLOWANCE * oracle_p95_seconds
    tried: list[summary.StaticReference] = []
    for limit in dict.fromkeys(candidates(scenario)):
        found = summary.reference(plant.run(scenario, noise, Static(limit)))
        tried.append(summary.StaticReference(**msgspec.structs.asdict(found), limit_rows=limit))
    calm = [one for one in tried if (one.p95_batch_seconds or 0.0) <= allowed]
    return max(
        calm or tried,
        key=lambda one: (one.committed_rows, -(one.p95_batch_seconds or 0.0), -one.limit_rows),
    )
