"""A batch that ended, on its way through measure, judge and decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.core.decide.pool import Beside
    from agent.core.decode.events import Progress, SourceLimit
    from agent.core.decode.stages import BatchWork
    from agent.core.policy import Policy, QueryPolicy


@dataclass(slots=True)
class Ended:
    """What each step is given; a step may write down what those after it need."""

    batch: Progress
    limits: list[SourceLimit]
    time: float  # when it was told of; the driver's clock, made one that is never set
    policy: Policy
    settings: QueryPolicy  # the policy's for this query
    beside: Beside | None = None  # the queries that run beside it in its application
    work: BatchWork | None = None  # its stages, where they were looked at
    asks: bool = True  # whether Weir does for executors where they are on, as far as is known
    replayed: bool = False  # it ran before under another run
    changed: bool = False  # it shows that the cost of batches has changed
