"""Metrics of the listener in an application's driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.metrics.row import LISTENER

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

_OWN: Final = "The own counts of all listeners that the application has had, added up"

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
        lambda view: view.queue_length,
        note="Of all listeners that the application has now, such as one of each notebook.",
    ),
    LISTENER.counter(
        "weir_listener_dropped_events_total",
        "Events that the driver's full queue dropped.",
        lambda view: view.counters.dropped_total,
        note=f"{_OWN}; also of those too large or unreadable.",
    ),
    LISTENER.counter(
        "weir_listener_callbacks_total",
        "Calls of the listener by Spark.",
        lambda view: view.counters.callbacks_total,
        note=f"{_OWN}.",
    ),
    LISTENER.counter(
        "weir_listener_callback_seconds_total",
        "Seconds the listener spent on Spark's listener bus.",
        lambda view: view.counters.callback_seconds_total,
        unit="seconds",
        note=f"{_OWN}.",
    ),
)
