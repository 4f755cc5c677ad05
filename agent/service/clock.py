"""The agent's clock: epoch seconds that never jump, whoever sets the machine's clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def passed_seconds() -> float:
    """Seconds since some moment, those that the machine slept included where it can tell."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


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
