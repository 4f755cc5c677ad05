"""Metrics of what waits at the sources, what arrives there, and what a query can digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.judgement import LAG_STATES
from agent.core.measure.partitions import soonest_loss_seconds
from agent.export.metrics.row import (
    ARRIVALS,
    BEHIND,
    CONSUMED,
    COST,
    LAG,
    PARTITION,
    PARTITIONS,
    QUERY,
    RETENTION,
    SIZE,
    SOURCE,
    TIME,
    Label,
)

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

METRICS: Final[tuple[Metric, ...]] = (
    SOURCE.gauge(
        "weir_backlog_rows",
        "Rows at the source that no batch has admitted yet.",
        lambda source: source.backlog if source.unit == "rows" else None,
        unit="rows",
        running=True,
        note="As the source tells; absent where it does not. As of the planning of the last batch, "
        "or, where Kafka's brokers are asked, as of then: their end offsets less what was planned.",
    ),
    SOURCE.gauge(
        "weir_backlog_files",
        "Files at the source that no batch has admitted yet.",
        lambda source: source.backlog if source.unit == "files" else None,
        unit="files",
        running=True,
        note="From a listing at a bounded rate; a lower bound where the listing is cut short.",
    ),
    SOURCE.gauge(
        "weir_backlog_bytes",
        "Bytes at the source that no batch has admitted yet.",
        lambda source: source.backlog if source.unit == "bytes" else None,
        unit="bytes",
        running=True,
        note="As the source tells; absent where it does not.",
    ),
    QUERY.gauge(
        "weir_backlog_estimated_rows",
        "Backlog of all sources together in rows, as of now.",
        lambda view: view.backlog_rows,
        unit="rows",
        running=True,
        note="Files and bytes turned into rows by what late batches held. Rows are those that "
        "Spark counts: where each batch is read twice (a `MERGE` in `foreachBatch`, a topic in two "
        "places of a query) that is twice Kafka's lag. While a batch runs, what arrives meanwhile "
        "is estimated, at most as much as came in so long a time before; nothing is added while "
        "brokers tell of all partitions. A source that tells nothing is left out; absent where "
        "none tells.",
    ),
    QUERY.gauge(
        "weir_backlog_seconds",
        "How far behind the query is: how long its oldest unread row has been seen to wait.",
        lambda view: view.backlog_seconds,
        unit="seconds",
        running=True,
        note="The row is at least so old, and older by less than the time between two looks at the "
        "source, or, where it waits for long, by up to half of what is told; what a start finds "
        "there counts from the start. Absent while it cannot be told.",
        formula=BEHIND.of("LagTable.unread_seconds"),
    ),
    PARTITIONS.gauge(
        "weir_retention_loss_seconds",
        "Until retention deletes rows that were not read yet, at the present rates of both.",
        soonest_loss_seconds,
        unit="seconds",
        note="Of the partition nearest to it; 0 once rows are lost. Absent while none is foreseen, "
        "and where no broker is asked (`kafka_bootstrap_servers`).",
        formula=RETENTION.of("soonest_loss_seconds"),
    ),
    PARTITIONS.gauge(
        "weir_retention_lost_rows",
        "Rows that were deleted at the source before the query had read them.",
        lambda partitions: sum(one.lost_rows for one in partitions),
        unit="rows",
        note="By offsets, as of the last batch. Absent where no broker is asked.",
    ),
    PARTITION.gauge(
        "weir_backlog_partition_rows",
        "Rows of one partition that the query has not read.",
        lambda partition: partition.backlog_rows if partition.series else None,
        unit="rows",
        running=True,
        note="Only with `kafka_partition_series`.",
    ),
    QUERY.states(
        "weir_lag_state",
        "What the backlog does, judged over the last batches.",
        Label("state", LAG_STATES),
        lambda view: view.lag_state,
        running=True,
        note="Exactly one is 1. `WARN` it grows, `ERR` it has grown by more than the time looked "
        "at, `STOP` nothing is committed any more, `STALL` batches are committed and take nothing, "
        "`REWIND` the query reads again what it had committed. Below ten seconds, or two targets, "
        "it is always `OK`.",
        formula=LAG.of("lag_state"),
    ),
    QUERY.gauge(
        "weir_estimated_time_to_consume_seconds",
        "Seconds until what waits is committed, in whole batches at the limits in force.",
        lambda view: view.estimated_time_to_consume_seconds,
        unit="seconds",
        running=True,
        note="Each batch with its fixed cost and its trigger, while more arrives as it does now, "
        "from the start of the next one. Absent while unknown, and where the backlog does not "
        "shrink: see `weir_required_capacity_ratio`.",
        formula=CONSUMED.of("time_to_consume"),
    ),
    QUERY.gauge(
        "weir_arrival_rows_per_second",
        "Rows that arrive at the sources, per second (smoothed).",
        lambda view: view.arrival_rows_per_second,
        unit="rows_per_second",
        running=True,
        formula=ARRIVALS.of("SteppingRate.add"),
    ),
    QUERY.gauge(
        "weir_throughput_rows_per_second",
        "Rows per second of batch time that the query can digest beyond its fixed cost.",
        lambda view: view.throughput_rows_per_second,
        unit="rows_per_second",
        running=True,
        note="Learned from batches, at their size of late. Absent while learning.",
        formula=COST.of("Cost.throughput"),
    ),
    QUERY.gauge(
        "weir_fixed_cost_seconds",
        "Seconds a batch takes however few rows it holds.",
        lambda view: view.fixed_cost_seconds,
        unit="seconds",
        running=True,
        note="Learned from batches: the intercept of the capacity model. Absent while learning.",
        formula=COST.of("Cost.fixed_cost"),
    ),
    QUERY.gauge(
        "weir_required_capacity_ratio",
        "Capacity that the arrivals need, over the capacity there is.",
        lambda view: view.required_capacity_ratio,
        unit="ratio",
        running=True,
        note="Above 1 no limit helps: the signal to scale out. Judged after each batch, and anew "
        "while nothing waits and nothing has come for as long as the longest of the last batches "
        "took.",
        formula=SIZE.of("size_of"),
    ),
    QUERY.gauge(
        "weir_capacity_short_since_timestamp_seconds",
        "Since when the arrivals need more capacity than there is, in seconds since 1970.",
        lambda view: view.capacity_short_since_time,
        unit="seconds",
        running=True,
        note="By the driver's clock. Absent while `weir_required_capacity_ratio` is at most 1 or "
        "unknown.",
        formula=SIZE.of("size_of"),
    ),
    QUERY.gauge(
        "weir_pressure_ratio",
        "Share of the last minute in which the limit held back a backlog.",
        lambda view: view.pressure_ratio,
        unit="ratio",
        running=True,
        note="That is more than the next batch takes; what it takes whole waits for no limit.",
        formula=TIME.of("Occupancy.pressure"),
    ),
)
