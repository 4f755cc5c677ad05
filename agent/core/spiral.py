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
from statistics import median
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Batches kept, and the least that an alarm needs.
MOST_BATCHES: Final = 32
FEWEST_BATCHES: Final = 4
#: What each batch weighs against the one after it: about seven of them count.
FORGETTING: Final = 0.86
#: Prior of p and d, mean and standard deviation: most batches are mostly rows, and steady.
PRIOR_POWER: Final = (0.8, 0.3)
PRIOR_DRIFT: Final = (0.0, 0.05)
PRIOR_SIGMA: Final = 0.2
PRIOR_SIGMA_WEIGHT: Final = 3.0
#: How far ahead the loop is run, in batches.
HORIZON: Final = 6
#: Without a deadline, what a batch may not reach: so many targets, so many times the usual.
DEADLINE_TARGETS: Final = 12.0
DEADLINE_USUAL: Final = 8.0
#: How far above its usual level a batch must be, beyond what noise does to the median of three.
GROWN: Final = 1.3
#: A run that ended while its batch was at least this share of the deadline old was timed out.
TIMED_OUT_SHARE: Final = 0.8
#: The same without a deadline: this many times the longest late batch.
TIMED_OUT_USUAL: Final = 1.5
#: Attempts of one batch without a commit after which a query is dead.
DEAD_ATTEMPTS: Final = 3


class Batch(msgspec.Struct, frozen=True):
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


class Cost(msgspec.Struct, frozen=True):
    """The fitted ``ln B = level + power (ln n - ln rows) + drift k``, k counted from the last."""

    rows: float
    level: float
    power: float
    drift: float
    drift_error: float  # standard deviation of the drift
    sigma: float  # of the noise

    def seconds(self, rows: float, ahead: int) -> float:
        """Expected seconds of a batch of so many rows, so many batches after the last."""
        exponent = self.level + self.power * math.log(max(rows, 1.0) / self.rows)
        return math.exp(min(exponent + self.drift * ahead, 60.0))

    def slope(self, rows: float) -> float:
        """dB/dn in seconds per row."""
        return self.power * self.seconds(rows, 0) / max(rows, 1.0)


def judge(state: Spiral, around: Surroundings) -> None:
    """Looks ahead from the batch just committed; updates ``state``."""
    batches = state.batches
    if len(batches) < 2:
        return
    arrival = arrival_rows_per_second(batches)
    cost = fit(batches)
    state.eta_seconds = state.eta_batches = None
    if cost is None or arrival is None:
        state.gain = state.growth = None
        _settle(state, foreseen=False)
        return
    last = batches[-1]
    state.gain = arrival * cost.slope(last.rows)
    deadline = around.deadline_seconds or _deadline_of_patience(batches, around)
    path = ahead(batches, cost, arrival, around)
    state.growth = path[0] / cost.seconds(last.rows, 0)
    crossing = next((k for k, seconds in enumerate(path, 1) if seconds > deadline), None)
    foreseen = (
        crossing is not None
        and len(batches) >= FEWEST_BATCHES
        and _has_grown(batches, cost, deadline)
        and _not_draining(batches)
    )
    if foreseen and crossing is not None:
        state.eta_batches = crossing
        state.eta_seconds = sum(path[: crossing - 1]) + deadline
        state.evidence = (
            f"batches take {_level(batches):.3g} s, were {_usual(batches):.3g} s, and will pass "
            f"{deadline:.3g} s in about {crossing}: {arrival:.4g} rows arrive per second, "
            f"gain {state.gain:.2f}"
            + (f", cost drifts {math.expm1(cost.drift):+.0%} a batch" if cost.drift > 0.02 else "")
        )
    _settle(state, foreseen=foreseen)


def _settle(state: Spiral, *, foreseen: bool) -> None:
    if foreseen:
        state.confirmed, state.cleared = state.confirmed + 1, 0
        # One look may be noise; two in a row, or a time-out that is nearly there, are not.
        if state.confirmed >= 2 or (state.eta_batches or HORIZON) <= 3:
            state.spiralling = True
    else:
        state.confirmed, state.cleared = 0, state.cleared + 1
        if state.cleared >= 2:
            state.spiralling = False


def arrival_rows_per_second(batches: Sequence[Batch]) -> float | None:
    """What arrives, believed only as far as it lasts: the median of three intervals, or the last.

    A burst that is over lowers it at once, one that has just begun raises it at its second batch.
    None where no interval tells: a limit was reached and no backlog is known.
    """
    rates: list[float] = []
    for before, batch in zip(batches[-5:], batches[-4:], strict=False):
        seconds = batch.time - before.time
        if seconds <= 0.0:
            continue
        if batch.backlog_rows is not None and before.backlog_rows is not None:
            rows = batch.rows + batch.backlog_rows - before.backlog_rows
        elif _took_all(batch):
            rows = batch.rows
        else:
            continue
        rates.append(max(rows, 0.0) / seconds)
    if not rates:
        return None
    return min(median(rates[-3:]), rates[-1])


def _took_all(batch: Batch) -> bool:
    if batch.backlog_rows is not None:
        return batch.backlog_rows <= 0.0
    return batch.limit_rows is None or batch.rows < 0.98 * batch.limit_rows


def fit(batches: Sequence[Batch]) -> Cost | None:
    """The cost of a batch near the last one; None with fewer than two batches with rows."""
    used = [batch for batch in batches[-16:] if batch.rows > 0.0 and batch.seconds > 0.0]
    if len(used) < 2:
        return None
    rows = used[-1].rows
    points = [
        (
            FORGETTING ** (len(used) - 1 - place),
            math.log(batch.rows / rows),
            float(place - len(used) + 1),
            math.log(batch.seconds),
        )
        for place, batch in enumerate(used)
    ]
    variance = PRIOR_SIGMA**2
    level = power = drift = error = 0.0
    for _ in range(3):  # the noise weighs the prior against the batches, and comes from the fit
        level, power, drift, error = _regress(points, variance)
        residuals = PRIOR_SIGMA_WEIGHT * PRIOR_SIGMA**2
        weights = PRIOR_SIGMA_WEIGHT
        for weight, x, k, y in points:
            residual = y - level - power * x - drift * k
            residuals += weight * residual * residual
            weights += weight
        variance = max(residuals / weights, 0.03**2)
    return Cost(rows, level, power, drift, error, math.sqrt(variance))


def _regress(
    points: Sequence[tuple[float, float, float, float]], variance: float
) -> tuple[float, float, float, float]:
    """Weighted least squares with the prior; the level is free. The error is the drift's."""
    whole = sum(weight for weight, *_ in points)
    mean_x = sum(w * x for w, x, _, _ in points) / whole
    mean_k = sum(w * k for w, _, k, _ in points) / whole
    mean_y = sum(w * y for w, _, _, y in points) / whole
    xx = variance / PRIOR_POWER[1] ** 2
    kk = variance / PRIOR_DRIFT[1] ** 2
    xy, ky, xk = xx * PRIOR_POWER[0], kk * PRIOR_DRIFT[0], 0.0
    for weight, x, k, y in points:
        dx, dk, dy = x - mean_x, k - mean_k, y - mean_y
        xx += weight * dx * dx
        kk += weight * dk * dk
        xk += weight * dx * dk
        xy += weight * dx * dy
        ky += weight * dk * dy
    determinant = xx * kk - xk * xk
    power = (xy * kk - ky * xk) / determinant
    drift = (ky * xx - xy * xk) / determinant
    power = min(max(power, 0.0), 3.0)
    level = mean_y - power * mean_x - drift * mean_k
    return level, power, drift, math.sqrt(variance * xx / determinant)


def ahead(
    batches: Sequence[Batch], cost: Cost, arrival: float, around: Surroundings
) -> list[float]:
    """Expected seconds of the next batches, if what arrives and what drifts goes on as it does."""
    last = batches[-1]
    # A drift is carried on only as far as it stands out of the noise.
    sure = max(0.0, cost.drift - cost.drift_error) if cost.drift > 0.0 else cost.drift
    steady = msgspec.structs.replace(cost, drift=sure)
    left = last.backlog_rows or 0.0
    planned, end = last.time, last.time + last.seconds
    path: list[float] = []
    for step in range(1, HORIZON + 1):
        start = max(end, planned + around.trigger_seconds)
        there = left + arrival * (start - planned)
        rows = there if around.limit_rows is None else min(there, around.limit_rows)
        left = there - rows
        seconds = steady.seconds(rows, step)
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


def _has_grown(batches: Sequence[Batch], cost: Cost, deadline: float) -> bool:
    """Whether batches are longer than they were, by more than noise makes a median of three."""
    grown = GROWN * math.exp(0.7 * cost.sigma)
    return _level(batches) > min(grown * _usual(batches), 0.6 * deadline)


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
