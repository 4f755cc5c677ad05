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

#: Where c0 takes this share of the target, no batch near the target holds rows worth the name: it
#: is out of reach.
REACH_SHARE: Final = 0.95
#: At most so much of the target may the model's doubt of c0 hold that up, and so many batches must
#: say so, up to this noise; with more noise more. Not where c0 is plainly that many targets.
REACH_DOUBT_SHARE: Final = 0.15
REACH_BATCHES: Final = 4
REACH_SIGMA: Final = 0.15
REACH_PLAIN_SHARE: Final = 1.5
#: Out of reach, one batch in so many is a small one, to see whether it still is.
REACH_CHECK_BATCHES: Final = 24
#: Sooner while the model doubts that it is.
REACH_DOUBTED_BATCHES: Final = 4
#: From this share on, the fixed cost makes the target a matter of luck where arrivals ask for more.
MOSTLY_FIXED_SHARE: Final = 0.6
#: A batch near the target holds at least the rows of so much of it: enough to learn from. The
#: second where c0 may well take all of it: its doubt alone must not shrink a limit to nothing.
LEAST_SHARE: Final = 0.08
LEAST_DOUBTED_SHARE: Final = 0.12
#: Batches of one size after which a larger one is tried, by how much, and while the slope is known
#: no better than this.
PROBE_BATCHES: Final = 4
PROBE_SPREAD: Final = 1.05
PROBE_STEP: Final = 1.25
PROBE_DOUBT: Final = 0.25
PROBE_DOUBTS: Final = 1.5
#: Beyond this noise a quarter more rows shows nothing.
PROBE_SIGMA: Final = 0.3
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
#: Where c0 takes most of the target, a second more holds many times the rows.
AIM_FIXED: Final = 0.1
AIM_FIXED_FROM: Final = 0.3
#: Of the target, what a limit far too small may lead to in one step: the band's upper edge.
BOLD_SHARE: Final = 1.3
#: On the way to a multiple of c0 a step may double the time of a batch instead of its rows: where
#: little of it is theirs, doubled rows are hardly seen.
BOLD_GROWTH: Final = 2.0
#: A spike of arrivals this many targets long is digested at the target's size afterwards; only what
#: lasts longer is worth batches beyond it.
PATIENCE_TARGETS: Final = 7.0
#: Where the target is left anyway, what waits is caught up with in so long.
CATCH_UP_SECONDS: Final = 60.0
#: What barely digests what arrives: a backlog shrinks by so much of it.
BARE_MARGIN: Final = 0.03
#: Quantile of the noise that must stay below the deadline's share, in sigmas.
DEADLINE_SIGMAS: Final = 2.0
#: The fixed cost is never spread over more than this many times itself, even where what arrives is
#: digested by no less: 95 % of the time is then spent on rows.
MOST_FIXED_COSTS: Final = 20.0


class Reach(msgspec.Struct):
    """Whether c0 takes the target, held against the noise: what many batches in a row say counts.

    So that a limit does not move between the size of the target and that of a multiple of c0.
    """

    against: int = 0  # batches that said so, less those that did not
    lost: bool = False
    said: bool = False  # by the last one
    since_check: int = 0  # limited batches since a small one was tried

    def observe(self, capacity: Capacity, policy: QueryPolicy, *, limited: bool) -> None:
        """After each batch that was learned from."""
        fixed, target = capacity.fixed_cost, policy.target_seconds
        if fixed is None:
            return
        self.since_check = self.since_check + limited if self.lost else 0
        doubt = capacity.doubt(0.0)
        noise = max(capacity.sigma / REACH_SIGMA, 1.0)
        held = 0.0 if self.lost else min(doubt, REACH_DOUBT_SHARE * noise * target)
        needed = math.ceil(REACH_BATCHES * noise)
        self.said = fixed - held >= REACH_SHARE * target
        if fixed - doubt >= REACH_PLAIN_SHARE * target:
            self.against = needed
        elif self.said:
            self.against = min(self.against + 1, needed)
        else:
            self.against = min(max(self.against - 1, 0), needed)
        if self.against in (0, needed):
            self.lost = self.against == needed

    def check_rows(self, capacity: Capacity, policy: QueryPolicy) -> float | None:
        """The rows of a small batch where one is due: large ones do not tell what is fixed."""
        surely = (capacity.fixed_cost or 0.0) - capacity.doubt(0.0)
        doubted = surely < REACH_SHARE * policy.target_seconds
        if self.since_check < (REACH_DOUBTED_BATCHES if doubted else REACH_CHECK_BATCHES):
            return None
        self.since_check = 0
        return 0.5 * policy.target_seconds / capacity.seconds_per_row


def probe_rows(capacity: Capacity, policy: QueryPolicy, rows: float) -> float:
    """The rows to try instead where c0 may take all of the target, and nobody can know.

    Batches of one size cannot tell c0 from mu: all of their time may be fixed. After some of them a
    slightly larger one is tried, which takes no longer than the band's upper edge even if nothing
    is fixed; if c0 takes it all, it costs nothing, and the next one is larger still.
    """
    fixed, target = capacity.fixed_cost, policy.target_seconds
    if fixed is None or fixed + PROBE_DOUBTS * capacity.doubt(0.0) < REACH_SHARE * target:
        return rows
    if capacity.p_slope < (PROBE_DOUBT * capacity.seconds_per_row) ** 2:
        return rows
    if capacity.sigma > PROBE_SIGMA:
        return rows
    last = capacity.recent.column(0)[:PROBE_BATCHES]
    if len(last) < PROBE_BATCHES or max(last) > PROBE_SPREAD * min(last):
        return rows
    if PROBE_STEP * (capacity.seconds(max(last)) or 0.0) > BOLD_SHARE * target:
        return rows
    return max(rows, PROBE_STEP * max(last), max(last) + 1.0)


def target_rows(
    capacity: Capacity,
    policy: QueryPolicy,
    *,
    unreachable: bool = False,
    trigger_seconds: float = 0.0,
) -> float | None:
    """The rows of a batch that takes the target, or, out of its reach, a multiple of c0."""
    fixed, slope = capacity.fixed_cost, capacity.seconds_per_row
    if fixed is None:
        return None
    target = policy.target_seconds
    if unreachable:
        # As near as makes sense: what arrives and what waits may ask for more.
        return LEAST_SHARE * max(target, fixed) / slope
    above = max(capacity.sigma**2 / 2.0 + BAND_MIDDLE, AIM_ABOVE[0])
    above = max(above, AIM_FIXED * (min(fixed, target) / target - AIM_FIXED_FROM))
    if trigger_seconds > target:
        above = 0.0  # batches follow the trigger, not each other: less fixed cost saves no time
    aim = target * math.exp(min(above, AIM_ABOVE[1]))
    doubted = fixed + capacity.doubt(0.0) >= REACH_SHARE * target
    least = LEAST_DOUBTED_SHARE if doubted else LEAST_SHARE
    return max(aim - fixed, least * target) / slope


class Bounds(msgspec.Struct, frozen=True, gc=False):
    """What each constraint asks of the rows of a batch; None: it asks nothing or is unknown."""

    target_rows: float | None
    deadline_rows: float | None  # at most
    stability_rows: float | None  # at least; inf where nothing is stable
    catching_rows: float  # as stability, and what waits is digested in good time
    stretch_rows: float  # beyond the target no more than this: the rest would not pay
    sustained_ratio: float | None  # capacity needed over capacity at the largest allowed batch
    unreachable: bool = False  # target_rows are those of a multiple of c0
    most_rows: float = math.inf  # beyond the target: more brings no more rows per second
    patient: bool = False  # what arrives may be a spike: no more than stability asks

    @property
    def unstable(self) -> bool:
        """Whether more arrives than batches of the target's size can take."""
        return (self.stability_rows or 0.0) > (self.target_rows or math.inf)


class Size(msgspec.Struct, frozen=True, gc=False):
    """The wanted rows of a batch and which constraint set them."""

    rows: float
    reason: str  # "", or the floor or bound that set it
    feasible: bool | None
    deadband: float  # relative: how far it must move from the limit in force to be announced
    deadline_rows: float = math.inf  # the most that the deadline allows, wanted or not


def bounds(
    capacity: Capacity,
    wanted_rows: float | None,
    arrival_rows_per_second: float | None,
    trigger_seconds: float,
    policy: QueryPolicy,
    *,
    waiting_rows: float = 0.0,
    unreachable: bool = False,
    most_rows: float = math.inf,
) -> Bounds:
    """The three constraints (design: deadline, stability, target) in rows."""
    throughput, fixed = capacity.throughput, capacity.fixed_cost
    if throughput is None or fixed is None:
        return Bounds(wanted_rows, None, None, 0.0, 0.0, None)

    def rows_in(seconds: float) -> float:
        # Until the next trigger more rows cost no time.
        longest = max(policy.target_seconds, trigger_seconds, seconds)
        return max(capacity.rows(longest) or 0.0, 0.0)

    # As much as c0 may well be: batches of one size do not tell it, larger ones will.
    longest_rows = rows_in(MOST_FIXED_COSTS * (fixed + capacity.doubt(0.0)))
    stretch_rows = rows_in(stretch_fixed_costs(policy.stretch_gain) * fixed)
    least = 0.0 if unreachable else wanted_rows or 0.0
    deadline_rows: float | None = None
    if policy.deadline_seconds is not None:
        allowed = policy.deadline_share * policy.deadline_seconds
        noise = math.exp(DEADLINE_SIGMAS * capacity.cautious_sigma)
        deadline_rows = max((allowed / noise - fixed) * throughput, 0.0)
    stability_rows: float | None = None
    catching = waiting_rows / CATCH_UP_SECONDS
    ratio: float | None = None
    if arrival_rows_per_second is not None:
        needed = arrival_rows_per_second * (1.0 + policy.stability_margin)
        stability_rows = _stable_rows(capacity, needed, trigger_seconds)
        barely = arrival_rows_per_second * (1.0 + BARE_MARGIN)
        barely_rows = _stable_rows(capacity, barely, trigger_seconds)
        if barely_rows <= longest_rows:
            # What some size digests, and no shorter one, is digested whatever it pays.
            stretch_rows = max(stretch_rows, barely_rows)
        catching += needed
        largest = deadline_rows
        if largest is None:
            largest = max(longest_rows, wanted_rows or 0.0)
        largest = min(largest, max(most_rows, least))
        seconds = max(fixed + largest / throughput, trigger_seconds)
        sustained = largest / seconds if seconds > 0.0 else 0.0
        ratio = needed / sustained if sustained > 0.0 else None
    return Bounds(
        wanted_rows,
        deadline_rows,
        stability_rows,
        _stable_rows(capacity, catching, trigger_seconds),
        stretch_rows,
        ratio,
        unreachable,
        most_rows,
    )


def _stable_rows(capacity: Capacity, rows_per_second: float, trigger_seconds: float) -> float:
    """The fewest rows of a batch by which so many a second are digested; inf where no size does."""
    fixed, load = capacity.fixed_seconds, rows_per_second * capacity.seconds_per_row
    if load >= 1.0:
        return math.inf
    return rows_per_second * max(trigger_seconds, fixed / (1.0 - load))


def choose(limits: Bounds, capacity: Capacity, policy: QueryPolicy) -> Size | None:
    """The size that the constraints leave: stability beats the target, never the deadline."""
    if limits.target_rows is None:
        return None
    rows, reason = limits.target_rows, "floor:fixed_cost" if limits.unreachable else ""
    least = 1.0 if limits.unreachable else rows
    fixed = capacity.fixed_cost
    feasible = None if fixed is None else fixed < policy.target_seconds and not limits.unreachable
    if limits.unstable or limits.unreachable:
        wanted = limits.stability_rows or 0.0
        surely = (fixed or 0.0) - capacity.doubt(0.0)
        mostly_fixed = surely >= MOSTLY_FIXED_SHARE * policy.target_seconds
        if limits.unstable:
            reason, feasible = "floor:stability", False
        catches_up = limits.unreachable or (mostly_fixed and not limits.patient)
        if catches_up and limits.catching_rows > wanted:
            # The target is missed anyway: then what waits is caught up with, too.
            wanted, reason = limits.catching_rows, "floor:fixed_cost"
        elif rows < limits.stretch_rows < wanted:
            reason = "bound:throughput"
        rows = max(min(wanted, limits.stretch_rows), rows)
    if max(limits.most_rows, least) < rows:
        rows, reason = max(limits.most_rows, least), "bound:throughput"
    if limits.deadline_rows is not None and limits.deadline_rows < rows:
        rows, reason = limits.deadline_rows, "bound:deadline"
        if limits.deadline_rows < limits.target_rows:
            feasible = False
    rows = max(rows, 1.0)
    most = math.inf if limits.deadline_rows is None else max(limits.deadline_rows, 1.0)
    return Size(rows, reason, feasible, deadband(capacity, rows, policy), most)


def after_replay(
    capacity: Capacity, rows: float, seconds: float | None, policy: QueryPolicy
) -> Size | None:
    """The size that keeps the deadline after a batch that ran again; None where it is kept.

    Such a batch teaches nothing: it may have paid for a restart, or found half of its work done.
    But where its own time comes near what kills a batch, all batches of its size may be killed
    first, and then nothing is ever learned. In proportion, as if nothing of it were fixed.
    """
    if policy.deadline_seconds is None or not rows or not seconds:
        return None
    allowed = policy.deadline_share * policy.deadline_seconds
    share = allowed / (seconds * math.exp(DEADLINE_SIGMAS * capacity.cautious_sigma))
    if share >= 1.0:
        return None
    most = max(rows * share, 1.0)
    return Size(most, "bound:deadline", None, 0.0, most)


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


def bold_rows(
    capacity: Capacity, present_rows: float, seconds: float, deadline_seconds: float | None
) -> float:
    """The rows of a batch of at most so many seconds even if nothing of the present one is fixed.

    A batch in proportion never takes more than in proportion, so a limit that is far too small need
    not creep up by doubling. With a deadline no farther than a batch whose time grows with the
    square of its rows would still keep it.
    """
    expected = capacity.seconds(present_rows) or 0.0
    if expected <= 0.0:
        return 0.0
    growth = seconds / expected
    if deadline_seconds is not None:
        growth = min(growth, math.sqrt(deadline_seconds / expected))
    return present_rows * growth


def sure_too_long(capacity: Capacity, rows: float, wanted: float) -> bool:
    """Whether a batch of so many rows surely takes longer than one of the wanted rows."""
    if math.isinf(rows):
        return True
    least = (capacity.seconds(rows) or 0.0) - LOWER_DOUBTS * capacity.doubt(rows)
    return least > (capacity.seconds(wanted) or 0.0)


def stretch_fixed_costs(gain: float) -> float:
    """How many fixed costs a batch may take while one twice as long still brings so much more.

    Rows per second are ``mu (1 - c0 / t)``; twice the time brings ``1 + gain`` times as many up to
    ``t = c0 (1 + 2 gain) / (2 gain)``.
    """
    return (1.0 + 2.0 * gain) / (2.0 * gain)


#: Bounds that somebody set: a limit that stands there says so.
_FIXED_BOUNDS: Final = ("bound:minimum", "bound:maximum", "bound:configured")


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
    deadline: float = math.inf,
) -> Step:
    """From the limit in force to the next one: at most doubled, announced only when it matters.

    ``wanted`` and ``sure``, up to which it may more than double, are in the source's unit.
    ``current`` None is unlimited. ``limited`` False: the batch took all there was, so it never
    raises the limit, and lowers it only where the model is sure that a full one takes
    ``too_long``, or, down to ``deadline``, where it expects that a full one breaks the deadline.
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
        return Step(current, bound if bound in _FIXED_BOUNDS else "hold:deadband")
    outside = current < low or (high is not None and current > high)
    if not limited and not outside and (limit > current or not too_long):
        # A batch that is killed comes again with the same rows: too late for a limit then.
        if max(deadline, limit, low) < current:
            return Step(max(round(deadline), limit, low), "bound:deadline")
        return Step(current, "hold:not_limited")
    at_edge = bound.startswith("bound:") and bound != "bound:doubling"
    moved = abs(limit - current) / current
    if not outside and moved < deadband and not (at_edge and moved >= LEAST_DEADBAND):
        return Step(current, "hold:deadband")
    return Step(limit, bound or ("raise" if limit > current else "lower"))
