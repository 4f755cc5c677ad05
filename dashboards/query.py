"""Query: one query's flow, backlog, limit, time, and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.core.judgement import LAG_STATES, MODES
from agent.export.catalogue import BY_NAME
from dashboards import links
from dashboards.frame import annotate, choose_one, frame, lay_out
from dashboards.panels import (
    GREEN,
    LAG_COLOURS,
    MODE_COLOURS,
    NEUTRAL,
    NEVER,
    NO_OR_YES,
    RED,
    STATE_COLOURS,
    YELLOW,
    Column,
    graph,
    link,
    number,
    rows_of,
    spread,
    states,
)
from dashboards.promql import BY_QUERY, ONE, RANGE, RATE, by, caught_up_in

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import Dashboard

#: In panels that only a Kafka source fills.
BROKERS_ASKED = "only for Kafka, where the agent asks the brokers (kafka_bootstrap_servers)"
#: Of each query of the name, whether it runs at any agent.
EACH_UP = f"max {BY_QUERY} ({ONE('weir_query_up')})"
BATCHES = f"sum({ONE.rate('weir_batch_duration_seconds_count')})"
STATES = BY_NAME["weir_query_state"].values_of("state")
BOUNDS = BY_NAME["weir_executors_bound"].values_of("bound")
#: A batch this much above its target is not within it: regulated ones scatter around it.
BAND = 1.3


def _worst(metric: str) -> str:
    return f"max({ONE(metric)})"


def _time_within_target() -> str:
    """Share of the shown time, while the query ran, in which batches kept about their target.

    Not kept: those that ended took longer on average, or the running one already does.
    """
    target = f"{BAND} * {_worst('weir_target_batch_seconds')}"
    ended = f"sum({ONE.rate('weir_batch_duration_seconds_sum')}) / {BATCHES} > bool {target}"
    running = f"({_worst('weir_batch_running_seconds')} > bool {target}) or 0 * {target}"
    missed = f"clamp_max(({ended}) + ({running}), 1) and {_worst('weir_query_up')} == 1"
    return f"1 - avg_over_time(({missed})[{RANGE}:{RATE}])"


def query(runbooks: str) -> Dashboard:
    """One query from its sources to its commits."""

    def runbook(alert: str) -> list[DashboardLink]:
        return [link("Runbook", links.runbook(alert, runbooks))]

    return lay_out(
        annotate(
            choose_one(
                frame(
                    links.QUERY,
                    "Weir / Query",
                    "One streaming query: what arrives, what it may take, what it takes, and "
                    "where its time goes.",
                )
            ),
            ONE,
            decisions=True,
        ),
        (
            "Now",
            [
                number(
                    "Up",
                    "Whether the query runs; of several of this name, whether all do.",
                    f"min({EACH_UP})",
                    texts=NO_OR_YES,
                    span=3,
                    links=runbook("WeirQueryGone"),
                ),
                number(
                    "Of this name",
                    "Queries of this name, in different clusters or namespaces, that are drawn "
                    "here as one. Above 1 choose a cluster and a namespace.",
                    f"count({EACH_UP})",
                    thresholds=((None, NEUTRAL), (2, RED)),
                    span=3,
                ),
                number(
                    "Behind",
                    "How old the oldest row is that no batch has admitted.",
                    f"max({ONE('weir_backlog_seconds')})",
                    unit="s",
                    span=4,
                    thresholds=((None, GREEN), (60, YELLOW), (600, RED)),
                    links=runbook("WeirFallingBehind"),
                ),
                number(
                    "Caught up in",
                    "At the present rates. Never: more arrives than it can digest.",
                    caught_up_in(_worst),
                    texts=NEVER,
                    unit="s",
                    span=4,
                ),
                number(
                    "Capacity needed",
                    "What the arrivals need, over what there is. Above 100 % add capacity.",
                    f"max({ONE('weir_required_capacity_ratio')})",
                    unit="percentunit",
                    span=5,
                    thresholds=((None, GREEN), (0.9, YELLOW), (1, RED)),
                    links=runbook("WeirNeedsCapacity"),
                ),
                number(
                    "Short of capacity for",
                    "How long the arrivals have needed more capacity than there is, without a "
                    "break.",
                    f"time() - min({ONE('weir_capacity_short_since_timestamp_seconds')})",
                    unit="s",
                    span=5,
                    none="none known",
                    thresholds=((None, YELLOW), (600, RED)),
                    links=runbook("WeirNeedsCapacity"),
                ),
                number(
                    "Batch running",
                    "Age of the batch that runs now.",
                    f"max({ONE('weir_batch_running_seconds')})",
                    unit="s",
                    span=6,
                    none="none known",
                    links=runbook("WeirBatchHung"),
                ),
                number(
                    "Target holds",
                    "Whether a limit exists that keeps the target and digests what arrives.",
                    f"max({ONE('weir_target_feasible')})",
                    texts={**NO_OR_YES, "0": ("no", YELLOW)},
                    span=6,
                    links=runbook("WeirTargetInfeasible"),
                ),
                number(
                    "Time within target",
                    "Share of the shown time, while the query ran, in which batches took at most "
                    "30 % longer than their target: those that ended on average, and the running "
                    "one.",
                    _time_within_target(),
                    unit="percentunit",
                    span=6,
                    thresholds=((None, RED), (0.5, YELLOW), (0.8, GREEN)),
                    links=runbook("WeirTargetInfeasible"),
                ),
                number(
                    "Failures in a row",
                    "Batches that were begun and lost since the last one that was committed.",
                    f"max({ONE('weir_checkpoint_failures_consecutive')})",
                    span=6,
                    thresholds=((None, GREEN), (1, YELLOW), (2, RED)),
                    links=runbook("WeirBatchesFailing"),
                ),
                states(
                    "State",
                    "What the query did, and when. Stopped: it ended without an exception.",
                    *((f"max({ONE('weir_query_state', state=state)})", state) for state in STATES),
                    (f"max({ONE('weir_query_stopped')})", "stopped"),
                    colours={**STATE_COLOURS, "stopped": "gray"},
                    span=12,
                    links=runbook("WeirBatchHung"),
                ),
                states(
                    "Lag state",
                    "What the backlog does. WARN: it grows. ERR: it holds more than the time "
                    "looked at. STOP: nothing is committed. STALL: batches take nothing. REWIND: "
                    "the query reads again what it had committed.",
                    *(
                        (f"max({ONE('weir_lag_state', state=state)})", state)
                        for state in LAG_STATES
                    ),
                    colours=LAG_COLOURS,
                    span=12,
                    links=runbook("WeirBacklogStuck"),
                ),
                states(
                    "What Weir may do",
                    "Nothing, decide without acting, or act; and whether somebody holds the limit "
                    "by hand, or smaller batches dropped late rows.",
                    *((f"max({ONE('weir_query_mode', mode=mode)})", mode) for mode in MODES),
                    (f"max({ONE('weir_query_held')})", "held by hand"),
                    (f"max({ONE('weir_late_rows_held')})", "held for late rows"),
                    colours={
                        **MODE_COLOURS,
                        "held by hand": YELLOW,
                        "held for late rows": YELLOW,
                    },
                    span=12,
                    links=runbook("WeirLimitHeldLong"),
                ),
                rows_of(
                    "What it is",
                    "Control: live, the limit is moved while the query runs; advice, it can only "
                    "be told; none, nothing limits this trigger.",
                    ("spark_version", "trigger", "control", "run_id"),
                    [
                        Column(
                            "Runs",
                            "max by (spark_version, trigger, control, run_id) "
                            f"({ONE('weir_query_info')})",
                            texts={"1": ("last heard of so", GREEN)},
                        )
                    ],
                    worst_first="Runs",
                    height=6,
                    span=12,
                ),
            ],
        ),
        (
            "Executors",
            [
                graph(
                    "Executors wanted and present",
                    "Wanted, for what arrives and waits, whether or not Weir may ask for them; "
                    "present; and asked for by Weir.",
                    (f"max({ONE('weir_executors_wanted')})", "wanted"),
                    (f"max({ONE('weir_executors_present')})", "present"),
                    (f"max({ONE('weir_executors_asked')})", "asked"),
                    unit="short",
                    links=runbook("WeirExecutorsAtMaximum"),
                ),
                graph(
                    "What batches are made of",
                    "All tasks together, which more executors share; the slowest tasks one after "
                    "the other and the driver's own time, below which no number of executors gets.",
                    *(
                        (f"max({ONE('weir_batch_work_seconds', part=part)})", part)
                        for part in BY_NAME["weir_batch_work_seconds"].values_of("part")
                    ),
                    unit="s",
                ),
                states(
                    "What keeps more from helping",
                    "Enough: nothing, what is wanted suffices.",
                    *((f"max({ONE('weir_executors_bound', bound=one)})", one) for one in BOUNDS),
                    colours={one: GREEN if one == "enough" else YELLOW for one in BOUNDS},
                    span=24,
                    links=runbook("WeirExecutorsAtMaximum"),
                ),
            ],
        ),
        (
            "Flow",
            [
                graph(
                    "Rows per second",
                    "Arriving above digested: the backlog grows. Throughput, what a batch digests "
                    "beyond its fixed cost, is the ceiling.",
                    (f"max({ONE('weir_arrival_rows_per_second')})", "arriving"),
                    (f"sum({ONE.rate('weir_rows_total')})", "digested"),
                    (f"max({ONE('weir_throughput_rows_per_second')})", "throughput"),
                    unit="rowsps",
                    dashed=["throughput"],
                ),
                graph(
                    "Behind, in time",
                    "How old the oldest unread row is, and how long it would take to catch up.",
                    (f"max({ONE('weir_backlog_seconds')})", "behind"),
                    (f"max({ONE('weir_estimated_time_to_consume_seconds')})", "caught up in"),
                    unit="s",
                    links=runbook("WeirFallingBehind"),
                ),
                graph(
                    "Backlog by source",
                    "What no batch has admitted yet, in each source's own unit; files may be a "
                    "lower bound. All together in rows, with what has arrived since.",
                    (by("source", ONE("weir_backlog_rows"), "max"), "source {{source}}, rows"),
                    (by("source", ONE("weir_backlog_files"), "max"), "source {{source}}, files"),
                    (f"max({ONE('weir_backlog_estimated_rows')})", "all, as rows, by now"),
                    unit="short",
                ),
                graph(
                    "Backlog in bytes",
                    "Of sources that count in bytes.",
                    (by("source", ONE("weir_backlog_bytes"), "max"), "source {{source}}"),
                    unit="bytes",
                    none="no source of this query counts in bytes",
                ),
            ],
        ),
        (
            "Limit",
            [
                graph(
                    "Limit against what a batch took",
                    "The limit in force, what the job configured, and rows per batch. A batch far "
                    "below the limit was not limited. A source limited in files or bytes has its "
                    "limit in the next panel.",
                    (by("source", ONE("weir_limit_rows")), "limit, source {{source}}"),
                    (
                        by("source", ONE("weir_limit_configured_rows")),
                        "configured, source {{source}}",
                    ),
                    (
                        f"sum({ONE.rate('weir_rows_total')}) / {BATCHES}",
                        "rows per batch",
                    ),
                    unit="short",
                ),
                graph(
                    "Limit in files and bytes",
                    "Of sources that are limited in files or bytes.",
                    (by("source", ONE("weir_limit_files")), "files, source {{source}}"),
                    (
                        by("source", ONE("weir_limit_configured_files")),
                        "files configured, source {{source}}",
                    ),
                    (by("source", ONE("weir_limit_bytes")), "bytes, source {{source}}"),
                    (
                        by("source", ONE("weir_limit_configured_bytes")),
                        "bytes configured, source {{source}}",
                    ),
                    none="every source of this query is limited in rows",
                    unit="short",
                ),
                graph(
                    "Credit",
                    "Rows each source may admit: its own exclusive credit, and what floats to it "
                    "from the pool that all sources share.",
                    (
                        by("source, kind", ONE("weir_credit_rows")),
                        "source {{source}}, {{kind}}",
                    ),
                    unit="short",
                    stacked=True,
                ),
                graph(
                    "Decisions",
                    "Decisions per second, by reason. `hold:` left the limit as it was, `bound:` "
                    "and `floor:` say which constraint set it.",
                    (by("reason", ONE.rate("weir_grants_total")), "{{reason}}"),
                    unit="cps",
                    stacked=True,
                ),
            ],
        ),
        (
            "Time and batches",
            [
                graph(
                    "Time by state",
                    "Where each second goes: waiting, running, or running while the limit holds "
                    "back a backlog. They add up to one.",
                    *(
                        (f"sum({ONE.rate('weir_time_seconds_total', state=state)})", state)
                        for state in BY_NAME["weir_time_seconds_total"].values_of("state")
                    ),
                    unit="percentunit",
                    stacked=True,
                    colours={
                        name: STATE_COLOURS[name] for name in ("busy", "idle", "backpressured")
                    },
                    maximum=1,
                ),
                graph(
                    "Batch time against target",
                    "Quantiles of batch time, the target they should keep, and the deadline after "
                    "which something kills a batch.",
                    (ONE.quantile(0.5, "weir_batch_duration_seconds"), "p50"),
                    (ONE.quantile(0.99, "weir_batch_duration_seconds"), "p99"),
                    (f"max({ONE('weir_batch_running_seconds')})", "running"),
                    (f"max({ONE('weir_target_batch_seconds')})", "target"),
                    (f"max({ONE('weir_checkpoint_deadline_seconds')})", "deadline"),
                    unit="s",
                    dashed=["target", "deadline"],
                    colours={"target": GREEN, "deadline": RED},
                    links=runbook("WeirDeadlineNear"),
                ),
                spread(
                    "Batch times",
                    "How many batches took how long: a colour for each bucket of batch time, "
                    "darker the more there are.",
                    f"sum by (le) ({ONE.increase('weir_batch_duration_seconds_bucket')})",
                    unit="s",
                    links=runbook("WeirTargetInfeasible"),
                ),
                graph(
                    "What a batch costs",
                    "Fixed: what a batch takes however few rows it holds, learned. Above half the "
                    "target, small batches mostly pay for themselves.",
                    (f"max({ONE('weir_fixed_cost_seconds')})", "fixed"),
                    (f"max({ONE('weir_target_batch_seconds')})", "target"),
                    unit="s",
                    dashed=["target"],
                    colours={"target": GREEN},
                    links=runbook("WeirTargetInfeasible"),
                ),
                graph(
                    "Held back by the limit",
                    "Share of the last minute in which the limit held back a backlog: the limit at "
                    "work.",
                    (f"max({ONE('weir_pressure_ratio')})", "held back"),
                    unit="percentunit",
                    maximum=1,
                ),
                graph(
                    "Batch phases",
                    "Seconds of each phase in a batch, on average.",
                    (
                        by("phase", ONE.rate("weir_batch_phase_seconds_total"))
                        + f" / ignoring (phase) group_left {BATCHES}",
                        "{{phase}}",
                    ),
                    unit="s",
                    stacked=True,
                ),
                graph(
                    "Batches",
                    "Batches per second by how they ended, each once.",
                    (by("result", ONE.rate("weir_batches_total")), "{{result}}"),
                    unit="cps",
                    colours={
                        "failed": RED,
                        "replayed": YELLOW,
                        "completed": GREEN,
                        "empty": "blue",
                    },
                    links=runbook("WeirBatchesFailing"),
                ),
            ],
        ),
        folded=(
            "Kafka, where the agent asks the brokers",
            [
                graph(
                    "Until retention deletes unread rows",
                    "At the present rates, of the partition nearest to it. Nothing where no loss "
                    "is foreseen, or no broker is asked (`kafka_bootstrap_servers`).",
                    (by("source", ONE("weir_retention_loss_seconds"), "min"), "source {{source}}"),
                    unit="s",
                    none=BROKERS_ASKED,
                    links=runbook("WeirRetentionLossNear"),
                ),
                graph(
                    "Rows lost to retention",
                    "Deleted at the source before the query had read them.",
                    (by("source", ONE("weir_retention_lost_rows"), "max"), "source {{source}}"),
                    unit="short",
                    none=BROKERS_ASKED,
                    links=runbook("WeirRetentionLossNear"),
                ),
                graph(
                    "Backlog by partition",
                    "The ten partitions furthest behind, where the agent is told to tell of them "
                    "(`kafka_partition_series`). One far above the others is skew at the source.",
                    (
                        "topk(10, "
                        + by("topic, partition", ONE("weir_backlog_partition_rows"), "max")
                        + ")",
                        "{{topic}} {{partition}}",
                    ),
                    unit="short",
                    span=24,
                    none="only for Kafka, where the agent is told to (kafka_partition_series)",
                ),
            ],
        ),
    )
