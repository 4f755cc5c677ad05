"""Task and stage lines of a Spark event log as summaries of stages: what each waited for.

They are most of a log, by far. So a line is chosen by its beginning, and of a line that is wanted
only the fields named here are built; the rest is stepped over. Which batch a stage belongs to
stands in the line of the job that it was planned for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from agent.core.judge.alignment import Alignment, AlignmentView, Task, align, summed
from agent.sources import spark_events
from agent.sources.spark_events import Count, Moment

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How the lines begin that tell something here; Spark writes ``Event`` first, without spaces.
TASK_END: Final = b'{"Event":"SparkListenerTaskEnd"'
STAGE_COMPLETED: Final = b'{"Event":"SparkListenerStageCompleted"'
JOB_START: Final = b'{"Event":"SparkListenerJobStart"'
BEGINNINGS: Final = (TASK_END, STAGE_COMPLETED, JOB_START)
#: Of one stage so many tasks are kept; of more, the slowest beside them: the median moves little.
MOST_TASKS: Final = 20_000
#: Stages whose end, and batches whose progress, are waited for; the oldest are let go.
MOST_OPEN: Final = 1000
MOST_BATCHES: Final = 200


class TaskEnded(msgspec.Struct, frozen=True):
    """A task ended; ``task`` is None where it failed or was killed."""

    stage: int
    attempt: int
    task: Task | None


class StageEnded(msgspec.Struct, frozen=True):
    """A stage ended; epoch seconds, None unknown. ``failure`` is empty where it did well."""

    stage: int
    attempt: int
    name: str
    tasks: int
    submitted_time: float | None
    completed_time: float | None
    failure: str


class JobPlanned(msgspec.Struct, frozen=True):
    """A micro-batch's job and the stages planned for it, some of which may be skipped.

    Without a ``query_id`` it is a job of no group: threads that a ``foreachBatch`` starts in Python
    have none, so it may be of any batch that runs.
    """

    query_id: str
    run_id: str
    batch_id: int
    time: float
    stages: tuple[int, ...]


class Stage(msgspec.Struct, frozen=True):
    """A stage that ended, and what it waited for. None is unknown.

    ``alignment`` is None with fewer than three tasks: nothing to compare.
    """

    stage: int
    attempt: int
    name: str
    tasks: int  # that the stage had
    failed_tasks: int
    submitted_time: float | None
    completed_time: float | None
    failure: str
    alignment: Alignment | None
    task_seconds: float = 0.0  # of all tasks together
    longest_seconds: float = 0.0  # of the slowest

    @property
    def seconds(self) -> float | None:
        """From its submission to its end."""
        if self.submitted_time is None or self.completed_time is None:
            return None
        return max(0.0, self.completed_time - self.submitted_time)


Heard: TypeAlias = TaskEnded | StageEnded | JobPlanned


class _EndReason(msgspec.Struct, rename={"reason": "Reason"}):
    reason: str = ""


class _TaskInfo(
    msgspec.Struct,
    rename={
        "index": "Index",
        "partition": "Partition ID",
        "launch": "Launch Time",
        "finish": "Finish Time",
        "executor": "Executor ID",
        "host": "Host",
    },
):
    launch: Moment
    finish: Moment
    index: Count = -1
    partition: Count | None = None  # since Spark 3.3; the index before
    executor: str = ""
    host: str = ""


class _Input(msgspec.Struct, rename={"rows": "Records Read", "bytes": "Bytes Read"}):
    rows: Count | None = None
    bytes: Count | None = None


class _Shuffle(
    msgspec.Struct,
    rename={
        "rows": "Total Records Read",
        "remote": "Remote Bytes Read",
        "local": "Local Bytes Read",
    },
):
    rows: Count | None = None
    remote: Count | None = None
    local: Count | None = None


class _Metrics(
    msgspec.Struct, rename={"input": "Input Metrics", "shuffle": "Shuffle Read Metrics"}
):
    input: _Input | None = None
    shuffle: _Shuffle | None = None


class _TaskEnd(
    msgspec.Struct,
    rename={
        "stage": "Stage ID",
        "attempt": "Stage Attempt ID",
        "reason": "Task End Reason",
        "info": "Task Info",
        "metrics": "Task Metrics",
    },
):
    stage: Count
    info: _TaskInfo
    attempt: Count = 0
    reason: _EndReason | None = None
    metrics: _Metrics | None = None


class _StageInfo(
    msgspec.Struct,
    rename={
        "stage": "Stage ID",
        "attempt": "Stage Attempt ID",
        "name": "Stage Name",
        "tasks": "Number of Tasks",
        "submitted": "Submission Time",
        "completed": "Completion Time",
        "failure": "Failure Reason",
    },
):
    stage: Count
    attempt: Count = 0
    name: str = ""
    tasks: Count = 0
    submitted: Moment | None = None
    completed: Moment | None = None
    failure: str | None = None


class _StageCompleted(msgspec.Struct, rename={"info": "Stage Info"}):
    info: _StageInfo


class _JobStart(
    msgspec.Struct,
    rename={"time": "Submission Time", "stages": "Stage IDs", "properties": "Properties"},
):
    time: Moment
    stages: list[Count] = []
    properties: dict[str, str | None] | None = None


_task_end = msgspec.json.Decoder(_TaskEnd).decode
_stage_completed = msgspec.json.Decoder(_StageCompleted).decode
_job_start = msgspec.json.Decoder(_JobStart).decode


def wanted(line: bytes) -> bool:
    """Whether a line tells of a task that ended, a stage that ended or a job that began."""
    return line.startswith(BEGINNINGS)


def read(line: bytes) -> Heard | None:
    """What a line tells; None where it is of nothing wanted here, or of no micro-batch.

    Raises ValueError (msgspec's is one) where it cannot be used.
    """
    if line.startswith(TASK_END):
        return _task(_task_end(line))
    if line.startswith(STAGE_COMPLETED):
        return _stage(_stage_completed(line).info)
    if line.startswith(JOB_START):
        return _job(_job_start(line))
    return None


def time_of(heard: Heard | None) -> float | None:
    """When what a line tells happened, in epoch seconds; None where it says nothing of it."""
    if isinstance(heard, JobPlanned):
        return heard.time
    return heard.completed_time if isinstance(heard, StageEnded) else None


def stage_of(
    ended: StageEnded, tasks: Sequence[Task], failed_tasks: int = 0, *, stateful: bool = False
) -> Stage:
    """A stage that ended, from all its successful tasks."""
    seconds = [task.seconds for task in tasks]
    kept = max(ended.tasks, len(seconds)) / max(len(seconds), 1)  # of very many, not all are
    return Stage(
        ended.stage,
        ended.attempt,
        ended.name,
        ended.tasks,
        failed_tasks,
        ended.submitted_time,
        ended.completed_time,
        ended.failure,
        align(ended.stage, ended.name, tasks, stateful=stateful),
        sum(seconds) * kept,
        max(seconds, default=0.0),
    )


class Stages:
    """One application's stages, line by line, as its log is followed: bounded memory."""

    def __init__(self) -> None:
        # By query id: a job's group is its run's only where the user sets none.
        self._batches: dict[int, tuple[str, int]] = {}  # stage → query id, batch
        self._tasks: dict[tuple[int, int], _Open] = {}  # (stage, attempt)
        self._done: dict[tuple[str, int], list[tuple[StageEnded, _Open]]] = {}
        self._taken: dict[str, int] = {}  # the newest batch taken, by query id
        self._begun: dict[str, int] = {}  # the newest batch with a job, by query id
        self._nobodys = 0  # jobs of no group, and by query id how many there were at its last batch
        self._nobodys_before: dict[str, int] = {}
        # Queries whose running batch has jobs under another's number.
        self._partly: dict[str, None] = {}

    def hear(self, heard: Heard) -> None:
        """Takes a line in, in the log's order."""
        if isinstance(heard, TaskEnded):
            # Tasks of a stage that no micro-batch planned are of no query.
            if heard.stage in self._batches:
                key = (heard.stage, heard.attempt)
                opened = self._tasks.get(key)
                if opened is None:
                    opened = self._tasks[key] = _Open()
                    let_go(self._tasks, MOST_OPEN)
                opened.add(heard.task)
        elif isinstance(heard, JobPlanned):
            if not heard.query_id:
                self._nobodys += 1
                return
            if heard.batch_id < self._begun.get(heard.query_id, -1):
                self._partly[heard.query_id] = None
                let_go(self._partly, MOST_OPEN)
            else:
                self._begun[heard.query_id] = heard.batch_id
                let_go(self._begun, MOST_OPEN)
            if self.is_taken(heard.query_id, heard.batch_id):
                return
            for stage in heard.stages:
                # A later job of the batch names the stages of earlier ones again.
                self._batches[stage] = (heard.query_id, heard.batch_id)
            let_go(self._batches, MOST_OPEN)
        else:
            batch = self._batches.pop(heard.stage, None)
            opened = self._tasks.pop((heard.stage, heard.attempt), None)
            if batch is None:
                return
            if heard.failure:
                self._batches[heard.stage] = batch  # another attempt follows
                return
            self._done.setdefault(batch, []).append((heard, opened or _Open()))
            let_go(self._done, MOST_BATCHES)

    def forget(self, query_id: str) -> None:
        """Its run has ended: a batch that it left is run again, with stages of its own."""
        for batch in [batch for batch in self._done if batch[0] == query_id]:
            del self._done[batch]
        self._taken.pop(query_id, None)

    def is_taken(self, query_id: str, batch_id: int) -> bool:
        """Whether a job is of a batch that has ended: one between batches bears the last number.

        As Spark's own jobs do that list the directories of the batch to come, where there are more
        than 32 of them (``spark.sql.sources.parallelPartitionDiscovery.threshold``).
        """
        return batch_id <= self._taken.get(query_id, -1)

    def all_known(self, query_id: str) -> bool:
        """Whether the batch that ended had no jobs but those told; asked before each is taken.

        A ``foreachBatch`` that writes from a pool's threads has jobs that bear the number of the
        batch in which the thread was made, or, in Python, no query's name.
        """
        known = self._nobodys == self._nobodys_before.get(query_id, 0)
        self._nobodys_before[query_id] = self._nobodys
        let_go(self._nobodys_before, MOST_OPEN)
        partly = query_id in self._partly
        self._partly.pop(query_id, None)
        return known and not partly

    def take(self, query_id: str, batch_id: int, *, stateful: bool = False) -> list[Stage]:
        """The stages of a batch that has ended, in the order of their ends; they are let go."""
        self._taken[query_id] = max(batch_id, self._taken.get(query_id, -1))
        let_go(self._taken, MOST_OPEN)
        found = self._done.pop((query_id, batch_id), [])
        return [
            stage_of(ended, opened.tasks, opened.failed, stateful=stateful)
            for ended, opened in found
        ]


def view_of(batch_id: int | None, stages: Sequence[Stage], looked_time: float) -> AlignmentView:
    """What the stages of one batch waited for, the longest wait first."""
    found = [one.alignment for one in stages if one.alignment is not None]
    found.sort(key=lambda one: -one.wait_seconds)
    seconds, ratio = summed(found)
    missing = "" if found else "no stage of the batch had tasks enough to compare"
    return AlignmentView(batch_id, seconds, ratio, found, looked_time, missing)


class _Open:
    """Tasks of a stage that has not ended."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.failed = 0

    def add(self, task: Task | None) -> None:
        if task is None:
            self.failed += 1
        elif len(self.tasks) < MOST_TASKS:
            self.tasks.append(task)
        elif task.seconds > self.tasks[-1].seconds:
            self.tasks[-1] = task  # the last place is the slowest one's


def let_go(kept: dict[Any, Any], most: int) -> None:
    """Keeps so many of them, the latest."""
    while len(kept) > most:
        del kept[next(iter(kept))]


def _task(told: _TaskEnd) -> TaskEnded:
    if told.reason is None or told.reason.reason != "Success":
        return TaskEnded(told.stage, told.attempt, None)
    info = told.info
    partition = info.index if info.partition is None or info.partition < 0 else info.partition
    if partition < 0:
        raise ValueError("Task Info: neither Partition ID nor Index")
    rows = size = given = None
    if told.metrics is not None:
        source, shuffle = told.metrics.input, told.metrics.shuffle
        if source is not None:
            rows, size = source.rows, source.bytes
        given = rows
        if shuffle is not None:
            rows = shuffle.rows if rows is None else rows + (shuffle.rows or 0)
            if shuffle.remote is not None or shuffle.local is not None:
                size = (size or 0) + (shuffle.remote or 0) + (shuffle.local or 0)
    seconds = max(0, info.finish - info.launch) / 1000.0
    task = Task(partition, info.executor[:100], info.host[:200], seconds, rows, size, given)
    return TaskEnded(told.stage, told.attempt, task)


def _stage(told: _StageInfo) -> StageEnded:
    return StageEnded(
        told.stage,
        told.attempt,
        told.name[:200],
        told.tasks,
        None if told.submitted is None else told.submitted / 1000.0,
        None if told.completed is None else told.completed / 1000.0,
        (told.failure or "")[:500],
    )


def _job(told: _JobStart) -> JobPlanned | None:
    job = spark_events.job_started(
        {
            "Event": "SparkListenerJobStart",
            "Properties": told.properties,
            "Submission Time": told.time,
        }
    )
    if job is None:
        grouped = told.properties is not None and told.properties.get("spark.jobGroup.id")
        return None if grouped else JobPlanned("", "", -1, told.time / 1000.0, tuple(told.stages))
    return JobPlanned(job.query_id, job.run_id, job.batch_id, job.time, tuple(told.stages))
