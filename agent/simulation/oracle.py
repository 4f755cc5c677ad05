"""The oracle: the controller's rule, told what the plant is at the moment it decides.

It knows c0, mu, congestion, noise and arrivals of that moment, not of the future, and its decision
acts as late as any other. Whether the target is feasible is what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.core.decide.reach import REACH_SHARE
from agent.core.decide.size import Ask, size_of

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
    """The rows that the rule asks for by the true costs, and if the target holds."""
    curve = scenario.curve(second)
    ask = Ask(
        scenario.arrival_rows_per_second.at(second),
        scenario.trigger_seconds,
        waiting_rows,
        scenario.noise_sigma,
        lost=curve.fixed >= REACH_SHARE * policy.target_seconds,
    )
    size = size_of(curve, ask, policy)
    return size.rows, bool(size.feasible)
