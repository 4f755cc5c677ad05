"""Overview: every query, worst first, with the way down to each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import links
from dashboards.frame import CHOSEN, annotate, choose_many, frame, lay_out
from dashboards.panels import (
    GREEN,
    RED,
    STATE_COLOURS,
    YELLOW,
    Column,
    graph,
    link,
    number,
    rows_of,
)
from dashboards.promql import BY_QUERY, MANY, TROUBLES, trouble

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import Dashboard

TROUBLE_COLOURS = {"none": GREEN, "behind or held back": YELLOW}
LEGEND = "{{application}} / {{query}}"
DOWN = (
    f"/d/{links.QUERY}?var-application=${{__data.fields.application:percentencode}}"
    f"&var-query=${{__data.fields.query:percentencode}}&{CHOSEN}&${{__url_time_range}}"
)


def _worst(metric: str) -> str:
    return f"max {BY_QUERY} ({MANY(metric)})"


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
                    "Queries up",
                    "Queries that run now.",
                    f"sum({MANY('weir_query_up')})",
                    none="0",
                ),
                number(
                    "Gone",
                    "Queries that failed or whose driver fell silent within the last hour.",
                    f"count({MANY('weir_query_up')} == 0 unless {MANY('weir_query_stopped')} == 1)"
                    " or vector(0)",
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirQueryGone"),
                ),
                number(
                    "Stalled",
                    "Queries with a batch that runs far longer than it should: it may hang.",
                    f"sum({MANY('weir_query_state', state='stalled')}) or vector(0)",
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirBatchHung"),
                ),
                number(
                    "Short of capacity",
                    "Queries whose arrivals need more capacity than there is: no limit helps, only "
                    "more cores or less work.",
                    f"count({_alive(MANY('weir_required_capacity_ratio') + ' > 1')}) or vector(0)",
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirNeedsCapacity"),
                ),
                number(
                    "Backpressured",
                    "Queries that run while their limit holds back a backlog.",
                    f"sum({MANY('weir_query_state', state='backpressured')}) or vector(0)",
                    thresholds=((None, GREEN), (1, YELLOW)),
                ),
                number(
                    "Furthest behind",
                    "The largest backlog of any query, in time.",
                    f"max({MANY('weir_backlog_seconds')})",
                    unit="s",
                    thresholds=((None, GREEN), (60, YELLOW), (600, RED)),
                    links=runbook("WeirFallingBehind"),
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
                    ("cluster", "namespace", "application", "query"),
                    [
                        Column(
                            "Trouble",
                            trouble(),
                            ranges=[
                                (start, text, TROUBLE_COLOURS.get(text, RED))
                                for start, text in TROUBLES
                            ],
                        ),
                        Column(
                            "Up",
                            _worst("weir_query_up"),
                            texts={"1": ("up", GREEN), "0": ("gone", RED)},
                        ),
                        Column(
                            "Stalled",
                            f"max {BY_QUERY} ({MANY('weir_query_state', state='stalled')})",
                            texts={"0": ("no", GREEN), "1": ("stalled", RED)},
                        ),
                        Column(
                            "Behind",
                            _worst("weir_backlog_seconds"),
                            "s",
                            thresholds=((None, GREEN), (60, YELLOW), (600, RED)),
                        ),
                        Column(
                            "Caught up in", _worst("weir_estimated_time_to_consume_seconds"), "s"
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
                            _worst("weir_checkpoint_failures_consecutive"),
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
