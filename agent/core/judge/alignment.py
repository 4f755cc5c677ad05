"""Alignment: what a stage waits for its slowest task, which one that is, and what would help.

A micro-batch cannot commit before the last task of each of its stages, as a Flink checkpoint
cannot complete before the last barrier. The wait is the slowest task's time less the median's. Why
it is slow shows in what it read: much more than the median is skew; no more, and on a host or in an
executor where other tasks are slow too, that host or executor; no more, and alone, the task.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent.core.judge.worth import WORTH_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Fewer tasks have no median to wait for.
FEWEST_TASKS: Final = 3
#: A wait is worth words when the slowest task takes this many times the median.
SKEWED: Final = 2.0
#: Times the others that stand out: of a task's rows over the median, as time follows rows; of the
#: median of a host's or an executor's tasks.
STANDS_OUT: Final = 1.5

Why = Literal["skew", "slow_host", "slow_executor", "slow_task", "even"]


class Task(msgspec.Struct, frozen=True):
    """One successful task of a stage. None is unknown."""

    partition: int
    executor: str
    host: str
    seconds: float
    rows: int | None = None  # read from its input and from the shuffle
    bytes: int | None = None
    input_rows: int | None = None  # of these, those read from a source


class Alignment(msgspec.Struct, frozen=True):
    """What one stage waited for."""

    stage: int
    name: str
    tasks: int
    wait_seconds: float
    ratio: float  # slowest over median
    partition: int
    executor: str
    host: str
    why: Why
    advice: str  # with its evidence; empty where there is nothing to say
    input_rows: int | None = None  # that all its tasks read from a source
    source: int | None = None  # the source that it reads, where only one can be meant


class AlignmentView(msgspec.Struct, frozen=True):
    """What the stages of one batch waited for, as the driver's REST API told; None is unknown."""

    batch_id: int | None = None
    seconds: float | None = None  # of all its stages together
    skew_ratio: float | None = None  # slowest task over the median, of the longest wait
    stages: list[Alignment] = []  # the longest wait first
    looked_time: float | None = None  # of the agent's clock; None: it has not looked
    missing: str = ""  # what could not be had, and why


def align(
    stage: int, name: str, tasks: Sequence[Task], *, stateful: bool = False
) -> Alignment | None:
    """The wait of one stage; None with too few tasks to tell."""
    if len(tasks) < FEWEST_TASKS:
        return None
    slowest = max(tasks, key=lambda task: task.seconds)
    middle = median(task.seconds for task in tasks)
    wait = slowest.seconds - middle
    ratio = slowest.seconds / max(middle, 1e-3)
    why: Why = "even"
    advice = ""
    if ratio >= SKEWED and wait >= WORTH_SECONDS:
        why, advice = _why(tasks, slowest, middle, stateful=stateful)
    return Alignment(
        stage,
        name,
        len(tasks),
        wait,
        ratio,
        slowest.partition,
        slowest.executor,
        slowest.host,
        why,
        advice,
        _sum([task.input_rows for task in tasks]),
    )


def sources_named(found: Sequence[Alignment], rows: Sequence[int | None]) -> list[Alignment]:
    """The same with the source that each stage reads, the longest wait first.

    ``rows`` are what the sources gave to the batch, by index. A stage is a source's where it read
    as many rows as that source gave, and no other did.
    """
    named: list[Alignment] = []
    for one in found:
        read = one.input_rows
        fits = [index for index, count in enumerate(rows) if read and count == read]
        named.append(msgspec.structs.replace(one, source=fits[0]) if len(fits) == 1 else one)
    return sorted(named, key=lambda one: -one.wait_seconds)


def summed(found: Sequence[Alignment]) -> tuple[float | None, float | None]:
    """(seconds that the stages of a batch waited in all, ratio of the longest wait's)."""
    longest = worst(found)
    if longest is None:
        return None, None
    return sum(one.wait_seconds for one in found), longest.ratio


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def worst(found: Sequence[Alignment]) -> Alignment | None:
    """The stage that waited longest; None where there is none."""
    return max(found, key=lambda one: one.wait_seconds, default=None)


def _why(tasks: Sequence[Task], slowest: Task, middle: float, *, stateful: bool) -> tuple[Why, str]:
    said = (
        f"partition {slowest.partition} took {slowest.seconds:.3g} s, the median task "
        f"{middle:.3g} s"
    )
    read = [task.rows for task in tasks if task.rows is not None]
    if slowest.rows is not None and len(read) >= FEWEST_TASKS:
        usual = median(read)
        if slowest.rows > STANDS_OUT * max(usual, 1.0):
            cure = "spread its hot key over several (salting) and combine afterwards"
            if not stateful:
                cure += ", or use more partitions"
            else:
                cure += "; more partitions need a new checkpoint, for state partitions are fixed"
            return (
                "skew",
                f"{said}; it read {slowest.rows} rows, the median task {usual:.0f}: {cure}",
            )
    own = [(task.seconds, task.host == slowest.host) for task in tasks]
    found = _slow_place(own)
    if found is not None:
        there = f"tasks on host {slowest.host} took {found[0]:.3g} s, elsewhere {found[1]:.3g} s"
        return "slow_host", f"{said} and read no more; {there}: look at that host"
    own = [(task.seconds, task.executor == slowest.executor) for task in tasks]
    found = _slow_place(own)
    if found is not None:
        there = (
            f"tasks of executor {slowest.executor} on host {slowest.host} took {found[0]:.3g} s, "
            f"of others {found[1]:.3g} s"
        )
        cure = "look at its garbage collection and what runs beside it"
        return "slow_executor", f"{said} and read no more; {there}: {cure}"
    cure = (
        "look at what this task calls, or let Spark start slow tasks a second time "
        "(spark.speculation) where the sink allows it"
    )
    return "slow_task", f"{said} and read no more than others: {cure}"


def _slow_place(tasks: Sequence[tuple[float, bool]]) -> tuple[float, float] | None:
    """Medians (there, elsewhere) of (seconds, whether there) where the place is slow; else None."""
    there = [seconds for seconds, inside in tasks if inside]
    elsewhere = [seconds for seconds, inside in tasks if not inside]
    if len(there) < 2 or not elsewhere:
        return None
    one, other = median(there), median(elsewhere)
    return (one, other) if one > STANDS_OUT * other else None
