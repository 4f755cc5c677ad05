"""Metrics of event time and of what stateful operators hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.metrics.row import LATENESS, OPERATOR, QUERY

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

METRICS: Final[tuple[Metric, ...]] = (
    QUERY.gauge(
        "weir_watermark_lag_seconds",
        "How far the watermark was behind the end of the last batch.",
        lambda view: view.watermark_lag_seconds,
        unit="seconds",
        running=True,
        note="Absent without a watermark. An idle query's watermark stands still: join it with "
        "`weir_query_state`.",
    ),
    QUERY.counter(
        "weir_watermark_dropped_rows_total",
        "Rows that came too late and were dropped by the watermark.",
        lambda view: view.totals.watermark_dropped_rows,
        unit="rows",
        note="As Spark's stateful operators count them: in an aggregation after a batch's rows of "
        "one key were made one, so with few keys far more source rows were lost than are counted.",
    ),
    QUERY.gauge(
        "weir_watermark_delay_seconds",
        "The delay that the query declares, as its batches show it: the greatest event time "
        "read before a batch less that batch's watermark.",
        lambda view: view.watermark_delay_seconds,
        unit="seconds",
        note="Absent where the query drops no late rows.",
        formula=LATENESS.of("Lateness.observe"),
    ),
    QUERY.gauge(
        "weir_lateness_seconds",
        "The most that a row's event time lay behind the greatest one read before its batch, "
        "since the checkpoint began.",
        lambda view: view.lateness_seconds,
        unit="seconds",
        note="Rows of which it exceeds `weir_watermark_delay_seconds` may be dropped. Absent where "
        "the query drops no late rows.",
        formula=LATENESS.of("Lateness.observe"),
    ),
    QUERY.gauge(
        "weir_late_rows_held",
        "1 while batches are as the job configured them because smaller ones dropped rows as late.",
        lambda view: view.late_rows_held,
        note="Absent where the query drops no late rows.",
        formula=LATENESS.of("Lateness.holds"),
    ),
    OPERATOR.gauge(
        "weir_state_rows",
        "Rows in the operator's state.",
        lambda operator: operator.rows,
        unit="rows",
        running=True,
    ),
    OPERATOR.gauge(
        "weir_state_bytes",
        "Memory that the operator's state uses.",
        lambda operator: operator.bytes,
        unit="bytes",
        running=True,
        note="As Spark reports it in `memoryUsedBytes`. With RocksDB's `boundedMemoryUsage` Spark "
        "before 4.1 reports what all state stores of an executor share once for each partition, or "
        "0.",
    ),
    OPERATOR.gauge(
        "weir_state_commit_seconds",
        "Seconds that committing the operator's state took in the last batch.",
        lambda operator: operator.commit_seconds,
        unit="seconds",
        running=True,
        note="Summed over tasks, as Spark reports it.",
    ),
    OPERATOR.gauge(
        "weir_state_snapshot_lag_versions",
        "Versions of the operator's state that no uploaded snapshot holds yet.",
        lambda operator: operator.snapshot_lag_versions,
        running=True,
        note="Of the partition furthest behind: what a restart must replay. Absent where the state "
        "store does not tell.",
    ),
)
