"""Decode: the stages of a batch, as the driver tells them beside its progress.

They are Spark's private side: what cannot be used is left out as a whole, and never an error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

#: No stage takes so long, not even all its tasks together: for numbers that cannot be.
_MOST_SECONDS: Final = 1e12
_MOST_TASKS: Final = 2**31
_MOST_STAGES: Final = 32


class StageGroup(msgspec.Struct, frozen=True, gc=False):
    """Stages that ran at the same time, taken together; most often it is one."""

    tasks: int
    task_seconds: float  # of all tasks together
    longest_seconds: float  # of the slowest task
    seconds: float  # from the first's begin to the last's end
    #: Into how many tasks more slots would cut the same work; fewer than ``tasks``: into no more.
    most_tasks: int = 0

    def tasks_at(self, slots: float) -> int:
        """Tasks of the same work where so many slots are there."""
        return max(self.tasks, min(math.ceil(slots), self.most_tasks))


class BatchWork(msgspec.Struct, frozen=True, gc=False):
    """What a batch gave the executors to do, one group after the other.

    No groups: its stages were not looked at.
    """

    slots: int  # tasks that could run at once
    groups: tuple[StageGroup, ...] = ()
    steady: bool = True  # the number of slots was the same all the while

    @property
    def stage_seconds(self) -> float:
        """How long of the batch any stage ran."""
        return sum([group.seconds for group in self.groups])


def scanned(work: BatchWork, files: float) -> BatchWork:
    """The work of a batch that read so many files, where Spark cuts them by the slots.

    Unless it is told otherwise it packs files into as many tasks as the cluster has cores, two at
    least (``FilePartition.maxSplitBytes``, ``CoarseGrainedSchedulerBackend.defaultParallelism``);
    as no two tasks get the same, it may be some more, but never twice as many. Then more slots get
    more tasks, down to a file each. What comes after the scan is cut by something else.
    """
    cores = max(work.slots, 2)
    tasks = work.groups[0].tasks if work.groups else 0
    if not cores <= tasks < 2 * cores or files <= tasks:
        return work
    scan = msgspec.structs.replace(work.groups[0], most_tasks=int(files))
    return msgspec.structs.replace(work, groups=(scan, *work.groups[1:]))


def as_cut(work: BatchWork) -> BatchWork:
    """The same work in the tasks that it had, whatever more slots might make of them."""
    groups = [msgspec.structs.replace(group, most_tasks=0) for group in work.groups]
    return msgspec.structs.replace(work, groups=tuple(groups))


class _Stage(msgspec.Struct):
    tasks: int
    task_seconds: float
    begin_seconds: float
    seconds: float
    longest_seconds: float | None = None


class _Work(msgspec.Struct):
    slots: int
    stages: list[_Stage] = []
    steady: bool = True


def batch_work(said: object) -> BatchWork | None:
    """The work of a batch; None where that is not told, or makes no sense."""
    try:
        told = msgspec.convert(said, _Work)
    except msgspec.ValidationError:
        return None
    usable = 1 <= told.slots < _MOST_TASKS and len(told.stages) <= _MOST_STAGES
    if not usable or not all(map(_sane, told.stages)):
        return None
    return BatchWork(told.slots, grouped(told.stages), told.steady)


def _sane(stage: _Stage) -> bool:
    longest = 0.0 if stage.longest_seconds is None else stage.longest_seconds
    numbers = (stage.task_seconds, stage.begin_seconds, stage.seconds, longest)
    return 1 <= stage.tasks < _MOST_TASKS and all(0.0 <= one < _MOST_SECONDS for one in numbers)


def grouped(stages: Sequence[_Stage]) -> tuple[StageGroup, ...]:
    """Stages that overlap in time become one group: they shared the slots."""
    groups: list[tuple[list[_Stage], float]] = []
    for stage in sorted(stages, key=lambda one: one.begin_seconds):
        end = stage.begin_seconds + stage.seconds
        # Of stages that follow each other the clocks may overlap by a millisecond.
        if groups and stage.begin_seconds < groups[-1][1] - 1e-3:
            members, last = groups[-1]
            members.append(stage)
            groups[-1] = (members, max(last, end))
        else:
            groups.append(([stage], end))
    return tuple(
        StageGroup(
            sum([one.tasks for one in members]),
            sum([one.task_seconds for one in members]),
            max([_longest(one) for one in members]),
            end - members[0].begin_seconds,
        )
        for members, end in groups
    )


def _longest(stage: _Stage) -> float:
    """Of the slowest task, the mean where it is not told."""
    mean = stage.task_seconds / stage.tasks
    return mean if stage.longest_seconds is None else max(stage.longest_seconds, mean)
