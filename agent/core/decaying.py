"""Rates and ratios over the recent past, from observations at irregular times.

Two sums that decay with time, one of amounts and one of seconds: their ratio is unbiased from the
first observation on, unlike an average that starts at zero.
"""

from __future__ import annotations

import math

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
