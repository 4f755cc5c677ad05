"""The one list of all metrics: collector, docs, dashboards and alerts read their names from here.

A metric that is not in this list is not exported, and one that is in it is exported by
``agent.export.prometheus``; tests hold both. Adding a metric: a row here, a reader there, then
``python -m agent.export.catalogue`` rewrites docs/metrics.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent.checkpoint.audit import CHECKS
from agent.core.failure import CAUSES
from agent.core.judgement import (
    LAG_STATES,
    MODES,
    QUERY_STATES,
    REASONS,
    SEVERITIES,
    SPIRAL_PHASES,
)
from spark_listener.wire import CONTROLS, EVENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "weir_"

Kind = Literal["gauge", "counter", "histogram", "state set", "info"]
Group = Literal[
    "query",
    "batches",
    "backlog and flow",
    "limit and credit",
    "checkpoint",
    "event time and state",
    "listener",
    "agent",
    "processes",
]

#: A key that Spark or the core gives and no label's list of values knows lands under this one, so
#: that a label never grows beyond its list.
OTHER: Final = "other"

BATCH_SECONDS_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
EVENT_SECONDS_BUCKETS: Final = (
    0.00001,
    0.000025,
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.05,
    0.25,
    1,
)

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
BATCH_RESULTS: Final = ("completed", "empty", "failed", "replayed")
TIME_STATES: Final = ("busy", "idle", "backpressured")
CREDIT_KINDS: Final = ("exclusive", "floating")
EVENT_REFUSALS: Final = ("malformed", "cardinality", OTHER)
REQUEST_REFUSALS: Final = (
    "malformed",
    "unauthorized",
    "too_large",
    "wrong_type",
    "full",
    "state",
    OTHER,
)
PROCESSES: Final = ("jvm", "python")


class Label(msgspec.Struct, frozen=True):
    """A label: every value it can have, or, where that is no list, what bounds them."""

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric family. ``name`` is what is exported, with prefix and ``_total`` or ``_info``.

    ``unit`` is of the base units (seconds, bytes, rows, files, ratio, ...), empty for pure counts
    and states. ``note`` says what the number means at its edges, above all when it is absent: a
    value that is not known is absent, never zero.
    """

    name: str
    kind: Kind
    group: Group
    help: str
    unit: str = ""
    labels: tuple[Label, ...] = ()
    note: str = ""
    since: str = "0.1.0"
    buckets: tuple[float, ...] = ()
    running: bool = False  # tells of a query that runs: it has no series once that does not

    @property
    def family(self) -> str:
        """The name of the family in OpenMetrics, which leaves out ``_total`` and ``_info``."""
        if self.kind == "counter":
            return self.name.removesuffix("_total")
        return self.name.removesuffix("_info") if self.kind == "info" else self.name

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names its series have in Prometheus."""
        if self.kind == "histogram":
            return tuple(self.name + end for end in ("_bucket", "_sum", "_count"))
        return (self.name,)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of its labels, without the fixed ones of the configuration and ``le``."""
        return tuple(label.name for label in self.labels)

    def values_of(self, label: str) -> tuple[str, ...]:
        """The listed values of one of its labels; raises KeyError where it has no such label."""
        for one in self.labels:
            if one.name == label:
                return one.values
        raise KeyError(f"{self.name} has no label {label!r}")


APPLICATION: Final = Label(
    "application", bound="names of Spark applications; at most as many as `max_queries`"
)
QUERY: Final = Label(
    "query",
    bound="names of streaming queries, else their ids; at most `max_queries` pairs of "
    "application and query; a name longer than 120 characters is cut and carries a digest",
)
SOURCE: Final = Label(
    "source", bound="index of the source in Spark's progress; at most `max_sources` of a query"
)
OPERATOR: Final = Label(
    "operator",
    bound="index and name of the state operator in Spark's progress, such as `0:dedupe`; at most "
    "`max_operators` of a query",
)
BY_QUERY: Final = (APPLICATION, QUERY)
BY_SOURCE: Final = (APPLICATION, QUERY, SOURCE)
BY_OPERATOR: Final = (APPLICATION, QUERY, OPERATOR)
BY_PROCESS: Final = (APPLICATION, Label("process", PROCESSES))


def _of_process(owner: str, process: str, labels: tuple[Label, ...], note: str) -> Iterator[Metric]:
    """The metrics of one kind of process, under a prefix of its own."""
    kinds: tuple[tuple[str, Kind, str, str], ...] = (
        ("cpu_seconds_total", "counter", "seconds", "Processor time of {}, user and system."),
        ("resident_memory_bytes", "gauge", "bytes", "Resident memory of {}."),
        (
            "memory_limit_bytes",
            "gauge",
            "bytes",
            "The tightest memory limit that holds for {}: of a control group, else the machine.",
        ),
        (
            "memory_limit_used_bytes",
            "gauge",
            "bytes",
            "Memory in use under that limit by {} and all that share it, without cache.",
        ),
        ("oom_kills_total", "counter", "", "Processes killed under the memory limit of {}."),
        ("threads", "gauge", "", "Threads of {}."),
        ("open_files", "gauge", "", "Open file descriptors of {}."),
        ("open_files_limit", "gauge", "", "Open file descriptors that {} may have."),
        ("start_time_seconds", "gauge", "seconds", "When {} started, in seconds since 1970."),
    )
    for what, kind, unit, text in kinds:
        yield Metric(
            name=f"{PREFIX}{owner}_process_{what}",
            kind=kind,
            group="processes",
            unit=unit,
            help=text.format(process),
            labels=labels,
            note=note,
        )


METRICS: Final[tuple[Metric, ...]] = (
    # -- query ------------------------------------------------------------------------------
    Metric(
        name="weir_query_info",
        kind="info",
        group="query",
        help="What the query is: ids, Spark version, trigger, and whether its limit can be moved.",
        labels=(
            *BY_QUERY,
            Label("query_id", bound="one at a time for each query"),
            Label("run_id", bound="one at a time for each query; changes with every start"),
            Label("spark_version", bound="one at a time for each query"),
            Label("trigger", bound="one at a time for each query, as Spark writes it"),
            Label("control", (*CONTROLS, "")),
        ),
        note="Always 1. Join it on application and query. `control`: `live` the limit is moved "
        "while the query runs, `advice` it can only be told, `none` nothing limits this trigger, "
        "empty not known yet.",
    ),
    Metric(
        name="weir_query_up",
        kind="gauge",
        group="query",
        help="1 while the query runs, 0 once it has ended or its driver fell silent.",
        labels=BY_QUERY,
        note="Stays 0 for an hour (`forget_seconds`) after the query is gone; then all its series "
        "end.",
    ),
    Metric(
        name="weir_query_state",
        kind="state set",
        group="query",
        help="What the query does now.",
        labels=(*BY_QUERY, Label("state", QUERY_STATES)),
        note="Exactly one is 1. `backpressured`: a batch runs while the limit holds back more than "
        "the next batch takes. `stalled`: a batch has run past the deadline or, without one, far "
        "longer than batches do.",
    ),
    Metric(
        name="weir_query_stopped",
        kind="gauge",
        group="query",
        help="1 once the query has ended without an exception, else 0.",
        labels=BY_QUERY,
        note="Its owner stopped it, or it had read what there was (`AvailableNow`, `Once`). One "
        "that was ended for its batch's age, as by a supervisor, counts as failed. A driver that "
        "falls silent, or ends while the query runs, has stopped nothing.",
    ),
    Metric(
        name="weir_query_mode",
        kind="state set",
        group="query",
        help="What Weir may do to the query: nothing, decide without acting, or act.",
        labels=(*BY_QUERY, Label("mode", MODES)),
        note="Exactly one is 1.",
    ),
    Metric(
        name="weir_query_held",
        kind="gauge",
        group="query",
        help="1 while an operator holds the query's limit where it is or has set it by hand.",
        labels=BY_QUERY,
        running=True,
    ),
    Metric(
        name="weir_last_progress_timestamp_seconds",
        kind="gauge",
        group="query",
        unit="seconds",
        help="When the query last reported a finished batch, in seconds since 1970.",
        labels=BY_QUERY,
        note="By the driver's clock. Absent until the first batch. An idle query does not move it.",
    ),
    # -- batches ----------------------------------------------------------------------------
    Metric(
        name="weir_batches_total",
        kind="counter",
        group="batches",
        help="Micro-batches by how they ended.",
        labels=(*BY_QUERY, Label("result", (*BATCH_RESULTS, OTHER))),
        note="A batch that ran again under its old number counts under `replayed` and under "
        "`completed` or `empty` too. `failed` counts runs that ended with an exception.",
    ),
    Metric(
        name="weir_rows_total",
        kind="counter",
        group="batches",
        unit="rows",
        help="Input rows of finished batches.",
        labels=BY_QUERY,
        note="As Spark counts them: a source that the plan reads twice counts twice. Rows of a "
        "failed batch are not known.",
    ),
    Metric(
        name="weir_replayed_rows_total",
        kind="counter",
        group="batches",
        unit="rows",
        help="Input rows of batches that ran again under their old number.",
        labels=BY_QUERY,
    ),
    Metric(
        name="weir_batch_duration_seconds",
        kind="histogram",
        group="batches",
        unit="seconds",
        help="Duration of finished batches, from trigger to commit.",
        labels=BY_QUERY,
        buckets=BATCH_SECONDS_BUCKETS,
    ),
    Metric(
        name="weir_batch_running_seconds",
        kind="gauge",
        group="batches",
        unit="seconds",
        help="Age of the batch that runs now.",
        labels=BY_QUERY,
        note="Absent while no batch runs. It grows with every heartbeat, so a hung batch shows "
        "here before it shows anywhere else.",
        running=True,
    ),
    Metric(
        name="weir_batch_phase_seconds_total",
        kind="counter",
        group="batches",
        unit="seconds",
        help="Seconds spent in each phase of finished batches.",
        labels=(*BY_QUERY, Label("phase", PHASES)),
        note="Phases as Spark reports them in `durationMs`; a phase unknown here is under `other`.",
    ),
    Metric(
        name="weir_time_seconds_total",
        kind="counter",
        group="batches",
        unit="seconds",
        help="Seconds spent busy, idle, and backpressured (running while the limit holds back a "
        "backlog).",
        labels=(*BY_QUERY, Label("state", TIME_STATES)),
        note="The three add up to the time the query was watched: one second a second.",
    ),
    # -- backlog and flow -------------------------------------------------------------------
    Metric(
        name="weir_backlog_rows",
        kind="gauge",
        group="backlog and flow",
        unit="rows",
        help="Rows at the source that no batch has admitted yet.",
        labels=BY_SOURCE,
        note="As the source tells; absent where it does not. As of the planning of the last batch, "
        "or, where Kafka's brokers are asked, as of then: their end offsets less what was planned.",
        running=True,
    ),
    Metric(
        name="weir_backlog_files",
        kind="gauge",
        group="backlog and flow",
        unit="files",
        help="Files at the source that no batch has admitted yet.",
        labels=BY_SOURCE,
        note="From a listing at a bounded rate; a lower bound where the listing is cut short.",
        running=True,
    ),
    Metric(
        name="weir_backlog_bytes",
        kind="gauge",
        group="backlog and flow",
        unit="bytes",
        help="Bytes at the source that no batch has admitted yet.",
        labels=BY_SOURCE,
        note="As the source tells; absent where it does not.",
        running=True,
    ),
    Metric(
        name="weir_backlog_estimated_rows",
        kind="gauge",
        group="backlog and flow",
        unit="rows",
        help="Backlog of all sources together in rows, as of now.",
        labels=BY_QUERY,
        note="Files and bytes turned into rows by what late batches held. While a batch runs, what "
        "arrives meanwhile is estimated, at most as much as came in so long a time before; nothing "
        "is added where brokers are asked. A source that tells nothing is left out; absent where "
        "none tells.",
        running=True,
    ),
    Metric(
        name="weir_backlog_seconds",
        kind="gauge",
        group="backlog and flow",
        unit="seconds",
        help="How far behind the query is: how long its oldest unread row has been seen to wait.",
        labels=BY_QUERY,
        note="The row is at least so old, and older by less than the time between two looks at the "
        "source; what a start finds there counts from the start. Absent while it cannot be told.",
        running=True,
    ),
    Metric(
        name="weir_retention_loss_seconds",
        kind="gauge",
        group="backlog and flow",
        unit="seconds",
        help="Until retention deletes rows that were not read yet, at the present rates of both.",
        labels=BY_SOURCE,
        note="Of the partition nearest to it; 0 once rows are lost. Absent while none is foreseen, "
        "and where no broker is asked (`kafka_bootstrap_servers`).",
    ),
    Metric(
        name="weir_retention_lost_rows",
        kind="gauge",
        group="backlog and flow",
        unit="rows",
        help="Rows that were deleted at the source before the query had read them.",
        labels=BY_SOURCE,
        note="By offsets, as of the last batch. Absent where no broker is asked.",
    ),
    Metric(
        name="weir_backlog_partition_rows",
        kind="gauge",
        group="backlog and flow",
        unit="rows",
        help="Rows of one partition that the query has not read.",
        labels=(
            *BY_SOURCE,
            Label("topic", bound="topics of the source"),
            Label("partition", bound="partitions of the topic; at most `max_partitions` a query"),
        ),
        note="Only with `kafka_partition_series`.",
        running=True,
    ),
    Metric(
        name="weir_lag_state",
        kind="state set",
        group="backlog and flow",
        help="What the backlog does, judged over the last batches.",
        labels=(*BY_QUERY, Label("state", LAG_STATES)),
        note="Exactly one is 1. `WARN` it grows, `ERR` it has grown by more than the time looked "
        "at, `STOP` nothing is committed any more, `STALL` batches are committed and take nothing, "
        "`REWIND` the query reads again what it had committed. Below ten seconds, or two targets, "
        "it is always `OK`.",
        running=True,
    ),
    Metric(
        name="weir_estimated_time_to_consume_seconds",
        kind="gauge",
        group="backlog and flow",
        unit="seconds",
        help="Seconds until what waits is committed, in whole batches at the limits in force.",
        labels=BY_QUERY,
        note="Each batch with its fixed cost and its trigger, while more arrives as it does now, "
        "from the start of the next one. Absent while unknown, and where the backlog does not "
        "shrink: see `weir_required_capacity_ratio`.",
        running=True,
    ),
    Metric(
        name="weir_arrival_rows_per_second",
        kind="gauge",
        group="backlog and flow",
        unit="rows_per_second",
        help="Rows that arrive at the sources, per second (smoothed).",
        labels=BY_QUERY,
        running=True,
    ),
    Metric(
        name="weir_throughput_rows_per_second",
        kind="gauge",
        group="backlog and flow",
        unit="rows_per_second",
        help="Rows per second of batch time that the query can digest beyond its fixed cost.",
        labels=BY_QUERY,
        note="Learned from batches, at their size of late. Absent while learning.",
        running=True,
    ),
    Metric(
        name="weir_fixed_cost_seconds",
        kind="gauge",
        group="backlog and flow",
        unit="seconds",
        help="Seconds a batch takes however few rows it holds.",
        labels=BY_QUERY,
        note="Learned from batches: the intercept of the capacity model. Absent while learning.",
        running=True,
    ),
    Metric(
        name="weir_required_capacity_ratio",
        kind="gauge",
        group="backlog and flow",
        unit="ratio",
        help="Capacity that the arrivals need, over the capacity there is.",
        labels=BY_QUERY,
        note="Above 1 no limit helps: the signal to scale out.",
        running=True,
    ),
    Metric(
        name="weir_capacity_short_since_timestamp_seconds",
        kind="gauge",
        group="backlog and flow",
        unit="seconds",
        help="Since when the arrivals need more capacity than there is, in seconds since 1970.",
        labels=BY_QUERY,
        note="By the driver's clock. Absent while `weir_required_capacity_ratio` is at most 1 or "
        "unknown.",
        running=True,
    ),
    Metric(
        name="weir_pressure_ratio",
        kind="gauge",
        group="backlog and flow",
        unit="ratio",
        help="Share of the last minute in which the limit held back a backlog.",
        labels=BY_QUERY,
        note="That is more than the next batch takes; what it takes whole waits for no limit.",
        running=True,
    ),
    # -- limit and credit -------------------------------------------------------------------
    *(
        Metric(
            name=f"weir_limit_{unit}",
            kind="gauge",
            group="limit and credit",
            unit=unit,
            help=f"{unit.capitalize()} that the source may admit to the next batch.",
            labels=BY_SOURCE,
            note="Absent while the source is unlimited or its limit is not known.",
            running=True,
        )
        for unit in ("rows", "files", "bytes")
    ),
    *(
        Metric(
            name=f"weir_limit_configured_{unit}",
            kind="gauge",
            group="limit and credit",
            unit=unit,
            help=f"The limit in {unit} that the job itself configured for the source.",
            labels=BY_SOURCE,
            note="Absent where the job set none.",
            running=True,
        )
        for unit in ("rows", "files", "bytes")
    ),
    Metric(
        name="weir_credit_rows",
        kind="gauge",
        group="limit and credit",
        unit="rows",
        help="Rows that the source may admit, by where the credit comes from.",
        labels=(*BY_SOURCE, Label("kind", CREDIT_KINDS)),
        note="`exclusive` is the source's own minimum, `floating` its part of the shared pool.",
        running=True,
    ),
    Metric(
        name="weir_target_batch_seconds",
        kind="gauge",
        group="limit and credit",
        unit="seconds",
        help="Seconds a batch should take.",
        labels=BY_QUERY,
    ),
    Metric(
        name="weir_target_feasible",
        kind="gauge",
        group="limit and credit",
        help="1 where a limit exists that keeps the target and digests the arrivals, else 0.",
        labels=BY_QUERY,
        note="Absent while learning. At 0 with `weir_required_capacity_ratio` below 1 a longer "
        "target would do.",
        running=True,
    ),
    Metric(
        name="weir_grants_total",
        kind="counter",
        group="limit and credit",
        help="Decisions on the limit of a source, by reason: those that move it and those that "
        "hold it.",
        labels=(*BY_QUERY, Label("reason", (*REASONS, OTHER))),
        note="One for each batch and controlled source. A reason's series begins with its first "
        "decision.",
    ),
    # -- checkpoint -------------------------------------------------------------------------
    Metric(
        name="weir_checkpoint_seconds",
        kind="gauge",
        group="checkpoint",
        unit="seconds",
        help="Seconds from the offset log to the commit log in the last batch.",
        labels=BY_QUERY,
        running=True,
    ),
    Metric(
        name="weir_checkpoint_phase_seconds",
        kind="gauge",
        group="checkpoint",
        unit="seconds",
        help="Seconds of each phase in the last batch.",
        labels=(*BY_QUERY, Label("phase", PHASES)),
        note="Phases as Spark reports them in `durationMs`; a phase unknown here is under `other`.",
        running=True,
    ),
    Metric(
        name="weir_checkpoint_interval_seconds",
        kind="gauge",
        group="checkpoint",
        unit="seconds",
        help="Seconds between the last two commits.",
        labels=BY_QUERY,
        running=True,
    ),
    Metric(
        name="weir_checkpoint_deadline_seconds",
        kind="gauge",
        group="checkpoint",
        unit="seconds",
        help="Seconds after which something kills a batch, as configured or learned.",
        labels=BY_QUERY,
        note="Learned from the ages at which batches were ended. Absent where neither is known.",
    ),
    Metric(
        name="weir_checkpoint_failures_consecutive",
        kind="gauge",
        group="checkpoint",
        help="Batches in a row that were begun and not committed; a committed batch resets it.",
        labels=BY_QUERY,
        note="By an exception or a time-out. Stopping the query is none.",
    ),
    Metric(
        name="weir_checkpoint_deadline_eta_seconds",
        kind="gauge",
        group="checkpoint",
        unit="seconds",
        help="Estimated seconds until a batch passes the deadline.",
        labels=BY_QUERY,
        note="Absent while none is on its way there.",
        running=True,
    ),
    Metric(
        name="weir_checkpoint_bytes",
        kind="gauge",
        group="checkpoint",
        unit="bytes",
        help="Bytes that the state stores wrote to the checkpoint in the last batch.",
        labels=BY_QUERY,
        note="Absent where the state store does not tell.",
        running=True,
    ),
    Metric(
        name="weir_checkpoints_total",
        kind="counter",
        group="checkpoint",
        help="Checkpoints by result.",
        labels=(*BY_QUERY, Label("result", ("completed", "failed", "replayed", OTHER))),
        note="`replayed`: of the completed ones, those whose batch had been begun before.",
    ),
    Metric(
        name="weir_spiral_phase",
        kind="state set",
        group="checkpoint",
        help="Where the query stands on the way into a checkpoint-timeout spiral.",
        labels=(*BY_QUERY, Label("phase", SPIRAL_PHASES)),
        note="Exactly one is 1. `pressured`: the backlog grows, batches do not. `spiralling`: "
        "batches grow towards the deadline. `timing_out`: a batch was timed out and comes again. "
        "`dead`: the same batch was lost three times or more.",
    ),
    Metric(
        name="weir_spiral_gain",
        kind="gauge",
        group="checkpoint",
        help="Gain of the loop from a batch's duration to the next one's.",
        labels=BY_QUERY,
        note="Below 1 it settles, from 1 on it runs away unless a limit binds. Absent while "
        "arrivals or costs are unknown.",
        running=True,
    ),
    Metric(
        name="weir_alignment_seconds",
        kind="gauge",
        group="checkpoint",
        unit="seconds",
        help="What the stages of a batch waited for their slowest tasks.",
        labels=BY_QUERY,
        note="Slowest task less the median one, over the batch's stages. Looked at now and then, "
        "where the driver's REST API may be asked (`spark_ui_hosts`); else absent.",
        running=True,
    ),
    Metric(
        name="weir_task_skew_ratio",
        kind="gauge",
        group="checkpoint",
        unit="ratio",
        help="Slowest task over the median one, of the stage that waited longest.",
        labels=BY_QUERY,
        note="Absent where `weir_alignment_seconds` is.",
        running=True,
    ),
    Metric(
        name="weir_replay_amplification_ratio",
        kind="gauge",
        group="checkpoint",
        unit="ratio",
        help="Rows attempted over rows committed, of the last batches.",
        labels=BY_QUERY,
        note="1 where nothing is replayed.",
    ),
    Metric(
        name="weir_consistency_findings",
        kind="gauge",
        group="checkpoint",
        help="What the consistency audit found against exactly once, by check and severity.",
        labels=(
            *BY_QUERY,
            Label("check", CHECKS),
            Label("severity", SEVERITIES),
        ),
        note="A series only where something was found; it goes when that is mended. The findings "
        "in words are on the status page and at `/v1/queries`.",
    ),
    Metric(
        name="weir_consistency_folder_audited_timestamp_seconds",
        kind="gauge",
        group="checkpoint",
        unit="seconds",
        help="When the checkpoint folder was last audited.",
        labels=BY_QUERY,
        note="Absent where it was not: not on this machine, or `audit_folder_seconds` is 0.",
    ),
    # -- event time and state ---------------------------------------------------------------
    Metric(
        name="weir_watermark_lag_seconds",
        kind="gauge",
        group="event time and state",
        unit="seconds",
        help="How far the watermark was behind the end of the last batch.",
        labels=BY_QUERY,
        note="Absent without a watermark. An idle query's watermark stands still: join it with "
        "`weir_query_state`.",
        running=True,
    ),
    Metric(
        name="weir_watermark_dropped_rows_total",
        kind="counter",
        group="event time and state",
        unit="rows",
        help="Rows that came too late and were dropped by the watermark.",
        labels=BY_QUERY,
    ),
    Metric(
        name="weir_watermark_delay_seconds",
        kind="gauge",
        group="event time and state",
        unit="seconds",
        help="The delay that the query declares, as its batches show it: the greatest event time "
        "read before a batch less that batch's watermark.",
        labels=BY_QUERY,
        note="Absent where the query drops no late rows.",
    ),
    Metric(
        name="weir_lateness_seconds",
        kind="gauge",
        group="event time and state",
        unit="seconds",
        help="The most that a row's event time lay behind the greatest one read before its batch, "
        "since the checkpoint began.",
        labels=BY_QUERY,
        note="Rows of which it exceeds `weir_watermark_delay_seconds` may be dropped. Absent where "
        "the query drops no late rows.",
    ),
    Metric(
        name="weir_late_rows_held",
        kind="gauge",
        group="event time and state",
        help="1 while batches are as the job configured them because smaller ones dropped rows as "
        "late.",
        labels=BY_QUERY,
        note="Absent where the query drops no late rows.",
    ),
    Metric(
        name="weir_state_rows",
        kind="gauge",
        group="event time and state",
        unit="rows",
        help="Rows in the operator's state.",
        labels=BY_OPERATOR,
        running=True,
    ),
    Metric(
        name="weir_state_bytes",
        kind="gauge",
        group="event time and state",
        unit="bytes",
        help="Memory that the operator's state uses.",
        labels=BY_OPERATOR,
        note="As Spark reports it in `memoryUsedBytes`.",
        running=True,
    ),
    Metric(
        name="weir_state_commit_seconds",
        kind="gauge",
        group="event time and state",
        unit="seconds",
        help="Seconds that committing the operator's state took in the last batch.",
        labels=BY_OPERATOR,
        note="Summed over tasks, as Spark reports it.",
        running=True,
    ),
    Metric(
        name="weir_state_snapshot_lag_versions",
        kind="gauge",
        group="event time and state",
        help="Versions of the operator's state that no uploaded snapshot holds yet.",
        labels=BY_OPERATOR,
        note="Of the partition furthest behind: what a restart must replay. Absent where the state "
        "store does not tell.",
        running=True,
    ),
    Metric(
        name="weir_failures_total",
        kind="counter",
        group="batches",
        help="Times the query ended with an exception, by cause.",
        labels=(
            *BY_QUERY,
            Label(
                "cause",
                (*CAUSES, OTHER),
            ),
        ),
        note="A cause's series begins with its first failure.",
    ),
    # -- listener ---------------------------------------------------------------------------
    Metric(
        name="weir_listener_last_heard_timestamp_seconds",
        kind="gauge",
        group="listener",
        unit="seconds",
        help="When the agent last heard of the application's driver, in seconds since 1970.",
        labels=(APPLICATION,),
        note="By the agent's clock.",
    ),
    Metric(
        name="weir_listener_queue_length",
        kind="gauge",
        group="listener",
        help="Events that wait in the driver to be sent.",
        labels=(APPLICATION,),
    ),
    Metric(
        name="weir_listener_dropped_events_total",
        kind="counter",
        group="listener",
        help="Events that the driver's full queue dropped.",
        labels=(APPLICATION,),
        note="The listener's own count since it started.",
    ),
    Metric(
        name="weir_listener_callbacks_total",
        kind="counter",
        group="listener",
        help="Calls of the listener by Spark.",
        labels=(APPLICATION,),
        note="The listener's own count since it started.",
    ),
    Metric(
        name="weir_listener_callback_seconds_total",
        kind="counter",
        group="listener",
        unit="seconds",
        help="Seconds the listener spent on Spark's listener bus.",
        labels=(APPLICATION,),
        note="The listener's own count since it started.",
    ),
    # -- agent ------------------------------------------------------------------------------
    Metric(
        name="weir_agent_queries",
        kind="gauge",
        group="agent",
        help="Queries that the agent knows, those that are gone included.",
    ),
    Metric(
        name="weir_agent_events_total",
        kind="counter",
        group="agent",
        help="Events taken in, each once.",
        labels=(Label("type", (*EVENT_TYPES, OTHER)),),
    ),
    Metric(
        name="weir_agent_rejected_events_total",
        kind="counter",
        group="agent",
        help="Events refused.",
        labels=(Label("reason", EVENT_REFUSALS),),
        note="`cardinality`: the agent already knows `max_queries` queries.",
    ),
    Metric(
        name="weir_agent_refused_requests_total",
        kind="counter",
        group="agent",
        help="Requests with events refused as a whole.",
        labels=(Label("reason", REQUEST_REFUSALS),),
        note="Since the agent started. `full`: there is no room for more; `state`: the state "
        "cannot be written. Drivers send what was refused so again.",
    ),
    Metric(
        name="weir_agent_duplicate_events_total",
        kind="counter",
        group="agent",
        help="Events sent again that were already counted.",
    ),
    Metric(
        name="weir_agent_name_collisions_total",
        kind="counter",
        group="agent",
        help="Live applications that shared a name with another and got their id appended.",
    ),
    Metric(
        name="weir_agent_event_seconds",
        kind="histogram",
        group="agent",
        unit="seconds",
        help="Seconds to take in and judge an event.",
        buckets=EVENT_SECONDS_BUCKETS,
        note="Since the agent started.",
    ),
    Metric(
        name="weir_agent_start_time_seconds",
        kind="gauge",
        group="agent",
        unit="seconds",
        help="When the agent began to serve, in seconds since 1970.",
    ),
    Metric(
        name="weir_agent_state_writable",
        kind="gauge",
        group="agent",
        help="1 while the last write of saved state succeeded, else 0.",
    ),
    Metric(
        name="weir_agent_state_write_failures_total",
        kind="counter",
        group="agent",
        help="Writes of saved state that failed.",
        note="Since the agent started.",
    ),
    Metric(
        name="weir_agent_state_bytes",
        kind="gauge",
        group="agent",
        unit="bytes",
        help="Size of the saved state on disk.",
        note="Absent where state is kept in memory only.",
    ),
    Metric(
        name="weir_agent_recorded_events_total",
        kind="counter",
        group="agent",
        help="Events written to the recording that `weir replay` reads.",
        note="Since the agent started; 0 where nothing is recorded.",
    ),
    Metric(
        name="weir_agent_record_failures_total",
        kind="counter",
        group="agent",
        help="Writes to the recording that failed.",
        note="Since the agent started.",
    ),
    Metric(
        name="weir_kafka_up",
        kind="gauge",
        group="agent",
        help="1 where Kafka's brokers answered when they were last asked, else 0.",
        note="Absent where none is asked (`kafka_bootstrap_servers`), and before the first answer. "
        "At 0 a backlog is what the query's own progress says.",
    ),
    Metric(
        name="weir_agent_scrape_errors_total",
        kind="counter",
        group="agent",
        help="Queries left out of an exposition because their view failed.",
        note="Since the agent started. The log says which query and why.",
    ),
    Metric(
        name="weir_agent_scrape_seconds",
        kind="gauge",
        group="agent",
        unit="seconds",
        help="Seconds that building this exposition took.",
    ),
    Metric(
        name="weir_build_info",
        kind="info",
        group="agent",
        help="Which Weir and which Python this is.",
        labels=(
            Label("version", bound="one at a time"),
            Label("python_version", bound="one at a time"),
        ),
        note="Always 1.",
    ),
    # -- processes --------------------------------------------------------------------------
    *_of_process("agent", "the agent", (), ""),
    *_of_process(
        "driver",
        "the driver's process",
        BY_PROCESS,
        "Only where the agent shares the driver's host and was asked to look.",
    ),
)

BY_NAME: Final[dict[str, Metric]] = {metric.name: metric for metric in METRICS}


def metric(name: str) -> Metric:
    """The metric of that exported name; raises KeyError for one that does not exist."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise KeyError(f"no metric {name!r} in the catalogue") from None


_PREAMBLE: Final = """\
# Metrics

<!-- Written by `python -m agent.export.catalogue`; edit agent/export/catalogue.py. -->

What `GET /metrics` tells, in Prometheus and OpenMetrics text.

- A value that is not known is absent, never zero.
- Series belong to the application's and the query's names: a restarted application goes on in the
  same series. Run ids stand only on `weir_query_info`, batch ids nowhere.
- All series of a query end an hour (`forget_seconds`) after it is gone.
- A state set has one series for each value, 1 for the present one. Both text formats call it a
  gauge: OpenMetrics would want its label named like the metric.
- Labels of the configuration (such as `namespace` and `cluster`) stand on every series beside
  those below.

"""


def as_markdown() -> str:
    """The catalogue as docs/metrics.md."""
    lines = _PREAMBLE.splitlines()
    groups = list(dict.fromkeys(one.group for one in METRICS))
    for group in groups:
        lines += [f"## {group[0].upper()}{group[1:]}", ""]
        for one in METRICS:
            if one.group == group:
                lines += _describe(one)
    lines += ["## Labels", "", "| label | values |", "|---|---|"]
    seen: dict[tuple[str, str], None] = {}
    for one in METRICS:
        for label in one.labels:
            if not label.values:
                seen.setdefault((label.name, label.bound))
    lines += [f"| `{name}` | {bound} |" for name, bound in seen]
    return "\n".join(lines) + "\n"


def _describe(one: Metric) -> list[str]:
    facts: list[str] = [one.kind]
    if one.unit:
        facts.append(one.unit.replace("_", " "))
    facts.append(f"since {one.since}")
    lines = [f"### `{one.name}`", "", f"{', '.join(facts)}. {one.help}", ""]
    if one.note:
        lines += [one.note, ""]
    if one.running:
        lines += ["Its series end when the query does, or falls silent.", ""]
    if one.labels:
        lines += ["Labels: " + "; ".join(_describe_label(label) for label in one.labels) + ".", ""]
    if one.buckets:
        lines += ["Buckets: " + ", ".join(f"{bucket:g}" for bucket in one.buckets) + ".", ""]
    return lines


def _describe_label(label: Label) -> str:
    if not label.values:
        return f"`{label.name}`"
    values = ", ".join(f"`{value}`" if value else "empty" for value in label.values)
    return f"`{label.name}` ({values})"


def main() -> None:
    """Rewrites docs/metrics.md."""
    from pathlib import Path

    path = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(as_markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
