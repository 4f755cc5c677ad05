"""Capacity: what a batch costs, ``B(n) = c0 + n / mu``, learned from the batches themselves.

c0 is the fixed cost in seconds (planning, offset log, commit, one state-store commit per
partition), mu the throughput in rows per second beyond it. Flink's buffer debloating (FLIP-183)
has no c0: a buffer costs nothing to be a buffer. A micro-batch does.

Recursive least squares on relative errors (each observation weighted by 1 / B^2, because the noise
is multiplicative), with directional forgetting (Kulhavy 1987; Cao and Schwartz 2000): the past is
forgotten only in the direction that a new observation informs. Batches of one constant size
therefore cannot wind the covariance up, and cannot pretend to separate c0 from mu.

A change of the plant is told from noise by a two-sided cumulative sum of standardised log
residuals (Page 1954).
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

#: Relative standard deviation believed before anything was seen.
PRIOR_SIGMA: Final = 0.2
SIGMA_BOUNDS: Final = (0.05, 1.0)
SIGMA_GAIN: Final = 0.1
FORGETTING: Final = 0.9
#: Of the last batch's cost, how much of the covariance may remain in either direction.
RELATIVE_VARIANCE_BOUND: Final = 25.0
#: Page's test: drift allowed per observation and the sum that counts as a change, in sigmas.
CHANGE_DRIFT: Final = 0.75
CHANGE_THRESHOLD: Final = 4.0
#: A residual beyond this many sigmas is clipped: one outlier is no change.
CHANGE_CLIP: Final = 3.0
#: The phases of a batch that do not grow with its rows bound c0 from below.
FIXED_PHASES: Final = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "commitOffsets")
FLOOR_GAIN: Final = 0.2


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
    rising: float = 0.0  # Page's sums
    falling: float = 0.0

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise of a batch's time, on the log scale."""
        return math.sqrt(min(max(self.variance, SIGMA_BOUNDS[0] ** 2), SIGMA_BOUNDS[1] ** 2))

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

    def learn(self, rows: float, seconds: float, floor_seconds: float = 0.0) -> bool:
        """Takes in one batch that read something; True where it shows that the plant changed.

        ``floor_seconds`` is what its fixed phases took. Both numbers must be above zero: empty
        batches teach nothing of mu and are the caller's to leave out.
        """
        floor = min(max(floor_seconds, 0.0), 0.95 * seconds)
        if self.batches == 0:
            self._begin(rows, seconds, floor)
            return False
        self.batches += 1
        self.floor_seconds += FLOOR_GAIN * (floor - self.floor_seconds)
        expected = self.fixed_seconds + rows * self.seconds_per_row
        changed = self._notice(math.log(seconds / expected) + self.variance / 2.0)
        if changed:
            # A jump at one size cannot tell c0 from mu: let both scale together.
            self.p_fixed += self.fixed_seconds**2 + (0.05 * seconds) ** 2
            self.p_slope += self.seconds_per_row**2
        self._update(rows, seconds, expected)
        return changed

    def _begin(self, rows: float, seconds: float, floor: float) -> None:
        self.batches = 1
        self.floor_seconds = floor
        self.fixed_seconds = floor
        self.seconds_per_row = (seconds - floor) / rows
        self.p_fixed = (0.3 * seconds) ** 2
        self.p_slope = (0.3 * seconds / rows) ** 2
        self.p_cross = 0.0

    def _notice(self, residual: float) -> bool:
        sigma = self.sigma
        score = min(max(residual / sigma, -CHANGE_CLIP), CHANGE_CLIP)
        self.rising = max(0.0, self.rising + score - CHANGE_DRIFT)
        self.falling = max(0.0, self.falling - score - CHANGE_DRIFT)
        if max(self.rising, self.falling) > CHANGE_THRESHOLD:
            self.rising = self.falling = 0.0
            return True
        clipped = score * sigma
        self.variance += SIGMA_GAIN * (clipped * clipped - self.variance)
        return False

    def _update(self, rows: float, seconds: float, expected: float) -> None:
        # Weighted by the expected cost, not the seen one: 1 / B^2 of a noisy B favours the fast
        # batches and makes the plant look faster than it is. Kept near the seen one, so that a
        # model that is far off still gets out.
        scale = min(max(expected, seconds / 4.0), seconds * 4.0)
        x0, x1 = 1.0 / scale, rows / scale
        error = (seconds - expected) / scale
        px0 = self.p_fixed * x0 + self.p_cross * x1
        px1 = self.p_cross * x0 + self.p_slope * x1
        informed = x0 * px0 + x1 * px1
        if informed <= 0.0:
            return
        gain = 1.0 / (self.sigma**2 + informed)
        self.fixed_seconds += px0 * gain * error
        self.seconds_per_row += px1 * gain * error
        # P <- P - K x'P, then the forgetting, in the direction of x alone.
        shrink = gain
        left = informed - shrink * informed * informed  # x'Px after the update
        grow = (1.0 / FORGETTING - 1.0) * left / (informed * informed)
        factor = grow - shrink
        self.p_fixed += factor * px0 * px0
        self.p_cross += factor * px0 * px1
        self.p_slope += factor * px1 * px1
        self._bound(rows, seconds)

    def _bound(self, rows: float, seconds: float) -> None:
        """Keeps c0 at or above its floor, mu positive, and the covariance bounded and definite."""
        predicted = max(self.fixed_seconds + rows * self.seconds_per_row, 0.05 * seconds)
        low = min(self.floor_seconds, 0.95 * predicted)
        slope_low = 0.02 * predicted / rows
        if self.seconds_per_row < slope_low:
            self.seconds_per_row = slope_low
            self.fixed_seconds = predicted - rows * slope_low
        if self.fixed_seconds < low:
            self.fixed_seconds = low
            self.seconds_per_row = max((predicted - low) / rows, slope_low)
        most_fixed = RELATIVE_VARIANCE_BOUND * seconds**2
        most_slope = RELATIVE_VARIANCE_BOUND * (seconds / rows) ** 2
        self.p_fixed = min(max(self.p_fixed, 1e-12 * seconds**2), most_fixed)
        self.p_slope = min(max(self.p_slope, 1e-12 * (seconds / rows) ** 2), most_slope)
        most_cross = 0.9999 * math.sqrt(self.p_fixed * self.p_slope)
        self.p_cross = min(max(self.p_cross, -most_cross), most_cross)


def fixed_phase_seconds(phases: dict[str, float]) -> float:
    """What the phases that do not grow with the rows took: c0's floor for this batch."""
    return sum(phases.get(name, 0.0) for name in FIXED_PHASES)
