"""The checkpoint-timeout spiral: larger batches, slower commits, time-out, replay, more backlog.

What a batch costs is learned over many of them, ``B = c0 + n/mu``, and with a term in n squared
where the batches show one (congestion): a Bayesian linear regression on relative errors, since
noise is multiplicative, that forgets slowly. From there the loop is run ahead: what arrives during
a batch is what the next one reads, as far as a limit lets it. The gain is ``G = lambda dB/dn``:
what a second more of a batch adds to the next one; below 1 the recurrence ``n' = lambda B(n)``
contracts to a fixed point (Banach 1922). The alarm is raised when the path so found, with the
model's doubt taken off, meets the deadline within a few batches, batches have grown from where they
were, and what may explain their growth (``explanations``) finds that credible. A batch that runs
and is older already than the last one was long is looked at as if it ended now: that tells a batch
earlier. It is taken back at the second batch that foresees none, or once nothing has come for as
long as the longest batch took.

Arrivals that have just risen may fall again: they are believed for a few times as long as they have
lasted. A spike that drains ends before, a rise that stays does not.

A time-out is a batch that was begun, ran about as long as the deadline allows, and begins again
under a new run. A query that is stopped in the middle of a batch replays it too: that is a restart
and no time-out.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from agent.core.figures import figure
from agent.core.judge.checkpoint import NEAR_SHARE
from agent.core.judge.explanations import (
    CONGESTION,
    FEWEST_BATCHES,
    MOST_BATCHES,
    PARTS,
    explain,
    squared,
    variance,
    weights,
)
from agent.core.measure.cost import CHANGE_CHANCE, EDGE, PRIOR_SIGMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.core.judge.explanations import Explanation

#: What a batch weighs against the one after it: the chance that nothing changed between them, as
#: ``agent.core.measure.cost`` has it of the same batches.
_FORGETTING: Final = 1.0 - CHANGE_CHANCE
#: How likely the explanations of the growth must find it that the deadline is passed. What they
#: foresee is off, beyond their own doubt, by what any batch's time is (``PRIOR_SIGMA``).
CREDIBLE: Final = 0.1
#: Of the intervals kept, the oldest, which tell what arrived before; what counts as a change.
OLDEST_SHARE: Final = 3
CHANGED: Final = 1.3
#: How far ahead the loop is run, in batches.
HORIZON: Final = 8
#: Arrivals are averaged over so many intervals, and must have lasted, but for a change, for this
#: share of the time that they are taken to go on.
RATES: Final = 2
LASTED: Final = 0.15
#: From this share of its limit on, a batch may have left rows behind: sources round.
REACHED: Final = 0.98
#: Without a deadline, what a batch may not reach: so many targets, or so many usual batches where
#: these take longer.
DEADLINE_TARGETS: Final = 12.0
#: How far above their usual level batches must be: more than strong noise does to the median of
#: three.
GROWN: Final = 2.0
#: Attempts of one batch without a commit after which a query is dead.
DEAD_ATTEMPTS: Final = 3


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """A committed batch.

    ``limit_rows`` None: no limit was reached; ``backlog_rows`` None: not told.
    """

    time: float  # planned
    seconds: float
    rows: float
    limit_rows: float | None
    backlog_rows: float | None  # left at the source by its planning
    attempts: int = 1


class Cost(msgspec.Struct):
    """What a batch costs, learned: the sums of a regression of B / seconds on powers of n / rows.

    ``precision`` is the upper triangle of a symmetric 3 by 3 matrix, row by row. The line, without
    the square, comes out of the same sums.
    """

    rows: float  # of a batch of usual size, and the seconds it takes: the units
    seconds: float
    precision: list[float]
    moment: list[float]
    fixed: float  # of the line
    slope: float

    def learn(self, batch: Batch, sigma: float) -> None:
        """Takes in one batch; ``sigma`` is the noise of its time."""
        x, y = batch.rows / self.rows, batch.seconds / self.seconds
        expected = max(self.fixed + self.slope * x, 0.5 * y, 0.05)
        weight = 1.0 / (sigma * expected) ** 2
        rest = 1.0 - _FORGETTING
        a, b = self.precision, self.moment
        square = x * x
        gained = (1.0, x, square, square, square * x, square * square)
        for place in range(6):
            a[place] = _FORGETTING * a[place] + rest * _PRECISION[place] + weight * gained[place]
        told = weight * y
        b[0] = _FORGETTING * b[0] + rest * _MOMENT[0] + told
        b[1] = _FORGETTING * b[1] + rest * _MOMENT[1] + told * x
        b[2] = _FORGETTING * b[2] + rest * _MOMENT[2] + told * square
        determinant = a[0] * a[3] - a[1] * a[1]
        self.fixed = (b[0] * a[3] - b[1] * a[1]) / determinant
        self.slope = (a[0] * b[1] - a[1] * b[0]) / determinant


#: What is believed before any batch was seen, as sums; of congestion none is expected.
_PRECISION: Final = (PARTS[0][1] ** -2, 0.0, 0.0, PARTS[1][1] ** -2, 0.0, CONGESTION**-2)
_MOMENT: Final = (*(mean / deviation**2 for mean, deviation in PARTS), 0.0)


class Spiral(msgspec.Struct):
    """What the detector keeps of a query; plain data, so that it can be saved."""

    batches: list[Batch] = []
    cost: Cost | None = None
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
        self.replay_timed_out = self.open_timeouts > 0
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

    def paused(self, time: float) -> bool:
        """Whether nothing has run for as long as the longest batch took.

        Then nothing arrived in what would have been a batch: none feeds the next.
        """
        if not self.batches:
            return False
        last = self.batches[-1]
        longest = max([batch.seconds for batch in self.batches])
        return time - (last.time + last.seconds) >= longest

    def rest(self) -> None:
        """Nothing waits, and nothing has come for long: what was foreseen does not come."""
        self.cleared, self.spiralling, self.replay_timed_out = 0, False, False
        self.eta_seconds = self.eta_batches = self.growth = None

    def forget_open(self) -> None:
        """What was open was committed after all."""
        self.open_batch_id, self.open_ends, self.open_timeouts = None, 0, 0

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


class Limited(NamedTuple):
    """One source that a limit holds, in rows."""

    left: float  # waits there since the last batch
    rows_per_second: float  # arrive there
    limit: float


class Surroundings(msgspec.Struct, frozen=True, gc=False):
    """What the query works under."""

    deadline_seconds: float | None
    target_seconds: float
    trigger_seconds: float
    limit_rows: float | None  # in force for the next batches; None: unlimited or unknown
    sigma: float  # the noise of a batch's time, as learned over many, on the log scale
    free_rows_per_second: float = 0.0  # arrive at sources without a limit, beside those with one
    held: tuple[
        Limited, ...
    ] = ()  # of several sources with a limit, each; () where that is unknown

    def readable(self, there: float, seconds: float) -> float:
        """Rows of ``there`` that a batch may read, where it is planned so long after the last."""
        if self.limit_rows is None:
            return there
        within = self.limit_rows
        if self.held:
            within = sum(
                [min(one.left + one.rows_per_second * seconds, one.limit) for one in self.held]
            )
        return min(there, within + self.free_rows_per_second * seconds)


class Model(msgspec.Struct, frozen=True, gc=False):
    """A cost with its doubt: means of (1, n, n squared) and their covariances, upper triangle."""

    rows: float
    seconds: float
    terms: tuple[float, float, float]
    covariance: tuple[float, float, float, float, float, float]
    edge: float  # in units of ``rows``; beyond it the cost goes on as straight as it is there
    doubt: float  # in deviations, taken off what it says
    factor: float  # of what is left

    def batch_seconds(self, rows: float, _ahead: int) -> float:
        """Seconds of a batch of so many rows, less the doubt of it, however far ahead."""
        x = rows / self.rows
        one, two, three = self.terms
        value = one + two * x + three * squared(x, self.edge)
        value -= self.doubt * math.sqrt(variance(self.covariance, x, x * x))
        return self.factor * self.seconds * max(value, 0.05)


def line(cost: Cost, doubt: float, factor: float) -> Model:
    """The cost without a square."""
    a, b, _, d, _, _ = cost.precision
    determinant = a * d - b * b
    covariance = (d / determinant, -b / determinant, 0.0, a / determinant, 0.0, 0.0)
    terms = (cost.fixed, cost.slope, 0.0)
    return Model(cost.rows, cost.seconds, terms, covariance, math.inf, doubt, factor)


def square(cost: Cost, edge_rows: float, doubt: float, factor: float) -> Model:
    """The cost with a square up to so many rows, by Cramer's rule.

    The prior keeps the matrix positive definite.
    """
    a, b, c, d, e, f = cost.precision
    one, two, three = d * f - e * e, c * e - b * f, b * e - c * d
    determinant = a * one + b * two + c * three
    four, five, six = a * f - c * c, b * c - a * e, a * d - b * b
    inverse = tuple(part / determinant for part in (one, two, three, four, five, six))
    i, j, k, m, n, o = inverse
    edge = edge_rows / cost.rows
    x, y, z = cost.moment
    terms = (i * x + j * y + k * z, j * x + m * y + n * z, k * x + n * y + o * z)
    return Model(cost.rows, cost.seconds, terms, (i, j, k, m, n, o), edge, doubt, factor)


def judge(state: Spiral, around: Surroundings) -> None:
    """Learns from the batch just committed and looks ahead from it; updates ``state``."""
    state.eta_seconds = state.eta_batches = state.growth = None
    cost = _learned(state, around.sigma)
    if cost is not None:
        _settle(state, foreseen=_foresees(state, state.batches, cost, around))


def runs_long(
    state: Spiral,
    around: Surroundings,
    *,
    planned_time: float,
    age_seconds: float,
    rested_time: float | None = None,
) -> None:
    """Looks ahead from a batch that runs, once it is older than the last one was long.

    It is taken as one that ends now, which is the least that it can be. What it reads is not told
    before it ends: what arrived since the last one was planned.
    """
    batches = state.batches
    if state.cost is None or state.spiralling or state.open_ends:
        return
    last = batches[-1]
    if age_seconds <= last.seconds or planned_time <= last.time:
        return
    there = waiting_rows(batches, planned_time, rested_time)
    if there is None:
        return
    rows = around.readable(there, planned_time - last.time)
    if rows <= 0.0:
        return
    running = Batch(planned_time, age_seconds, rows, None, there - rows)
    cost = msgspec.structs.replace(
        state.cost, precision=list(state.cost.precision), moment=list(state.cost.moment)
    )
    cost.learn(running, around.sigma)
    if _foresees(state, [*batches, running], cost, around):
        _settle(state, foreseen=True)


def waiting_rows(
    batches: Sequence[Batch], planned_time: float, rested_time: float | None = None
) -> float | None:
    """Rows that wait for a batch planned then: left by the last, and come since; None: not told.

    ``rested_time``: when a trigger found nothing to read, if one did.
    """
    rates = arrival_rates(batches)
    if not rates:
        return None
    last = batches[-1]
    since = last.time if rested_time is None else max(last.time, rested_time)
    return (last.backlog_rows or 0.0) + _arrival(rates) * max(planned_time - since, 0.0)


def _foresees(state: Spiral, batches: list[Batch], cost: Cost, around: Surroundings) -> bool:
    """Whether batches have grown and pass the deadline soon; says in ``state`` when, and why.

    ``batches`` may end with one that still runs.
    """
    if not _has_grown(batches):
        return False
    rates = arrival_rates(state.batches)
    if not rates:
        return False
    deadline = around.deadline_seconds or _deadline_of_patience(batches, around)
    arrival = _arrival(rates)
    # Noise beyond what is believed of any query takes as much off a foreseen batch, on the log
    # scale: what is uncertain must not raise an alarm.
    factor = math.exp(-max(around.sigma - PRIOR_SIGMA, 0.0))
    # Few batches may be few of a kind: of the fewest that anything is told from a deviation of the
    # model is taken off, of twice as many half of one.
    doubt = FEWEST_BATCHES / len(batches)
    edge_rows = EDGE * max([batch.rows for batch in batches])
    lasted = _lasted(rates, arrival)
    for model in (line(cost, doubt, factor), square(cost, edge_rows, doubt, factor)):
        path = ahead(batches[-1], model.batch_seconds, arrival, around, deadline_seconds=deadline)
        until = sum([seconds for seconds, _ in path[:-1]])
        if path[-1][0] <= deadline or lasted < LASTED * until:
            continue
        found = explain(batches, around.sigma)
        reasons = list(zip(weights(found), found, strict=True))
        if not _credible(
            reasons, batches, arrival, around, deadline_seconds=deadline, edge_rows=edge_rows
        ):
            return False
        state.growth = path[0][0] / batches[-1].seconds
        state.eta_batches, state.eta_seconds = len(path), until + deadline
        gained = arrival * _slope(model, batches[-1].rows)
        state.evidence = _evidence(batches, len(path), deadline, arrival, gained)
        state.evidence += _since(reasons, rates, arrival)
        return True
    return False


def _credible(
    reasons: Sequence[tuple[float, Explanation]],
    batches: Sequence[Batch],
    arrival: float,
    around: Surroundings,
    *,
    deadline_seconds: float,
    edge_rows: float,
) -> bool:
    """Whether what may explain the growth, all weighed, passes the deadline as well.

    ``reasons``: (weight, explanation); ``edge_rows``: up to where a square is believed. Asked only
    where the regression foresees it: it learns over many batches and cannot tell a fixed cost that
    rises, and then stays, from rows that get dearer.
    """
    likely = 0.0
    for weight, one in reasons:
        cost = partial(one.batch_seconds, most_rows=edge_rows)
        path = ahead(batches[-1], cost, arrival, around, deadline_seconds=deadline_seconds)
        seconds, rows = max(path)
        off = math.hypot(PRIOR_SIGMA, one.doubt(rows, seconds))
        away = math.log(seconds / deadline_seconds) / off
        likely += weight * 0.5 * math.erfc(-away / math.sqrt(2.0))
    return likely >= CREDIBLE


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


def gain(state: Spiral) -> float | None:
    """The loop's gain: what arrives, times what one more row costs; None while unknown."""
    cost = state.cost
    rates = arrival_rates(state.batches[-(RATES + 2) :])
    if cost is None or not rates:
        return None
    return _arrival(rates) * (max(cost.slope, 0.0) * cost.seconds / cost.rows)


def _learned(state: Spiral, sigma: float) -> Cost | None:
    """What a batch costs, with the newest one in it; None where too few tell it."""
    batches, cost = state.batches, state.cost
    if cost is not None:
        usual = _middle(*(batch.rows for batch in batches[-3:]))
        # A usual size that is no more comparable asks for learning anew, at what is usual now.
        if cost.rows / MOST_BATCHES < usual < cost.rows * MOST_BATCHES:
            cost.learn(batches[-1], sigma)
            return cost
    if len(batches) < FEWEST_BATCHES:
        return None
    # Of what is kept: the first batches of a query may read next to nothing and tell no size.
    largest = sorted(batches[-FEWEST_BATCHES:], key=lambda batch: batch.rows)[-3:]
    cost = Cost(
        largest[1].rows,
        _middle(*(batch.seconds for batch in largest)),
        list(_PRECISION),
        list(_MOMENT),
        PARTS[0][0],
        PARTS[1][0],
    )
    for batch in batches:
        cost.learn(batch, sigma)
    state.cost = cost
    return cost


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
        interval = max(seconds, around.trigger_seconds)
        there = left + arrival * interval
        rows = around.readable(there, interval)
        left = there - rows
        seconds = cost(rows, number)
        path.append((seconds, rows))
        if seconds > deadline_seconds:
            break
    return path


def _slope(model: Model, rows: float) -> float:
    """dB/dn in seconds per row."""
    _, two, three = model.terms
    return (two + 2.0 * three * rows / model.rows) * model.seconds / model.rows


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
        if CHANGED * rate < arrival:
            return lasted
        lasted += seconds
    return math.inf


def _took_all(batch: Batch) -> bool:
    if batch.backlog_rows is not None:
        return batch.backlog_rows <= 0.0
    return batch.limit_rows is None


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


def _has_grown(batches: Sequence[Batch]) -> bool:
    """Whether batches are longer than they were."""
    level = _level(batches)
    # The shortest first: it spares most batches the sorting.
    if level <= GROWN * min([batch.seconds for batch in batches[:-2]]):
        return False
    return level > GROWN * _usual(batches)


def _deadline_of_patience(batches: Sequence[Batch], around: Surroundings) -> float:
    """Where nothing is configured or learned: longer than this, and nobody waits."""
    return DEADLINE_TARGETS * max(around.target_seconds, _usual(batches))


def timed_out(age_seconds: float | None, deadline_seconds: float | None) -> bool:
    """Whether a batch of that age was ended for its age rather than by chance, as far as is known.

    Without a deadline none was: a query is stopped in long batches as well.
    """
    if age_seconds is None or deadline_seconds is None:
        return False
    return age_seconds >= NEAR_SHARE * deadline_seconds
