"""The crew: executors of the plant that are there, that were asked for, and what they cost.

One that is asked for comes after the start-up; fewer are had at once, those on their way first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agent.simulation.scenario import cold_times

if TYPE_CHECKING:
    from agent.simulation.scenario import Executors


class Ran(msgspec.Struct, frozen=True, gc=False):
    """What a batch ran on, as a driver tells it."""

    executors: int  # that it ran on: those that were there when it started
    present: int  # when it ended
    asked: int
    steady: bool  # as many when it ended as when the one before it did
    driver_seconds: float  # of the batch, while no task ran
    waves: int  # of tasks
    tasks: int
    slots_each: int

    @property
    def slots(self) -> int:
        """Tasks that can run at once, when it ended."""
        return self.present * self.slots_each


class Crew:
    """The executors of one run."""

    def __init__(self, block: Executors) -> None:
        self._block = block
        self._now = 0.0
        self._coming: list[tuple[float, int]] = []  # (when, how many), the next first
        self._came: list[tuple[float, int]] = []  # (when, how many) that may be cold, newest last
        self._counted = block.present  # when the last batch ended
        self.present = block.present
        self.asked = block.present
        self.seconds = 0.0  # of all executors together
        self.changes = 0  # how often another number was asked for
        self.most = block.present

    def move(self, second: float) -> None:
        """Time passes: who was on the way comes, and is paid for from then on."""
        while self._coming and self._coming[0][0] <= second:
            when, count = self._coming.pop(0)
            self.seconds += self.present * (when - self._now)
            self._now = when
            self.present += count
            self._came.append((when, count))
        self.seconds += self.present * (second - self._now)
        self._now = second
        self.most = max(self.most, self.present)

    def ask(self, wanted: int | None) -> None:
        """Between batches; None leaves the number as it is."""
        if wanted is None:
            return
        number = min(max(wanted, 1), self._block.maximum)
        if number == self.asked:
            return
        self.changes += 1
        if number > self.asked:
            self._coming.append((self._now + self._block.start_seconds, number - self.asked))
        gone = self.asked - number
        while gone > 0 and self._coming:
            when, count = self._coming.pop()
            kept = max(count - gone, 0)
            gone -= count - kept
            if kept:
                self._coming.append((when, kept))
        self.present -= max(gone, 0)
        self.asked = number

    def slower(self) -> float:
        """By which tasks take longer now than on executors that are all warm."""
        warm_up = self._block.warm_up_seconds
        if not self._came or warm_up <= 0.0:
            return 1.0
        warm, speed = self.present, 0.0
        for when, count in reversed(self._came):
            cold = min(count, warm)  # the first to go are the oldest
            warm -= cold
            speed += cold / cold_times(self._now - when, warm_up)
        return self.present / (warm + speed)

    def ran(self, executors: int, driver_seconds: float) -> Ran:
        """Of a batch that ends now."""
        block, before = self._block, self._counted
        self._counted = self.present
        return Ran(
            executors,
            self.present,
            self.asked,
            self.present == before,
            driver_seconds,
            block.waves(executors),
            block.tasks,
            block.slots,
        )
