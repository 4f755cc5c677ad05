"""Task and stage lines of an event log, as summaries of stages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.judge.alignment import Task
from agent.sources import spark_stages
from agent.sources.spark_stages import JobPlanned, Stages, TaskEnded
from tests.event_log import lines

RUN, QUERY = lines.RUN, lines.QUERY


def job(stages: list[int], batch: int = 4, run: str = RUN) -> bytes:
    return lines.line(
        "SparkListenerJobStart",
        **{
            "Job ID": 9,
            "Submission Time": 1_795_251_302_000,
            "Stage Infos": [{"Stage ID": one, "RDD Info": [{}]} for one in stages],
            "Stage IDs": stages,
            "Properties": {
                "sql.streaming.queryId": QUERY,
                "sql.streaming.runId": run,
                "streaming.sql.batchId": str(batch),
                "spark.app.name": "orders",
            },
        },
    ).strip()


def task(stage: int, index: int, milliseconds: int, **changes: Any) -> bytes:
    told: dict[str, Any] = {
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task Type": "ResultTask",
        "Task End Reason": {"Reason": "Success"},
        "Task Info": {
            "Task ID": 70 + index,
            "Index": index,
            "Attempt": 0,
            "Partition ID": index,
            "Launch Time": 1_795_251_302_000,
            "Executor ID": str(index % 2),
            "Host": f"host-{index % 2}",
            "Finish Time": 1_795_251_302_000 + milliseconds,
            "Failed": False,
            "Killed": False,
            "Accumulables": [{"ID": 1, "Name": "duration", "Update": "1", "Value": "2"}],
        },
        "Task Metrics": {
            "Executor Run Time": milliseconds - 5,
            "Shuffle Read Metrics": {
                "Remote Bytes Read": 10,
                "Local Bytes Read": 20,
                "Total Records Read": 100 * (index + 1),
            },
            "Input Metrics": {"Bytes Read": 5, "Records Read": 7},
        },
    }
    return lines.line("SparkListenerTaskEnd", **(told | changes)).strip()


def completed(stage: int, tasks: int, attempt: int = 0, failure: str | None = None) -> bytes:
    info: dict[str, Any] = {
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Stage Name": "start at Job.scala:12",
        "Number of Tasks": tasks,
        "Submission Time": 1_795_251_302_000,
        "Completion Time": 1_795_251_305_500,
    }
    if failure:
        info["Failure Reason"] = failure
    return lines.line("SparkListenerStageCompleted", **{"Stage Info": info}).strip()


def hear(stages: Stages, *told: bytes) -> None:
    for line in told:
        heard = spark_stages.read(line)
        if heard is not None:
            stages.hear(heard)


def test_a_task_is_what_the_rest_api_would_tell() -> None:
    assert spark_stages.read(task(3, 1, 400)) == TaskEnded(
        3, 0, Task(1, "1", "host-1", 0.4, rows=207, bytes=35, input_rows=7)
    )


@pytest.mark.parametrize("reason", ["ExceptionFailure", "TaskKilled", "Resubmitted"])
def test_a_task_that_failed_counts_and_is_not_compared(reason: str) -> None:
    line = task(3, 1, 400, **{"Task End Reason": {"Reason": reason}})
    assert spark_stages.read(line) == TaskEnded(3, 0, None)


def test_logs_before_partition_ids_and_metrics() -> None:
    told = json.loads(task(3, 1, 400))
    del told["Task Info"]["Partition ID"], told["Task Metrics"]
    heard = spark_stages.read(json.dumps(told, separators=(",", ":")).encode())
    assert heard == TaskEnded(3, 0, Task(1, "1", "host-1", 0.4))


def test_only_jobs_of_micro_batches_are_told() -> None:
    heard = spark_stages.read(job([3, 4]))
    assert heard == JobPlanned(QUERY, RUN, 4, 1_795_251_302.0, (3, 4))
    other = json.loads(job([3]))
    other["Properties"] = {"spark.app.name": "orders"}
    told = spark_stages.read(json.dumps(other, separators=(",", ":")).encode())
    assert isinstance(told, JobPlanned)
    assert told.query_id == "", "of no group: it may be of any"


@pytest.mark.parametrize(
    "line",
    [
        task(3, 1, 400)[:-40],
        lines.line("SparkListenerTaskEnd", **{"Stage ID": 3}).strip(),
        lines.line("SparkListenerStageCompleted", **{"Stage Info": 3}).strip(),
        lines.line("SparkListenerJobStart", **{"Stage IDs": "all"}).strip(),
        task(3, 10**400, 400),
        task(3, 1, 10**400),
        completed(3, 10**400),
        job([3, 10**400]),
    ],
)
def test_a_line_that_cannot_be_used_is_refused(line: bytes) -> None:
    assert spark_stages.wanted(line)
    with pytest.raises(ValueError, match=r".+"):
        spark_stages.read(line)


def test_a_batch_s_stages_name_their_slowest_task() -> None:
    stages = Stages()
    hear(stages, job([3, 4]), *(task(3, n, 100) for n in range(7)), task(3, 7, 900))
    assert stages.take(QUERY, 4) == []  # not ended
    hear(stages, completed(3, 8), task(4, 0, 50), completed(4, 1))
    first, second = stages.take(QUERY, 4)
    assert first.alignment is not None
    assert (first.stage, first.tasks, first.seconds) == (3, 8, 3.5)
    assert (first.alignment.partition, first.alignment.executor) == (7, "1")
    assert first.alignment.wait_seconds == pytest.approx(0.8)
    assert first.alignment.why == "skew"
    assert second.alignment is None  # one task waits for none
    assert stages.take(QUERY, 4) == []
    view = spark_stages.view_of(4, [first, second], looked_time=1.0)
    assert view.seconds == pytest.approx(0.8)
    assert [one.stage for one in view.stages] == [3]


def test_an_attempt_that_failed_leaves_the_stage_to_the_next() -> None:
    stages = Stages()
    hear(stages, job([3]), *(task(3, n, 100) for n in range(4)), completed(3, 4, 0, "lost"))
    again = [task(3, n, 300, **{"Stage Attempt ID": 1}) for n in range(4)]
    hear(stages, *again, completed(3, 4, 1))
    (only,) = stages.take(QUERY, 4)
    assert (only.attempt, only.failure) == (1, "")


def test_stages_of_no_query_and_of_batches_nobody_asks_for_are_let_go() -> None:
    stages = Stages()
    hear(stages, *(task(n, 0, 5) for n in range(50)), *(completed(n, 1) for n in range(50)))
    assert not stages._tasks
    assert not stages._done
    for batch in range(2 * spark_stages.MOST_BATCHES):
        hear(stages, job([batch], batch), task(batch, 0, 5), completed(batch, 1))
    for batch in range(2 * spark_stages.MOST_OPEN):
        hear(stages, job([10_000 + batch], batch), task(10_000 + batch, 0, 5))
    assert len(stages._done) == spark_stages.MOST_BATCHES
    assert len(stages._tasks) == spark_stages.MOST_OPEN
    assert len(stages._batches) == spark_stages.MOST_OPEN


def nobodys(stage: int) -> bytes:
    """A job of a thread that a foreachBatch started in Python."""
    told = json.loads(job([stage]))
    told["Properties"] = {"spark.app.name": "orders"}
    return lines.line(told.pop("Event"), **told).strip()


def test_all_are_known_where_no_job_bears_another_batchs_number_or_none() -> None:
    stages = Stages()
    told: dict[int, bool] = {}
    beside = {2: [job([20], 1)], 4: [nobodys(40)], 6: [job([60], 5)]}
    for batch in range(1, 8):
        hear(stages, job([batch], batch), *beside.get(batch, []), task(batch, 0, 5))
        hear(stages, completed(batch, 1))
        told[batch] = stages.all_known(QUERY)
        assert [one.stage for one in stages.take(QUERY, batch)] == [batch]
    assert [batch for batch, known in told.items() if not known] == [2, 4, 6]


def test_a_job_of_another_group_is_of_no_query() -> None:
    told = json.loads(job([3]))
    told["Properties"] = {"spark.jobGroup.id": "somebody"}
    assert spark_stages.read(lines.line(told.pop("Event"), **told).strip()) is None
