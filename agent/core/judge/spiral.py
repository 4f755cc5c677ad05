"""The checkpoint-timeout spiral: larger batches, slower commits, time-out, replay, more backlog.

Batches that have grown from where they were are looked at: what may explain their growth
(``explanations``) says what larger ones would take, each explanation as far as it is likely. From
there the loop is run ahead: what arrives during a batch is what the next one reads, as far as a
limit lets it. The alarm is raised where it is likely enough that a batch meets the deadline within
a few. A batch that runs and is older already than the last one was long is looked at as if it ended
now: that tells a batch earlier. The gain is ``G = lambda dB/dn``: from 1 on a loop runs away.

Arrivals that have just risen may fall again: they are believed for a few times as long as they have
lasted. A spike that drains ends before, a rise that stays does not.

A time-out is a batch that was begun, ran about as long as the deadline allows, and begins again
under a new run. A query that is stopped in the middle of a young batch replays it too: that is a
restart and no time-out.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.figures import figure
from agent.core.judge.explanations import explain, weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.core.judge.explanations import Explanation
    from agent.core.measure.cost import Curve

#: Batches kept, and the least that the cost is learned from.
MOST_BATCHES: Final = 32
FEWEST_BATCHES: Final = 6
#: No noise is taken to be smaller.
LEAST_SIGMA: Final = 0.05
#: The square of congestion is believed up to so many times the largest batch seen.
EDGE: Final = 1.5
#: How likely it must be that a batch passes the deadline, and how far off on the log scale what
#: explanations foresee may be, beyond so much of their own doubt. What noise beyond the first
#: number may add is taken off: what is uncertain must not raise an alarm.
LIKELY: Final = 0.3
OFF: Final = 0.2
OFF_DOUBT: Final = 0.35
NOISY: Final = 0.25
#: Of the intervals kept, the oldest, which tell what arrived before; what counts as a change.
OLDEST_SHARE: Final = 3
CHANGED: Final = 1.3
#: How far ahead the loop is run, in batches.
HORIZON: Final = 8
#: Arrivals are averaged over so many intervals. They count as the same as now from this share on,
#: and must have lasted for this share of the time that they are taken to go on, and of the last
#: batch: what came while it ran is read next, and nobody has seen it yet.
RATES: Final = 2
SAME_RATE: Final = 0.7
LASTED: Final = 0.15
UNSEEN: Final = 0.75
#: Without a deadline, what a batch may not reach: so many targets, so many times the usual.
DEADLINE_TARGETS: Final = 12.0
DEADLINE_USUAL: Final = 8.0
#: How far above its usual level a batch must be, beyond what noise does to the median of three.
GROWN: Final = 1.5
GROWN_SIGMAS: Final = 1.5
#: Of the deadline, what batches must take before any growth is called a spiral; below, they must
#: have grown by so many times as much.
NEAR: Final = 0.05
FAR_GROWN: Final = 2.0
#: Of the deadline, what counts as grown whatever was usual.
NEARLY: Final = 0.6
#: A run that ended while its batch was at least this share of the deadline old was timed out.
TIMED_OUT_SHARE: Final = 0.8
#: The same without a deadline: this many times the longest late batch.
TIMED_OUT_USUAL: Final = 1.5
#: Attempts of one batch without a commit after which a query is dead.
DEAD_ATTEMPTS: Final = 3


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """A committed batch. ``limit_rows`` None: unlimited; ``backlog_rows`` None: not told."""

    time: float  # planned
    seconds: float
    rows: float
    limit_rows: float | None
    backlog_rows: float | None  # left at the source by its planning
    attempts: int = 1


class Spiral(msgspec.Struct):
    """What the detector keeps of a query; plain data, so that it can be saved."""

    batches: list[Batch] = []
    open_batch_id: int | None = None  # begun and not committed by a run that ended
    open_ends: int = 0  # attempts of it that ended without a commit, for whatever reason
    open_timeouts: int = 0  # of these, those that were timed out
    cleared: int = 0  # batches in a row that foresee none
    spiralling: bool = False
    replay_timed_out: bool = False  # the batch just committed had been timed out before
    growth: float | None = None  # of the next batch over this one, as foreseen
    eta_seconds: float | None = None
    eta_batches: int | None = None
    evidence: str = ""

    def commit(self, batch: Batch) -> None:
        """A batch with rows was committed."""
        if self.open_ends:
            batch = msgspec.structs.replace(batch, attempts=1 + self.open_ends)
        self.replay_timed_out = self.timing_out
        self.batches.append(batch)
        if len(self.batches) > MOST_BATCHES:
            del self.batches[0]
        self.forget_open()

    def end_attempt(self, batch_id: int | None, *, timed_out: bool) -> None:
        """A run ended and left a batch uncommitted."""
        if batch_id is None or batch_id != self.open_batch_id:
            self.open_batch_id, self.open_ends, self.open_timeouts = batch_id, 0, 0
        self.open_ends += 1
        self.open_timeouts += int(timed_out)
        self.replay_timed_out = False

    def forget_open(self) -> None:
        """What was open was committed after all."""
        self.open_batch_id, self.open_ends, self.open_timeouts = None, 0, 0

    @property
    def timing_out(self) -> bool:
        """Whether the batch that comes again was timed out, or has been tried often enough."""
        return self.open_timeouts > 0 or self.open_ends >= DEAD_ATTEMPTS

    @property
    def dead(self) -> bool:
        """Whether the same batch has been tried and lost too often."""
        return self.open_ends >= DEAD_ATTEMPTS

    @property
    def replay_amplification(self) -> float:
        """Rows attempted over rows committed, of the batches kept and the one that is open."""
        committed = sum(batch.rows for batch in self.batches)
        if committed <= 0.0:
            return 1.0 + self.open_ends
        attempted = sum(batch.rows * batch.attempts for batch in self.batches)
        return (attempted + self.open_ends * self.batches[-1].rows) / committed


class Surroundings(msgspec.Struct, frozen=True, gc=False):
    """What the query works under."""

    deadline_seconds: float | None
    target_seconds: float
    trigger_seconds: float
    limit_rows: float | None  # in force for the next batches; None: unlimited or unknown
    sigma: float = 0.2  # the noise of a batch's time, as learned over many, on the log scale


def judge(state: Spiral, around: Surroundings) -> None:
    """Looks ahead from the batch just committed; updates ``state``."""
    batches = state.batches
    state.eta_seconds = state.eta_batches = state.growth = None
    if len(batches) < FEWEST_BATCHES:
        return
    foreseen = _foresees(state, batches, around, unseen_seconds=batches[-1].seconds)
    _settle(state, foreseen=foreseen)


def runs_long(
    state: Spiral, around: Surroundings, *, planned_time: float, age_seconds: float
) -> None:
    """Looks ahead from a batch that runs, once it is older than the last one was long.

    It is taken as one that ends now, which is the least that it can be. What it reads is not told
    before it ends: what arrived since the last one was planned.
    """
    batches = state.batches
    if state.spiralling or state.open_ends or len(batches) < FEWEST_BATCHES:
        return
    last = batches[-1]
    rates = arrival_rates(batches)
    if not rates or age_seconds <= last.seconds or planned_time <= last.time:
        return
    there = (last.backlog_rows or 0.0) + _arrival(rates) * (planned_time - last.time)
    rows = there if around.limit_rows is None else min(there, around.limit_rows)
    if rows <= 0.0:
        return
    running = Batch(planned_time, age_seconds, rows, around.limit_rows, there - rows)
    # What came while the last one ran is not read yet, nor what comes now.
    unseen_seconds = last.seconds + age_seconds
    if _foresees(state, [*batches, running], around, unseen_seconds=unseen_seconds):
        _settle(state, foreseen=True)


def _foresees(
    state: Spiral, batches: list[Batch], around: Surroundings, *, unseen_seconds: float
) -> bool:
    """Whether batches have grown and pass the deadline soon; says in ``state`` when, and why.

    ``batches`` may end with one that still runs; ``unseen_seconds`` is the time whose arrivals
    nobody has seen yet.
    """
    sigma = max(around.sigma, LEAST_SIGMA)
    deadline = around.deadline_seconds or _deadline_of_patience(batches, around)
    if not _has_grown(batches, sigma, deadline):
        return False
    rates = arrival_rates(state.batches)
    if not rates:
        return False
    arrival = _arrival(rates)
    lasted = _lasted(rates, arrival)
    last, most = batches[-1], EDGE * max([batch.rows for batch in batches])
    found = explain(batches, sigma)
    reasons = list(zip(weights(found), found, strict=True))
    likely, told, path = 0.0, 0.0, []
    for weight, one in reasons:
        course = ahead(
            last,
            partial(one.batch_seconds, most_rows=most),
            arrival,
            around,
            deadline_seconds=deadline,
        )
        until = sum([seconds for seconds, _ in course[:-1]])
        if lasted < max(LASTED * until, UNSEEN * unseen_seconds):
            continue
        seconds, rows = max(course)
        over = math.log(seconds / deadline) - max(sigma - NOISY, 0.0)
        chance = weight * _normal(over / math.hypot(OFF, OFF_DOUBT * one.doubt(rows, seconds)))
        likely += chance
        if chance > told:
            told, path = chance, course
    if likely < LIKELY:
        return False
    state.growth = path[0][0] / last.seconds
    state.eta_batches = len(path)
    state.eta_seconds = sum([seconds for seconds, _ in path[:-1]]) + deadline
    gained = arrival * sum([weight * one.slope(last.rows) for weight, one in reasons])
    state.evidence = _evidence(batches, len(path), deadline, arrival, gained)
    state.evidence += _since(reasons, rates, arrival)
    return True


def _normal(deviations: float) -> float:
    """How likely a normal variable is below so many deviations."""
    return 0.5 * math.erfc(-deviations / math.sqrt(2.0))


def _evidence(
    batches: Sequence[Batch], ahead_batches: int, deadline: float, arrival: float, gained: float
) -> str:
    which = f"one of the next {ahead_batches}" if ahead_batches > 1 else "the next"
    so = "each makes the next one longer" if gained >= 1.0 else "they settle, but too late"
    return (
        f"batches took {figure(_usual(batches))} s, now take {figure(_level(batches))} s; {which} "
        f"passes the deadline of {figure(deadline)} s; {figure(arrival)} rows arrive per second, "
        f"and the gain is {gained:.2f}: {so}"
    )


def _since(
    reasons: Sequence[tuple[float, Explanation]],
    rates: Sequence[tuple[float, float]],
    arrival: float,
) -> str:
    """What has changed since the oldest batches kept: arrivals, the cost of the same rows, both."""
    before = _mean(rates[: max(len(rates) // OLDEST_SHARE, 1)])
    more = arrival / before if before > 0.0 else 1.0
    dearer = sum(
        weight * one.batch_seconds(one.rows, 0, most_rows=one.rows) / one.seconds
        for weight, one in reasons
    )
    said = ""
    if more >= CHANGED:
        said += f"; {more:.1f} times as many rows arrive as before"
    if dearer >= CHANGED:
        said += f"; the same rows take {dearer:.1f} times as long as before"
    return said


def gain(state: Spiral, curve: Curve) -> float | None:
    """The loop's gain: what arrives, times what one more row costs; None while unknown."""
    rates = arrival_rates(state.batches[-(RATES + 2) :])
    if not rates or len(state.batches) < FEWEST_BATCHES:
        return None
    return _arrival(rates) * curve.slope(state.batches[-1].rows)


def ahead(
    last: Batch,
    cost: Callable[[float, int], float],
    arrival: float,
    around: Surroundings,
    *,
    deadline_seconds: float,
) -> list[tuple[float, float]]:
    """Expected (seconds, rows) of the next batches, up to the first beyond the deadline.

    ``arrival`` in rows per second; ``cost``: the seconds of so many rows, so many batches ahead.
    """
    left, seconds = last.backlog_rows or 0.0, last.seconds
    path: list[tuple[float, float]] = []
    for number in range(1, HORIZON + 1):
        there = left + arrival * max(seconds, around.trigger_seconds)
        rows = there if around.limit_rows is None else min(there, around.limit_rows)
        left = there - rows
        seconds = cost(rows, number)
        path.append((seconds, rows))
        if seconds > deadline_seconds:
            break
    return path


def _settle(state: Spiral, *, foreseen: bool) -> None:
    """Told at once, taken back at the second batch that foresees none."""
    if foreseen:
        state.cleared, state.spiralling = 0, True
    else:
        state.cleared += 1
        if state.cleared >= 2:
            state.spiralling = False


def arrival_rates(batches: Sequence[Batch]) -> list[tuple[float, float]]:
    """(seconds of an interval between plannings, rows that arrived per second), oldest first.

    An interval tells nothing where a limit was reached and no backlog is known.
    """
    rates: list[tuple[float, float]] = []
    for before, batch in pairwise(batches):
        seconds = batch.time - before.time
        if seconds <= 0.0:
            continue
        if batch.backlog_rows is not None and before.backlog_rows is not None:
            rows = batch.rows + batch.backlog_rows - before.backlog_rows
        elif _took_all(batch):
            rows = batch.rows
        else:
            continue
        rates.append((seconds, max(rows, 0.0) / seconds))
    return rates


def _arrival(rates: Sequence[tuple[float, float]]) -> float:
    """Rows per second now: a burst that is over lowers it at once, a new one raises it slower."""
    return min(rates[-1][1], _mean(rates[-RATES:]))


def _mean(rates: Sequence[tuple[float, float]]) -> float:
    """Rows per second over all of so many intervals, at least one."""
    return sum([seconds * rate for seconds, rate in rates]) / sum([seconds for seconds, _ in rates])


def _lasted(rates: Sequence[tuple[float, float]], arrival: float) -> float:
    """Seconds for which about as much has arrived; inf where it always did."""
    lasted = 0.0
    for seconds, rate in reversed(rates):
        if rate < SAME_RATE * arrival:
            return lasted
        lasted += seconds
    return math.inf


def _took_all(batch: Batch) -> bool:
    if batch.backlog_rows is not None:
        return batch.backlog_rows <= 0.0
    return batch.limit_rows is None or batch.rows < 0.98 * batch.limit_rows


def _level(batches: Sequence[Batch]) -> float:
    """Seconds that batches take now: the median of three."""
    return _middle(batches[-1].seconds, batches[-2].seconds, batches[-3].seconds)


def _middle(one: float, two: float, three: float) -> float:
    """The median of three: called for every batch, a hundred times cheaper than statistics'."""
    return max(min(one, two), min(max(one, two), three))


def _usual(batches: Sequence[Batch]) -> float:
    """Seconds that batches took before: the lower quartile of what is kept, without the last."""
    ordered = sorted([batch.seconds for batch in batches[:-2]])
    return ordered[len(ordered) // 4]


def _has_grown(batches: Sequence[Batch], sigma: float, deadline: float) -> bool:
    """Whether batches are longer than they were, by more than noise makes a median of three."""
    level = _level(batches)
    if level > NEARLY * deadline:
        return True
    times = GROWN * math.exp(GROWN_SIGMAS * sigma)
    if level <= NEAR * deadline:
        times *= FAR_GROWN
    # The shortest first: it spares most batches the sorting.
    if level <= times * min([batch.seconds for batch in batches[:-2]]):
        return False
    return level > times * _usual(batches)


def _deadline_of_patience(batches: Sequence[Batch], around: Surroundings) -> float:
    """Where nothing is configured or learned: longer than this, and nobody waits."""
    usual = _usual(batches)
    return max(DEADLINE_TARGETS * around.target_seconds, DEADLINE_USUAL * usual)


def timed_out(
    age_seconds: float | None, deadline_seconds: float | None, recent: Sequence[Batch]
) -> bool:
    """Whether a batch of that age was ended for its age rather than by chance."""
    if age_seconds is None:
        return False
    if deadline_seconds is not None:
        return age_seconds >= TIMED_OUT_SHARE * deadline_seconds
    longest = max((batch.seconds for batch in recent[-8:]), default=None)
    return longest is not None and age_seconds >= TIMED_OUT_USUAL * longest
