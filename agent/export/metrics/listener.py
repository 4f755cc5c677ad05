"""Metrics of the listener in an application's driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.metrics.row import LISTENER

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

METRICS: Final[tuple[Metric, ...]] = (
    LISTENER.gauge(
        "weir_listener_last_heard_timestamp_seconds",
        "When the agent last heard of the application's driver, in seconds since 1970.",
        lambda view: view.last_heard_time,
        unit="seconds",
        note="By the clock of the agent's machine.",
    ),
    LISTENER.gauge(
        "weir_listener_queue_length",
        "Events that wait in the driver to be sent.",
        lambda view: view.listener.queue_length,
    ),
    LISTENER.counter(
        "weir_listener_dropped_events_total",
        "Events that the driver's full queue dropped.",
        lambda view: view.listener.dropped_total,
        note="The listener's own count since it started; also of those too large or unreadable.",
    ),
    LISTENER.counter(
        "weir_listener_callbacks_total",
        "Calls of the listener by Spark.",
        lambda view: view.listener.callbacks_total,
        note="The listener's own count since it started.",
    ),
    LISTENER.counter(
        "weir_listener_callback_seconds_total",
        "Seconds the listener spent on Spark's listener bus.",
        lambda view: view.listener.callback_seconds_total,
        unit="seconds",
        note="The listener's own count since it started.",
    ),
)
