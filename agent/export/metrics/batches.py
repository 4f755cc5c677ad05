"""Metrics of a query's batches: how many, how long, and how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.metrics.row import OTHER, QUERY, TIME, Label

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
#: What Spark reports in ``durationMs``, besides the whole (``triggerExecution``).
PHASES: Final = (
    "latestOffset",
    "getOffset",
    "getBatch",
    "queryPlanning",
    "walCommit",
    "addBatch",
    "commitBatch",
    "commitOffsets",
    "runContinuous",
    OTHER,
)

METRICS: Final[tuple[Metric, ...]] = (
    QUERY.counter_by(
        "weir_batches_total",
        "Micro-batches by how they ended.",
        Label("result", ("completed", "empty", "failed", "replayed", OTHER)),
        lambda view: view.totals.batches,
        from_start=True,
        note="Each batch counts once: one that ran again under its old number under `replayed` and "
        "nowhere else. `failed` counts runs that ended with an exception, or whose driver was "
        "seen to be killed.",
    ),
    QUERY.counter(
        "weir_rows_total",
        "Input rows of finished batches.",
        lambda view: view.totals.rows,
        unit="rows",
        note="As Spark counts them: a source that the plan reads twice counts twice. Rows of a "
        "failed batch are not known.",
    ),
    QUERY.counter(
        "weir_replayed_rows_total",
        "Input rows of batches that ran again under their old number.",
        lambda view: view.totals.replayed_rows,
        unit="rows",
    ),
    QUERY.histogram(
        "weir_batch_duration_seconds",
        "Duration of finished batches, from trigger to commit.",
        BUCKETS,
        lambda view: (view.totals.duration_buckets, view.totals.duration_sum_seconds),
        unit="seconds",
    ),
    QUERY.gauge(
        "weir_batch_running_seconds",
        "Age of the batch that runs now.",
        lambda view: view.running_seconds,
        unit="seconds",
        running=True,
        note="Absent while no batch runs. It grows with every heartbeat, so a hung batch shows "
        "here before it shows anywhere else.",
    ),
    QUERY.counter_by(
        "weir_batch_phase_seconds_total",
        "Seconds spent in each phase of finished batches.",
        Label("phase", PHASES),
        lambda view: view.totals.phase_seconds,
        unit="seconds",
        note="Phases as Spark reports them in `durationMs`; a phase unknown here is under `other`.",
    ),
    QUERY.counter_by(
        "weir_time_seconds_total",
        "Seconds spent busy, idle, and backpressured (running while the limit holds back a "
        "backlog).",
        Label("state", ("busy", "idle", "backpressured")),
        lambda view: view.totals.state_seconds,
        unit="seconds",
        from_start=True,
        note="The three add up to the time the query was watched: one second a second.",
        formula=TIME.of("Occupancy.spend"),
    ),
)
