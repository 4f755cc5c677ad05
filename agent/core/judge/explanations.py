"""Explanations: what makes batches longer, weighed against each other.

Batches that grow do so for one of three reasons, which end differently. A fixed cost that rises is
paid once a batch, and the batches settle where it does. Rows that get dearer, and batches that get
dearer by their size (congestion), feed back: more seconds, more rows, more seconds. One regression
over all batches cannot tell them apart, as a batch reads what came during the last one: its rows
follow its seconds, and a line through both says that all of it is rows, whatever the reason.

So each is followed by itself, by a Kalman filter (Kalman 1960) that lets its own part drift and
holds the others: the fixed cost or the cost of a row with a velocity that dies away (the damped
local linear trend of Gardner and McKenzie 1985), congestion as a constant. How well each foretold
the batches weighs them against each other, the newer ones more (Raftery, Karny and Ettler 2010);
beforehand each is as likely as the others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args

import msgspec

from agent.core.measure.cost import FIRST_SHARE, STEP_SIGMAS

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["fixed", "row", "size"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
#: What is believed before the first batch, in usual batches: fixed part and part by rows, means and
#: deviations; and the deviation of congestion, of which none is expected. The fixed part is what
#: ``Cost`` believes of a first batch, the one by rows all the rest.
_ROWS_SHARE: Final = 1.0 - FIRST_SHARE
PARTS: Final = ((FIRST_SHARE, 0.25), (_ROWS_SHARE, 0.35))
CONGESTION: Final = 0.2
#: Batches kept. One as large as all of them together tells nothing of the usual ones, nor do these
#: of it.
MOST_BATCHES: Final = 32
#: The least that anything is told from; the medians of so many, the oldest kept, are the units of
#: rows and seconds.
FEWEST_BATCHES: Final = 6
#: By how much each part, and a velocity, drifts from batch to batch, as a share of the batch; a
#: velocity has done so once, from none, before the first.
DRIFT: Final = 0.01
#: What is left after a batch, of a velocity and of what earlier batches said for a reason.
FADING: Final = 0.9
#: A batch off by more than ``STEP_SIGMAS`` shows a step rather than drift. How unlikely such a step
#: is, on the log scale, follows: just there a batch is as likely with one as without.
_STEP_PENALTY: Final = (STEP_SIGMAS**4 / (1.0 + STEP_SIGMAS**2) - math.log1p(STEP_SIGMAS**2)) / 2.0


class Batch(Protocol):
    """Of a committed batch what an explanation learns from."""

    @property
    def rows(self) -> float:
        """That it read."""

    @property
    def seconds(self) -> float:
        """That it took."""


class Explanation(msgspec.Struct):
    """One reason, and what batches cost if it is the right one.

    In units of ``rows`` and ``seconds``, a usual batch: ``state`` holds the fixed part, the part by
    rows, and the third (congestion by rows squared, or the velocity a batch); ``covariance`` is the
    upper triangle of theirs.
    """

    kind: Kind
    rows: float
    seconds: float
    state: tuple[float, float, float]
    covariance: tuple[float, float, float, float, float, float]
    log_weight: float

    def learn(self, batch: Batch, sigma: float) -> None:
        """Takes in the next batch; ``sigma`` is the noise of its time."""
        x, y = batch.rows / self.rows, batch.seconds / self.seconds
        if not 1.0 / MOST_BATCHES < x < MOST_BATCHES:
            return
        self._drift(x, y)
        one, two, three = self.state
        a, b, c, d, e, f = self.covariance
        square = x * x if self.kind == "size" else 0.0
        expected = one + two * x + three * square
        off = y - expected
        scale = _near(expected, y)
        noise = (sigma * scale) ** 2
        spread = self._variance(x) + noise
        penalty = 0.0
        if self.kind != "size" and abs(off) > STEP_SIGMAS * math.sqrt(spread):
            step = off**2
            if self.kind == "fixed":
                a += step
            else:
                d += step / x**2
            spread += step
            penalty = _STEP_PENALTY
        seen_one = a + b * x + c * square
        seen_two = b + d * x + e * square
        seen_three = c + e * x + f * square
        gain_one, gain_two, gain_three = (
            seen_one / spread,
            seen_two / spread,
            seen_three / spread,
        )
        self.state = (one + gain_one * off, two + gain_two * off, three + gain_three * off)
        self.covariance = (
            a - gain_one * seen_one,
            b - gain_one * seen_two,
            c - gain_one * seen_three,
            d - gain_two * seen_two,
            e - gain_two * seen_three,
            f - gain_three * seen_three,
        )
        # Of the relative error, so that a long batch weighs as much as a short one.
        told = -(off * off / spread + math.log(spread / (scale * scale))) / 2.0
        self.log_weight = FADING * self.log_weight + told - penalty

    def _drift(self, x: float, y: float) -> None:
        """One batch on: what drifts has moved by its velocity, and everything is less sure."""
        one, two, three = self.state
        a, b, c, d, e, f = self.covariance
        if self.kind == "size":
            unsure = (DRIFT * _near(one + two * x + three * x * x, y)) ** 2
            self.covariance = (a + unsure, b, c, d + unsure / x**2, e, f + unsure / x**4)
            return
        scale = _near(one + two * x, y)
        drift = (DRIFT * scale) ** 2
        by_rows = drift / x**2
        if self.kind == "fixed":
            one += three
            a, b, c = a + 2.0 * c + f, b + e, c + f
            faster = drift
        else:
            two += three
            d, b, e = d + 2.0 * e + f, b + c, e + f
            faster = by_rows
        a, d = a + drift, d + by_rows
        f = f * FADING * FADING + faster
        self.state = (one, two, FADING * three)
        self.covariance = (a, b, FADING * c, d, FADING * e, f)

    def batch_seconds(self, rows: float, ahead: int, *, most_rows: float) -> float:
        """Expected seconds of so many rows, in the ``ahead``-th batch after the last (from 1).

        Congestion is believed up to ``most_rows``; beyond, the cost goes on as straight as there.
        """
        one, two, three = self.state
        x = rows / self.rows
        velocities = (1.0 - FADING**ahead) / (1.0 - FADING)
        if self.kind == "size":
            value = one + two * x + max(three, 0.0) * squared(x, most_rows / self.rows)
        elif self.kind == "fixed":
            value = one + velocities * max(three, 0.0) + two * x
        else:
            value = one + (two + velocities * max(three, 0.0)) * x
        return self.seconds * max(value, 0.05)

    def doubt(self, rows: float, seconds: float) -> float:
        """Standard deviation of what it says of a batch of that size, over those seconds."""
        return math.sqrt(self._variance(rows / self.rows)) * self.seconds / seconds

    def _variance(self, x: float) -> float:
        return variance(self.covariance, x, x * x if self.kind == "size" else 0.0)


def variance(
    covariance: tuple[float, float, float, float, float, float], x: float, square: float
) -> float:
    """That of a sum of three parts, the second times ``x``, the third times ``square``.

    ``covariance``: the upper triangle of theirs. Sums of very unlike sizes may cancel below zero.
    """
    a, b, c, d, e, f = covariance
    return max(a + x * (2.0 * b + d * x) + square * (2.0 * (c + e * x) + f * square), 0.0)


def squared(x: float, edge: float) -> float:
    """The square of ``x``; beyond the edge, its tangent there."""
    near = min(x, edge)
    return near * (2.0 * x - near)


def explain(batches: Sequence[Batch], sigma: float) -> list[Explanation]:
    """The three, as far as so many batches (oldest first, at least one) tell them apart."""
    usual = batches[:FEWEST_BATCHES]
    middle = len(usual) // 2
    rows = sorted([batch.rows for batch in usual])[middle]
    seconds = sorted([batch.seconds for batch in usual])[middle]
    (fixed, fixed_off), (by_rows, by_rows_off) = PARTS
    found = []
    for kind in KINDS:
        third_off = CONGESTION if kind == "size" else DRIFT
        covariance = (fixed_off**2, 0.0, 0.0, by_rows_off**2, 0.0, third_off**2)
        found.append(Explanation(kind, rows, seconds, (fixed, by_rows, 0.0), covariance, 0.0))
    for one_of_three in found:
        for batch in batches:
            one_of_three.learn(batch, sigma)
    return found


def weights(explanations: Sequence[Explanation]) -> list[float]:
    """How likely each is, summing to 1."""
    top = max(one.log_weight for one in explanations)
    found = [math.exp(one.log_weight - top) for one in explanations]
    total = sum(found)
    return [weight / total for weight in found]


def _near(expected: float, seen: float) -> float:
    """What a batch costs, for its noise: as expected, but no more than twice off."""
    return max(min(max(expected, 0.5 * seen), 2.0 * seen), 0.05)
