"""Overview: every query, worst first, with the way down to each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.core.judgement import MODES, SPIRAL_PHASES
from dashboards import links
from dashboards.frame import annotate, choose_many, frame, lay_out
from dashboards.panels import (
    GREEN,
    MODE_COLOURS,
    NEUTRAL,
    NEVER,
    RED,
    SPIRAL_COLOURS,
    STATE_COLOURS,
    YELLOW,
    Column,
    graph,
    link,
    number,
    rows_of,
)
from dashboards.promql import (
    BY_QUERY,
    FIXED,
    MANY,
    TROUBLES,
    caught_up_in,
    gone,
    left,
    or_none,
    silent_agents,
    trouble,
    which,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import Dashboard

TROUBLE_COLOURS = {"none": GREEN, "behind or held back": YELLOW}
LEGEND = "{{cluster}} {{namespace}} {{application}} / {{query}}"
#: What a fixed label is chosen by where a row leads: its value, or all where it is absent.
CHOICES = tuple(f"choose_{label}" for label in FIXED)
DOWN = (
    f"/d/{links.QUERY}?"
    + "&".join(
        f"var-{name}=${{__data.fields.{field}:percentencode}}"
        for name, field in (
            ("application", "application"),
            ("query", "query"),
            *zip(FIXED, CHOICES, strict=True),
        )
    )
    + "&${datasource:queryparam}&${__url_time_range}"
)
SEVERITIES = {"3": ("critical", RED), "2": ("warning", YELLOW), "1": ("info", "blue")}
SPIRALS = 'phase=~"spiralling|timing_out|dead"'
BY_ALERT = "by (alertname, cluster, namespace, application, query)"


def _worst(metric: str) -> str:
    return f"max {BY_QUERY} ({MANY(metric)})"


def _choosable(expression: str) -> str:
    """With labels to follow a row by: a label that is absent cannot be handed on."""
    for label, choice in zip(FIXED, CHOICES, strict=True):
        all_of_it = f'label_replace({expression}, "{choice}", "$$__all", "", "")'
        expression = f'label_replace({all_of_it}, "{choice}", "$1", "{label}", "(.+)")'
    return expression


def _firing(severity: str = "") -> str:
    wanted = f',severity="{severity}"' if severity else ""
    chosen = MANY.matchers(*FIXED, "application", "query")
    return f'ALERTS{{component="weir",alertstate="firing"{wanted},{chosen}}}'


def _alive(expression: str) -> str:
    return (
        f"{expression} and on (cluster, namespace, application, query) {MANY('weir_query_up')} == 1"
    )


def overview(runbooks: str) -> Dashboard:
    """All queries at a glance."""

    def runbook(alert: str) -> list[DashboardLink]:
        return [link("Runbook", links.runbook(alert, runbooks))]

    return lay_out(
        annotate(
            choose_many(
                frame(
                    links.OVERVIEW,
                    "Weir / Overview",
                    "Every streaming query, worst first. A row's query leads to its own dashboard.",
                )
            ),
            MANY,
        ),
        (
            "Fleet",
            [
                number(
                    "Agents silent",
                    "Agents that do not answer Prometheus any more: nobody watches their queries, "
                    "which are missing from everything here.",
                    silent_agents(),
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirAgentUnreachable"),
                    span=3,
                ),
                number(
                    "Queries up",
                    "Queries that run now.",
                    or_none(f"sum({MANY('weir_query_up')})"),
                    span=3,
                ),
                number(
                    "Gone",
                    "Queries that failed or whose driver fell silent, that nobody has retired, and "
                    "that no other agent hears run, or has heard end as they should since.",
                    or_none(f"count({gone()})"),
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirQueryGone"),
                    span=3,
                ),
                number(
                    "Failing",
                    "Queries that lost the batch that they last began.",
                    or_none(f"count({left('weir_checkpoint_failures_consecutive')} > 0)"),
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirBatchesFailing"),
                    span=3,
                ),
                number(
                    "Stalled",
                    "Queries with a batch that runs far longer than it should: it may hang.",
                    or_none(f"sum({MANY('weir_query_state', state='stalled')})"),
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirBatchHung"),
                    span=3,
                ),
                number(
                    "In a spiral",
                    "Queries whose batches grow towards their deadline, or are killed at it.",
                    or_none(f"sum({left('weir_spiral_phase', matchers=SPIRALS)})"),
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirSpiral"),
                    span=3,
                ),
                number(
                    "Short of capacity",
                    "Queries whose arrivals need more capacity than there is: no limit helps, only "
                    "more cores or less work.",
                    or_none(f"count({_alive(MANY('weir_required_capacity_ratio') + ' > 1')})"),
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirNeedsCapacity"),
                    span=3,
                ),
                number(
                    "Furthest behind",
                    "The largest backlog of any query, in time.",
                    f"max({MANY('weir_backlog_seconds')})",
                    unit="s",
                    thresholds=((None, GREEN), (60, YELLOW), (600, RED)),
                    links=runbook("WeirFallingBehind"),
                    span=3,
                ),
                rows_of(
                    "Alerts that fire",
                    "Of Weir's rules, the gravest first. Nothing here also means that Prometheus "
                    "has not loaded them.",
                    ("alertname", "cluster", "namespace", "application", "query"),
                    [
                        Column(
                            "Severity",
                            f"max {BY_ALERT} (3 * {_firing('critical')}"
                            f" or 2 * {_firing('warning')} or {_firing('info')})",
                            texts=SEVERITIES,
                        ),
                        Column(
                            "For",
                            f"time() - max {BY_ALERT} (ALERTS_FOR_STATE"
                            f" and ignoring (alertstate) {_firing()})",
                            "s",
                        ),
                    ],
                    worst_first="Severity",
                    height=6,
                    none="none fires, or the rules are not loaded",
                ),
            ],
        ),
        (
            "Queries, worst first",
            [
                rows_of(
                    "Queries",
                    "Sorted by trouble, which names the gravest: gone, stalled, failing, short of "
                    "capacity, then a minute or more behind, or held back by the limit. Click a "
                    "query for its dashboard.",
                    ("cluster", "namespace", "application", "query", *CHOICES),
                    [
                        Column(
                            "Trouble",
                            _choosable(trouble()),
                            ranges=[
                                (start, text, TROUBLE_COLOURS.get(text, RED))
                                for start, text in TROUBLES
                            ],
                        ),
                        Column(
                            "Up",
                            _worst("weir_query_up"),
                            # Stopped, or gone: *Trouble* says which.
                            texts={"1": ("up", GREEN), "0": ("down", NEUTRAL)},
                        ),
                        Column(
                            "Mode",
                            which(MANY, "weir_query_mode", "mode"),
                            texts={
                                str(place): (mode, MODE_COLOURS[mode])
                                for place, mode in enumerate(MODES)
                            },
                        ),
                        Column(
                            "Spiral",
                            which(left, "weir_spiral_phase", "phase"),
                            texts={
                                str(place): (phase.replace("_", " "), SPIRAL_COLOURS[phase])
                                for place, phase in enumerate(SPIRAL_PHASES)
                            },
                        ),
                        Column(
                            "Behind",
                            _worst("weir_backlog_seconds"),
                            "s",
                            thresholds=((None, GREEN), (60, YELLOW), (600, RED)),
                        ),
                        Column(
                            "Caught up in",
                            caught_up_in(_worst),
                            "s",
                            texts=NEVER,
                        ),
                        Column("Arriving", _worst("weir_arrival_rows_per_second"), "rowsps"),
                        Column("Throughput", _worst("weir_throughput_rows_per_second"), "rowsps"),
                        Column(
                            "Capacity needed",
                            _worst("weir_required_capacity_ratio"),
                            "percentunit",
                            thresholds=((None, GREEN), (0.9, YELLOW), (1, RED)),
                        ),
                        Column(
                            "Short for",
                            f"time() - min {BY_QUERY} "
                            f"({MANY('weir_capacity_short_since_timestamp_seconds')})",
                            "s",
                            thresholds=((None, YELLOW), (600, RED)),
                        ),
                        Column(
                            "Held back",
                            _worst("weir_pressure_ratio"),
                            "percentunit",
                            thresholds=(
                                (None, GREEN),
                                (0.1, YELLOW),
                                (0.5, STATE_COLOURS["backpressured"]),
                            ),
                        ),
                        Column("Batch running", _worst("weir_batch_running_seconds"), "s"),
                        Column("Target", _worst("weir_target_batch_seconds"), "s"),
                        Column(
                            "Failures in a row",
                            f"max {BY_QUERY} ({left('weir_checkpoint_failures_consecutive')})",
                            thresholds=((None, GREEN), (1, RED)),
                        ),
                        Column(
                            "Held by hand",
                            _worst("weir_query_held"),
                            texts={"0": ("", GREEN), "1": ("held", YELLOW)},
                        ),
                    ],
                    worst_first="Trouble",
                    link=("query", "Open this query", DOWN),
                    hidden=CHOICES,
                    height=9,
                ),
            ],
        ),
        (
            "Over time",
            [
                graph(
                    "Queries by level",
                    "How many queries were at which level, as the agent's status page shows them.",
                    (f"sum by (level) ({MANY('weir_attention')}) > 0", "{{level}}"),
                    unit="short",
                    span=24,
                    stacked=True,
                ),
                graph(
                    "Behind, in time",
                    "The ten queries furthest behind. A line that only rises will not catch up.",
                    (f"topk(10, {_worst('weir_backlog_seconds')})", LEGEND),
                    unit="s",
                    links=runbook("WeirFallingBehind"),
                ),
                graph(
                    "Held back by the limit",
                    "Share of the last minute in which the limit held back a backlog: the ten "
                    "highest. That is the limit at work; it is trouble only beside a growing "
                    "backlog.",
                    (f"topk(10, {_worst('weir_pressure_ratio')})", LEGEND),
                    unit="percentunit",
                    maximum=1,
                ),
                graph(
                    "Arriving and digested",
                    "Rows per second of all chosen queries. Arriving above digested for long: the "
                    "backlog grows.",
                    (f"sum({MANY('weir_arrival_rows_per_second')})", "arriving"),
                    (f"sum({MANY.rate('weir_rows_total')})", "digested"),
                    unit="rowsps",
                ),
                graph(
                    "Capacity needed",
                    "Capacity that the arrivals need over the capacity there is, the ten highest. "
                    "Above 100 % no limit helps.",
                    (f"topk(10, {_worst('weir_required_capacity_ratio')})", LEGEND),
                    unit="percentunit",
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirNeedsCapacity"),
                ),
            ],
        ),
    )
