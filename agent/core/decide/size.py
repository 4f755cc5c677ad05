"""Size: how many rows the next micro-batch should hold.

FLIP-183 (buffer debloating) for a plant whose batches have a fixed cost. Of the sizes that keep the
deadline: the one that takes the target; beyond it, so far as stability asks for more and a longer
batch pays. One rule for the controller, who believes a curve, for the oracle, who knows it, and for
what is advised afterwards. The capacity that is needed is the rate that arrives over the one that
the largest size digests, as in Flink's autoscaler (FLIP-271). Each decision follows from batches
alone, never from earlier decisions, so the delay until a limit acts cannot make it oscillate.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.measure.cost import NOISE_SIGMAS

if TYPE_CHECKING:
    from agent.core.measure.cost import Curve
    from agent.core.policy import QueryPolicy

#: A batch near the target holds at least the rows of so much of it, and one near the deadline of so
#: much of the fixed cost: enough to learn from, and not felt beside the fixed cost.
LEAST_SHARE: Final = 0.08
#: The mean batch is aimed above the target by so much, on the log scale, of c0's share of it: where
#: c0 takes most, a second more holds many times the rows (without it a fixed cost of nine tenths of
#: the target commits a quarter less), and the band is 30 % wide.
AIM: Final = 0.06
#: A spike of arrivals this many targets long is digested at the target's size afterwards; only what
#: lasts longer is worth batches beyond it.
PATIENCE_TARGETS: Final = 7.0
#: The band around the target reaches up to so many targets. A limit is raised as far as its batch
#: stays within; a trigger interval beyond it leaves time unused between batches of the target's
#: size, in which rows that a smaller batch left would wait for nothing.
BAND: Final = 1.3
#: Where the target is left anyway, what waits is caught up with in so long: what on-call waits for.
CATCH_UP_SECONDS: Final = 60.0
#: What barely digests what arrives: a backlog shrinks by so much of it.
BARE_MARGIN: Final = 0.03
#: The fixed cost is never spread over more than this many times itself, even where what arrives is
#: digested by no less: 95 % of the time is then spent on rows.
MOST_FIXED_COSTS: Final = 20.0
#: For the first batch of a driver that may come no batch is made shorter than so many fixed costs:
#: half of the time is spent on rows then, and where a start takes nearly all of the deadline fewer
#: rows would save next to nothing.
ROOM_FIXED_COSTS: Final = 2.0
#: The price of a longer batch, as ``stretch_gain``, where a run reads what there was as it began
#: and ends: its end is waited for, no batch. Five fixed costs: four fifths of the time for rows.
ENDING_PRICE: Final = 0.125


class Ask(msgspec.Struct, frozen=True, gc=False):
    """What a size must do, beside the target."""

    arrival_rows_per_second: float | None = None  # None: unknown
    trigger_seconds: float = 0.0
    waiting_rows: float = 0.0
    sigma: float = 0.0  # noise of a batch's time
    lost: bool = False  # the fixed cost takes the target
    above: float = 0.0  # aimed above the target, on the log scale
    fixed_doubt: float = 0.0  # of the fixed cost, in seconds
    #: The limit in force, where what arrives may be a spike: no more than that is done about it.
    patient_rows: float | None = None
    ends: bool = False  # its run reads what there was as it began: that is waited for, no batch
    sure_rows: float = 0.0  # that surely fit the trigger interval and the deadline
    pressed: bool = False  # what arrives so fast is deleted where it is not read in time
    start_seconds: float = 0.0  # that a driver's first batch takes beside: ``measure/cold.py``
    slow_seconds: float = 0.0  # that slow batches take beside, in the mean of all


class Size(msgspec.Struct, frozen=True, gc=False):
    """The wanted rows of a batch and what set them."""

    rows: float
    reason: str  # "", or the floor or bound that set it
    feasible: bool | None
    deadband: float = 0.0  # relative: how far it must move from the limit in force to be announced
    deadline_rows: float = math.inf  # the most that the deadline allows, wanted or not
    target_rows: float = 0.0  # of a batch that takes the target, or as near as can be
    stable_rows: float | None = None  # the fewest that digest what arrives; inf: none do
    required_ratio: float | None = None  # capacity needed over capacity at the largest size
    largest_rows: float = 0.0  # that size

    @property
    def unstable(self) -> bool:
        """Whether more arrives than batches of the target's size can take."""
        return (self.stable_rows or 0.0) > self.target_rows


def allowed_seconds(policy: QueryPolicy, sigma: float) -> float:
    """What a batch may take on average so that the deadline is kept under noise; inf without."""
    if policy.deadline_seconds is None:
        return math.inf
    return policy.deadline_share * policy.deadline_seconds / math.exp(NOISE_SIGMAS * sigma)


def kept_seconds(fixed: float, policy: QueryPolicy, sigma: float) -> float:
    """What a batch takes at most so that the deadline is kept under noise; inf without a deadline.

    Where the fixed cost alone is too long for that, fewer rows save nothing more, and a row a batch
    would starve the query: a batch that is hardly longer than an empty one remains, and one that
    still ends before the deadline where any does.
    """
    if policy.deadline_seconds is None:
        return math.inf
    hardly = fixed * (1.0 + LEAST_SHARE)
    if fixed < policy.deadline_seconds:
        hardly = min(hardly, (fixed + policy.deadline_seconds) / 2.0)
    return max(allowed_seconds(policy, sigma), hardly)


def deadline_rows(curve: Curve, policy: QueryPolicy, sigma: float) -> float:
    """The most rows whose batch keeps the deadline under noise; inf without a deadline."""
    if policy.deadline_seconds is None:
        return math.inf
    return curve.rows_in(kept_seconds(curve.fixed, policy, sigma))


def restart_rows(curve: Curve, policy: QueryPolicy, sigma: float, start_seconds: float) -> float:
    """The most rows whose batch would keep the deadline as the first of a driver, too.

    There it takes ``start_seconds`` more, and keeps not its share but the deadline itself: a share
    of it is left for that anyway. inf where not even an empty one would: fewer rows help nobody.
    """
    deadline = policy.deadline_seconds
    if deadline is None or not 0.0 < start_seconds < deadline - curve.fixed:
        return math.inf
    room = allowed_seconds(policy, sigma) / policy.deadline_share - start_seconds
    return curve.rows_in(max(room, ROOM_FIXED_COSTS * curve.fixed))


def patience_seconds(policy: QueryPolicy, trigger_seconds: float) -> float:
    """How long a spike may last before batches beyond the target are worth it."""
    return PATIENCE_TARGETS * max(policy.target_seconds, trigger_seconds)


def paying_fixed_costs(policy: QueryPolicy, *, ends: bool) -> float:
    """How many fixed costs a batch may take while one twice as long still brings so much more.

    Rows per second are ``mu (1 - c0 / t)``; twice the time brings ``1 + gain`` times as many up to
    ``t = c0 (1 + 2 gain) / (2 gain)``. ``ends``: its run does by itself.
    """
    gain = min(policy.stretch_gain, ENDING_PRICE) if ends else policy.stretch_gain
    return (1.0 + 2.0 * gain) / (2.0 * gain)


def size_of(curve: Curve, ask: Ask, policy: QueryPolicy) -> Size:
    """Deadline beats stability, stability beats the target, as far as it pays."""
    target, fixed, trigger = policy.target_seconds, curve.fixed, ask.trigger_seconds
    # A batch that is slow by itself is no longer for more rows, and more arrives meanwhile.
    mean = msgspec.structs.replace(curve, fixed=fixed + ask.slow_seconds)
    least = curve.rows_in(fixed + LEAST_SHARE * (max(target, fixed) if ask.lost else target))
    near = least if ask.lost else max(curve.rows_in(target * math.exp(ask.above)), least)
    best, in_trigger = curve.best_rows, curve.rows_in(trigger)

    def rows_in(costs: float) -> float:
        # Until the next trigger more rows cost no time.
        return max(min(curve.rows_in(costs), best), in_trigger)

    paying = rows_in(paying_fixed_costs(policy, ends=ask.ends) * fixed)
    # As much as c0 may well be: batches of one size do not tell it, larger ones will.
    longest = max(rows_in(MOST_FIXED_COSTS * (fixed + ask.fixed_doubt)), near)
    deadline = deadline_rows(curve, policy, ask.sigma)
    stable: float | None = None
    ratio: float | None = None
    needed = largest = 0.0
    if ask.arrival_rows_per_second is not None:
        needed = ask.arrival_rows_per_second * (1.0 + policy.stability_margin)
        stable = mean.stable_rows(needed, trigger)
        barely = ask.arrival_rows_per_second * (1.0 + BARE_MARGIN)
        bare = mean.stable_rows(barely, trigger)
        if bare <= longest:
            # What some size digests, and no shorter one, is digested whatever it pays.
            paying = max(paying, bare)
        elif ask.pressed:
            # A row that is deleted unread costs more than any batch: up to all that waits at once.
            paying = max(paying, min(bare, best, max(ask.waiting_rows, longest)))
        largest = min(deadline, longest)
        cycle = max(mean.seconds(largest), trigger)
        ratio = barely * cycle / largest if largest > 0.0 else None
    wanted, rows, reason = stable or 0.0, near, "floor:fixed_cost" if ask.lost else ""
    # Of a trigger interval beyond the target what ends within it is in time.
    by_trigger = trigger > BAND * target
    feasible = fixed < trigger if by_trigger else not ask.lost and fixed < target
    unstable = wanted > near
    if unstable or ask.lost:
        if unstable:
            reason = "floor:stability"
            feasible = feasible and by_trigger and wanted <= min(in_trigger, deadline)
        if ask.patient_rows is not None:
            wanted = min(wanted, max(ask.patient_rows, near))
        else:
            # The target is missed anyway: then what waits is caught up with, too.
            catching = mean.stable_rows(needed + ask.waiting_rows / CATCH_UP_SECONDS, trigger)
            if catching > wanted:
                wanted = catching
                reason = "floor:fixed_cost" if ask.lost else reason
        if near < paying < wanted:
            reason = "bound:throughput"
        rows = max(min(wanted, paying), near)
    free = 0.0
    if ask.ends:
        free = paying  # what a batch leaves is read no sooner for that, and the run ends later
    elif by_trigger:
        # What a batch leaves waits for the next trigger.
        free = min(in_trigger, best, ask.sure_rows)
    if free > rows:
        rows, reason = free, "floor:trigger"
    if deadline < rows:
        rows, reason = deadline, "bound:deadline"
        feasible = feasible and deadline >= near
    # What arrives is digested all the same: a restart may never come. Where no size does it, room
    # for one would cost a fixed limit the other hours, and each spike a part of its rows.
    restart = max(restart_rows(curve, policy, ask.sigma, ask.start_seconds), stable or 0.0)
    if restart < rows:
        rows, reason = restart, "bound:restart"
        feasible = feasible and restart >= near
    deadline = min(deadline, restart)
    rows = max(rows, 1.0)
    return Size(rows, reason, feasible, 0.0, max(deadline, 1.0), near, stable, ratio, largest)


def aim_above(curve: Curve, policy: QueryPolicy, trigger_seconds: float) -> float:
    """How far above the target the mean batch is aimed, on the log scale."""
    if trigger_seconds > policy.target_seconds:
        return 0.0  # batches follow the trigger, not each other: less fixed cost saves no time
    rows = curve.rows_in(policy.target_seconds)
    if rows <= 0.0:
        return AIM
    share = rows * (curve.per_row + 2.0 * rows * curve.congestion) / policy.target_seconds
    return AIM * max(1.0 - share, 0.0)
