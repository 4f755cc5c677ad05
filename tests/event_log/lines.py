"""Lines as Spark writes them to an event log, shortened to what a log of one query holds."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from spark_listener.wire import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

BASE = 1_795_251_302.0
QUERY = "957ee74f-f272-425c-aefb-7ef2d1d24fff"
RUN = "8f45847b-91db-49ef-b853-407b46c168ff"
LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"


def line(event: str, **fields: Any) -> bytes:
    return json.dumps({"Event": event, **fields}, separators=(",", ":")).encode() + b"\n"


def opening(name: str = "orders", app_id: str = "app-1", time: float = BASE) -> list[bytes]:
    return [
        line("SparkListenerLogStart", **{"Spark Version": "4.2.0"}),
        line("SparkListenerResourceProfileAdded", **{"Resource Profile Id": 0}),
        line(
            "SparkListenerApplicationStart",
            **{"App Name": name, "App ID": app_id, "Timestamp": int(time * 1000), "User": "u"},
        ),
    ]


def started(run: str = RUN, query: str = QUERY, time: float = BASE) -> bytes:
    return line(
        f"{LISTENER}QueryStartedEvent",
        id=query,
        runId=run,
        name="enrich",
        timestamp=format_time(time),
        jobTags=[],
    )


def started_untimed(run: str = RUN, query: str = QUERY) -> bytes:
    """As Spark 2 writes it."""
    return line(f"{LISTENER}QueryStartedEvent", id=query, runId=run, name="enrich")


def job(
    batch: int, time: float, run: str = RUN, query: str = QUERY, stages: Sequence[int] = ()
) -> bytes:
    return line(
        "SparkListenerJobStart",
        **{
            "Job ID": batch,
            "Submission Time": int(time * 1000),
            "Stage Infos": [],
            "Stage IDs": list(stages),
            "Properties": {
                "spark.jobGroup.id": run,
                "sql.streaming.queryId": query,
                "streaming.sql.batchId": str(batch),
            },
        },
    )


def progress(batch: int, rows: int = 1000, seconds: float = 2.0, run: str = RUN) -> bytes:
    milliseconds = int(seconds * 1000)
    return line(
        f"{LISTENER}QueryProgressEvent",
        progress={
            "id": QUERY,
            "runId": run,
            "name": "enrich",
            "timestamp": format_time(BASE + 5.0 * batch),
            "batchId": batch,
            "batchDuration": milliseconds,
            "durationMs": {
                "triggerExecution": milliseconds,
                "addBatch": milliseconds - 200,
                "walCommit": 50,
                "commitOffsets": 40,
                "latestOffset": 10,
                "queryPlanning": 20,
                "getBatch": 5,
            },
            "eventTime": {},
            "stateOperators": [],
            "sources": [
                {
                    "description": "RateStreamV2[rowsPerSecond=100]",
                    "startOffset": str(batch),
                    "endOffset": str(batch + 1),
                    "latestOffset": str(batch + 1),
                    "numInputRows": rows,
                    "inputRowsPerSecond": 100.0,
                    "processedRowsPerSecond": 500.0,
                    "metrics": {},
                }
            ],
            "sink": {"description": "noop-table", "numOutputRows": -1, "metrics": {}},
            "observedMetrics": {},
        },
    )


def task() -> bytes:
    """What nearly all of a log is."""
    return line("SparkListenerTaskEnd", **{"Stage ID": 3, "Task Info": {"Task ID": 7}})


def long_text(size_bytes: int) -> str:
    """One that packs to no less than half."""
    return random.Random(5).randbytes(size_bytes // 2).hex()


def plan(size_bytes: int) -> bytes:
    """A query's plan, which tells nothing here."""
    started = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    return line(started, executionId=1, physicalPlanDescription=long_text(size_bytes))


def executor(name: str, cores: int | None, time: float) -> bytes:
    """One that came, or went where it has no cores."""
    told: dict[str, Any] = {"Timestamp": int(time * 1000), "Executor ID": name}
    if cores is None:
        return line("SparkListenerExecutorRemoved", **told, **{"Removed Reason": "lost"})
    info = {"Host": f"worker-{name}", "Total Cores": cores, "Log Urls": {}}
    return line("SparkListenerExecutorAdded", **told, **{"Executor Info": info})


def stage(
    number: int,
    seconds: Sequence[float],
    rows: Sequence[int],
    *,
    time: float = BASE,
    longer: float = 1.0,
) -> list[bytes]:
    """A stage's tasks, a partition each, and its end: all at once, or so many times longer."""
    begun = int(time * 1000)
    tasks = [
        line(
            "SparkListenerTaskEnd",
            **{
                "Stage ID": number,
                "Stage Attempt ID": 0,
                "Task Type": "ResultTask",
                "Task End Reason": {"Reason": "Success"},
                "Task Info": {
                    "Task ID": partition,
                    "Index": partition,
                    "Partition ID": partition,
                    "Launch Time": begun,
                    "Executor ID": "2",
                    "Host": "worker-2",
                    "Finish Time": begun + int(1000 * took),
                },
                "Task Metrics": {
                    "Shuffle Read Metrics": {"Total Records Read": read},
                    "Input Metrics": {"Bytes Read": 0, "Records Read": 0},
                },
            },
        )
        for partition, (took, read) in enumerate(zip(seconds, rows, strict=True))
    ]
    info = {
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Stage Name": "start at job.py:3",
        "Number of Tasks": len(tasks),
        "Submission Time": begun,
        "Completion Time": begun + int(1000 * max(seconds) * longer),
    }
    return [*tasks, line("SparkListenerStageCompleted", **{"Stage Info": info})]


def skewed(batches: int) -> list[bytes]:
    """A log of batches each with a stage whose third task reads most, the later the longer."""
    lines = [*opening(), started()]
    for batch in range(batches):
        waits = [0.5, 0.4, 2.5 + batch, 0.5]
        lines.append(job(batch, BASE + 5.0 * batch + 0.5, stages=[batch]))
        lines += stage(batch, waits, [10, 10, 480, 10])
        lines.append(progress(batch))
    return lines


def terminated(run: str = RUN) -> bytes:
    return line(
        f"{LISTENER}QueryTerminatedEvent",
        id=QUERY,
        runId=run,
        exception=None,
        errorClassOnException=None,
    )


def idle(time: float, run: str = RUN) -> bytes:
    return line(f"{LISTENER}QueryIdleEvent", id=QUERY, runId=run, timestamp=format_time(time))


def closing(time: float = BASE + 60.0) -> bytes:
    return line("SparkListenerApplicationEnd", Timestamp=int(time * 1000))


def whole(batches: int = 8) -> list[bytes]:
    """A log from start to end, tasks and jobs among it."""
    lines = [*opening(), started()]
    for batch in range(batches):
        lines += [job(batch, BASE + 5.0 * batch + 0.5), task(), task(), progress(batch)]
    return [*lines, terminated(), closing()]


def each_minute(app_id: str, query: str, begin: float, batches: int = 60) -> list[bytes]:
    """The log of an application whose query ends a batch each minute, until it is killed."""
    run = f"run-of-{app_id}"
    lines = [*opening(app_id=app_id, time=begin), started(run, query, begin)]
    for batch in range(batches):
        told = json.loads(progress(batch, run=run))
        told["progress"] |= {"id": query, "timestamp": format_time(begin + 60.0 * batch)}
        lines.append(line(told.pop("Event"), **told))
    return lines


def run_of(attempt: int) -> str:
    """The id of a query's run that many times it was started."""
    return f"00000000-0000-4000-8000-{attempt:012d}"


def killed(attempt: int) -> list[bytes]:
    """The log of one of several runs of a query, whose driver was killed within a batch.

    Each is another application's, and begins 20 s after the one before it.
    """
    run, batch = run_of(attempt), 4 * attempt
    time = BASE + 5.0 * batch
    return [
        *opening(app_id=f"app-{attempt}"),
        started(run, time=time),
        progress(batch, run=run),
        job(batch + 1, time + 5.0, run=run),
    ]


def auto_loader(batch: int, listed: int, queued: int | None = None, whole: bool = True) -> bytes:
    """A batch of Databricks' Auto Loader: 6 files of 2 rows, and how many files wait.

    As its runtime writes it: no commit of offsets in the phases, offsets by its own sequence of
    files, counts as texts, and those in a queue where one tells it of files.
    """
    metrics = {"numFilesOutstanding": str(listed), "numBytesOutstanding": str(1000 * listed)}
    if queued is not None:
        metrics["approximateQueueSize"] = str(queued)
    if not whole:
        metrics["isBacklogComputationComplete"] = "false"
    told = json.loads(progress(batch, rows=12))
    told["progress"]["durationMs"].pop("commitOffsets")
    told["progress"]["sources"] = [
        {
            "description": "CloudFilesSource[abfss://landing@lake.example/in]",
            "startOffset": json.dumps({"seqNum": 6 * batch, "sourceVersion": 1}),
            "endOffset": json.dumps({"seqNum": 6 * batch + 6, "sourceVersion": 1}),
            "latestOffset": None,
            "numInputRows": 12,
            "inputRowsPerSecond": 7.1,
            "processedRowsPerSecond": 26.4,
            "metrics": metrics,
        }
    ]
    told["progress"]["sink"] = {"description": "ForeachBatchSink", "numOutputRows": -1}
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"
