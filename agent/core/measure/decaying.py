"""Rates and ratios over the recent past, from observations at irregular times.

Two sums that decay with time, one of amounts and one of seconds: their ratio is unbiased from the
first observation on, unlike an average that starts at zero.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec


class DecayingRate(msgspec.Struct):
    """Amount per second, weighted exp(-age / time constant)."""

    amount: float = 0.0
    seconds: float = 0.0

    def add(self, amount: float, seconds: float, time_constant_seconds: float) -> None:
        """An amount that came in over the given seconds, up to now; none for no time."""
        if seconds <= 0.0:
            return
        keep = math.exp(-seconds / time_constant_seconds)
        # The mean weight over the interval itself, so that one long and many short
        # observations of one steady rate count alike.
        fresh = time_constant_seconds / seconds * (1.0 - keep)
        self.amount = self.amount * keep + amount * fresh
        self.seconds = self.seconds * keep + seconds * fresh

    @property
    def value(self) -> float | None:
        """Per second; None before the first observation."""
        return None if self.seconds <= 0.0 else self.amount / self.seconds


#: Over so long rates are averaged that people read: arrivals, rows processed, time held back. Flink
#: takes a minute for its rates, too.
LATELY_SECONDS: Final = 60.0
#: Of what comes one by one (batches, slow ones among them, ages at which one was ended) so many of
#: late are kept to judge by: one that stands out is outvoted, and a change soon is all there is.
LATELY_BATCHES: Final = 8
#: Two pieces of time in a row whose rates are so close, and so far from the average, are a step.
STEP_SHARE: Final = 0.25
#: A piece is at least so long: less is a burst or a gap.
PIECE_SECONDS: Final = 2.0
#: A piece so long is a step by itself.
LONG_SECONDS: Final = 15.0


class SteppingRate(DecayingRate):
    """A decaying rate that follows a step at once: the average then starts over behind it.

    Bursts do not count as steps, since no two pieces of them agree.
    """

    piece_amount: float = 0.0
    piece_seconds: float = 0.0
    last_amount: float = 0.0
    last_seconds: float = 0.0

    def add(self, amount: float, seconds: float, time_constant_seconds: float) -> None:
        """As of a decaying rate."""
        if seconds <= 0.0:
            return
        DecayingRate.add(self, amount, seconds, time_constant_seconds)
        self.piece_amount += amount
        self.piece_seconds += seconds
        if self.piece_seconds < PIECE_SECONDS:
            return
        amount, seconds = self.piece_amount, self.piece_seconds
        before = self.last_amount, self.last_seconds
        self.last_amount, self.last_seconds = amount, seconds
        self.piece_amount = self.piece_seconds = 0.0
        rate = amount / seconds
        if amount <= 0.0:
            self.last_seconds = 0.0  # a gap between bursts is no step: it decays
            return
        if not _differ(rate, self.value or 0.0):
            return
        if before[1] > 0.0 and not _differ(rate, before[0] / before[1]):
            self.amount, self.seconds = amount + before[0], seconds + before[1]
        elif seconds >= LONG_SECONDS:
            self.amount, self.seconds = amount, seconds


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > STEP_SHARE * max(one, other)
