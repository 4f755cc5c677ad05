"""PromQL over the catalogue: a name or a label that does not exist fails here, not in Grafana."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.catalogue import METRICS

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

#: Labels of the configuration, on every series; a selection of all matches their absence too.
FIXED: Final = ("cluster", "namespace")
RATE: Final = "$__rate_interval"


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
            if label in FIXED or label in one.label_names
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
        if by_series(name).kind != "counter":
            raise ValueError(f"{name} is no counter")
        return f"increase({self(name, **labels)}[{RATE}])"

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
#: Of the agents, and of all applications that report to them.
AGENTS: Final = Scope()

BY_QUERY: Final = "by (cluster, namespace, application, query)"


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
        f"800 * (1 - {up} - max {BY_QUERY} ({MANY('weir_query_stopped')}))",
        f"400 * max {BY_QUERY} ({MANY('weir_query_state', state='stalled')})",
        f"200 * clamp_max(max {BY_QUERY} ({MANY('weir_checkpoint_failures_consecutive')}), 1)",
        f"100 * (max {BY_QUERY} ({MANY('weir_required_capacity_ratio')}) > bool 1)",
        f"clamp_max(max {BY_QUERY} ({MANY('weir_backlog_seconds')}) / 60, 60)",
        f"10 * max {BY_QUERY} ({MANY('weir_pressure_ratio')})",
    )
    nothing = f"0 * {up}"
    return " + ".join(f"(({part}) or {nothing})" for part in parts)
