"""Decode: bytes from a driver become typed events, tolerantly.

Unknown fields are ignored. A bad event is refused by its index while the good ones are kept. In a
progress body a number that is missing, negative (Spark's ``-1`` is "unknown"), not finite or of the
wrong type is taken as missing, never as zero: progress is Spark's, and a future Spark must not
silence a query.
"""

from __future__ import annotations

import contextlib
import re
from itertools import islice
from sys import intern
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import astuple

from agent.core.decode.kafka_offsets import (
    Offsets,
    admitted_rows,
    grown,
    is_kafka,
    parse_offsets,
    position_of,
    remaining_rows,
)
from agent.core.decode.stages import BatchWork, batch_work
from agent.core.measure.state_store import (
    SNAPSHOT,
    STATE_METRICS,
    StateMetrics,
    copied_bytes,
    told_of,
)
from spark_listener.backlog import files_between, told_whole, waiting_of
from spark_listener.delta import offset_of
from spark_listener.redact import both_ends, redact, redact_again, redact_conf, redact_long
from spark_listener.sources import known
from spark_listener.wire import (
    LONGEST_APPLICATION_NAME,
    MAX_EVENTS_PER_REQUEST,
    UNITS,
    Unit,
    parse_time,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

#: No count of rows, files or bytes reaches it, and floats are exact up to it: more is taken as
#: missing. A limit may be more: ``Long.MaxValue`` is how people write "none".
MOST_COUNT: Final = 2**53
#: What a Java long, a saved state, Prometheus and its clients all can hold.
MOST_LONG: Final = 2**63 - 1
#: No batch takes so long.
MOST_SECONDS: Final = 366 * 86400.0
MOST_MILLISECONDS: Final = 1000.0 * MOST_SECONDS
#: Spark tells whole ones; a rate of rows over much less is no number.
LEAST_MILLISECONDS: Final = 1e-3
MOST_PHASES: Final = 50  # of a batch; Spark tells a dozen
#: Sources of a query, their limits, and its operators; more are not looked at. By default an agent
#: keeps 64 and 32. An entry of two bytes costs a thousand times as many.
MOST_PARTS: Final = 1000
MOST_RUNNING: Final = 10_000  # queries in a heartbeat: each has threads of its own in the driver
MAX_TEXT: Final = 16 * 1024  # of any one text we keep
MAX_ID: Final = 200  # of an id, which is kept for a day: Spark's own have 36 at most
MAX_DESCRIPTION: Final = 500
#: So ends what BigQuery's sink says of itself.
_LATEST_BATCH: Final = re.compile(r", latestBatchId=-?\d+(?=\)\Z)")
MAX_HOST: Final = 253  # as long as a name in DNS can be
#: Of a year after 9999, where ISO 8601 as Python reads it ends; in Gregory's calendar the days come
#: again every 400 years.
_FAR_YEAR: Final = re.compile(r"\+?(\d{5,9})(-\d\d-\d\dT.*)")
_CYCLE_YEARS: Final = 400
_CYCLE_SECONDS: Final = 146_097 * 86_400

EventKind = Literal["started", "progress", "heartbeat", "idle", "terminated"]


class MalformedRequest(ValueError):  # noqa: N818 - the field's word for a 400
    """The body as a whole cannot be used; the message says what and where."""


class TooManyEvents(MalformedRequest):
    """More than a request may hold: fewer at once are taken."""


class Application(msgspec.Struct, frozen=True, gc=False):
    """The Spark application that sends."""

    id: str
    name: str
    spark_version: str = ""


class Listener(msgspec.Struct, frozen=True, gc=False):
    """Who sends: its counters are its own totals since it started."""

    instance: str
    queue_length: int = 0
    dropped_total: int = 0
    callback_seconds_total: float = 0.0
    callbacks_total: int = 0
    host: str = ""
    python_pid: int | None = None
    jvm_pid: int | None = None


class SourceLimit(msgspec.Struct, frozen=True, gc=False):
    """A source's limit and backlog in its own unit; see ``spark_listener.wire.SourceLimit``."""

    source: int
    unit: Unit
    limit: int | None = None
    configured: int | None = None
    backlog: int | None = None
    next_limit: int | None | msgspec.UnsetType = msgspec.UNSET
    admitted: int | None = None
    arrived: int | None = None
    observed_time: float | None = None
    backlog_bound: str = "exact"
    partial: bool = False  # the bound grows while what was there before is found
    unit_known: bool = True  # False: of a newer driver's, of which no figure is understood
    control: str = "live"
    source_class: str = ""
    identity: str = ""
    note: str = ""
    obeyed: bool | None = None  # whether the source keeps to limits that change, where known
    in_order: bool | None = None  # False: what came later may be read before; None: by its class
    offsets: Offsets | None = None  # Kafka: where the batch that runs ends, by partition
    shares_watermark: bool | None = None  # with another source, as the query's plan says
    watermark_delay_seconds: float | None = None  # the least of the query's plan

    @property
    def in_force(self) -> int | None:
        """The limit in force now, as far as the event tells."""
        return self.limit if self.next_limit is msgspec.UNSET else self.next_limit


class SourceProgress(msgspec.Struct, frozen=True, gc=False):
    """One source's part of a batch; offsets only where they are Kafka's (rows, per partition)."""

    description: str
    rows: int | None
    admitted: int | None  # Kafka: end - start over partitions, none new; Auto Loader: files
    backlog: int | None  # Kafka: latest - end, summed over partitions; else the source's metrics
    metrics: dict[str, str]
    start: int | None = None  # Kafka: summed over the partitions
    end: int | None = None
    offsets: Offsets | None = None  # Kafka: the next to be read, by topic and partition
    unit: Unit = "rows"  # of admitted and backlog
    backlog_bound: str = "exact"
    grown: bool = False  # Kafka: partitions are in it that its start does not name
    start_places: int = 0  # Kafka: partitions that its start names
    latest: Offsets | None = None  # Kafka: the offset after the newest row, by partition
    snapshot: bool = False  # Delta: it ends in the table as it was found, before its later commits


class OperatorProgress(msgspec.Struct, frozen=True, gc=False):
    """One state operator's part of a batch."""

    name: str
    rows: int | None
    bytes: int | None
    commit_seconds: float | None
    dropped_rows: int | None
    partitions: int | None = None  # of its state
    metrics: dict[str, float] = {}  # the state store's own that tell something, as Spark names them
    stores: int | None = None  # that its tasks opened

    @property
    def copied_bytes(self) -> int | None:
        """Bytes that the commit wrote to the checkpoint; None where the store does not tell."""
        return copied_bytes(self.metrics)


class Progress(msgspec.Struct, frozen=True, gc=False):
    """A micro-batch that ended. Durations in seconds, ``time`` is when it was triggered."""

    id: str
    run_id: str
    name: str | None
    batch_id: int | None
    time: float
    seconds: float | None  # of the whole trigger
    phases: dict[str, float]
    rows: int | None
    sources: list[SourceProgress]
    operators: list[OperatorProgress]
    watermark_time: float | None
    sink: str
    has_watermark: bool = False  # it declares one, whether or not it has moved yet
    least_event_time: float | None = None  # of the batch's rows; epoch seconds of the data's clock
    greatest_event_time: float | None = None
    mean_event_time: float | None = None


class StartedEvent(msgspec.Struct, frozen=True, gc=False):
    """A query starts, or was found running when Weir attached."""

    id: str
    run_id: str
    name: str | None
    trigger: str
    control: str
    output_mode: str
    sink: str
    checkpoint_location: str
    ui_url: str | None
    conf: dict[str, str]
    limits: list[SourceLimit] = []  # where its sources were known already
    watermark_delay_seconds: float | None = None  # the least of its plan


class ProgressEvent(msgspec.Struct, frozen=True, gc=False):
    """A batch ended; beside Spark's own progress, the limits it ran under, and its stages."""

    progress: Progress
    limits: list[SourceLimit]
    work: BatchWork | None = None  # of this batch, where it was looked at
    trigger: str = ""  # of the query; empty where the driver tells none


class Executors(msgspec.Struct, frozen=True, gc=False):
    """An application's executors; see ``spark_listener.executors.Standing``."""

    present: int
    slots: int  # tasks that can run at once in all of them
    configured: int | None = None  # the number that there was before Weir asked for any
    asked: int | None = None  # by Weir, last
    note: str = ""  # why the number cannot be changed


class RunningQuery(msgspec.Struct, frozen=True, gc=False):
    """One query in a heartbeat; ``running_seconds`` None: no batch runs."""

    id: str
    run_id: str
    name: str | None
    batch_id: int | None
    running_seconds: float | None
    limits: list[SourceLimit]
    begun_time: float | None = None  # of the first that an event log told of it; drivers tell none
    trigger: str = ""  # empty where the driver tells none


class HeartbeatEvent(msgspec.Struct, frozen=True, gc=False):
    """A sign of life, with what runs now, and on what."""

    queries: list[RunningQuery]
    executors: Executors | None = None  # None: the driver tells nothing of them


class IdleEvent(msgspec.Struct, frozen=True, gc=False):
    """A trigger found no data; or the last word of a query that runs on and is watched no more."""

    id: str
    run_id: str
    name: str | None
    left: bool = False


class TerminatedEvent(msgspec.Struct, frozen=True, gc=False):
    """A query ended, by itself or by an exception."""

    id: str
    run_id: str
    name: str | None
    exception: str | None
    error_class: str | None
    driver_ended: bool = False  # under it, while it ran: nobody stopped it
    driver_killed: bool = False  # so, and Spark had no time to stop


OfOneQuery = StartedEvent | ProgressEvent | IdleEvent | TerminatedEvent
Body = OfOneQuery | HeartbeatEvent


def subject_of(body: OfOneQuery) -> StartedEvent | Progress | IdleEvent | TerminatedEvent:
    """What names the query and the run of an event that is about one."""
    return body.progress if isinstance(body, ProgressEvent) else body


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event; ``time`` in epoch seconds of the driver's clock."""

    sequence: int
    kind: EventKind
    time: float
    body: Body
    clock_origin: float | None = None  # see ``spark_listener.wire.clock_origin``


class Refused(msgspec.Struct, frozen=True, gc=False):
    """An event that cannot be used. ``sequence`` None where even that is unreadable."""

    index: int
    sequence: int | None
    error: str


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request whose good events are typed and whose bad ones are named."""

    application: Application
    listener: Listener
    events: list[tuple[int, Event]]  # (index in the request, event)
    refused: list[Refused]


class _SourceBody(msgspec.Struct, gc=False, rename="camel"):
    """What is looked at in a source of a progress; anything may stand there."""

    description: Any = None
    start_offset: Any = None
    end_offset: Any = None
    latest_offset: Any = None
    num_input_rows: Any = None
    metrics: Any = None


class _OperatorBody(msgspec.Struct, gc=False, rename="camel"):
    """The same of a state operator; its metrics, dozens of them, are read further when asked."""

    operator_name: Any = None
    num_rows_total: Any = None
    memory_used_bytes: Any = None
    commit_time_ms: Any = None
    num_rows_dropped_by_watermark: Any = None
    num_shuffle_partitions: Any = None
    num_state_store_instances: Any = None
    custom_metrics: msgspec.Raw = msgspec.Raw()  # or an object that was read already


class _EventBody(msgspec.Struct, gc=False, rename="camel"):
    """What is looked at in the body of an event, of whatever kind."""

    id: Any = None
    run_id: Any = None
    name: Any = None
    timestamp: Any = None
    batch_id: Any = None
    batch_duration: Any = None
    num_input_rows: Any = None
    duration_ms: Any = None
    event_time: Any = None
    state_operators: list[_OperatorBody] | None = None
    sources: list[_SourceBody] | None = None
    sink: Any = None
    trigger: Any = None
    control: Any = None
    output_mode: Any = None
    checkpoint_location: Any = None
    ui_url: Any = None
    conf: Any = None
    queries: Any = None
    exception: Any = None
    error_class_on_exception: Any = None
    left: Any = None
    driver_ended: Any = None
    driver_killed: Any = None
    executors: Any = None
    watermark_delay_seconds: Any = None


class _EventObject(msgspec.Struct, gc=False):
    """What is looked at in an event."""

    sequence: Any = None
    type: Any = None
    time: Any = None
    body: _EventBody | None = None
    limits: Any = None
    clock_origin: Any = None
    work: Any = None
    trigger: Any = None


class _Envelope(msgspec.Struct):
    application: Application
    listener: Listener
    events: list[msgspec.Raw]


_Seen = TypeVar("_Seen", _EventBody, _SourceBody, _OperatorBody)

_usual_event = msgspec.json.Decoder(_EventObject)
_envelope = msgspec.json.Decoder(_Envelope)
_any = msgspec.json.Decoder()
_state_metrics = msgspec.json.Decoder(StateMetrics)


def decode_request(body: bytes) -> Request:
    """A request's body as typed events.

    Raises MalformedRequest where the envelope cannot be used (not JSON, not UTF-8, too deeply
    nested, a missing or wrongly typed field of application or listener), TooManyEvents before any
    of them is looked at; one bad event only lands in ``refused``.
    """
    try:
        envelope = _envelope.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedRequest(str(error)) from None
    except RecursionError:
        raise MalformedRequest("nested too deeply") from None
    if len(envelope.events) > MAX_EVENTS_PER_REQUEST:
        raise TooManyEvents(
            f"{len(envelope.events)} events; send at most {MAX_EVENTS_PER_REQUEST} at once"
        )
    for label, text, longest in (
        ("application.id", envelope.application.id, MAX_ID),
        ("application.name", envelope.application.name, LONGEST_APPLICATION_NAME),
        ("listener.instance", envelope.listener.instance, MAX_ID),
        ("application.spark_version", envelope.application.spark_version or "-", MAX_ID),
        ("listener.host", envelope.listener.host or "-", MAX_HOST),
    ):
        if not text:
            raise MalformedRequest(f"{label} is empty")
        if len(text) > longest:
            raise MalformedRequest(f"{label} is longer than {longest} characters")
    events: list[tuple[int, Event]] = []
    refused: list[Refused] = []
    # Passed over, a text is not looked at: one that is not UTF-8 would go unnoticed.
    usual = body.isascii()
    for index, raw in enumerate(envelope.events):
        sequence: int | None = None
        try:
            event = _usual(raw) if usual else None
            if event is None:
                event = _looked_at(_any.decode(raw))
            sequence = _sequence(event.sequence)
            events.append((index, _event(event, sequence)))
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            refused.append(Refused(index, sequence, str(error)[:500]))
    return Request(envelope.application, _counted(envelope.listener), events, refused)


def _counted(said: Listener) -> Listener:
    """A listener with what it can have counted: what is more could not be saved."""
    return msgspec.structs.replace(
        said,
        queue_length=_count(said.queue_length) or 0,
        dropped_total=_count(said.dropped_total) or 0,
        callback_seconds_total=_number(said.callback_seconds_total) or 0.0,
        callbacks_total=_count(said.callbacks_total) or 0,
        python_pid=_count(said.python_pid),
        jvm_pid=_count(said.jvm_pid),
    )


def _usual(raw: msgspec.Raw) -> _EventObject | None:
    """An event of the usual form, as nearly all are; None where it may be any other."""
    try:
        return _usual_event.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def decode_event(data: Mapping[str, Any], sequence: int) -> Event:
    """One event object; raises ValueError saying which field is wrong and how."""
    return _event(_looked_at(data), sequence)


def decode_progress(body: Mapping[str, Any]) -> Progress:
    """A StreamingQueryProgress object; raises ValueError where id, runId or timestamp fail."""
    return _progress(_body_looked_at(body), [])


def _looked_at(data: object) -> _EventObject:
    """What is looked at in an event that may hold anything; raises ValueError if it is none."""
    if not isinstance(data, dict):
        raise ValueError(f"an event is an object, not {_kind_of(data)}")
    body = data.get("body")
    return _EventObject(
        data.get("sequence"),
        data.get("type"),
        data.get("time"),
        _body_looked_at(body) if isinstance(body, dict) else body,
        data.get("limits"),
        data.get("clock_origin"),
        data.get("work"),
        data.get("trigger"),
    )


def _body_looked_at(body: Mapping[str, Any]) -> _EventBody:
    seen = _fields_of(_EventBody, body)
    seen.sources = [_fields_of(_SourceBody, item) for item in _listing(seen.sources)]
    seen.state_operators = [
        _fields_of(_OperatorBody, item) for item in _listing(seen.state_operators)
    ]
    return seen


def _fields_of(kind: type[_Seen], item: Mapping[str, Any]) -> _Seen:
    given: list[Any] = [item.get(name) for name in kind.__struct_encode_fields__]
    return kind(*given)


def _event(data: _EventObject, sequence: int) -> Event:
    kind, time = data.type, data.time
    if not isinstance(time, str):
        raise ValueError(f"time: an ISO 8601 text is needed, not {_kind_of(time)}")
    try:
        moment = parse_time(time)
    except (ValueError, OverflowError):
        raise ValueError(
            f"time: {time[:64]!r} is not an ISO 8601 time such as 2026-11-21T08:55:02.865Z"
        ) from None
    body = data.body
    if not isinstance(body, _EventBody):
        raise ValueError(f"body: an object is needed, not {_kind_of(body)}")
    read: Body
    if kind == "started":
        read = _started(body, decode_limits(data.limits or None, "limits"))
    elif kind == "progress":
        limits = decode_limits(data.limits, "limits")
        progress = _progress(body, limits)
        read = ProgressEvent(progress, limits, batch_work(data.work), _trigger(data.trigger))
    elif kind == "heartbeat":
        read = _heartbeat(body)
    elif kind == "idle":
        read = IdleEvent(*_body_ids(body), _name(body.name), body.left is True)
    elif kind == "terminated":
        read = TerminatedEvent(
            *_body_ids(body),
            _name(body.name),
            _exception(body.exception),
            _error_class(body.error_class_on_exception),
            body.driver_ended is True,
            body.driver_killed is True,
        )
    else:
        raise ValueError(
            f"type: {str(kind)[:40]!r} is none of started, progress, heartbeat, idle, terminated"
        )
    origin = _number(data.clock_origin)
    return Event(
        sequence, kind, moment, read, None if origin is None or origin > moment else origin
    )


def _progress(body: _EventBody, limits: list[SourceLimit]) -> Progress:
    query_id, run_id = _body_ids(body)
    stamp = body.timestamp
    if not isinstance(stamp, str):
        raise ValueError(f"body.timestamp: a text is needed, not {_kind_of(stamp)}")
    try:
        time = parse_time(stamp)
    except (ValueError, OverflowError):
        raise ValueError(f"body.timestamp: {stamp[:64]!r} is not an ISO 8601 time") from None
    durations = {
        str(key)[:64]: seconds
        for key, value in islice(_mapping(body.duration_ms).items(), MOST_PHASES)
        if (seconds := _seconds(value)) is not None
    }
    seconds = durations.pop("triggerExecution", None)
    if seconds is None:
        seconds = _seconds(body.batch_duration)
    classes = {one.source: one.source_class for one in limits}
    told = (body.sources or [])[:MOST_PARTS]
    sources = [_source(item, classes.get(index, "")) for index, item in enumerate(told)]
    event_time = _mapping(body.event_time)
    rows = _count(body.num_input_rows)
    if rows is None and sources and all(source.rows is not None for source in sources):
        # The event log has no top-level rows.
        rows = _count(sum(source.rows or 0 for source in sources))
    return Progress(
        query_id,
        run_id,
        _name(body.name),
        _count(body.batch_id),
        time,
        seconds,
        durations,
        rows,
        sources,
        [_operator(item) for item in (body.state_operators or [])[:MOST_PARTS]],
        _watermark(event_time.get("watermark")),
        _sink(_mapping(body.sink).get("description")),
        "watermark" in event_time,
        _event_time(event_time.get("min")),
        _event_time(event_time.get("max")),
        _event_time(event_time.get("avg")),
    )


def decode_limits(value: object, where: str) -> list[SourceLimit]:
    """The limits beside a progress; raises ValueError naming the entry and field.

    Of one in a unit that is not known, as of a newer driver's, the source is followed alone.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{where}: a list is needed, not {_kind_of(value)}")
    limits: list[SourceLimit] = []
    for position, item in enumerate(value[:MOST_PARTS]):
        place = f"{where}[{position}]"
        if not isinstance(item, dict):
            raise ValueError(f"{place}: an object is needed, not {_kind_of(item)}")
        source = _count(item.get("source"))
        if source is None:
            raise ValueError(f"{place}.source: an index from 0 is needed")
        unit = item.get("unit")
        if unit not in UNITS:
            if not isinstance(unit, str) or not unit:
                raise ValueError(f"{place}.unit: rows, files or bytes is needed")
            limits.append(
                SourceLimit(
                    source=source,
                    unit="rows",
                    unit_known=False,
                    control="advice",
                    source_class=_text(item.get("source_class"))[:200],
                    identity=_text(item.get("identity"))[:100],
                    note=f"its limit is in {redact_again(unit[:20])}: not known to this agent",
                )
            )
            continue
        observed, bound = item.get("observed_time"), item.get("backlog_bound")
        limits.append(
            SourceLimit(
                source=source,
                unit=unit,
                limit=_count(item.get("limit"), 2**63),
                configured=_count(item.get("configured"), 2**63),
                backlog=_count(item.get("backlog")),
                next_limit=_count(item["next_limit"], 2**63)
                if "next_limit" in item
                else msgspec.UNSET,
                admitted=_count(item.get("admitted")),
                arrived=_count(item.get("arrived")),
                observed_time=_time_or_none(observed),
                # Another word, of a newer driver, does not say that nothing else waits.
                backlog_bound="lower" if isinstance(bound, str) and bound != "exact" else "exact",
                partial=bound == "partial",
                control=_text(item.get("control")) or "live",
                source_class=_text(item.get("source_class"))[:200],
                identity=_text(item.get("identity"))[:100],
                note=redact_again(_text(item.get("note"))[:200]),
                obeyed=obeyed if isinstance(obeyed := item.get("obeyed"), bool) else None,
                in_order=order if isinstance(order := item.get("in_order"), bool) else None,
                offsets=parse_offsets(item.get("offsets")),
                shares_watermark=shared
                if isinstance(shared := item.get("shares_watermark"), bool)
                else None,
                watermark_delay_seconds=_running(item.get("watermark_delay_seconds")),
            )
        )
    return limits


def _started(body: _EventBody, limits: list[SourceLimit]) -> StartedEvent:
    conf = _mapping(body.conf)
    return StartedEvent(
        *_body_ids(body),
        _name(body.name),
        trigger=_trigger(body.trigger),
        control=_text(body.control)[:20],
        output_mode=_text(body.output_mode)[:40],
        sink=_sink(body.sink),
        checkpoint_location=redact(_text(body.checkpoint_location)[:1000]),
        ui_url=redact(body.ui_url[:1000]) if isinstance(body.ui_url, str) else None,
        conf={
            str(key)[:200]: redact_conf(str(key)[:200], str(value)[:500])
            for key, value in list(conf.items())[:100]
        },
        limits=limits,
        watermark_delay_seconds=_running(body.watermark_delay_seconds),
    )


def _heartbeat(body: _EventBody) -> HeartbeatEvent:
    queries = body.queries
    if not isinstance(queries, list):
        raise ValueError(f"body.queries: a list is needed, not {_kind_of(queries)}")
    if len(queries) > MOST_RUNNING:
        raise ValueError(f"body.queries: {len(queries)}, which is more than {MOST_RUNNING}")
    running: list[RunningQuery] = []
    for position, item in enumerate(queries):
        place = f"body.queries[{position}]"
        if not isinstance(item, dict):
            raise ValueError(f"{place}: an object is needed, not {_kind_of(item)}")
        running.append(
            RunningQuery(
                *_ids(item.get("id"), item.get("runId"), place),
                _name(item.get("name")),
                _count(item.get("batchId")),
                _running(item.get("running_seconds")),
                decode_limits(item.get("limits"), f"{place}.limits"),
                trigger=_trigger(item.get("trigger")),
            )
        )
    return HeartbeatEvent(running, _executors(body.executors))


def _executors(said: object) -> Executors | None:
    told = _mapping(said)
    present, slots = _count(told.get("present"), 2**31), _count(told.get("slots"), 2**31)
    if present is None or slots is None:
        return None
    return Executors(
        present,
        slots,
        _count(told.get("configured"), 2**31),
        _count(told.get("asked"), 2**31),
        redact_again(_text(told.get("note"))[:200]),
    )


def _source(item: _SourceBody, source_class: str) -> SourceProgress:
    start = parse_offsets(item.start_offset)
    end = parse_offsets(item.end_offset)
    description = _described(item.description)
    # Of one of which nothing is told the shape of its offsets has to do.
    told = description or source_class
    of_kafka = not told or known(source_class).kafka_offsets or is_kafka(description)
    latest = parse_offsets(item.latest_offset) if of_kafka else None
    metrics = item.metrics if isinstance(item.metrics, dict) else {}
    admitted, backlog = admitted_rows(start, end), remaining_rows(end, latest)
    unit: Unit = "rows"
    if backlog is None and metrics:
        unit = next((one for one in UNITS if waiting_of(metrics, one) is not None), "rows")
        backlog = _count(waiting_of(metrics, unit))
        if unit == "files":
            admitted = _count(files_between(item.start_offset, item.end_offset))
        elif unit == "bytes":
            admitted = None
    return SourceProgress(
        description,
        _count(item.num_input_rows),
        admitted,
        backlog,
        {str(k)[:100]: str(v)[:200] for k, v in list(metrics.items())[:50]},
        position_of(start),
        position_of(end),
        end if of_kafka else None,
        unit,
        "exact" if told_whole(metrics) else "lower",
        grown(start, end),
        len(start or ()),
        latest,
        end is None and _in_snapshot(item.end_offset),
    )


def _in_snapshot(offset: object) -> bool:
    """Whether an offset is Delta's, of the table as it was found; no other is parsed for it."""
    if not isinstance(offset, (str, dict)) or "isStartingVersion" not in offset:
        return False
    place = offset_of(offset)
    return place is not None and place.whole


def _operator(item: _OperatorBody) -> OperatorProgress:
    return OperatorProgress(
        intern(_text(item.operator_name)[:100]),
        _count(item.num_rows_total),
        _count(item.memory_used_bytes),
        _seconds(item.commit_time_ms),
        _count(item.num_rows_dropped_by_watermark),
        _count(item.num_shuffle_partitions),
        _metrics(item.custom_metrics),
        _count(item.num_state_store_instances),
    )


def _metrics(said: object) -> dict[str, float]:
    """The state store's own metrics that tell something, by name."""
    if isinstance(said, msgspec.Raw):
        told = bytes(said)
        if told[:1] != b"{":
            return {}
        if b"SnapshotLast" not in told and b"\\" not in told:
            # None by partition, so their names are known.
            with contextlib.suppress(msgspec.ValidationError):
                values = astuple(_state_metrics.decode(told))
                return {
                    name: value
                    for name, value in zip(STATE_METRICS, values, strict=True)
                    if value is not None and 0.0 <= value < MOST_COUNT
                }
        said = _any.decode(told)
    return {
        name[:MAX_ID]: number
        for name, value in told_of(_mapping(said)).items()
        if (number := _state_metric(name, value)) is not None
    }


def _state_metric(name: str, value: object) -> float | None:
    """A number from 0 that may be; of a snapshot -1 too, which says that there is none."""
    return -1.0 if value == -1 and name.startswith(SNAPSHOT) else _number(value)


def _ids(query_id: object, run_id: object, where: str) -> tuple[str, str]:
    return _id(query_id, where, "id"), _id(run_id, where, "runId")


def _id(value: object, where: str, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}.{name}: a text is needed, not {_kind_of(value)}")
    if len(value) > MAX_ID:
        raise ValueError(f"{where}.{name}: longer than {MAX_ID} characters")
    return value


def _body_ids(body: _EventBody) -> tuple[str, str]:
    return _ids(body.id, body.run_id, "body")


def _name(name: object) -> str | None:
    return name[:MAX_TEXT] if isinstance(name, str) and name else None


def _sequence(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise ValueError(f"sequence: a whole number from 1 is needed, not {_kind_of(value)}")
    return value


def _number(value: object) -> float | None:
    """A number from 0 that may be, else None: missing is not zero."""
    if type(value) is int and 0 <= value < MOST_COUNT:
        return float(value)  # nearly all there are
    if isinstance(value, bool) or not isinstance(value, float):
        return None
    return value if 0 <= value < MOST_COUNT else None  # NaN is neither


def _seconds(milliseconds: object) -> float | None:
    if type(milliseconds) is int and 0 <= milliseconds <= MOST_MILLISECONDS:
        return milliseconds / 1000.0  # nearly all there are
    number = _number(milliseconds)
    if number is None or number > MOST_MILLISECONDS:
        return None
    return number / 1000.0 if number >= LEAST_MILLISECONDS else 0.0


def _running(seconds: object) -> float | None:
    """More than may be is told as the most, not as a query that rests."""
    number = _number(seconds)
    return None if number is None else min(number, MOST_SECONDS)


def _count(value: object, bound: int = MOST_COUNT) -> int | None:
    if value is None:
        return None
    if type(value) is int:
        return value if 0 <= value < bound else None
    number = _number(value)
    return None if number is None else int(number)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _listing(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _trigger(value: object) -> str:
    return intern(_text(value)[:200])


def _described(value: object) -> str:
    """What a source or sink says of itself; a driver that does not redact may have sent it."""
    return intern(redact_again(_text(value)[: 2 * MAX_DESCRIPTION])[:MAX_DESCRIPTION])


def _sink(value: object) -> str:
    """As ``_described``, without a count of its batches: with each it would be another sink."""
    return _described(_LATEST_BATCH.sub("", _text(value)))


def _error_class(value: object) -> str | None:
    return redact(value[:MAX_DESCRIPTION]) if isinstance(value, str) else None


def _exception(value: object) -> str | None:
    # All of it, before a line is looked for: a name and its value may stand on two.
    return both_ends(redact_long(value), MAX_TEXT) if isinstance(value, str) else None


def _time_or_none(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value)
    except (ValueError, OverflowError):
        return None


def _event_time(value: object) -> float | None:
    """Of a year of five digits, too, as of milliseconds that were taken for seconds.

    Spark writes it with a sign before it or without, and Python reads neither.
    """
    far = _FAR_YEAR.match(value) if isinstance(value, str) else None
    if far is None:
        return _time_or_none(value)
    cycles, year = divmod(int(far[1]) - _CYCLE_YEARS, _CYCLE_YEARS)
    time = _time_or_none(f"{year + _CYCLE_YEARS:04d}{far[2]}")
    return None if time is None else time + cycles * _CYCLE_SECONDS


def _watermark(value: object) -> float | None:
    time = _event_time(value)
    return None if time is None or time <= 0 else time  # 1970 is Spark's "no watermark yet"


def _kind_of(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (bool, int, float, str)):
        kinds: dict[type, str] = {bool: "a truth value", str: "a text"}
        return f"{kinds.get(type(value), 'a number')} ({str(value)[:40]!r})"
    return "a list" if isinstance(value, list) else "an object"
