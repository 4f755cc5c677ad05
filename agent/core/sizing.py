"""Sizing: how many rows the next micro-batch should hold.

FLIP-183 (buffer debloating) made safe for a plant where a batch has a fixed cost. The size that
takes the target is ``(T - c0) / slope`` of the capacity model, which averages over many batches
what FLIP-183 smooths in the size itself: near the present size, where all recent batches are, the
model's error in c0 and mu cancels. Each decision follows from batches alone, never from earlier
decisions, so the delay until a limit acts cannot make it oscillate.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from agent.core.capacity import Capacity
    from agent.core.policy import QueryPolicy

#: Where c0 takes the target, the rows of this share of it: enough to learn from.
LEAST_SHARE: Final = 0.05
#: A limit is moved when the size has moved by its own doubt, and for no less than this.
LEAST_DEADBAND: Final = 0.02
#: So many standard deviations of the model's doubt make it sure enough: to go where a limited batch
#: wants to go at once, and to lower the limit after one that was not limited. The first batch,
#: whose time may be all fixed cost, can never do the latter alone.
RAISE_DOUBTS: Final = 1.0
LOWER_DOUBTS: Final = 2.0
#: The mean batch is aimed a little above the target: with a fixed cost every second more is all
#: rows, and two hundredths are nothing in a band of three tenths. Under strong noise the middle of
#: the band, ``log sqrt(0.7 * 1.3) = -0.047``, is met where the mean lies ``sigma^2 / 2`` above it.
AIM_ABOVE: Final = (0.02, 0.05)
BAND_MIDDLE: Final = -0.047
#: A spike of arrivals this many targets long is digested at the target's size afterwards; only what
#: lasts longer is worth batches beyond it.
PATIENCE_TARGETS: Final = 7.0
#: Quantile of the noise that must stay below the deadline's share, in sigmas.
DEADLINE_SIGMAS: Final = 2.0
#: Without a deadline, the fixed cost is never spread over more than this many times itself:
#: 95 % of the time is then spent on rows, and a larger batch buys almost nothing.
MOST_FIXED_COSTS: Final = 20.0


def target_rows(capacity: Capacity, policy: QueryPolicy) -> float | None:
    """The rows of a batch that takes the target; a small batch where c0 alone takes it."""
    fixed, slope = capacity.fixed_cost, capacity.seconds_per_row
    if fixed is None:
        return None
    target = policy.target_seconds
    above = min(max(capacity.sigma**2 / 2.0 + BAND_MIDDLE, AIM_ABOVE[0]), AIM_ABOVE[1])
    aim = target * math.exp(above)
    return max(aim - fixed, LEAST_SHARE * target) / slope


class Bounds(msgspec.Struct, frozen=True, gc=False):
    """What each constraint asks of the rows of a batch; None: it asks nothing or is unknown."""

    target_rows: float | None
    deadline_rows: float | None  # at most
    stability_rows: float | None  # at least; inf where nothing is stable
    sustained_ratio: float | None  # capacity needed over capacity at the largest allowed batch

    @property
    def unstable(self) -> bool:
        """Whether more arrives than batches of the target's size can take."""
        return (self.stability_rows or 0.0) > (self.target_rows or math.inf)


class Size(msgspec.Struct, frozen=True, gc=False):
    """The wanted rows of a batch and which constraint set them."""

    rows: float
    reason: str  # "", "floor:stability" or "bound:deadline"
    feasible: bool | None
    deadband: float  # relative: how far it must move from the limit in force to be announced


def bounds(
    capacity: Capacity,
    wanted_rows: float | None,
    arrival_rows_per_second: float | None,
    trigger_seconds: float,
    policy: QueryPolicy,
) -> Bounds:
    """The three constraints (design: deadline, stability, target) in rows."""
    throughput, fixed = capacity.throughput, capacity.fixed_cost
    if throughput is None or fixed is None:
        return Bounds(wanted_rows, None, None, None)
    deadline_rows: float | None = None
    if policy.deadline_seconds is not None:
        allowed = policy.deadline_share * policy.deadline_seconds
        noise = math.exp(DEADLINE_SIGMAS * capacity.cautious_sigma)
        deadline_rows = max((allowed / noise - fixed) * throughput, 0.0)
    stability_rows: float | None = None
    ratio: float | None = None
    if arrival_rows_per_second is not None:
        needed = arrival_rows_per_second * (1.0 + policy.stability_margin)
        if needed >= throughput:
            stability_rows = math.inf
        else:
            stability_rows = max(
                needed * trigger_seconds, needed * fixed / (1.0 - needed / throughput)
            )
        largest = deadline_rows
        if largest is None:
            largest = max(_cap_without_deadline(capacity, policy), wanted_rows or 0.0)
        seconds = max(fixed + largest / throughput, trigger_seconds)
        sustained = largest / seconds if seconds > 0.0 else 0.0
        ratio = needed / sustained if sustained > 0.0 else None
    return Bounds(wanted_rows, deadline_rows, stability_rows, ratio)


def choose(limits: Bounds, capacity: Capacity, policy: QueryPolicy) -> Size | None:
    """The size that the constraints leave: stability beats the target, never the deadline."""
    if limits.target_rows is None:
        return None
    rows, reason = limits.target_rows, ""
    fixed = capacity.fixed_cost
    feasible = None if fixed is None else fixed < policy.target_seconds
    if limits.stability_rows is not None and limits.stability_rows > rows:
        rows, reason = limits.stability_rows, "floor:stability"
        feasible = False
        if limits.deadline_rows is None:
            most = _cap_without_deadline(capacity, policy)
            rows = max(min(rows, most), limits.target_rows)
    if limits.deadline_rows is not None and limits.deadline_rows < rows:
        rows, reason = limits.deadline_rows, "bound:deadline"
        if limits.deadline_rows < limits.target_rows:
            feasible = False
    return Size(max(rows, 1.0), reason, feasible, deadband(capacity, max(rows, 1.0), policy))


def deadband(capacity: Capacity, rows: float, policy: QueryPolicy) -> float:
    """How far a size must move to be announced: as far as the model itself is unsure of it.

    FLIP-183 has a fixed quarter. Here a move within the doubt would be noise; one beyond it is
    known, and holding it back would only keep batches off their target.
    """
    varying = rows * capacity.seconds_per_row
    unsure = capacity.doubt(rows) / varying if varying > 0.0 else math.inf
    return min(max(unsure, LEAST_DEADBAND), policy.deadband)


def sure_rows(capacity: Capacity, seconds: float) -> float:
    """The rows that take at most so many seconds even if the model is off by its doubt.

    Doubling per step guards against a plant of which nothing is known. Where several sizes were
    seen, what a larger one costs is known well enough to go there at once.
    """
    low, high = 0.0, max(capacity.rows(seconds) or 0.0, 0.0)
    for _ in range(12):
        middle = (low + high) / 2.0
        expected = capacity.seconds(middle) or 0.0
        if expected + RAISE_DOUBTS * capacity.doubt(middle) <= seconds:
            low = middle
        else:
            high = middle
    return low


def sure_too_long(capacity: Capacity, rows: float, wanted: float) -> bool:
    """Whether a batch of so many rows surely takes longer than one of the wanted rows."""
    if math.isinf(rows):
        return True
    least = (capacity.seconds(rows) or 0.0) - LOWER_DOUBTS * capacity.doubt(rows)
    return least > (capacity.seconds(wanted) or 0.0)


def _cap_without_deadline(capacity: Capacity, policy: QueryPolicy) -> float:
    fixed = capacity.fixed_cost or 0.0
    seconds = max(policy.target_seconds, MOST_FIXED_COSTS * fixed)
    return max(capacity.rows(seconds) or 0.0, 0.0)


class Step(msgspec.Struct, frozen=True, gc=False):
    """The next limit in the source's own unit and why it is that."""

    limit: int | None
    reason: str


def step(
    current: int | None,
    wanted: float,
    *,
    constraint: str,
    limited: bool,
    configured: int | None,
    policy: QueryPolicy,
    deadband: float,
    sure: float = 0.0,
    too_long: bool = True,
) -> Step:
    """From the limit in force to the next one: at most doubled, announced only when it matters.

    ``wanted`` and ``sure``, up to which it may more than double, are in the source's unit.
    ``current`` None is unlimited. ``limited`` False: the batch took all there was, so it never
    raises the limit, and lowers it only where the model is sure that a full one takes
    ``too_long``.
    """
    low = max(policy.minimum_limit, 1)
    high = policy.maximum_limit
    ceiling_reason = "bound:maximum"
    if policy.configured_is_ceiling and configured is not None and configured < (high or math.inf):
        high, ceiling_reason = configured, "bound:configured"
    goal, bound = wanted, constraint
    if current is not None and goal > max(2.0 * current, sure):
        goal, bound = max(2.0 * current, sure), "bound:doubling"
    if goal < low:
        goal, bound = float(low), "bound:minimum"
    if high is not None and goal > high:
        goal, bound = float(high), ceiling_reason
    limit = max(round(goal), 1)
    if current is None:
        return Step(limit, bound or "lower")
    if limit == current:
        return Step(current, bound if bound.startswith("bound:m") else "hold:deadband")
    outside = current < low or (high is not None and current > high)
    if not limited and not outside and (limit > current or not too_long):
        return Step(current, "hold:not_limited")
    at_edge = bound.startswith("bound:") and bound != "bound:doubling"
    moved = abs(limit - current) / current
    if not outside and moved < deadband and not (at_edge and moved >= LEAST_DEADBAND):
        return Step(current, "hold:deadband")
    return Step(limit, bound or ("raise" if limit > current else "lower"))
