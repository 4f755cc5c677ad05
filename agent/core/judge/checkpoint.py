"""The checkpoint monitor: a micro-batch as Flink's checkpoint, from offset log to commit log.

A checkpoint starts when the offset log is written (``walCommit``) and completes when the commit log
is (``commitOffsets``). Whoever ends a batch that takes too long sets its deadline: configured, or
learned where one batch is ended again at the same age. A single end of a long batch says nothing:
whoever stops a query does so when batches are long, too. A failure in a row is a batch that was
begun and not committed, by an exception or a time-out; stopping a query is none, nor is a
configuration that let no batch begin. A committed batch resets the count.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.measure.decaying import LATELY_BATCHES
from agent.core.measure.state_store import Unsaved

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Two ages this close say the same deadline.
SAME_AGE: Final = 0.15
#: A batch so many times as old as batches took is late: on its way to the deadline, where that is
#: what they usually took; not ended by chance, where it is the longest of them.
LATE: Final = 1.5
#: From this share of the deadline on a batch is near it, as the alert has it: on its way there
#: however long batches usually take, and timed out where it was ended.
NEAR_SHARE: Final = 0.8
#: Failures of these causes count only once a batch had begun.
COUNTED_ONCE_BEGUN: Final = ("configuration",)

#: The phases from the offset log to the commit log, in order.
PHASES: Final = (
    "walCommit",
    "getBatch",
    "queryPlanning",
    "addBatch",
    "commitBatch",
    "commitOffsets",
)


class Monitor(msgspec.Struct):
    """What is kept of a query's checkpoints. Seconds; times of the driver's clock."""

    seconds: float | None = None
    ended_time: float | None = None
    interval_seconds: float | None = None
    pause_seconds: float | None = None
    bytes: int | None = None
    usual: list[float] = []  # durations of the last batches
    ended_ages: list[float] = []  # at which the batch that is not committed was ended
    learned_deadline_seconds: float | None = None
    failures_consecutive: int = 0
    asynchronous: bool = False  # asynchronous progress tracking: logs are written behind
    unsaved: dict[int, Unsaved] = {}  # in this run, by the place of the state operator

    def complete(
        self,
        time: float,
        seconds: float | None,
        phases: Mapping[str, float],
        bytes_: int | None,
    ) -> None:
        """A batch planned at ``time`` was committed after ``seconds``."""
        # Behind the batch nobody says when a log is written.
        self.seconds = None if self.asynchronous else checkpoint_seconds(phases)
        self.bytes = bytes_
        self.commit()
        if seconds is None:
            return
        end = time + seconds
        if self.ended_time is not None and end > self.ended_time:
            self.interval_seconds = end - self.ended_time
            self.pause_seconds = max(0.0, time + _before(phases) - self.ended_time)
        self.ended_time = end
        self.usual.append(seconds)
        if len(self.usual) > LATELY_BATCHES:
            del self.usual[0]
        learned = self.learned_deadline_seconds
        if learned is not None and seconds > learned * (1.0 + SAME_AGE):
            self.learned_deadline_seconds = None  # it was none

    def commit(self) -> None:
        """No batch is open: what was ended before came through."""
        self.failures_consecutive, self.ended_ages = 0, []

    def ended(self, age_seconds: float) -> None:
        """A batch was ended at that age: the deadline, where it was before at about the same."""
        longest = max(self.usual, default=math.inf)
        if age_seconds < LATE * longest:
            return
        alike = [age for age in self.ended_ages if _same(age, age_seconds)]
        if alike:
            self.learned_deadline_seconds = min(age_seconds, *alike)
        self.ended_ages = [*self.ended_ages[-(LATELY_BATCHES - 1) :], age_seconds]

    def fail(self, cause: str, *, began: bool) -> bool:
        """A run ended with a cause, ``began``: a batch was under way. Whether it lost a batch."""
        lost = began or cause not in COUNTED_ONCE_BEGUN
        self.failures_consecutive += int(lost)
        return lost

    def deadline(self, configured_seconds: float | None) -> float | None:
        """The configured deadline, else the learned one."""
        return self.learned_deadline_seconds if configured_seconds is None else configured_seconds

    def eta_seconds(
        self,
        age_seconds: float | None,
        deadline_seconds: float | None,
        foreseen_seconds: float | None,
    ) -> float | None:
        """Seconds until a batch passes the deadline, where one is on its way there; else None.

        The running batch, once it is late or near; else what the spiral's projection foresees,
        counted from the end of the last batch.
        """
        if deadline_seconds is None:
            return None
        if age_seconds is not None:
            usual = median(self.usual) if self.usual else None
            late = usual is not None and age_seconds > LATE * usual
            if late or age_seconds > NEAR_SHARE * deadline_seconds:
                return max(0.0, deadline_seconds - age_seconds)
        return foreseen_seconds


def _same(one: float, other: float) -> bool:
    return max(one, other) <= min(one, other) * (1.0 + SAME_AGE)


def checkpoint_seconds(phases: Mapping[str, float]) -> float | None:
    """From ``walCommit`` to ``commitOffsets``; None where its start is not told."""
    if "walCommit" not in phases:
        return None
    seconds = 0.0
    for name in PHASES:
        if name in phases:
            seconds += phases[name]
    return seconds


def _before(phases: Mapping[str, float]) -> float:
    """What passes between the trigger and the offset log: finding out what there is to read."""
    return phases.get("latestOffset", 0.0) + phases.get("getOffset", 0.0)
