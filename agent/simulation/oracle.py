"""The oracle: the controller's rule, told what the plant is at the moment it decides.

It knows c0, mu, congestion, noise and arrivals of that moment, not of the future, and its decision
acts as late as any other. Whether the target is feasible is what it says. Executors take their time
to come: of arrivals it knows so much of the future, and wants as many as will be needed then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent.core.decide.reach import REACH_SHARE
from agent.core.decide.size import Ask, size_of
from agent.simulation.plant import Arrivals

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
        self.executors: int | None = None
        self.always_feasible = true_size(scenario, policy, 0.0)[1]
        self._arrivals = Arrivals(scenario.arrival_rows_per_second, 0)

    def started(self, second: float) -> None:
        """Nothing to learn."""

    def idle(self, second: float, until: float) -> None:
        """Nothing to learn."""

    def ended(self, attempt: Attempt) -> None:
        """Decides at the end of each attempt."""
        scenario, waiting = self._scenario, attempt.backlog_rows
        executors = None if attempt.ran is None else attempt.ran.present
        rows, feasible = true_size(
            scenario, self._policy, attempt.end_seconds, waiting, executors=executors
        )
        self.limit_rows = max(1, round(rows))
        self.always_feasible = self.always_feasible and feasible
        if scenario.executors is not None:
            policy, second = self._policy, attempt.end_seconds
            coming = arriving(scenario, self._arrivals, second, policy.target_seconds)
            # More than arrives within a batch is a backlog.
            late = waiting > coming * policy.target_seconds
            catching = waiting / policy.catch_up_seconds if late else 0.0
            self.executors = enough(scenario, second, coming + catching, policy.target_seconds)


def arriving(scenario: Scenario, arrivals: Arrivals, second: float, batch_seconds: float) -> float:
    """The most rows a second, over a batch, until an executor asked for now would be there."""
    block = scenario.executors
    # What is asked for acts a batch later.
    ahead = batch_seconds + (0.0 if block is None else block.start_seconds)
    count = math.ceil(ahead / batch_seconds) + 1
    last = scenario.duration_seconds - batch_seconds
    begins = [max(min(second + number * batch_seconds, last), 0.0) for number in range(count)]
    rows = [arrivals.until(begin + batch_seconds) - arrivals.until(begin) for begin in begins]
    return max(rows) / batch_seconds


def enough(scenario: Scenario, second: float, rows_per_second: float, batch_seconds: float) -> int:
    """The fewest executors that digest so much in batches of so long, else the most that help."""
    block = scenario.executors
    if block is None:
        raise ValueError("a scenario without executors")
    most, best, number = block.maximum, 0.0, 1
    for executors in range(1, most + 1):
        capacity = scenario.curve(second, executors).rows_in(batch_seconds) / batch_seconds
        if capacity > best * (1.0 + 1e-9):
            best, number = capacity, executors
        if best >= rows_per_second:
            break
    return number


def true_size(
    scenario: Scenario,
    policy: QueryPolicy,
    second: float,
    waiting_rows: float = 0.0,
    *,
    executors: int | None = None,
) -> tuple[float, bool]:
    """The rows that the rule asks for by the true costs, and if the target holds."""
    curve = scenario.curve(second, executors)
    ask = Ask(
        scenario.arrival_rows_per_second.at(second),
        scenario.trigger_seconds,
        waiting_rows,
        scenario.noise_sigma,
        lost=curve.fixed >= REACH_SHARE * policy.target_seconds,
        sure_rows=math.inf,
        start_seconds=scenario.cold_start_seconds,
    )
    size = size_of(curve, ask, policy)
    return size.rows, bool(size.feasible)
