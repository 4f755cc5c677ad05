"""Metrics of what sources may admit, by whose credit, and what was decided of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.judgement import REASONS
from agent.export.metrics.row import CREDIT, OTHER, QUERY, SIZE, SOURCE, Label

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.core.judgement import SourceView
    from agent.export.metrics.row import Metric

UNITS: Final = ("rows", "files", "bytes")


def _limit_in(unit: str) -> Callable[[SourceView], int | None]:
    return lambda source: source.limit if source.unit == unit else None


def _configured_in(unit: str) -> Callable[[SourceView], int | None]:
    return lambda source: source.configured if source.unit == unit else None


METRICS: Final[tuple[Metric, ...]] = (
    *(
        SOURCE.gauge(
            f"weir_limit_{unit}",
            f"{unit.capitalize()} that the source may admit to the next batch.",
            _limit_in(unit),
            unit=unit,
            running=True,
            note="Absent while the source is unlimited or its limit is not known.",
            formula=SIZE.of("size_of"),
        )
        for unit in UNITS
    ),
    *(
        SOURCE.gauge(
            f"weir_limit_configured_{unit}",
            f"The limit in {unit} that the job itself configured for the source.",
            _configured_in(unit),
            unit=unit,
            running=True,
            note="Absent where the job set none.",
        )
        for unit in UNITS
    ),
    SOURCE.gauge(
        "weir_limit_obeyed",
        "1 where the source keeps to limits that change, 0 where it was seen not to.",
        lambda source: source.obeyed,
        running=True,
        note="Absent while not known. At 0 its limits are those of the job alone: `control` is "
        "`advice`.",
        not_shown="page and terminal say it beside the source, and why",
    ),
    SOURCE.gauge_by(
        "weir_credit_rows",
        "Rows that the source may admit, by where the credit comes from.",
        Label("kind", ("exclusive", "floating")),
        lambda source: {"exclusive": source.exclusive_rows, "floating": source.floating_rows},
        unit="rows",
        running=True,
        note="`exclusive` is what the source keeps whatever its backlog, a fifth of an even share; "
        "`floating` goes by backlog. Where queries share a pool (agent/core/decide/pool.py), only "
        "the query's own part counts as exclusive.",
        formula=CREDIT.of("share"),
    ),
    QUERY.gauge(
        "weir_target_batch_seconds",
        "Seconds a batch should take.",
        lambda view: view.target_seconds,
        unit="seconds",
        note="Absent in real-time mode and continuous processing, where rows do not wait for a "
        "batch to end. What is configured, or more where the sink's service takes so many batches "
        "a day (agent/core/quota.py).",
    ),
    QUERY.gauge(
        "weir_target_feasible",
        "1 where a limit keeps the target, or a longer trigger, and digests the arrivals; else 0.",
        lambda view: view.target_feasible,
        running=True,
        note="Absent while learning. At 0 with `weir_required_capacity_ratio` below 1 a longer "
        "target would do. 0, too, where the fixed cost takes the target "
        "(agent/core/decide/reach.py).",
        formula=SIZE.of("size_of"),
    ),
    QUERY.counter_by(
        "weir_grants_total",
        "Decisions on the limit of a source, by reason: those that move it and those that hold it.",
        Label("reason", (*REASONS, OTHER)),
        lambda view: view.totals.grants,
        note="One for each batch and controlled source. A reason's series begins with its first "
        "decision.",
    ),
)
