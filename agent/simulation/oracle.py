"""The oracle: design's sizing rule, told what the plant is at the moment it decides.

It knows c0, mu, congestion, noise and arrivals of that moment, not of the future, and its decision
acts as late as any other. Whether the target is feasible is what it says.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent.core.sizing import (
    BARE_MARGIN,
    CATCH_UP_SECONDS,
    DEADLINE_SIGMAS,
    LEAST_SHARE,
    MOST_FIXED_COSTS,
    REACH_SHARE,
    stretch_fixed_costs,
)

if TYPE_CHECKING:
    from agent.core.policy import QueryPolicy
    from agent.simulation.plant import Attempt
    from agent.simulation.scenario import Scenario


class Oracle:
    """Limits by the true costs; see ``plant.Controller``."""

    def __init__(self, scenario: Scenario, policy: QueryPolicy) -> None:
        self._scenario = scenario
        self._policy = policy
        self.limit_rows: int | None = scenario.initial_limit_rows
        self.always_feasible = true_size(scenario, policy, 0.0)[1]

    def started(self, second: float) -> None:
        """Nothing to learn."""

    def idle(self, second: float, until: float) -> None:
        """Nothing to learn."""

    def ended(self, attempt: Attempt) -> None:
        """Decides at the end of each attempt."""
        scenario, waiting = self._scenario, attempt.backlog_rows
        rows, feasible = true_size(scenario, self._policy, attempt.end_seconds, waiting)
        self.limit_rows = max(1, round(rows))
        self.always_feasible = self.always_feasible and feasible


def true_size(
    scenario: Scenario, policy: QueryPolicy, second: float, waiting_rows: float = 0.0
) -> tuple[float, bool]:
    """The rows that the three constraints leave with the true costs, and if the target holds.

    Deadline beats stability, stability beats the target. Where nothing is stable: the most the
    deadline allows, but never beyond the size of the highest throughput under congestion. A target
    that c0 alone takes gives way to a multiple of c0.
    """
    fixed = scenario.fixed_cost_seconds.at(second)
    throughput = scenario.throughput_rows_per_second.at(second)
    congestion = scenario.congestion_rows
    needed = scenario.arrival_rows_per_second.at(second) * (1.0 + policy.stability_margin)

    def rows_in(seconds: float) -> float:
        linear = throughput * max(seconds - fixed, 0.0)
        if congestion is None:
            return linear
        return congestion / 2.0 * (math.sqrt(1.0 + 4.0 * linear / congestion) - 1.0)

    reachable = fixed < REACH_SHARE * policy.target_seconds
    fastest = math.inf if congestion is None else math.sqrt(fixed * throughput * congestion)
    target = rows_in(policy.target_seconds)
    if not reachable:
        target = LEAST_SHARE * max(policy.target_seconds, fixed) * throughput
    trigger = scenario.trigger_seconds
    in_trigger = rows_in(trigger)  # until the next one more rows cost no time
    most = max(min(rows_in(stretch_fixed_costs(policy.stretch_gain) * fixed), fastest), in_trigger)
    longest = max(min(rows_in(MOST_FIXED_COSTS * fixed), fastest), in_trigger)
    deadline = math.inf
    if policy.deadline_seconds is not None:
        noise = math.exp(DEADLINE_SIGMAS * scenario.noise_sigma)
        deadline = rows_in(policy.deadline_share * policy.deadline_seconds / noise)

    def stable_rows(needed: float) -> float:
        # n >= needed * B(n): curve * n^2 - slope * n + needed * fixed <= 0
        slope = 1.0 - needed / throughput
        curve = 0.0 if congestion is None else needed / (throughput * congestion)
        inside = slope * slope - 4.0 * curve * needed * fixed
        if slope <= 0.0 or inside < 0.0:
            return math.inf
        # The smaller root, written so that it also holds for curve = 0.
        stable = 2.0 * needed * fixed / (slope + math.sqrt(inside))
        return max(stable, needed * trigger)

    stable = stable_rows(needed)
    bare = stable_rows(needed / (1.0 + policy.stability_margin) * (1.0 + BARE_MARGIN))
    if bare <= longest:
        most = max(most, bare)
    if not reachable:
        stable = stable_rows(needed + waiting_rows / CATCH_UP_SECONDS)
    rows = max(target, min(stable, most))
    feasible = reachable and target >= max(stable, 1.0) and deadline >= target
    return max(min(rows, deadline), 1.0), feasible
