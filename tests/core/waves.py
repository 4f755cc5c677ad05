"""Waves: the stages of a batch as a cluster of so many slots would run them."""

from __future__ import annotations

import math

from agent.core.decode.stages import BatchWork, StageGroup
from agent.core.measure.work import Sample


def batch(
    slots: int,
    *,
    tasks: int,
    rows: int,
    seconds_per_row: float,
    slower: float = 1.0,
    longest: float = 0.0,
    driver: float = 0.0,
    share: float = 1.0,
    files: int = 0,
    time: float = 0.0,
) -> Sample:
    """One stage of even tasks.

    ``slower``: every task, by so much; ``longest``: seconds of one task beside them, none of them
    shorter; ``driver``: seconds in which no task runs; ``share`` of the slots that it has;
    ``files`` that it scanned; ``time`` when it began.
    """
    work = slower * rows * seconds_per_row
    slowest = max(longest, work / tasks)
    seconds = max(slowest, math.ceil(tasks / slots) * work / tasks) / share
    group = StageGroup(tasks, work, slowest, seconds)
    return Sample(rows, seconds + driver, BatchWork(slots, (group,)), files, time)
