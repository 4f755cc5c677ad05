"""PromQL over the catalogue: a name or a label that does not exist fails here, not in Grafana."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.catalogue import METRICS
from dashboards.over import STOPPED, over
from dashboards.silent import silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.export.metrics.row import Metric

#: Labels of the configuration, on every series; a selection of all matches their absence too.
FIXED: Final = ("cluster", "namespace")
#: What Prometheus itself puts on every series of a target.
TARGET: Final = ("instance",)
RATE: Final = "$__rate_interval"
#: The whole time that the dashboard shows.
RANGE: Final = "$__range"


_BY_SERIES: Final = {series: one for one in METRICS for series in one.sample_names}


def by_series(name: str) -> Metric:
    """The metric that has series of this name; raises KeyError for a name that none has."""
    try:
        return _BY_SERIES[name]
    except KeyError:
        raise KeyError(f"no metric of the catalogue has series named {name!r}") from None


class Scope:
    """Writes selectors that hold to what the dashboard's variables choose."""

    def __init__(self, **matchers: str) -> None:
        """Matchers by label, operator included: ``application='=~"$application"'``."""
        self._matchers = {**{label: f'=~"${label}"' for label in FIXED}, **matchers}

    def matchers(self, *labels: str) -> str:
        """What it asks of these labels, for series that are not of the catalogue (``ALERTS``)."""
        return ",".join(f"{label}{self._matchers[label]}" for label in labels)

    def __call__(self, name: str, *, matchers: str = "", **labels: str) -> str:
        """A selector of one metric; ``labels`` are exact values, ``matchers`` any others.

        Raises KeyError for a metric or label that does not exist, ValueError for a value that the
        label never has.
        """
        one = by_series(name)
        for label, value in labels.items():
            values = one.values_of(label)
            if values and value not in values:
                raise ValueError(f"{name}: {label} is never {value!r}")
        asked = [
            f"{label}{matcher}"
            for label, matcher in self._matchers.items()
            if label in (*FIXED, *TARGET) or label in one.label_names
        ]
        asked += [f'{label}="{value}"' for label, value in labels.items()]
        asked += [matchers] if matchers else []
        return f"{name}{{{','.join(asked)}}}"

    def rate(self, name: str, **labels: str) -> str:
        """Increase per second of a counter."""
        if by_series(name).kind not in {"counter", "histogram"}:
            raise ValueError(f"{name} is no counter")
        return f"rate({self(name, **labels)}[{RATE}])"

    def increase(self, name: str, **labels: str) -> str:
        """Increase of a counter over the range of a point."""
        if by_series(name).kind not in {"counter", "histogram"}:
            raise ValueError(f"{name} is no counter")
        return f"increase({self(name, **labels)}[{RATE}])"

    def process(self, name: str, *, rate: bool = False) -> str:
        """A metric that every program has, of the agents alone; ``rate``: its rise per second."""
        told = self.rate(name) if rate else self(name)
        return f"{told} and on (job, instance) {self('weir_build_info')}"

    def quantile(self, share: float, name: str, by: str = "") -> str:
        """A quantile of a histogram over the rate's window."""
        grouped = f"le, {by}" if by else "le"
        return f"histogram_quantile({share}, sum by ({grouped}) ({self.rate(f'{name}_bucket')}))"


def by(labels: str, expression: str, fold: str = "sum") -> str:
    """An aggregation that keeps some labels: ``sum by (labels) (expression)``."""
    return f"{fold} by ({labels}) ({expression})"


#: Of all chosen queries.
MANY: Final = Scope(application='=~"$application"', query='=~"$query"')
#: Of the one query chosen.
ONE: Final = Scope(application='="$application"', query='="$query"')
#: Of the agents chosen, and of all applications that report to them.
AGENTS: Final = Scope(instance='=~"$instance"')
#: Of all agents.
ALL_AGENTS: Final = Scope()

BY_QUERY: Final = "by (cluster, namespace, application, query)"
BY_AGENT: Final = "by (cluster, namespace, instance)"


def or_none(expression: str) -> str:
    """A number of things; 0 where there are none, and nothing where no agent tells."""
    return f"{expression} or 0 * sum({ALL_AGENTS('weir_agent_queries')})"


def silent_agents() -> str:
    """How many agents do not answer, by the words of ``WeirAgentUnreachable``."""
    return or_none(f"count({silent(ALL_AGENTS)})")


def caught_up_in(worst: Callable[[str], str]) -> str:
    """Seconds until a query has caught up at the present rates; -1: never, more arrives.

    ``worst`` gives the largest of a metric.
    """
    never = f"0 * ({worst('weir_required_capacity_ratio')} > 1) - 1"
    return f"{worst('weir_estimated_time_to_consume_seconds')} or {never}"


def _over() -> str:
    """The word of agents at which a query is over, as the alerts have it, recorded or not."""
    chosen = MANY.matchers(*FIXED, "application", "query")
    return over(MANY, remembered=f"{STOPPED}{{{chosen}}}")


def left(name: str, **asked: str) -> str:
    """What outlasts a query, without the word of an agent at which that is over."""
    own = [label for label in by_series(name).label_names if label not in ("application", "query")]
    beside = f"ignoring ({', '.join(own)}) " if own else ""
    return f"({MANY(name, **asked)} unless {beside}{_over()})"


def gone() -> str:
    """Queries that do not run though they should, each the number of agents that say so."""
    return f"count {BY_QUERY} ({MANY('weir_query_up')} == 0 unless {_over()})"


def which(of: Callable[..., str], name: str, label: str, by: str = BY_QUERY) -> str:
    """The place of a state set's present value among all of them, from 0 on."""
    values = by_series(name).values_of(label)
    return " + ".join(
        f"{place} * max {by} ({of(name, **{label: value})})"
        for place, value in enumerate(values)
        if place
    )


#: From which value of ``trouble`` on its gravest part is what.
TROUBLES: Final = (
    (0, "none"),
    (1, "behind or held back"),
    (100, "short of capacity"),
    (200, "failing"),
    (400, "stalled"),
    (800, "gone"),
)


def trouble() -> str:
    """A number to sort queries by, worst first: what needs a person weighs most.

    Each fault weighs more than all lesser ones together, so that the number says which is the
    gravest (``TROUBLES``): a query that is gone and was not stopped 800, stalled 400, failing 200,
    short of capacity 100; then a point a minute of backlog, at most 60, and up to 10 for the share
    of time in which the limit held back a backlog.
    """
    up = f"max {BY_QUERY} ({MANY('weir_query_up')})"
    parts = (
        f"800 * clamp_max({gone()}, 1)",
        f"400 * max {BY_QUERY} ({MANY('weir_query_state', state='stalled')})",
        f"200 * clamp_max(max {BY_QUERY} ({left('weir_checkpoint_failures_consecutive')}), 1)",
        f"100 * (max {BY_QUERY} ({MANY('weir_required_capacity_ratio')}) > bool 1)",
        f"clamp_max(max {BY_QUERY} ({MANY('weir_backlog_seconds')}) / 60, 60)",
        f"10 * max {BY_QUERY} ({MANY('weir_pressure_ratio')})",
    )
    nothing = f"0 * {up}"
    return " + ".join(f"(({part}) or {nothing})" for part in parts)
