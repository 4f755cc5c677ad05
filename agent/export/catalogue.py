"""The one list of all metrics: collector, docs, dashboards and alerts read their names from here.

A row says all of a metric, how its value is read included; what is in no row is not exported. The
rows stand by theme in ``agent.export.metrics``: one more there is one more metric, and
``python -m agent.export.catalogue`` rewrites docs/metrics.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.metrics import (
    agent,
    batches,
    checkpoint,
    executors,
    failures,
    flow,
    limits,
    listener,
    processes,
    query,
    state,
)

if TYPE_CHECKING:
    from agent.export.metrics.row import Label, Metric

#: Under which heading of docs/metrics.md; an exposition keeps the same order.
GROUPS: Final[tuple[tuple[str, tuple[Metric, ...]], ...]] = (
    ("query", query.METRICS),
    ("batches", batches.METRICS),
    ("backlog and flow", flow.METRICS),
    ("limit and credit", limits.METRICS),
    ("executors", executors.METRICS),
    ("checkpoint", checkpoint.METRICS),
    ("event time and state", state.METRICS),
    ("batches", failures.METRICS),
    ("listener", listener.METRICS),
    ("agent", agent.METRICS),
    ("processes", processes.METRICS),
)
METRICS: Final[tuple[Metric, ...]] = tuple(one for _, rows in GROUPS for one in rows)
BY_NAME: Final[dict[str, Metric]] = {metric.name: metric for metric in METRICS}


def metric(name: str) -> Metric:
    """The metric of that exported name; raises KeyError for one that does not exist."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise KeyError(f"no metric {name!r} in the catalogue") from None


_PREAMBLE: Final = """\
# Metrics

<!-- Written by `python -m agent.export.catalogue`; edit agent/export/metrics/. -->

What `GET /metrics` tells, in Prometheus and OpenMetrics text.

- A value that is not known is absent, never zero.
- *Judged in* names the file with the formula; its first lines name the source (a FLIP, a paper, a
  project). How a limit comes about: [control](control.md).
- Series belong to the application's and the query's names: a restarted application goes on in the
  same series. Run ids stand only on `weir_query_info`, batch ids nowhere.
- All series of a query end an hour (`forget_seconds`) after its owner stopped it. Those of one that
  failed or fell silent stay until somebody retires it: `weir retire`, or `retire_seconds`; and so
  do those of one that is stopped while something is ordered of it by hand.
- A state set has one series for each value, 1 for the present one. Both text formats call it a
  gauge: OpenMetrics would want its label named like the metric.
- Labels of the configuration (such as `namespace` and `cluster`) stand on every series beside
  those below.

## Series of a query

A query with one source has 108 series, and one with state and a watermark 114: counted on an agent.
These may be left out where series are dear: no alert reads them, and the last column says what is
missing then.

| metric | series | shows |
|---|---|---|
| `weir_batch_duration_seconds_bucket` | 14 | quantiles and the heat map of batch times |
| `weir_failures_total` | 9 | failures by cause |
| `weir_batch_phase_seconds_total` | 7 | phases of batches over time |
| `weir_checkpoint_phase_seconds` | 7 | phases of the last batch |

```yaml
# in Prometheus's scrape_configs; in the chart monitor.metricRelabelings, with sourceLabels
metric_relabel_configs:
  - source_labels: [__name__]
    regex: weir_(batch_duration_seconds_bucket|failures_total|(batch|checkpoint)_phase_seconds.*)
    action: drop
```

Series of each partition of a topic are told only where they are asked for
(`kafka_partition_series`).

"""


def as_markdown() -> str:
    """The catalogue as docs/metrics.md."""
    lines = _PREAMBLE.splitlines()
    groups: dict[str, list[Metric]] = {}
    for group, rows in GROUPS:
        groups.setdefault(group, []).extend(rows)
    for group, rows_of_group in groups.items():
        lines += [f"## {group[0].upper()}{group[1:]}", ""]
        for one in rows_of_group:
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
    if one.formula is not None:
        module, test = (f"[{at}](../{at})" for at in (one.formula.module, one.formula.test))
        lines += [f"Judged by `{one.formula.function}` in {module}, held by {test}.", ""]
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
