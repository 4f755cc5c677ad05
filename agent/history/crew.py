"""The crew of an application's log: its executors over time, and the work of its batches on them.

A log tells which executors came and went, and what the stages of a batch were made of: what a
driver tells an agent beside its events, so that the same core says how many would be enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.decode.events import Executors, HeartbeatEvent
from agent.core.decode.stages import batch_work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.decode.events import Progress
    from agent.core.decode.stages import BatchWork
    from agent.sources.spark_executors import ExecutorSeen
    from agent.sources.spark_stages import Stage

#: Why nothing is asked for: those that come are no more its own than those that were there.
OF_A_LOG: Final = "a log of what was"


class Crew:
    """Of one log."""

    def __init__(self) -> None:
        self._cores: dict[str, int] = {}
        self._told: Executors | None = None
        self._slots: dict[str, int] = {}  # by run, when its last batch ended

    def hear(self, seen: ExecutorSeen) -> None:
        """One came or went."""
        if seen.cores is None:
            self._cores.pop(seen.name, None)
        else:
            self._cores[seen.name] = seen.cores

    @property
    def present(self) -> int:
        """Executors that are there; 0 also where the log tells of none."""
        return len(self._cores)

    @property
    def slots(self) -> int:
        """Cores of them all: the tasks that run at once, where each takes one."""
        return sum(self._cores.values())

    def heartbeat(self) -> HeartbeatEvent | None:
        """What a driver's heartbeat would tell of them; None where that is known already."""
        told = Executors(self.present, self.slots, note=OF_A_LOG)
        if told == self._told or (self._told is None and not self._cores):
            return None
        self._told = told
        return HeartbeatEvent([], told)

    def work(self, progress: Progress, stages: Sequence[Stage]) -> BatchWork | None:
        """What a batch that ended ran on and was made of; None where the log does not tell."""
        slots = self.slots
        before = self._slots.get(progress.run_id)
        self._slots[progress.run_id] = slots
        if not slots:
            return None
        told = [
            {
                "tasks": one.tasks,
                "task_seconds": one.task_seconds,
                "longest_seconds": one.longest_seconds,
                "begin_seconds": max(one.submitted_time - progress.time, 0.0),
                "seconds": one.seconds,
            }
            for one in stages
            if one.submitted_time is not None and one.seconds is not None and one.task_seconds
        ]
        steady = before in (None, slots)
        return batch_work({"slots": slots, "steady": steady, "stages": told if steady else []})
