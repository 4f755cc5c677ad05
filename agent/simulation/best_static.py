"""The best static limit in hindsight: what nobody could have configured beforehand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.simulation import plant, summary
from agent.simulation.live import policy_of
from agent.simulation.oracle import true_size
from agent.simulation.yardsticks import Static

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agent.simulation.plant import Noise, Trace
    from agent.simulation.scenario import Scenario

CANDIDATES: Final = 60
#: The best may be slower than the oracle at the 95th percentile by so much.
P95_ALLOWANCE: Final = 1.1
#: Of the oracle's smallest and largest size in the scenario, where the candidates begin and end.
#: Not farther up: a limit that takes the whole backlog in one batch of minutes commits most, and
#: the 95th percentile of the many small batches after it does not show that.
SMALLEST_SHARE: Final = 1.0 / 30.0
LARGEST_SHARE: Final = 3.0


def candidates(scenario: Scenario) -> list[int]:
    """Limits from far too small to too large, evenly spaced on the log scale."""
    policy = policy_of(scenario)
    moments = {
        time
        for series in (
            scenario.arrival_rows_per_second,
            scenario.fixed_cost_seconds,
            scenario.throughput_rows_per_second,
        )
        for time in series.times
        if time < scenario.duration_seconds
    }
    # Nothing waiting, and more than can be caught up with.
    waiting = (0.0, math.inf)
    sizes = [true_size(scenario, policy, moment, rows)[0] for moment in moments for rows in waiting]
    low = max(1.0, SMALLEST_SHARE * min(sizes))
    high = max(LARGEST_SHARE * max(sizes), low + CANDIDATES)
    step = math.log(high / low) / (CANDIDATES - 1)
    return [max(1, round(low * math.exp(step * index))) for index in range(CANDIDATES)]


def tried(scenario: Scenario, noise: Noise) -> Iterator[tuple[int, Trace]]:
    """Each candidate, with what a run under it left."""
    for limit in dict.fromkeys(candidates(scenario)):
        fixed = msgspec.structs.replace(scenario, initial_limit_rows=limit)
        yield limit, plant.run(fixed, noise, Static(limit))


def of_run(limit: int, trace: Trace) -> summary.StaticReference:
    """The figures of a run under a fixed limit."""
    found = msgspec.structs.asdict(summary.reference(trace))
    return summary.StaticReference(**found, limit_rows=limit)


def best_of(
    found: Sequence[summary.StaticReference], oracle_p95_seconds: float | None
) -> summary.StaticReference:
    """The one that commits most among those not slower than allowed.

    Of equals the one with the smaller 95th percentile, then the smaller limit.
    """
    allowed = math.inf if oracle_p95_seconds is None else P95_ALLOWANCE * oracle_p95_seconds
    calm = [one for one in found if (one.p95_batch_seconds or 0.0) <= allowed]
    return max(
        calm or found,
        key=lambda one: (one.committed_rows, -(one.p95_batch_seconds or 0.0), -one.limit_rows),
    )


def search(
    scenario: Scenario, noise: Noise, oracle_p95_seconds: float | None
) -> summary.StaticReference:
    """The best of the candidates, see ``best_of``."""
    found = [of_run(limit, trace) for limit, trace in tried(scenario, noise)]
    return best_of(found, oracle_p95_seconds)
