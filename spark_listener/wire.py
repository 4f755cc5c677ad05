"""The wire format between driver and agent: its names, limits, and how a time is written.

The driver side owns it and imports nothing but the standard library; the agent imports it from
here. ``docs/wire.md`` describes every field.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any, Final, Literal, TypedDict

EVENTS_PATH: Final = "/v1/events"
HEARTBEAT_SECONDS: Final = 5.0
#: An agent's default: a driver that it has not heard of for so long is gone.
SILENT_SECONDS: Final = 15.0
#: Two heartbeats: events of one driver reach the agent out of order by less, so that a clock which
#: moved by as much was set, or stood still while its machine slept.
CLOCK_STEP_SECONDS: Final = 2.0 * HEARTBEAT_SECONDS
#: A query whose stages cannot be had is asked for them ever less often, up to this.
STAGES_PAUSE_SECONDS: Final = 30.0
#: A driver keeps what an agent granted no longer than that, whatever the agent says.
LONGEST_LIFE_SECONDS: Final = 3600.0
MAX_EVENTS_PER_REQUEST: Final = 500
MAX_REQUEST_BYTES: Final = 8 * 1024 * 1024
LONGEST_APPLICATION_NAME: Final = 16 * 1024  # characters; an empty one is refused too

Unit = Literal["rows", "files", "bytes"]
UNITS: Final[tuple[Unit, ...]] = ("rows", "files", "bytes")

#: ``live``: the limit of at least one source can be changed while the query runs.
#: ``advice``: Weir sees the query but this Spark, trigger or source gives no live limit.
#: ``none``: the query admits everything by design (``Trigger.Once``, continuous, real-time).
Control = Literal["live", "advice", "none"]
#: ``partial``: a lower bound that grows while what was there before is found, whatever arrives.
Bound = Literal["exact", "lower", "partial"]
CONTROLS: Final[tuple[Control, ...]] = ("live", "advice", "none")

EventType = Literal["started", "progress", "heartbeat", "idle", "terminated"]
EVENT_TYPES: Final[tuple[EventType, ...]] = (
    "started",
    "progress",
    "heartbeat",
    "idle",
    "terminated",
)


class _SourceLimitRequired(TypedDict):
    source: int
    unit: Unit
    limit: int | None
    configured: int | None
    backlog: int | None


class SourceLimit(_SourceLimitRequired, total=False):
    """One source's limit and backlog, in the source's own unit.

    ``limit`` was in force when the batch of this event was planned, ``next_limit`` is in force
    now; null is unlimited. ``configured`` is what the user set; null where nothing was set.
    ``backlog`` counts what is at the source and not admitted, at ``observed_time`` or, without
    one, at the planning of the batch; null is unknown, which is not zero.
    """

    next_limit: int | None
    admitted: int | None  # units taken into this event's batch; a heartbeat's is the running one
    arrived: int | None  # units known to have arrived since this process first saw the source
    observed_time: str  # when backlog and arrived were seen
    offsets: dict[str, dict[str, int]]  # Kafka, in a heartbeat: where the running batch ends
    backlog_bound: Bound
    control: Control
    source_class: str
    identity: str  # a fingerprint of what the source reads: the same in every run, wherever it is
    obeyed: bool  # whether the source keeps to limits that change; absent where not known
    in_order: bool  # false: what came later may be read before; absent: as its class does
    note: str  # why control is not live, or why a limit is unsafe, in a few words
    shares_watermark: bool  # with another source; absent where there is none, or nobody knows
    watermark_delay_seconds: float  # the least of the query's plan; absent where nobody knows


class _GrantIdentity(TypedDict, total=False):
    identity: str  # of the source that is meant, where known: it may be at another index by now
    lapses: bool  # after its life, even where nothing is configured


class Grant(_GrantIdentity):
    """What one source may admit to each next micro-batch. ``limit`` null: no limit."""

    id: str
    runId: str
    source: int
    unit: Unit
    limit: int | None
    expires_seconds: float
    reason: str


class Event(TypedDict):
    """An event as sent; ``sequence`` counts up by one per listener instance, from 1."""

    sequence: int
    type: EventType
    time: str
    clock_origin: float  # epoch seconds; see the function of that name
    body: dict[str, Any]


def clock_origin() -> float:
    """When this machine's monotonic clock was zero, by its wall clock: moves when that is set."""
    return time.time() - time.monotonic()


def format_time(epoch_seconds: float) -> str:
    """ISO 8601 in UTC with milliseconds and ``Z``, as Spark writes its own timestamps."""
    moment = datetime.fromtimestamp(epoch_seconds, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def parse_time(text: str) -> float:
    """Epoch seconds of an ISO 8601 time with a zone; raises ValueError where it has none."""
    moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    if moment.tzinfo is None:
        raise ValueError(f"time without a zone: {text!r}")
    return moment.timestamp()
