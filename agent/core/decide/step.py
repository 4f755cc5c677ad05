"""Step: from the limit in force towards the wanted size, no further than is surely right.

A size is wanted as far as the cost of batches is known. What is in doubt is in doubt most of all at
sizes that nobody has seen, so a limit is raised only as far as its batch surely takes no longer
than the band around the target. A limit that no batch reaches is lowered as soon as a full batch is
expected to leave it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.decide.size import BAND, Size, allowed_seconds
from agent.core.decode.events import MOST_LONG

if TYPE_CHECKING:
    from agent.core.measure.cost import Cost
    from agent.core.policy import QueryPolicy

#: A limit is raised as far as the batch surely, in deviations of the doubt, stays within the band
#: around the target; or, where the target is left, below so many times the present batch.
SURE: Final = 0.6
GROW: Final = 2.0
#: A limit is moved when the size has moved by its own doubt, and for no less than this.
LEAST_DEADBAND: Final = 0.02


def deadband(cost: Cost, rows: float, policy: QueryPolicy) -> float:
    """How far a size must move to be announced: as far as the model itself is unsure of it.

    FLIP-183 has a fixed quarter. Here a move within the doubt would be noise; one beyond it is
    known, and holding it back would only keep batches off their target.
    """
    varying = rows * (cost.per_row + 2.0 * rows * cost.congestion)
    unsure = cost.doubt(rows) / varying if varying > 0.0 else math.inf
    return min(max(unsure, LEAST_DEADBAND), policy.deadband)


def raised_rows(
    cost: Cost, present: float, wanted: float, policy: QueryPolicy, trigger_seconds: float = 0.0
) -> float:
    """How far towards the wanted rows a limit of fewer rows is raised at once.

    As far as the batch surely takes no longer than the band around the target, or, where more is
    wanted, than some times the present one or the trigger interval, within the deadline.
    """
    seconds = BAND * policy.target_seconds
    if (cost.seconds(wanted) or 0.0) > seconds:
        seconds = max(seconds, GROW * (cost.seconds(present) or 0.0))
    in_interval = min(interval_rows(cost, policy, trigger_seconds), wanted)
    bold = min(_bold_rows(cost, present, seconds, policy), wanted)
    return max(_sure_rows(cost, seconds, wanted), in_interval, bold)


def present_rows(
    cost: Cost, full: float, taken: float, policy: QueryPolicy, trigger_seconds: float
) -> float:
    """The rows that a limit of ``full`` rows is raised from, after a batch that took so many.

    A batch that was planned before the limit fell shows that more is well, as far as it stayed
    within the band or its trigger interval.
    """
    seconds = BAND * max(policy.target_seconds, trigger_seconds)
    return max(full, min(taken, cost.curve.rows_in(seconds)))


def interval_rows(cost: Cost, policy: QueryPolicy, trigger_seconds: float) -> float:
    """The rows that surely fit a trigger interval beyond the band, and the deadline; else 0."""
    if trigger_seconds <= BAND * policy.target_seconds:
        return 0.0
    seconds = min(trigger_seconds, allowed_seconds(policy, cost.cautious_sigma))
    return _sure_rows(cost, seconds, cost.curve.rows_in(seconds))


def _sure_rows(cost: Cost, seconds: float, most: float) -> float:
    """Of so many rows at most, those that surely take no longer, whatever is still in doubt."""
    if _surely(cost, most) <= seconds:
        return most
    low, high = 0.0, math.log(max(most, 1.0))
    for _ in range(12):  # to a thousandth of a limit between one row and billions
        middle = (low + high) / 2.0
        if _surely(cost, math.exp(middle)) > seconds:
            high = middle
        else:
            low = middle
    return math.exp(low)


def _bold_rows(cost: Cost, present: float, seconds: float, policy: QueryPolicy) -> float:
    """The rows of a batch of at most so many seconds even if nothing of the present one is fixed.

    A batch in proportion never takes more than in proportion, so a limit that is far too small need
    not creep up. With a deadline no farther than a batch whose time grows with the square of its
    rows would still keep it.
    """
    expected = cost.seconds(present) or 0.0
    if expected <= 0.0:
        return 0.0
    allowed = allowed_seconds(policy, 0.0)
    return present * min(seconds / expected, math.sqrt(allowed / expected))


def _surely(cost: Cost, rows: float) -> float:
    """Expected seconds with the doubt added, on the log scale: it may be many times them."""
    expected = cost.seconds(rows)
    if expected is None:
        return 0.0
    return expected * math.exp(SURE * math.log1p(cost.doubt(rows) / expected))


def leaves_band(cost: Cost, rows: float, size: Size, trigger_seconds: float) -> bool:
    """Whether a batch of so many rows, which none has had, would leave the band around the wanted.

    As expected, sure or not: batches of one size tell nothing of far larger ones, and a burst after
    a calm would be taken whole. A limit that nothing reaches costs nothing, and is raised as soon
    as a batch reaches it. Until the next trigger more rows cost no time.
    """
    if math.isinf(rows) or rows > size.deadline_rows:
        return True
    seconds = max(cost.seconds(size.rows) or 0.0, trigger_seconds)
    return (cost.seconds(rows) or 0.0) > BAND * seconds


def after_replay(
    cost: Cost, rows: float, seconds: float | None, policy: QueryPolicy
) -> Size | None:
    """The size that keeps the deadline after a batch that ran again; None where it is kept.

    Such a batch teaches nothing: it may have paid for a restart, or found half of its work done.
    But where its own time comes near what kills a batch, all batches of its size may be killed
    first, and then nothing is ever learned. In proportion, as if nothing of it were fixed.
    """
    if policy.deadline_seconds is None or not rows or not seconds:
        return None
    share = allowed_seconds(policy, cost.cautious_sigma) / seconds
    if share >= 1.0:
        return None
    most = max(rows * share, 1.0)
    return Size(most, "bound:deadline", None, deadline_rows=most)


#: Bounds that somebody set: a limit that stands there says so.
_FIXED_BOUNDS: Final = ("bound:minimum", "bound:maximum", "bound:configured")


class Step(msgspec.Struct, frozen=True, gc=False):
    """The next limit in the source's own unit and why it is that."""

    limit: int | None
    reason: str


def toward(
    current: int | None,
    wanted: float,
    *,
    constraint: str,
    limited: bool,
    configured: int | None,
    policy: QueryPolicy,
    deadband: float,
    sure: float = math.inf,
    too_long: bool = True,
) -> Step:
    """From the limit in force to the next one: as far as is sure, announced only when it matters.

    ``wanted`` and ``sure``, up to which it may be raised, are in the source's unit.
    ``current`` None is unlimited. ``limited`` False: the batch took all there was, so it never
    raises the limit, and lowers it only where a full one is expected to take ``too_long``.
    """
    if current == 0:
        # Never ours: whoever set it wants nothing to be read.
        return Step(0, "bound:configured")
    low = max(policy.minimum_limit, 1)
    high = policy.maximum_limit
    ceiling_reason = "bound:maximum"
    if (
        configured is not None
        and not policy.above_configured
        and configured < (math.inf if high is None else high)
    ):
        high, ceiling_reason = configured, "bound:configured"
    goal, bound = wanted, constraint
    if current is not None and goal > max(float(current), sure):
        goal, bound = max(float(current), sure), "bound:doubt"
    if goal < low:
        goal, bound = float(low), "bound:minimum"
    if high is not None and goal > high:
        goal, bound = float(high), ceiling_reason
    limit = min(max(round(goal), 1), MOST_LONG)
    if current is None:
        return Step(limit, bound or "lower")
    if limit == current:
        return Step(current, bound if bound in _FIXED_BOUNDS else "hold:deadband")
    outside = current < low or (high is not None and current > high)
    if not limited and not outside and (limit > current or not too_long):
        return Step(current, "hold:not_limited")
    at_edge = bound.startswith("bound:") and bound != "bound:doubt"
    moved = abs(limit - current) / current
    if not outside and moved < deadband and not (at_edge and moved >= LEAST_DEADBAND):
        return Step(current, "hold:deadband")
    return Step(limit, bound or ("raise" if limit > current else "lower"))
