"""Executors: how many the queries of an application need, and when that is asked for.

The least number at which arrivals, with the margin of stability, are digested inside the target
and what waits is caught up with in the stated time; never more than tasks, the critical path and
what more slots were seen to bring can use. As in Flink's autoscaler (FLIP-271) the number follows
from measured capacity and not from steps, so that what is on its way is not asked for twice; down
goes the largest number of a quiet time (the stabilization window of Kubernetes' autoscaler), and at
once what was seen to bring nothing (where FLIP-271's effectiveness detection asks for no more).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from agent.core.decide.reach import REACH_SHARE
from agent.core.decide.size import kept_seconds, paying_fixed_costs
from agent.core.judge.alignment import SKEWED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.core.measure.cost import Curve
    from agent.core.measure.work import Brought, Work
    from agent.core.policy import QueryPolicy

#: What bounds a query's need, as told first; ``enough``: nothing does.
Bound = Literal["enough", "maximum", "tasks", "critical_path", "driver", "contention"]
BOUNDS: Final[tuple[Bound, ...]] = get_args(Bound)
#: What fewer slots digest is foretold, and errs: down is gone only to what would digest so much
#: more than is needed.
ROOM: Final = 0.25
#: Where no number suffices, twice as many slots are worth it while they bring this share more rows
#: per second: a quarter of what they bring where nothing is shared.
PAYS: Final = 0.25
#: Those that were asked for and have not come are taken back when fewer would have done for so
#: many seconds: some looks at the stages, so that noise does not send them away, and before most
#: clusters have started one.
TAKE_BACK_SECONDS: Final = 20.0


class Load(msgspec.Struct, frozen=True, gc=False):
    """What a query must digest."""

    arrival_rows_per_second: float
    waiting_rows: float = 0.0
    trigger_seconds: float = 0.0
    ends: bool = False  # its run reads what there was as it began: that is waited for, no batch
    sigma: float = 0.0  # noise of a batch's time, for which the deadline leaves room


def worth_it(rows_ratio: float, slots: int, more: int) -> bool:
    """Whether so many slots more pay, by the rows per second that they bring."""
    return rows_ratio > math.pow(1.0 + PAYS, math.log2(more / slots))


def in_vain(last: Brought) -> bool:
    """Whether a scaling surely did not pay.

    By what is shared alone: the batches of now may be too small for so many.
    """
    ratio = (last.slots / last.before) ** (1.0 - last.shown)
    return not worth_it(ratio, last.before, last.slots)


class Need(msgspec.Struct, frozen=True, gc=False):
    """What one query needs, and what keeps more from helping."""

    slots: int  # that the application must have, as the query shares them now
    roomy: int = 0  # the same with room for error: down is gone no further
    bound: Bound = "enough"
    gain: float = 1.0  # rows per second there over those now
    load: float = 1.0  # of the time, the share that its batches would take there
    had: float = 1.0  # of the slots, the share that is its own while its stages run
    on_trial: bool = False  # whether more would help shows when what came last has been judged
    #: Slots before those that came last, where it has just shown that these surely do not pay.
    in_vain_from: int | None = None
    #: Slots from which on more were seen to bring nothing: what fewer would digest was not seen.
    seen_from: int = 0


def need_of(curve: Curve, work: Work, load: Load, policy: QueryPolicy, limit: float) -> Need | None:
    """Of one query with at most so many slots; None while its stages are unknown."""
    if not work.samples:
        return None
    catching = load.waiting_rows / policy.catch_up_seconds
    needed = load.arrival_rows_per_second * (1.0 + policy.stability_margin) + catching
    tasks = work.most_tasks
    usable = int(max(min(limit, tasks), 1))
    cycle = max(policy.target_seconds, load.trigger_seconds)
    fixed = work.curve_at(curve, usable).fixed
    if load.ends or fixed >= REACH_SHARE * cycle:  # then the target is left, by as much as pays
        longer = fixed * paying_fixed_costs(policy, ends=load.ends)
        cycle = max(cycle, min(longer, kept_seconds(fixed, policy, load.sigma)))

    def capacity(curve: Curve) -> float:
        return curve.rows_in(cycle) / cycle

    def at(slots: int, contention: float) -> float:
        return capacity(work.curve_at(curve, slots, contention=contention))

    def pays(slots: int, more: int, contention: float) -> bool:
        now = at(slots, contention)
        then = at(more, contention)
        return worth_it(then / now, slots, more) if now > 0.0 else then > 0.0

    # How many by what is sure alone: more would be asked for where few may do. But where none is
    # believed to suffice, only while twice as many are worth it.
    shown = work.shown_at(curve.rows_in(cycle))
    bound: Bound = "enough"
    most = usable
    if at(usable, work.contention) < needed:
        most = _least(lambda count: not pays(count, min(2 * count, usable), shown), usable)
    if at(most, shown) < needed:
        beyond = min(2 * usable, tasks)
        if beyond > usable and pays(usable, beyond, shown):
            bound = "maximum"
        elif at(beyond, 0.0) > at(beyond, shown) * (1.0 + PAYS):
            bound = "contention"
        elif work.driver_seconds > work.longest_seconds:
            bound = "driver"
        else:
            skewed = work.longest_seconds > SKEWED * work.task_seconds / work.tasks
            bound = "critical_path" if skewed else "tasks"
    slots = _least(lambda count: at(count, shown) >= needed, most)
    roomy = _least(lambda count: at(count, shown) >= needed * (1.0 + ROOM), most)
    # What came last looks as if more were in vain, and may be cold: first its trial.
    now = work.slots or usable
    on_trial = False
    if work.trial is not None and work.trial.step > 0.0 and slots > now:
        looks = work.trial.looks
        on_trial = looks is None or not pays(now, min(2 * now, usable), looks)
    last, in_vain_from = work.brought, None
    if last is not None and not work.told and last.slots == work.slots and in_vain(last):
        in_vain_from = last.before
    here, there = capacity(curve), at(slots, shown)
    return Need(
        slots,
        roomy,
        bound,
        there / here if here > 0.0 else 1.0,
        min(needed / there, 1.0) if there > 0.0 else 1.0,
        work.slots_had,
        on_trial,
        in_vain_from,
        last.before if last is not None and bound == "contention" else 0,
    )


def _least(enough: Callable[[int], bool], most: int) -> int:
    """The least number up to ``most``, which is enough, that is."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def slots_of(needs: Sequence[Need], *, roomy: bool = False) -> int:
    """The slots that queries need together; they run at the same time, and rest at times.

    One alone needs what it needs. Of several each had a share of the slots; together they need what
    each uses on average, and the hungriest of them needs its own.
    """
    wanted = [max(need.roomy, need.slots) if roomy else need.slots for need in needs]
    if len(needs) == 1:
        return wanted[0]
    own = [slots * need.had for slots, need in zip(wanted, needs, strict=True)]
    together = sum([slots * need.load for slots, need in zip(own, needs, strict=True)])
    return math.ceil(max(together, *own, 1.0) - 1e-9)


def bound_of(needs: Sequence[Need], number: int, policy: QueryPolicy) -> Bound:
    """What keeps so many executors from sufficing; ``enough`` where they do."""
    if policy.maximum_executors is not None and number > policy.maximum_executors:
        return "maximum"
    bounds = [need.bound for need in needs if need.bound != "enough"]
    return min(bounds, key=BOUNDS.index, default="enough")


def in_hours(time: float, hours: Sequence[tuple[int, int]]) -> bool:
    """Whether an epoch time lies in one of the (from, until) minutes of its day in UTC."""
    minute = time % 86_400 // 60
    return any(
        begin <= minute < end if begin < end else minute >= begin or minute < end
        for begin, end in hours
    )


class Scaler(msgspec.Struct):
    """The number that one application should have, over time."""

    wanted: int | None = None  # as decided last
    #: (time, number): the largest from then on up to now, falling; of the quiet time and what
    #: stood when that began.
    recent: list[tuple[float, int]] = []
    since: float | None = None  # of the last change, or the first word of any need
    given_back: float | None = None  # when some that were there were, last

    def decide(
        self,
        number: int,
        roomy: int,
        present: int,
        time: float,
        policy: QueryPolicy,
        *,
        own: int = 0,
        off_seconds: float = 0.0,
        move_seconds: float = 0.0,
        in_vain_from: int | None = None,
    ) -> int:
        """Up at once; down to the largest ``roomy`` number of the quiet time, when it is over.

        Those that came last in vain go at once, back to ``in_vain_from``: that they were needed was
        a belief that is no more. So that two beliefs do not take turns, once in a quiet time.
        Those that have not come yet are taken back sooner: a spike that is over when they would
        come is not paid for. ``own`` is the number that the job has without us: it begins there,
        and of those nothing is taken back sooner. ``move_seconds`` is what a change of executors
        cost last, as state that is loaded anew: fewer have to do for so long that this is saved. In
        quiet hours the number stands, but for a maximum that was lowered: that holds at once. They
        are of the machine's clock, as it was set by now: ``off_seconds`` ahead of ``time``.
        """
        self.bound_to(policy, own)
        low = policy.minimum_executors
        high = math.inf if policy.maximum_executors is None else policy.maximum_executors
        number, roomy = (int(min(max(one, low), high)) for one in (number, max(number, roomy)))
        begin = int(min(max(present, own), max(high, own)))
        standing = begin if self.wanted is None else self.wanted
        quiet = policy.executors_quiet_seconds
        without = standing
        if in_vain_from is not None and not _lately(self.given_back, time, policy):
            without = int(min(max(roomy, in_vain_from, own), standing, high))
            if move_seconds * present > quiet * (standing - without):
                without = standing  # to move state costs more than that saves
        if self.since is None:
            self.since = time
        self._note(time, roomy, max(quiet, move_seconds * present))
        if in_hours(time + off_seconds, policy.executors_quiet_hours):
            return standing
        if number >= standing:
            self.wanted = number
        elif without < standing:
            self.wanted = without
        elif max(present, own) < standing and time - self.since >= TAKE_BACK_SECONDS:
            lately = self._most_since(time - TAKE_BACK_SECONDS)
            self.wanted = min(max(lately, present, own), standing)
            return self.wanted
        elif time - self.since >= quiet:
            fewer = min(self._most_since(time - quiet), standing)
            if fewer < standing:
                # All wait while state moves; what was not needed for so long is taken not to be for
                # as long again.
                quiet = max(quiet, move_seconds * present / (standing - fewer))
                fewer = min(self._most_since(time - quiet), standing)
            self.wanted = fewer if time - self.since >= quiet else standing
        else:
            self.wanted = standing
        if self.wanted < min(standing, present):
            self.given_back = time
        if self.wanted != standing:
            # What it brings is seen first.
            self.since, self.recent = time, [(time, roomy)]
        return self.wanted

    def bound_to(self, policy: QueryPolicy, own: int) -> None:
        """Nothing beyond the maximum stands, but the number that the job has without us."""
        if self.wanted is not None and policy.maximum_executors is not None:
            self.wanted = min(self.wanted, max(policy.maximum_executors, own))

    def waits(self, time: float, policy: QueryPolicy) -> bool:
        """Whether so little time went by since the last change that it may still be judged."""
        return _lately(self.since, time, policy)

    def hold(self, time: float) -> None:
        """What is wanted is needed still, as far as anybody knows."""
        if self.wanted is not None:
            self._note(time, self.wanted, 0.0)

    def _note(self, time: float, roomy: int, quiet: float) -> None:
        # A number holds until the next one, however long that takes to come.
        recent = [one for one in self.recent if one[1] >= roomy]
        since = self.recent[len(recent)][0] if len(recent) < len(self.recent) else time
        if not recent or recent[-1][1] > roomy:
            recent.append((since, roomy))
        while len(recent) > 1 and recent[1][0] <= time - quiet:
            del recent[0]
        self.recent = recent

    def _most_since(self, time: float) -> int:
        """The largest number that held from a time on."""
        later = sum(at > time for at, _ in self.recent)
        return self.recent[max(len(self.recent) - later - 1, 0)][1]


def _lately(then: float | None, time: float, policy: QueryPolicy) -> bool:
    """Whether that was within the quiet time."""
    return then is not None and time - then < policy.executors_quiet_seconds
