"""Executors over time: those that there were, by the log's own words, and those wanted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from agent.core.judgement import ExecutorsLine

HOUR_SECONDS: Final = 3600.0


class Crewed(msgspec.Struct):
    """Of some time: executors that there were, and those that would have been asked for."""

    seconds: float = 0.0  # in which both are known
    present: float = 0.0  # executor-seconds
    wanted: float = 0.0
    most: int = 0  # wanted at once
    bound: str = ""  # what kept more from helping, last

    def add(self, seconds: float, present: int, line: ExecutorsLine) -> None:
        """So long it was so."""
        if line.wanted is None:
            return
        self.seconds += seconds
        self.present += seconds * present
        self.wanted += seconds * line.wanted
        self.most = max(self.most, line.wanted)
        self.bound = line.bound

    @property
    def means(self) -> tuple[float | None, float | None]:
        """Executors that there were, and that were wanted, on average; None where unknown."""
        if self.seconds <= 0.0:
            return None, None
        return self.present / self.seconds, self.wanted / self.seconds


class CrewedHours:
    """Of one query, while it runs: with the time between batches, without that between runs.

    What a log told last holds until its next word: one that breaks off says nothing of later.
    """

    def __init__(self) -> None:
        self.whole = Crewed()
        self._by_hour: dict[float, Crewed] = {}  # of those in which a word fell
        self._log = ""
        self._since = 0.0
        self._present = 0
        self._line: ExecutorsLine | None = None  # None: it does not run, or nothing is known

    def of(self, hour: float) -> Crewed:
        """Of the hour that begins then."""
        return self._by_hour.get(hour, Crewed())

    def judged(self, log: str, time: float, present: int, line: ExecutorsLine | None) -> None:
        """After an event of it: what is wanted from then on."""
        if log != self._log:
            self._line = None
        self._until(time)
        self._log, self._present, self._line = log, present, line

    def moved(self, log: str, time: float, present: int) -> None:
        """An executor came or went."""
        if log == self._log:
            self._until(time)
            self._present = present

    def ended(self, log: str, time: float) -> None:
        """Its run did, or its application."""
        if log == self._log:
            self._until(time)
            self._line = None

    def _until(self, time: float) -> None:
        since, self._since = self._since, time
        if self._line is None:
            return
        if time <= since:
            self._since = since  # a word that came late
            return
        self.whole.add(time - since, self._present, self._line)
        for hour in {hour_of(since), hour_of(time)}:
            span = min(time, hour + HOUR_SECONDS) - max(since, hour)
            if span > 0.0:
                one = self._by_hour.setdefault(hour, Crewed())
                one.add(span, self._present, self._line)


def hour_of(time: float) -> float:
    """When the hour of a time begins."""
    return math.floor(time / HOUR_SECONDS) * HOUR_SECONDS
