"""Capacity: what a batch costs, ``B(n) = c0 + n / mu``, learned from the batches themselves.

c0 is the fixed cost in seconds (planning, offset log, commit, one state-store commit per
partition), mu the throughput in rows per second beyond it. Flink's buffer debloating (FLIP-183)
has no c0: a buffer costs nothing to be a buffer. A micro-batch does.

Recursive least squares on relative errors (each observation weighted by 1 / B^2, because the noise
is multiplicative), with directional forgetting (Kulhavy 1987; Cao and Schwartz 2000): the past is
forgotten only in the direction that a new observation informs. Batches of one constant size
therefore cannot wind the covariance up, and cannot pretend to separate c0 from mu.

A change of the plant is told from noise by its Bayes factor: for each of the last few batches, how
much better the prediction errors since then fit a jump of unknown size than no jump (the
generalised likelihood ratio of Willsky and Jones 1976, with the jump's size integrated out). The
model then starts over from what it knew before the jump, and learns the batches since again.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from agent.core.arrays import Table

#: Relative standard deviation believed before anything was seen, and for how many batches' worth.
PRIOR_SIGMA: Final = 0.2
PRIOR_BATCHES: Final = 4
SIGMA_BOUNDS: Final = (0.05, 1.0)
_VARIANCE_BOUNDS: Final = (SIGMA_BOUNDS[0] ** 2, SIGMA_BOUNDS[1] ** 2)
#: Steady weight of a new residual in the noise's variance.
SIGMA_GAIN: Final = 0.04
#: A residual beyond this many sigmas is clipped before it counts as noise.
SIGMA_CLIP: Final = 3.0
#: The true variance may exceed the believed one by this over the number of residuals behind it.
SIGMA_UNSURE: Final = 4.0
#: How far a batch's cost drifts from one to the next, unnoticed, on the log scale. Over sigma it
#: is the steady weight of a new batch (the gain of a scalar Kalman filter for small ratios), so
#: that a noisy plant is averaged for longer.
DRIFT: Final = 0.006
STEADY_WEIGHTS: Final = (0.02, 0.1)
#: Of the last batch's cost, how much of the covariance may remain in either direction.
RELATIVE_VARIANCE_BOUND: Final = 25.0
#: A jump of the cost: how large on the log scale (standard deviation), how often per batch.
JUMP_SIGMA: Final = 0.7
JUMP_CHANCE: Final = 0.01
_NO_JUMP: Final = -math.log(JUMP_CHANCE)
_JUMP_PRECISION: Final = 1.0 / JUMP_SIGMA**2
#: How many batches back a jump is looked for.
JUMP_BATCHES: Final = 12
#: One slow batch may be an alarm; one fast batch alone is ten times likelier a fluke (log 10).
FLUKE: Final = 2.3
#: After a jump c0 and mu are known no better than this, relative to what they were.
JUMP_SPREAD: Final = 0.7
JUMP_FIXED_SHARE: Final = 0.3
JUMP_SLOPE_SHARE: Final = 0.7
#: How unsure it is which of the two grew: the standard deviation of what is all or nothing.
JUMP_SPLIT: Final = 0.5
#: What the first batch tells of c0: some share of it, and no more than of the target, which its
#: user thinks feasible; and how unsure that is, relative to the batch.
FIRST_SHARE: Final = 0.3
FIRST_SPREAD: Final = 0.5
#: A first batch so much slower than the second paid for code generation, not for rows: it counts
#: for nothing.
FIRST_SLOW: Final = 0.5
#: Per e-fold of size beyond a doubling, by how much the slope is doubted: no plant is linear over
#: decades.
MISFIT: Final = 0.1
_DOUBLING: Final = math.log(2.0)
#: The phases of a batch that do not grow with its rows bound c0 from below.
FIXED_PHASES: Final = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "commitOffsets")
FLOOR_GAIN: Final = 0.2
#: A bound is disproved at once by what lies below it: a first batch pays for much besides.
FLOOR_GAIN_DOWN: Final = 0.6


class Observations(Table):
    """Batches: rows, seconds, how far off what was predicted, and the model before each."""

    __slots__ = ()
    WIDTH = 6
    RESIDUAL = 2  # of the log of its seconds
    VARIANCE = 3  # of that residual, noise and model's doubt together


class Capacity(msgspec.Struct):
    """The learned model; plain numbers, so that it can be saved. ``batches`` 0: nothing known."""

    batches: int = 0
    fixed_seconds: float = 0.0
    seconds_per_row: float = 0.0
    floor_seconds: float = 0.0
    p_fixed: float = 0.0  # covariance of (fixed_seconds, seconds_per_row)
    p_cross: float = 0.0
    p_slope: float = 0.0
    variance: float = PRIOR_SIGMA**2  # of log residuals
    residuals: int = 0  # behind the variance
    last_rows: float = 0.0
    recent: Observations = msgspec.field(default_factory=Observations)  # since the last jump

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise of a batch's time, on the log scale."""
        variance = self.variance
        if variance < _VARIANCE_BOUNDS[0]:
            return SIGMA_BOUNDS[0]
        return SIGMA_BOUNDS[1] if variance > _VARIANCE_BOUNDS[1] else math.sqrt(variance)

    @property
    def cautious_sigma(self) -> float:
        """As ``sigma``, but larger while few batches tell it."""
        return self.sigma * math.sqrt(1.0 + SIGMA_UNSURE / (1.0 + self.residuals))

    @property
    def throughput(self) -> float | None:
        """Throughput mu in rows per second; None before the first batch."""
        return None if self.batches == 0 else 1.0 / self.seconds_per_row

    @property
    def fixed_cost(self) -> float | None:
        """Fixed cost c0 in seconds; None before the first batch."""
        return None if self.batches == 0 else self.fixed_seconds

    def seconds(self, rows: float) -> float | None:
        """Expected seconds of a batch of so many rows."""
        return None if self.batches == 0 else self.fixed_seconds + rows * self.seconds_per_row

    def rows(self, seconds: float) -> float | None:
        """The rows that so many seconds hold; at most 0 where c0 alone takes them."""
        if self.batches == 0:
            return None
        return (seconds - self.fixed_seconds) / self.seconds_per_row

    def doubt(self, rows: float) -> float:
        """Standard deviation of ``seconds(rows)``: how well the model knows it, without noise."""
        variance = self.p_fixed + 2.0 * rows * self.p_cross + rows * rows * self.p_slope
        return math.sqrt(variance) if variance > 0.0 else 0.0

    def learn(
        self,
        rows: float,
        seconds: float,
        floor_seconds: float = 0.0,
        target_seconds: float = math.inf,
    ) -> bool:
        """Takes in one batch that read something; True where it shows that the plant changed.

        ``floor_seconds`` is what its fixed phases took; rows and seconds must be above zero: empty
        batches teach nothing of mu and are the caller's to leave out. ``target_seconds``, what a
        batch is meant to take, bounds the first guess of c0.
        """
        floor = min(max(floor_seconds, 0.0), 0.95 * seconds)
        if self.batches == 0 or self._first_was_slow(rows, seconds):
            self._begin(rows, seconds, floor, FIRST_SHARE * min(seconds, target_seconds))
            return False
        self.batches += 1
        gain = FLOOR_GAIN if floor > self.floor_seconds else FLOOR_GAIN_DOWN
        self.floor_seconds += gain * (floor - self.floor_seconds)
        self._distrust(rows)
        residual, variance = self._observe(rows, seconds)
        since = self._jump()
        if since:
            self._start_over(since)
            return True
        self._learn_noise(residual, variance)
        self._update(rows, seconds)
        return False

    def _first_was_slow(self, rows: float, seconds: float) -> bool:
        """Whether a second batch of about the first's size shows that the first paid for more."""
        if self.batches != 1:
            return False
        alike = max(rows, self.last_rows) <= 2.0 * min(rows, self.last_rows)
        expected = self.fixed_seconds + rows * self.seconds_per_row
        return alike and seconds < FIRST_SLOW * expected

    def _begin(self, rows: float, seconds: float, floor: float, guess: float) -> None:
        self.batches, self.last_rows = 1, rows
        # Its fixed phases paid for code generation, class loading and the first listing, too.
        self.floor_seconds = min(floor, guess)
        self.fixed_seconds = guess
        self.seconds_per_row = (seconds - self.fixed_seconds) / rows
        doubt = (FIRST_SPREAD * seconds) ** 2
        # c0 and n / mu add up to what was seen: what one has too much the other lacks.
        self.p_fixed = doubt
        self.p_cross = -doubt / rows
        self.p_slope = (doubt + (self.sigma * seconds) ** 2) / rows**2

    def _observe(self, rows: float, seconds: float) -> tuple[float, float]:
        expected = self.fixed_seconds + rows * self.seconds_per_row
        noise = self.sigma**2
        # The mean of the log lies sigma^2 / 2 below the log of the mean.
        residual = math.log(seconds / expected) + noise / 2.0
        # Far from all sizes seen the doubt is many times what is expected: no log of a ratio then.
        least = min(seconds, expected)
        doubt = math.log1p(self.doubt(rows) / least)
        variance = noise + doubt * doubt
        self.recent.add(
            (rows, seconds, residual, variance, self.fixed_seconds, self.seconds_per_row),
            JUMP_BATCHES,
        )
        return residual, variance

    def _distrust(self, rows: float) -> None:
        """Doubts the slope at a size far from the last one."""
        far = abs(math.log(rows / self.last_rows)) - _DOUBLING
        if far > 0.0:
            self.p_slope += (MISFIT * far * self.seconds_per_row) ** 2
        self.last_rows = rows

    def _jump(self) -> int:
        """How many of the last batches lie behind a jump; 0 where none is likelier than one."""
        best, behind = _NO_JUMP, 0
        total = weight = 0.0
        unsure = (self.cautious_sigma / self.sigma) ** 2
        residuals = self.recent.column(Observations.RESIDUAL)
        variances = self.recent.column(Observations.VARIANCE)
        for count, (residual, variance) in enumerate(zip(residuals, variances, strict=True), 1):
            variance *= unsure  # noqa: PLW2901 - for the inner loop of every event
            total += residual / variance
            weight += 1.0 / variance
            gain = total * total / (weight + _JUMP_PRECISION)
            if gain <= 2.0 * best:
                continue  # what is taken off it below is never negative
            evidence = (gain - math.log1p(weight * JUMP_SIGMA**2)) / 2.0
            if count == 1 and residual < 0.0:
                evidence -= FLUKE
            if evidence > best:
                best, behind = evidence, count
        return behind

    def _start_over(self, count: int) -> None:
        """Learns the last so many batches again, from what was known before them."""
        again = self.recent.rows()[-count:]
        first_rows, *_, self.fixed_seconds, self.seconds_per_row = again[0]
        expected = self.fixed_seconds + first_rows * self.seconds_per_row
        # A jump seen at one size cannot tell c0 from mu: each may have changed by its share.
        # All of a jump upwards may be fixed, however little was fixed before it.
        grown = sum(max(seconds - expected, 0.0) for _, seconds, *_ in again) / len(again)
        self.p_fixed = (JUMP_SPREAD * self.fixed_seconds) ** 2 + (0.05 * expected) ** 2
        self.p_fixed += (JUMP_FIXED_SHARE * grown) ** 2
        self.p_slope = (JUMP_SPREAD * self.seconds_per_row) ** 2
        self.p_slope += (JUMP_SLOPE_SHARE * grown / first_rows) ** 2
        # Which of the two grew nobody knows before another size is seen: what one of them has too
        # much of it the other lacks.
        split = (JUMP_SPLIT * grown) ** 2
        self.p_fixed += split
        self.p_cross = -split / first_rows
        self.p_slope += split / first_rows**2
        self.recent = Observations()
        for rows, seconds, *_ in again:
            self._observe(rows, seconds)
            self._update(rows, seconds)
        self.recent = Observations()

    def _learn_noise(self, residual: float, variance: float) -> None:
        clipped = min(abs(residual), SIGMA_CLIP * math.sqrt(variance))
        # Of what was seen, the part that is noise and not the model's doubt.
        noise = clipped * clipped * self.sigma**2 / variance
        self.residuals += 1
        gain = max(1.0 / (self.residuals + PRIOR_BATCHES), SIGMA_GAIN)
        self.variance += gain * (noise - self.variance)

    def _update(self, rows: float, seconds: float) -> None:
        # Weighted by the expected cost, not the seen one: 1 / B^2 of a noisy B favours the fast
        # batches and makes the plant look faster than it is. Kept near the seen one, so that a
        # model that is far off still gets out.
        expected = self.fixed_seconds + rows * self.seconds_per_row
        scale = min(max(expected, seconds / 4.0), seconds * 4.0)
        x0, x1 = 1.0 / scale, rows / scale
        error = (seconds - expected) / scale
        px0 = self.p_fixed * x0 + self.p_cross * x1
        px1 = self.p_cross * x0 + self.p_slope * x1
        informed = x0 * px0 + x1 * px1
        if informed <= 0.0:
            return
        sigma = self.sigma
        gain = 1.0 / (sigma**2 + informed)
        self.fixed_seconds += px0 * gain * error
        self.seconds_per_row += px1 * gain * error
        # P <- P - K x'P, then the forgetting, in the direction of x alone.
        left = informed - gain * informed * informed  # x'Px after the update
        weight = min(max(DRIFT / sigma, STEADY_WEIGHTS[0]), STEADY_WEIGHTS[1])
        grow = weight / (1.0 - weight) * left / (informed * informed)
        factor = grow - gain
        self.p_fixed += factor * px0 * px0
        self.p_cross += factor * px0 * px1
        self.p_slope += factor * px1 * px1
        self._bound(rows, seconds)

    def _bound(self, rows: float, seconds: float) -> None:
        """Keeps c0 at or above its floor, mu positive, and the covariance bounded and definite."""
        predicted = self.fixed_seconds + rows * self.seconds_per_row
        predicted = max(predicted, 0.05 * seconds)
        low = 0.95 * predicted
        low = min(low, self.floor_seconds)
        slope_low = 0.02 * predicted / rows
        if self.seconds_per_row < slope_low:
            self.seconds_per_row = slope_low
            self.fixed_seconds = predicted - rows * slope_low
        if self.fixed_seconds < low:
            self.fixed_seconds = low
            self.seconds_per_row = max((predicted - low) / rows, slope_low)
        square = seconds**2
        self.p_fixed = _between(self.p_fixed, 1e-12 * square, RELATIVE_VARIANCE_BOUND * square)
        square = (seconds / rows) ** 2
        self.p_slope = _between(self.p_slope, 1e-12 * square, RELATIVE_VARIANCE_BOUND * square)
        most_cross = 0.9999 * math.sqrt(self.p_fixed * self.p_slope)
        self.p_cross = _between(self.p_cross, -most_cross, most_cross)


def _between(value: float, low: float, high: float) -> float:
    if value > high:
        return high
    if value < low:
        return low
    return value


def fixed_phase_seconds(phases: dict[str, float]) -> float:
    """What the phases that do not grow with the rows took: c0's floor for this batch."""
    seconds = 0.0
    for name in FIXED_PHASES:
        if name in phases:
            seconds += phases[name]
    return seconds
