"""The checkpoint-timeout spiral: larger batches, slower commits, time-out, replay, more backlog.

Near where a query works, what a batch costs is a power of its rows that may drift from batch to
batch, ``ln B = a + p ln n + d k``: fixed cost makes p < 1, congestion p > 1, a plant that slows
down d > 0; noise is multiplicative, so it is even on this scale. The three are fitted to the last
batches with forgetting and a prior (a Bayesian linear regression), and the loop is run ahead: what
arrives during a batch is what the next one reads, as far as a limit lets it. The gain is
``G = lambda dB/dn = lambda p B / n``. The alarm is raised when the path so found meets the deadline
within a few batches, has grown from where it was, and keeps saying so.

A time-out is a batch that was begun, ran about as long as the deadline allows, and begins again
under a new run. A query that is stopped in the middle of a young batch replays it too: that is a
restart and no time-out.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Batches kept, and the least that an alarm needs.
MOST_BATCHES: Final = 32
FEWEST_BATCHES: Final = 4
#: Of these the plant is fitted to so many, each weighing this much against the one after it.
FITTED: Final = 24
FORGETTING: Final = 0.9
#: Intervals that arrivals are judged by.
RATES: Final = 8
#: Priors: mean and standard deviation of the fixed share, deviations of what rows cost, of
#: congestion, and of how much the two may have changed over the batches fitted.
PRIOR_FIXED: Final = (0.3, 0.2)
PRIOR_LINEAR: Final = 0.3
PRIOR_SQUARE: Final = 0.1
PRIOR_FALLING: Final = 0.25
PRIOR_RISING: Final = 0.15
PRIOR_SIGMA: Final = 0.15
PRIOR_SIGMA_WEIGHT: Final = 2.0
#: How much of the time fitted a drift may go on, how far arrivals may rise, and what noise takes
#: off a foreseen batch, in its own deviations: what is uncertain must not raise an alarm.
DRIFT_REACH: Final = 0.3
ARRIVAL_REACH: Final = 1.2
DISCOUNT: Final = (0.3, 1.3)
#: How much of the noise learned over many batches the late ones are believed to have.
LEARNED_NOISE: Final = 0.9
#: How far ahead the loop is run, in batches.
HORIZON: Final = 8
#: Batches over which growth is looked for, and how far it must stand out of the noise.
TREND_WIDTHS: Final = (6, 8, 12, 16, 24)
TREND_SURE: Final = 3.0
TREND_PRIOR_SIGMA: Final = 0.1
TREND_PRIOR_WEIGHT: Final = 2.0
#: A time-out so few batches off is told at its first look where it is foreseen with the noise taken
#: off, else at its second. Where arrivals rose a moment ago (by this factor), one look must see it
#: nearer, and one further off than ``SOON`` needs a third.
FAR: Final = 7
NEXT: Final = 4
SOON: Final = 6
FRESH: Final = 1.25
#: Without a deadline, what a batch may not reach: so many targets, so many times the usual.
DEADLINE_TARGETS: Final = 12.0
DEADLINE_USUAL: Final = 8.0
#: How far above its usual level a batch must be, beyond what noise does to the median of three.
GROWN: Final = 1.3
#: Of the deadline, what batches must take before any growth is called a spiral.
NEAR: Final = 0.05
#: Of the deadline, what counts as grown whatever was usual.
NEARLY: Final = 0.6
#: No plant is taken to be less noisy than this.
LEAST_SIGMA: Final = 0.03
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
    confirmed: int = 0  # batches in a row that foresee a time-out
    cleared: int = 0  # batches in a row that foresee none
    spiralling: bool = False
    replay_timed_out: bool = False  # the batch just committed had been timed out before
    gain: float | None = None
    growth: float | None = None  # of the next batch over this one, as foreseen
    eta_seconds: float | None = None
    eta_batches: int | None = None
    evidence: str = ""

    def commit(self, batch: Batch) -> None:
        """A batch with rows was committed."""
        known = msgspec.structs.replace(batch, attempts=1 + self.open_ends)
        self.replay_timed_out = self.timing_out
        self.batches = [*self.batches[-(MOST_BATCHES - 1) :], known]
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


class Surroundings(msgspec.Struct, frozen=True):
    """What the query works under."""

    deadline_seconds: float | None
    target_seconds: float
    trigger_seconds: float
    limit_rows: float | None  # in force for the next batches; None: unlimited or unknown
    fixed_seconds: float | None = None  # what a batch costs without rows, where that is learned
    sigma: float = 0.0  # the noise of a batch's time, as learned over many


class Plant(msgspec.Struct, frozen=True):
    """What a batch costs near where the query works, and what arrives.

    ``B = level (fixed + linear x + square x^2 + falling x u + rising u)``, x being rows over
    ``rows`` and u the time since ``time`` over ``span_seconds``; arrivals change by
    ``arrival_slope`` per second.
    """

    rows: float
    level: float
    time: float
    span_seconds: float
    terms: tuple[float, float, float, float, float]
    sigma: float  # of the noise, relative
    arrival: float  # rows per second at ``time``
    arrival_slope: float  # rows per second per second

    def seconds(self, rows: float, time: float) -> float:
        """Expected seconds of a batch of so many rows planned at a time."""
        x = rows / self.rows
        u = min((time - self.time) / self.span_seconds, DRIFT_REACH)
        value = sum(
            term * regressor
            for term, regressor in zip(self.terms, (1.0, x, x * x, x * u, u), strict=True)
        )
        return self.level * min(max(value, 0.05), 1e4)

    def slope(self) -> float:
        """dB/dn in seconds per row, at the last batch."""
        return self.level / self.rows * max(self.terms[1] + 2.0 * self.terms[2], 0.0)

    def arrivals(self, begin: float, end: float) -> float:
        """Rows that arrive between two times."""
        middle = 0.5 * (begin + end) - self.time
        rate = min(self.arrival + self.arrival_slope * middle, ARRIVAL_REACH * self.arrival)
        return rate * (end - begin)


def judge(state: Spiral, around: Surroundings) -> None:
    """Looks ahead from the batch just committed; updates ``state``."""
    batches = state.batches
    if len(batches) < 2:
        return
    state.eta_seconds = state.eta_batches = None
    deadline = around.deadline_seconds or _deadline_of_patience(batches, around)
    if not _worth_a_fit(batches, deadline):
        state.gain, state.growth = _gain_at_a_glance(batches, around), None
        _settle(state, foreseen=False)
        return
    plant = fit(batches, around)
    if plant is None:
        state.gain = state.growth = None
        _settle(state, foreseen=False)
        return
    state.gain = plant.arrival * plant.slope()
    doubt = (DISCOUNT[0] + DISCOUNT[1] * plant.sigma) * plant.sigma
    looped = ahead(batches, plant, around, math.exp(-0.4 * doubt))
    sober = ahead(batches, plant, around, math.exp(-doubt))
    state.growth = looped[0] / plant.level
    path = looped
    crossing = _crossing(looped, deadline)
    trended = along_trend(batches, plant, around)
    if trended is not None and crossing is None:
        crossing, path = _crossing(trended, deadline), trended
    foreseen = (
        crossing is not None
        and len(batches) >= FEWEST_BATCHES
        and _has_grown(batches, plant, deadline)
        and _not_draining(batches)
    )
    if foreseen and crossing is not None:
        state.growth = max(state.growth, path[0] / _level(batches))
        state.eta_batches = crossing
        state.eta_seconds = sum(path[: crossing - 1]) + deadline
        state.evidence = (
            f"batches take {_level(batches):.3g} s, were {_usual(batches):.3g} s, and will pass "
            f"{deadline:.3g} s in about {crossing}: {plant.arrival:.4g} rows arrive per second, "
            f"gain {state.gain:.2f}"
        )
    sure = _crossing(sober, deadline)
    fresh = _arrivals_are_fresh(batches, plant)
    near = NEXT if fresh else FAR
    _settle(state, foreseen=foreseen, sure=sure is not None and sure <= near, fresh=fresh)


def _worth_a_fit(batches: Sequence[Batch], deadline: float) -> bool:
    """Whether an alarm is possible at all: the fit costs a hundred times what this does.

    Each part is one that an alarm needs, with the least noise that a fit may find.
    """
    if len(batches) < FEWEST_BATCHES or not _not_draining(batches):
        return False
    level = _level(batches)
    grown = GROWN * math.exp(0.8 * LEAST_SIGMA)
    return level > NEAR * deadline and level > min(grown * _usual(batches), NEARLY * deadline)


def _gain_at_a_glance(batches: Sequence[Batch], around: Surroundings) -> float | None:
    """The gain from the last batches alone: what arrives times what a row costs beyond c0."""
    rates = arrival_rates(batches[-4:])
    rows = median(batch.rows for batch in batches[-3:])
    if not rates or rows <= 0.0:
        return None
    level = _level(batches)
    fixed = PRIOR_FIXED[0] * level if around.fixed_seconds is None else around.fixed_seconds
    slope = max(level - fixed, 0.0) / rows
    return median(rate for *_, rate in rates) * slope


def _crossing(path: Sequence[float], deadline: float) -> int | None:
    return next((step for step, seconds in enumerate(path, 1) if seconds > deadline), None)


def along_trend(batches: Sequence[Batch], plant: Plant, around: Surroundings) -> list[float] | None:
    """Expected seconds of the next batches if they go on growing as they did; None: no trend.

    For growth that comes from outside the loop (a plant that slows down, arrivals that rise), when
    the loop alone would settle. Growth must stand out of the noise over a window, and the newer
    half must not fall behind: a step into a new level does.
    """
    best: tuple[float, float] | None = None
    # The loop hands the noise of a batch on to the next, which looks like growth for a while.
    gain = min(max(plant.arrival * plant.slope(), 0.0), 0.8)
    inflated = math.sqrt((1.0 + gain) / (1.0 - gain))
    for width in TREND_WIDTHS:
        if len(batches) < width:
            break
        logs = [math.log(batch.seconds) for batch in batches[-width:]]
        level, slope, error = _line(logs)
        _, late, late_error = _line(logs[-(width // 2) :])
        if slope < TREND_SURE * inflated * error:
            continue
        growth = min(slope, late + 0.5 * late_error)
        if growth > 0.0 and (best is None or level + 5 * growth > best[0] + 5 * best[1]):
            best = level, growth
    if best is None:
        return None
    level, growth = best
    path = [math.exp(min(level + growth * step, 60.0)) for step in range(1, HORIZON + 1)]
    if around.limit_rows is not None:
        # Rows can make them grow only up to the limit.
        most = plant.seconds(max(around.limit_rows, 1.0), plant.time)
        path = [min(seconds, most) for seconds in path]
    return path


def _line(values: Sequence[float]) -> tuple[float, float, float]:
    """Least squares over the index: (value at the last one, slope, the slope's error)."""
    count = len(values)
    middle = (count - 1) / 2.0
    spread = sum((k - middle) ** 2 for k in range(count))
    mean = sum(values) / count
    slope = sum((k - middle) * value for k, value in enumerate(values)) / spread
    rest = sum((v - mean - slope * (k - middle)) ** 2 for k, v in enumerate(values))
    variance = (rest + TREND_PRIOR_WEIGHT * TREND_PRIOR_SIGMA**2) / (
        max(count - 2, 0) + TREND_PRIOR_WEIGHT
    )
    return mean + slope * middle, slope, math.sqrt(variance / spread)


def _settle(state: Spiral, *, foreseen: bool, sure: bool = False, fresh: bool = False) -> None:
    if foreseen:
        state.confirmed, state.cleared = state.confirmed + 1, 0
        # One look may be noise, and arrivals that rose a moment ago may fall the next: what is far
        # off is looked at again, what is near is told at once.
        looks = 3 if fresh and (state.eta_batches or HORIZON) > SOON else 2
        if state.confirmed >= looks or sure:
            state.spiralling = True
    else:
        state.confirmed, state.cleared = 0, state.cleared + 1
        if state.cleared >= 2:
            state.spiralling = False


def arrival_rates(batches: Sequence[Batch]) -> list[tuple[float, float, float]]:
    """(middle of the interval, its seconds, rows that arrived per second), oldest first.

    An interval tells nothing where a limit was reached and no backlog is known.
    """
    rates: list[tuple[float, float, float]] = []
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
        rates.append((before.time + 0.5 * seconds, seconds, max(rows, 0.0) / seconds))
    return rates


def _arrivals(batches: Sequence[Batch], now: float) -> tuple[float, float] | None:
    """(rows per second now, its slope per second), believed only as far as they last.

    A burst that is over lowers the rate at once, one that has just begun raises it at its third
    interval. A slope is one where it stands out and the newer half has it too: a step has not.
    """
    rates = arrival_rates(batches[-(RATES + 1) :])
    if not rates:
        return None
    values = [rate for *_, rate in rates]
    flat = min(median(values[-3:]), values[-1])
    if len(rates) < 5:
        return flat, 0.0
    slope = min(_slope(rates), _slope(rates[-4:]))
    if slope <= 0.0:
        return flat, 0.0
    recent = rates[-3:]
    weight = sum(seconds for _, seconds, _ in recent)
    middle = sum(time * seconds for time, seconds, _ in recent) / weight
    mean = sum(rate * seconds for _, seconds, rate in recent) / weight
    return max(flat, min(mean + slope * (now - middle), ARRIVAL_REACH * flat)), slope


def _arrivals_are_fresh(batches: Sequence[Batch], plant: Plant) -> bool:
    """Whether more arrives than did a few batches ago."""
    older = [rate for *_, rate in arrival_rates(batches[-(2 * RATES) :])][:-4]
    return bool(older) and plant.arrival > FRESH * median(older)


def _slope(rates: Sequence[tuple[float, float, float]]) -> float:
    """Theil and Sen's: the median of the slopes between any two."""
    return median(
        (later[2] - one[2]) / (later[0] - one[0])
        for place, one in enumerate(rates)
        for later in rates[place + 1 :]
    )


def _took_all(batch: Batch) -> bool:
    if batch.backlog_rows is not None:
        return batch.backlog_rows <= 0.0
    return batch.limit_rows is None or batch.rows < 0.98 * batch.limit_rows


def fit(batches: Sequence[Batch], around: Surroundings) -> Plant | None:
    """The plant as of the last batch; None with too little to say.

    Bayesian linear regression on relative errors with forgetting. The priors are in units of the
    present batch: some fixed cost, the rest in proportion to rows, hardly any congestion or drift.
    """
    used = [batch for batch in batches[-FITTED:] if batch.rows > 0.0 and batch.seconds > 0.0]
    if len(used) < 2:
        return None
    last = used[-1]
    level, rows = _level(used), median(batch.rows for batch in used[-3:])
    span = max(last.time - used[0].time, 1e-3)
    arrivals = _arrivals(batches, last.time + 0.5 * last.seconds)
    if arrivals is None:
        return None
    fixed = PRIOR_FIXED[0] if around.fixed_seconds is None else around.fixed_seconds / level
    fixed = min(max(fixed, 0.0), 0.9)
    prior = (fixed, 1.0 - fixed, 0.0, 0.0, 0.0)
    spread = (PRIOR_FIXED[1], PRIOR_LINEAR, PRIOR_SQUARE, PRIOR_FALLING, PRIOR_RISING)
    regressors: list[tuple[float, ...]] = []
    targets: list[float] = []
    for batch in used:
        x, u = batch.rows / rows, (batch.time - last.time) / span
        regressors.append((1.0, x, x * x, x * u, u))
        targets.append(batch.seconds / level)
    weights = [FORGETTING ** (len(used) - 1 - place) for place in range(len(used))]
    variance = PRIOR_SIGMA**2
    terms = list(prior)
    for _ in range(3):
        scales = [
            max(_dot(terms, row), 0.3 * target)
            for row, target in zip(regressors, targets, strict=True)
        ]
        matrix = [[0.0] * 5 for _ in range(5)]
        vector = [0.0] * 5
        for index in range(5):
            matrix[index][index] = variance / spread[index] ** 2
            vector[index] = prior[index] * variance / spread[index] ** 2
        for weight, row, target, scale in zip(weights, regressors, targets, scales, strict=True):
            share = weight / (scale * scale)
            for i in range(5):
                part = share * row[i]
                vector[i] += part * target
                for j in range(5):
                    matrix[i][j] += part * row[j]
        terms = _solve(matrix, vector)
        total, whole = PRIOR_SIGMA_WEIGHT * PRIOR_SIGMA**2, PRIOR_SIGMA_WEIGHT
        for weight, row, target, scale in zip(weights, regressors, targets, scales, strict=True):
            # Newer batches tell more of the noise, but even old ones tell something.
            say = math.sqrt(weight)
            total += say * ((target - _dot(terms, row)) / scale) ** 2
            whole += say
        variance = max(total / whole, LEAST_SIGMA**2)
    return Plant(
        rows,
        level,
        last.time,
        span,
        (terms[0], terms[1], max(terms[2], 0.0), terms[3], terms[4]),
        max(math.sqrt(variance), LEARNED_NOISE * around.sigma),
        *arrivals,
    )


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _solve(matrix: list[list[float]], vector: list[float]) -> list[float]:
    """Gauss's elimination; the prior keeps the matrix positive definite."""
    size = len(vector)
    for i in range(size):
        pivot = matrix[i][i]
        for j in range(i + 1, size):
            factor = matrix[j][i] / pivot
            if factor:
                for k in range(i, size):
                    matrix[j][k] -= factor * matrix[i][k]
                vector[j] -= factor * vector[i]
    found = [0.0] * size
    for i in range(size - 1, -1, -1):
        rest = vector[i] - sum(matrix[i][k] * found[k] for k in range(i + 1, size))
        found[i] = rest / matrix[i][i]
    return found


def ahead(
    batches: Sequence[Batch], plant: Plant, around: Surroundings, factor: float = 1.0
) -> list[float]:
    """Expected seconds of the next batches, if what arrives and what drifts goes on as it does.

    ``factor`` makes each of them so much cheaper than the fit says.
    """
    last = batches[-1]
    left = last.backlog_rows or 0.0
    planned, end = last.time, last.time + last.seconds
    path: list[float] = []
    for _ in range(HORIZON):
        start = max(end, planned + around.trigger_seconds)
        there = left + plant.arrivals(planned, start)
        rows = there if around.limit_rows is None else min(there, around.limit_rows)
        left = there - rows
        seconds = factor * plant.seconds(rows, start)
        path.append(seconds)
        planned, end = start, start + seconds
    return path


def _level(batches: Sequence[Batch]) -> float:
    """Seconds that batches take now: the median of three."""
    return median(batch.seconds for batch in batches[-3:])


def _usual(batches: Sequence[Batch]) -> float:
    """Seconds that batches took before: the lower quartile of what is kept, without the last."""
    ordered = sorted(batch.seconds for batch in batches[:-2] or batches[:1])
    return ordered[len(ordered) // 4]


def _has_grown(batches: Sequence[Batch], plant: Plant, deadline: float) -> bool:
    """Whether batches are longer than they were, by more than noise makes a median of three."""
    grown = GROWN * math.exp(0.8 * plant.sigma)
    level = _level(batches)
    return level > min(grown * _usual(batches), NEARLY * deadline) and level > NEAR * deadline


def _not_draining(batches: Sequence[Batch]) -> bool:
    """Whether what was there at planning is no less than two batches before."""
    there = [batch.rows + (batch.backlog_rows or 0.0) for batch in batches[-3:]]
    return there[-1] >= 0.95 * min(there)


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
