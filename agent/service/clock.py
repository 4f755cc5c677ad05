"""The agent's clock: epoch seconds that never jump, whoever sets the machine's clock."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


#: Settings of the machine's clock that are remembered: of more, the oldest count as one.
MOST_SETTINGS: Final = 64


def passed_seconds(
    platform: str = sys.platform,
    clocks: Mapping[str, int] = vars(time),
    read: Callable[[int], float] = time.clock_gettime,
) -> float:
    """Seconds since some moment, those that the machine slept included where it can tell.

    ``clocks``: by their names in ``time``. What macOS calls ``CLOCK_MONOTONIC_RAW`` goes on through
    sleep, ``CLOCK_UPTIME_RAW``, which is Python's ``time.monotonic`` there, does not
    (clock_gettime(3)); Linux's of that name stands still, and its ``CLOCK_BOOTTIME`` goes on.
    """
    clock = clocks.get("CLOCK_MONOTONIC_RAW" if platform == "darwin" else "CLOCK_BOOTTIME")
    return time.monotonic() if clock is None else read(clock)


class Clock:
    """The machine's clock as it was at first, and what has passed since then.

    Everything that the agent hears of is timed by it, so that no driver seems silent, and no batch
    endless, because the machine's clock was set.
    """

    def __init__(
        self,
        machine: Callable[[], float] = time.time,
        passed: Callable[[], float] = passed_seconds,
    ) -> None:
        self._machine = machine
        self._passed = passed
        self._origin = machine() - passed()

    def __call__(self) -> float:
        """Epoch seconds."""
        return self._origin + self._passed()

    def off_seconds(self) -> float:
        """By how much the machine's clock is ahead of this one."""
        return self._machine() - self()


class Settings:
    """How the machine's clock was set while the agent ran, to tell by it what the agent timed.

    Set forward it had stood still, as that of a machine that was paused: what was timed before was
    right then. Set back it had been wrong since it was last set forward, or since the beginning.
    """

    def __init__(self) -> None:
        self._first_seconds = 0.0  # added to what is of before all settings
        self._later: deque[tuple[float, float]] = deque(maxlen=MOST_SETTINGS)

    @property
    def off_seconds(self) -> float:
        """By so much the machine's clock is ahead of the agent's, as was noted last."""
        return self._later[-1][1] if self._later else self._first_seconds

    def note(self, now: float, off_seconds: float) -> None:
        """At ``now``, by the agent's clock, the machine's was found ahead by so much."""
        if off_seconds >= self.off_seconds:
            if len(self._later) == MOST_SETTINGS:
                self._first_seconds = self._later[0][1]
            self._later.append((now, off_seconds))
        elif self._later:
            self._later[-1] = self._later[-1][0], off_seconds
        else:
            self._first_seconds = off_seconds

    def by_the_machine(self, time: float) -> float:
        """A time of the agent's clock, by the machine's."""
        for since, seconds in reversed(self._later):
            if time >= since:
                return time + seconds
        return time + self._first_seconds
