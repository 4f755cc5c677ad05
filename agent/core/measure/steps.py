"""Steps: the rate of what moves by steps, as a reader's offset does with each batch.

Between two steps it stands, and whoever compares two looks at any moments sees more or less of one.
So only looks right after a step are compared: so many steps in so long a time (a renewal process:
Cox 1962). What stands for longer than between two steps in the mean is told slower, little by
little, until it moves again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from agent.core.arrays import Numbers, numbers

#: Rates are those of so many seconds, or of the last two steps where these took longer.
RATE_SECONDS: Final = 600.0
#: In less than so many seconds a step or two tell no rate, and nothing has stood for long. So
#: steps nearer to each other are one: thirty tell the rate of ten minutes as well as a hundred.
LEAST_SECONDS: Final = 20.0


class Rates(NamedTuple):
    """Of what moves by steps, and of the number beside it; per second."""

    value: float
    beside: float


class Steps(msgspec.Struct):
    """Times and values right after each step of late, oldest first."""

    value: float | None = None  # as seen last; before the first step nobody knows when it began
    times: Numbers = msgspec.field(default_factory=numbers)
    values: Numbers = msgspec.field(default_factory=numbers)
    beside: Numbers = msgspec.field(default_factory=numbers)  # another number, as it was then

    def see(self, time: float, value: float, beside: float = 0.0) -> bool:
        """A look at it; True where it had moved."""
        moved = self.value is not None and value != self.value
        self.value = value
        if moved:
            self.add(time, value, beside)
        return moved

    def add(self, time: float, value: float, beside: float = 0.0) -> None:
        """A step ended at ``time``."""
        if len(self.times) > 1 and time - self.times[-2] < LEAST_SECONDS:
            del self.times[-1], self.values[-1], self.beside[-1]
        self.times.append(time)
        self.values.append(value)
        self.beside.append(beside)
        while len(self.times) > 2 and time - self.times[1] >= RATE_SECONDS:
            del self.times[0], self.values[0], self.beside[0]

    def forget(self) -> None:
        """Its steps tell no rate any more; the next two do."""
        del self.times[:], self.values[:], self.beside[:]

    def per_step_seconds(self) -> Rates | None:
        """Rates of both numbers from step to step; None where too few were seen to tell one."""
        seconds = self.times[-1] - self.times[0] if self.times else 0.0
        if len(self.times) < 2 or seconds < LEAST_SECONDS:
            return None
        moved, beside = self.values[-1] - self.values[0], self.beside[-1] - self.beside[0]
        return Rates(moved / seconds, beside / seconds)

    def per_second(self, now: float) -> float | None:
        """Its rate; None where too few steps were seen to tell one."""
        rates = self.per_step_seconds()
        if rates is None:
            return None
        steps, seconds = len(self.times) - 1, self.times[-1] - self.times[0]
        # As if one more were due now, where that is later than it comes in the mean.
        due = (now - self.times[0]) * steps / (steps + 1)
        return rates.value * seconds / max(seconds, due)
