"""The agent's clock: epoch seconds that never jump, whoever sets the machine's clock."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
