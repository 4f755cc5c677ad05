"""What the stages of a batch were made of, as the JVM's own store of figures has it.

Spark keeps its jobs and stages for its web interface, whether that is on or not. It is asked for
the newest batch now and then, on a thread of ours: nothing is added to what the job's own threads
do. All of it is Spark's private side: a part that is missing costs these figures alone.
"""

from __future__ import annotations

import re
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, TypedDict

from spark_listener.backlog import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Jobs of one run that are looked at, newest first; a batch of more is passed over.
MOST_JOBS: Final = 32
#: Jobs of batches before it that are looked at, for whether they come in order: a pool of some
#: threads shows by then, and each costs calls into the JVM.
EARLIER_JOBS: Final = 8
#: So many jobs Spark keeps, unless the job says otherwise (spark.ui.retainedJobs).
_RETAINED_JOBS: Final = 1000
#: Stages of a batch that are told; a batch of more is passed over.
MOST_STAGES: Final = 32
#: What Spark says of a job that lists a source's files, where there are many: it reads no rows.
_LISTING: Final = "Listing leaf files and directories"
_NAMED_BATCH: Final = re.compile(r"\bbatch = (init|\d{1,18})\b")


class StageWork(TypedDict):
    """One stage that ended. ``begin_seconds`` are after the begin of the first one."""

    tasks: int
    task_seconds: float  # of all its tasks together
    longest_seconds: float | None  # of its slowest task
    begin_seconds: float
    seconds: float


class _BatchWorkRequired(TypedDict):
    slots: int
    steady: bool


class BatchWork(_BatchWorkRequired, total=False):
    """How many tasks could run at once when a batch ended, and whether all the while it ran.

    ``stages`` are there where they were looked at.
    """

    stages: list[StageWork]


class StageStore:
    """Of one application. Every method may raise what py4j raises."""

    def __init__(self, gateway: Any, context: Any) -> None:
        """``context`` is the JVM's ``SparkContext``."""
        self._store = context.statusStore()
        self._tracker = context.statusTracker()
        self._arrays = gateway.jvm.java.util.Arrays
        retained = whole(context.getConf().get("spark.ui.retainedJobs", ""))
        self._retained = _RETAINED_JOBS if retained is None else retained
        told = gateway.jvm.org.apache.spark.status.api.v1
        self._slowest_first = told.TaskSorting.DECREASING_RUNTIME
        self._ended_well = gateway.jvm.java.util.Collections.singletonList(told.TaskStatus.SUCCESS)

    def stages_of(self, run_id: str, batch_id: int) -> list[StageWork] | None:
        """Of a batch of a run; None where not all of it is known (yet, or any more)."""
        numbers = self._numbers(run_id, batch_id)
        if not numbers or len(numbers) > MOST_STAGES:
            return None
        found: list[tuple[int, int, StageWork]] = []
        for number in sorted(numbers):
            stage = self._store.lastStageAttempt(number)
            status = str(stage.status().toString())
            if status == "SKIPPED":  # its result was there already
                continue
            if status != "COMPLETE":
                return None
            begun, ended = stage.submissionTime(), stage.completionTime()
            if not begun.isDefined() or not ended.isDefined():
                return None
            begun, ended = int(begun.get().getTime()), int(ended.get().getTime())
            milliseconds = int(stage.executorRunTime()) + int(stage.executorDeserializeTime())
            work: StageWork = {
                "tasks": int(stage.numTasks()),
                "task_seconds": milliseconds / 1000.0,
                "longest_seconds": self._longest_seconds(number, int(stage.attemptId())),
                "begin_seconds": 0.0,
                "seconds": max(0, ended - begun) / 1000.0,
            }
            found.append((begun, ended, work))
        first = min((begun for begun, _, _ in found), default=0)
        for begun, _, work in found:
            work["begin_seconds"] = (begun - first) / 1000.0
        return [work for _, _, work in found]

    def _numbers(self, run_id: str, batch_id: int) -> set[int]:
        """Of all jobs of a batch; empty where one has not ended well, or may not have been seen.

        All were seen where one of an earlier batch was met: that one, and all before it, are not of
        this batch; or where the run has no others, and Spark has forgotten none. Where jobs of no
        group ran since, they may be of the batch: threads that a ``foreachBatch`` starts in Python
        have none. Threads of a pool in the JVM go by the batch in which they were made, for good:
        where a later batch's job is older than an earlier one's, names tell nothing here.
        """
        found: set[int] = set()
        # In one call, whatever other queries ran meanwhile: Spark's group of a batch is its run.
        jobs = self._jobs_of(run_id)
        named = self._named(jobs[:MOST_JOBS])
        for number, job, batch in named:
            # The job itself may say something else of a write: whose that is nobody knows.
            if batch is None:
                return set()
            oldest = number
            if batch < batch_id:
                before = islice((one for _, _, one in named if one is not None), EARLIER_JOBS)
                if any(older > newer for newer, older in pairwise((batch, *before))):
                    return set()
                break
            if batch > batch_id:
                continue
            if str(job.status().toString()) != "SUCCEEDED":
                return set()
            numbers = job.stageIds()
            found.update(int(numbers.apply(index)) for index in range(int(numbers.size())))
        else:  # jobs are numbered from 0
            if not found or len(jobs) > MOST_JOBS or jobs[0] >= self._retained:
                return set()
        # All that is of the batch came after the last one looked at, or is it.
        return found if max(self._jobs_of(None), default=-1) < oldest else set()

    def _named(self, numbers: Iterable[int]) -> Iterator[tuple[int, Any, int | None]]:
        """Jobs, each with its number and the batch it is of, -1 the first; None: not told."""
        for number in numbers:
            job = self._store.job(number)
            description = job.description()
            said = str(description.get()) if description.isDefined() else ""
            if said.startswith(_LISTING):
                continue
            named = _NAMED_BATCH.search(said)
            if named is None:
                yield number, job, None
            else:
                yield number, job, -1 if named.group(1) == "init" else int(named.group(1))

    def _jobs_of(self, group: str | None) -> list[int]:
        """The newest first."""
        listed = str(self._arrays.toString(self._tracker.getJobIdsForGroup(group)))
        return sorted((int(one) for one in listed.strip("[]").split(",") if one), reverse=True)

    def _longest_seconds(self, stage: int, attempt: int) -> float | None:
        # Not its quantiles: for those all tasks are sorted once for each of some thirty figures.
        listed = self._store.taskList(stage, attempt, 0, 1, self._slowest_first, self._ended_well)
        if int(listed.size()) == 0:
            return None
        metrics = listed.apply(0).taskMetrics()
        if not metrics.isDefined():
            return None
        slowest = metrics.get()
        milliseconds = int(slowest.executorRunTime()) + int(slowest.executorDeserializeTime())
        return milliseconds / 1000.0
