"""Selectors over the catalogue: a metric, label or value that does not exist fails here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.catalogue import metric

if TYPE_CHECKING:
    from collections.abc import Callable

#: Prometheus's own: 1 for a target that answered the last scrape, else 0.
UP: Final = "up"
#: When a query last ended as it should, at whichever agent: recorded.
STOPPED: Final = "query:weir_query_stopped_timestamp_seconds:last"


def series(name: str, *, matchers: str = "", **labels: str) -> str:
    """A selector; ``labels`` are exact values, ``matchers`` any others as PromQL writes them.

    Raises KeyError for a metric or label that does not exist, ValueError for a value that the
    label never has.
    """
    one = metric(name)
    written = [matchers] if matchers else []
    for label, value in labels.items():
        values = one.values_of(label)
        if values and value not in values:
            raise ValueError(f"{name}: {label} is never {value!r}")
        written.append(f'{label}="{value}"')
    return f"{name}{{{','.join(written)}}}" if written else name


def of_query(name: str) -> str:
    """Labels that a metric has beyond application and query, to match it by the query alone."""
    more = [label for label in metric(name).label_names if label not in {"application", "query"}]
    return f"ignoring ({', '.join(more)})"


def stops(remembered: str, of: Callable[[str], str] = series) -> str:
    """When its owner last stopped a query, or it had read what there was, at whichever agent.

    ``remembered``: of the recording; ``of`` selects a metric's series.
    """
    return (
        "max by (cluster, namespace, application, query)"
        f" ({of('weir_query_gone_since_timestamp_seconds')} and {of('weir_query_stopped')} == 1"
        f" or {remembered})"
    )


def over(window: str = "", remembered: str = STOPPED, of: Callable[[str], str] = series) -> str:
    """Stopped by its owner; or gone here, and its driver came back at another node's agent.

    There it runs, or has ended as it should since. Beside a window: that looks back at a query
    whose series have ended, and so must this.
    """
    stopped, up, gone_since = (
        f"last_over_time({of(name)}[{window}])" if window else of(name)
        for name in (
            "weir_query_stopped",
            "weir_query_up",
            "weir_query_gone_since_timestamp_seconds",
        )
    )
    moved = f"{up} == 0 and on (cluster, namespace, application, query) {of('weir_query_up')} == 1"
    ended = (
        f"{gone_since} < on (cluster, namespace, application, query) group_left ()"
        f" {stops(remembered, of)}"
    )
    return f"({stopped} == 1 or {moved} or {ended})"
