"""Lines of a Spark event log as events of the wire.

Spark writes its streaming events there as JSON of their own: progress without top-level rows and
rates and with offsets as texts, a termination without a time, as a start before Spark 3.0.
Everything else in an event log (tasks, stages, plans) is most of it, and is passed over before it
is even decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from agent.core.decode.events import MAX_ID, MAX_TEXT, MOST_COUNT, Application, decode_event
from spark_listener.wire import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

_LISTENER: Final = "org.apache.spark.sql.streaming.StreamingQueryListener$"
_LISTENER_MARK: Final = b"StreamingQueryListener$"
_STARTS: Final = (b'{"Event":"SparkListenerApplication', b'{"Event":"SparkListenerLogStart')
_JOBS: Final = (b'{"Event":"SparkListenerJob',)
_HEAD_BYTES: Final = 160  # enough for any event's name

#: Milliseconds: the end of the last year that ISO 8601 as Python writes it has.
_MOST_MS: Final = 253_402_300_800_000
#: What a line may say where it tells a time, and a number: others could not be reckoned with.
Moment = Annotated[int, msgspec.Meta(ge=0, lt=_MOST_MS)]
Count = Annotated[int, msgspec.Meta(gt=-MOST_COUNT, lt=MOST_COUNT)]

_decode = msgspec.json.Decoder().decode


class JobStarted(msgspec.Struct, frozen=True, gc=False):
    """A job of a micro-batch began; epoch seconds. The first of a batch shows that it runs."""

    query_id: str
    run_id: str
    batch_id: int
    time: float


def wanted(line: bytes, *, jobs: bool = False) -> bool:
    """Whether a line may tell anything here, judged by its beginning alone."""
    if line.startswith(_STARTS) or (jobs and line.startswith(_JOBS)):
        return True
    return _LISTENER_MARK in line[:_HEAD_BYTES] or not line.startswith(b'{"Event":"')


def application_of(data: Mapping[str, Any], known: Application) -> Application | None:
    """Whose log this is, from its first lines; None where the line says nothing of it."""
    name = data.get("Event")
    if name == "SparkListenerLogStart":
        version = data.get("Spark Version")
        return msgspec.structs.replace(
            known, spark_version=version if isinstance(version, str) else ""
        )
    if name == "SparkListenerApplicationStart":
        app_id, app_name = data.get("App ID"), data.get("App Name")
        if isinstance(app_name, str) and app_name:
            name = app_name[:MAX_TEXT]
            return Application(str(app_id or name)[:MAX_ID], name, known.spark_version)
    return None


def begun_time(data: Mapping[str, Any]) -> float | None:
    """When its application began, in epoch seconds; None where the line says nothing of it."""
    if data.get("Event") != "SparkListenerApplicationStart":
        return None
    return moment(data.get("Timestamp"))


def moment(milliseconds: object) -> float | None:
    """A time as lines tell it, in epoch seconds; None where it is none."""
    if not isinstance(milliseconds, int) or not 0 <= milliseconds < _MOST_MS:
        return None
    return milliseconds / 1000.0


def shape(
    data: Mapping[str, Any], last_time: float | None, begun_time: float | None = None
) -> dict[str, Any] | None:
    """A streaming event as the wire has it; None for any other. Raises ValueError.

    ``last_time`` (epoch seconds) is that of the newest event before it: a termination has no time
    of its own, and ended after all that stands before it, as a start of Spark 2 began, and that
    after its application's, ``begun_time``. Where nothing does, it is passed over: nobody knows
    when it was.
    """
    name = data.get("Event")
    if not isinstance(name, str):
        raise ValueError("Event: a text is needed")
    if not name.startswith(_LISTENER):
        return None
    kind = name[len(_LISTENER) :]
    if kind == "QueryProgressEvent":
        body = data.get("progress")
        if not isinstance(body, dict):
            raise ValueError("progress: an object is needed")
        return progress(body)
    if kind == "QueryStartedEvent":
        time = data.get("timestamp")
        if time is None:
            before = [one for one in (last_time, begun_time) if one is not None]
            time = format_time(max(before)) if before else None
        return None if time is None else {"type": "started", "time": time, "body": data}
    if kind == "QueryIdleEvent":
        return {"type": "idle", "time": data.get("timestamp"), "body": data}
    if kind == "QueryTerminatedEvent" and last_time is not None:
        return {"type": "terminated", "time": format_time(last_time), "body": data}
    return None


def progress(body: dict[str, Any]) -> dict[str, Any]:
    """A bare progress as an event: its time is when the batch ended, as a driver would say."""
    started = {"type": "progress", "time": body.get("timestamp"), "body": body}
    event = decode_event(started, 1)
    seconds = getattr(getattr(event.body, "progress", None), "seconds", None) or 0.0
    return {**started, "time": format_time(event.time + seconds)}


def job_started(data: Mapping[str, Any]) -> JobStarted | None:
    """A job that belongs to a micro-batch; None for every other line."""
    if data.get("Event") != "SparkListenerJobStart":
        return None
    properties, time = data.get("Properties"), moment(data.get("Submission Time"))
    if not isinstance(properties, dict) or time is None:
        return None
    batch, query = properties.get("streaming.sql.batchId"), properties.get("sql.streaming.queryId")
    run = properties.get("sql.streaming.runId") or properties.get("spark.jobGroup.id")
    if not (isinstance(batch, str) and batch.isdecimal()):
        return None
    if not (isinstance(query, str) and query and isinstance(run, str) and run):
        return None
    if len(batch) > 15:  # no batch ever has that number
        return None
    return JobStarted(query, run, int(batch), time)
