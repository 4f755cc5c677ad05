"""Selectors over the catalogue: a metric, label or value that does not exist fails here."""

from __future__ import annotations

from agent.export.catalogue import metric


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
