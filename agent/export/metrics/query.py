"""Metrics of what a query is and whether it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.judgement import ATTENTION_LEVELS, MODES, QUERY_STATES
from agent.export.metrics.row import ATTENTION, QUERY, Label
from spark_listener.wire import CONTROLS

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

METRICS: Final[tuple[Metric, ...]] = (
    QUERY.info(
        "weir_query_info",
        "What the query is: ids, Spark version, trigger, and whether its limit can be moved.",
        (
            Label("query_id", bound="one at a time for each query"),
            Label("run_id", bound="one at a time for each query; changes with every start"),
            Label("spark_version", bound="one at a time for each query"),
            Label("trigger", bound="one at a time for each query, as Spark writes it"),
            Label("control", (*CONTROLS, "")),
        ),
        lambda view: (
            view.query_id,
            view.run_id,
            view.spark_version,
            view.trigger,
            view.control,
        ),
        note="Always 1. Join it on application and query. `control`: `live` the limit is moved "
        "while the query runs, `advice` it can only be told, `none` nothing limits this trigger, "
        "empty not known yet.",
    ),
    QUERY.gauge(
        "weir_query_up",
        "1 while the query runs, 0 once it has ended or its driver fell silent.",
        lambda view: view.up,
        note="Of a query that failed or fell silent it stays 0 until somebody retires it (`weir "
        "retire`), or `retire_seconds` are over; of one that its owner stopped for an hour "
        "(`forget_seconds`). Then all its series end.",
    ),
    QUERY.gauge(
        "weir_query_gone_since_timestamp_seconds",
        "Since when the query does not run, in seconds since 1970.",
        lambda view: view.gone_since_time,
        unit="seconds",
        note="By the clock of the agent's machine: when it said that it ended, or had been silent "
        "for too long, also where the agent was away then. Absent while it runs.",
    ),
    QUERY.states(
        "weir_query_state",
        "What the query does now.",
        Label("state", QUERY_STATES),
        lambda view: view.state,
        note="Exactly one is 1. `backpressured`: a batch runs while the limit holds back more than "
        "the next batch takes. `stalled`: a batch has run past the deadline or, without one, far "
        "longer than batches do.",
    ),
    QUERY.states(
        "weir_attention",
        "How much the query needs somebody: the level that the status page shows it at.",
        Label("level", ATTENTION_LEVELS),
        lambda view: view.attention.level,
        note="Exactly one is 1: of the levels, worst first, the first that holds. "
        "docs/status-page.md says when each does. `hung` is `stalled` of `weir_query_state`.",
        formula=ATTENTION.of("judged"),
    ),
    QUERY.gauge(
        "weir_query_stopped",
        "1 once the query has ended without an exception, else 0.",
        lambda view: view.stopped,
        note="Its owner stopped it, or it had read what there was (`AvailableNow`, `Once`). One "
        "that was ended for its batch's age, as by a supervisor, counts as failed. A driver that "
        "falls silent, or ends while the query runs, has stopped nothing.",
    ),
    QUERY.states(
        "weir_query_mode",
        "What Weir may do to the query: nothing, decide without acting, or act.",
        Label("mode", MODES),
        lambda view: view.mode,
        note="Exactly one is 1.",
    ),
    QUERY.gauge(
        "weir_query_mode_overridden",
        "1 while an order by hand gives the query another mode than the configuration, else 0.",
        lambda view: view.mode_overridden,
        running=True,
        not_shown="the mode itself is shown; page and terminal say whose order it is",
    ),
    QUERY.gauge(
        "weir_query_mode_since_timestamp_seconds",
        "When the order by hand was given that gives the query another mode than the "
        "configuration, in seconds since 1970.",
        lambda view: view.mode_since_time if view.mode_overridden else None,
        unit="seconds",
        note="By the clock of the agent's machine. Absent while the configuration's mode holds. It "
        "outlasts the runs of the query, as the order does.",
        running=True,
        not_shown="page and terminal say whose order it is, and since when",
    ),
    QUERY.gauge(
        "weir_query_held",
        "1 while an operator holds the query's limit where it is or has set it by hand.",
        lambda view: view.held or view.manual_limit is not None,
        running=True,
    ),
    QUERY.gauge(
        "weir_query_held_since_timestamp_seconds",
        "When the order was given by which an operator holds the query's limit or has set it, in "
        "seconds since 1970.",
        lambda view: None if view.held_by is None else view.held_by.time,
        unit="seconds",
        note="By the clock of the agent's machine. Absent while nobody does. It outlasts the runs "
        "of the query, as the order does.",
        running=True,
        not_shown="page and terminal say whose order it is, and since when",
    ),
    QUERY.gauge(
        "weir_last_progress_timestamp_seconds",
        "When the query last reported a finished batch, in seconds since 1970.",
        lambda view: view.last_progress_time,
        unit="seconds",
        note="By the driver's clock. Absent until the first batch. An idle query does not move it.",
    ),
)
