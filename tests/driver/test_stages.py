"""A batch's stages: all of them are told, or none.

Spark's store is played here; tests/plugin/test_executors.py asks the real one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_listener.stages import MOST_JOBS, StageStore


class Option:
    """As Scala's options are read."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def isDefined(self) -> bool:
        return self.value is not None

    def get(self) -> Any:
        return self.value


class Numbers(list[int]):
    """As Scala's sequences are read."""

    def apply(self, index: int) -> int:
        return self[index]

    def size(self) -> int:
        return len(self)


class Said(str):
    __slots__ = ()

    def toString(self) -> str:
        return self


class Job:
    """Of one stage, that has the job's own number."""

    def __init__(self, number: int, run_id: str | None, description: str | None) -> None:
        self.number, self.run_id, self.said = number, run_id, description

    def info(self) -> Job:
        return self

    def jobId(self) -> int:
        return self.number

    def jobGroup(self) -> Option:
        return Option(self.run_id)

    def description(self) -> Option:
        return Option(self.said)

    def status(self) -> Said:
        return Said("SUCCEEDED")

    def stageIds(self) -> Numbers:
        return Numbers([self.number])


class Moment(int):
    def getTime(self) -> int:
        return self


class Stage:
    """One that ran for a second, each after the one before."""

    def __init__(self, number: int) -> None:
        self.number = number

    def status(self) -> Said:
        return Said("COMPLETE")

    def submissionTime(self) -> Option:
        return Option(Moment(1000 * self.number))

    def completionTime(self) -> Option:
        return Option(Moment(1000 * (self.number + 1)))

    def executorRunTime(self) -> int:
        return 600

    def executorDeserializeTime(self) -> int:
        return 400

    def numTasks(self) -> int:
        return 1

    def attemptId(self) -> int:
        return 0


class Tasks(list[Any]):
    """As Scala's sequences are read: of each what it ran and what it took to be read, or None."""

    def apply(self, index: int) -> SimpleNamespace:
        told = self[index]
        metrics = told and SimpleNamespace(
            executorRunTime=lambda: told[0], executorDeserializeTime=lambda: told[1]
        )
        return SimpleNamespace(taskMetrics=lambda: Option(metrics))

    def size(self) -> int:
        return len(self)


class Spark:
    """Gateway, context and store in one."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.slowest: dict[int, list[tuple[int, int] | None]] = {}  # of a stage, of each task
        self.retained = ""
        self.jvm = self.java = self.util = self.Arrays = self.Collections = self
        self.org = self.apache = self.spark = self.status = self.api = self.v1 = self
        self.TaskSorting = self.TaskStatus = SimpleNamespace(
            DECREASING_RUNTIME="slowest first", SUCCESS="success"
        )

    def ran(
        self, run_id: str, batch: int | str | None, count: int = 1, said: str = "by hand"
    ) -> None:
        """So many jobs of a batch; None: of the run, under a description of its own."""
        said = said if batch is None else f"orders<br/>runId = {run_id}<br/>batch = {batch}"
        for _ in range(count):
            self.jobs.append(Job(len(self.jobs), run_id, said))

    def statusStore(self) -> Spark:
        return self

    def statusTracker(self) -> Spark:
        return self

    def getConf(self) -> Spark:
        return self

    def get(self, key: str, default: str) -> str:
        assert key == "spark.ui.retainedJobs"
        return self.retained or default

    def getJobIdsForGroup(self, run_id: str | None) -> list[int]:
        return [job.number for job in self.jobs if job.run_id == run_id]

    def toString(self, numbers: list[int]) -> str:
        return str(numbers)

    def job(self, number: int) -> Job:
        return next(job for job in self.jobs if job.number == number)

    def singletonList(self, one: str) -> list[str]:
        return [one]

    def lastStageAttempt(self, number: int) -> Stage:
        return Stage(number)

    def taskList(self, *asked: Any) -> Tasks:
        assert asked[2:] == (0, 1, "slowest first", ["success"])
        return Tasks(self.slowest.get(asked[0], []))


@pytest.fixture
def spark() -> Spark:
    return Spark()


def stages(spark: Spark, run_id: str, batch: int) -> int | None:
    """How many are told."""
    told = StageStore(spark, spark).stages_of(run_id, batch)
    return None if told is None else len(told)


def test_of_a_batch_of_more_jobs_than_are_looked_at_none_is_told(spark: Spark) -> None:
    spark.ran("A", 6)
    spark.ran("A", 7, 41)
    assert stages(spark, "A", 7) is None


def test_of_a_stage_s_tasks_the_slowest_is_told_where_spark_has_it(spark: Spark) -> None:
    spark.ran("A", 0, 3)
    spark.slowest = {0: [(1400, 100)], 1: [None]}
    told = StageStore(spark, spark).stages_of("A", 0)
    assert told is not None
    assert [one["longest_seconds"] for one in told] == [1.5, None, None]


def test_whatever_other_queries_ran_meanwhile_all_are_told(spark: Spark) -> None:
    spark.ran("A", 6)
    spark.ran("B", 0, 60)
    spark.ran("A", 7)
    spark.ran("B", 1, 40)
    spark.ran("A", 7)
    assert stages(spark, "A", 7) == 2


def test_all_are_told_where_a_batch_before_it_is_met_or_there_is_none(spark: Spark) -> None:
    spark.ran("A", "init")
    spark.ran("A", 0, 3)
    assert stages(spark, "A", 0) == 3
    spark.ran("B", 0, 2)
    spark.ran("A", 1, 2)
    spark.ran("A", 2)
    assert stages(spark, "A", 1) == 2
    spark.ran("C", 0, MOST_JOBS)
    assert stages(spark, "C", 0) == MOST_JOBS


@pytest.mark.parametrize(("retained", "told"), [("", None), ("2000", 31), ("50", None)])
def test_what_spark_may_have_forgotten_was_not_seen(
    spark: Spark, retained: str, told: int | None
) -> None:
    """It keeps no more than spark.ui.retainedJobs, the newest."""
    spark.retained = retained
    spark.ran("B", 0, 1_000)
    spark.ran("A", 0, 31)
    assert stages(spark, "A", 0) == told


def test_where_a_job_may_be_of_any_batch_none_is_told(spark: Spark) -> None:
    """A function of foreachBatch describes its own writes."""
    spark.ran("A", 6)
    spark.ran("A", 7, 2)
    spark.ran("A", None)
    spark.ran("A", 7)
    assert stages(spark, "A", 7) is None


def test_where_jobs_of_no_group_ran_since_the_batch_before_none_is_told(spark: Spark) -> None:
    """A function of foreachBatch writes from threads of its own: these have no group in Python."""
    spark.jobs.append(Job(len(spark.jobs), None, "before the query"))
    spark.ran("A", 0, 2)
    assert stages(spark, "A", 0) == 2
    spark.jobs.append(Job(len(spark.jobs), None, "a table"))
    assert stages(spark, "A", 0) is None
    spark.ran("A", 1, 2)
    assert stages(spark, "A", 1) is None
    spark.ran("A", 2)
    assert stages(spark, "A", 2) == 1
    spark.jobs.append(Job(len(spark.jobs), None, "another table"))
    assert stages(spark, "A", 2) is None


def test_a_listing_of_files_is_no_part_of_a_batch(spark: Spark) -> None:
    """Spark describes it in words of its own where there are more than 32 paths."""
    listing = "Listing leaf files and directories for 174 paths:<br/>file:/in/1.txt, ..."
    spark.ran("A", None, said=listing)
    spark.ran("A", 0, 2)
    spark.ran("A", None, said=listing)
    spark.ran("A", 1, 3)
    spark.ran("A", None, said=listing)
    assert stages(spark, "A", 0) == 2
    assert stages(spark, "A", 1) == 3


def test_where_a_pools_threads_bear_an_earlier_batchs_number_none_is_told(spark: Spark) -> None:
    """A thread of the JVM keeps the properties of the one that made it, for as long as it lives."""
    spark.ran("A", 0, 2)
    for batch in (1, 2):
        spark.ran("A", batch)
        spark.ran("A", 0, 2)  # by the pool that batch 0 made
    spark.ran("A", 2)
    assert stages(spark, "A", 2) is None
    spark.ran("A", 3)
    spark.ran("A", 4)
    assert stages(spark, "A", 4) is None  # the pool's are as near
    spark.ran("B", 0)
    spark.ran("B", 1)
    spark.ran("B", 0, 6)
    spark.ran("B", 2)
    assert stages(spark, "B", 2) is None
    for batch in range(5, 5 + MOST_JOBS):
        spark.ran("A", batch)
    assert stages(spark, "A", batch) == 1
