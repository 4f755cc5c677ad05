"""How queries failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.judge.failure.cause import CAUSES
from agent.export.metrics.row import FAILURE, OTHER, QUERY, Label

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

METRICS: Final[tuple[Metric, ...]] = (
    QUERY.counter_by(
        "weir_failures_total",
        "Times the query failed, by cause.",
        Label("cause", (*CAUSES, OTHER)),
        lambda view: view.totals.failures,
        from_start=True,
        note="A driver that was seen to be killed is `unknown`: beside the plugin its end is seen, "
        "elsewhere one that is killed and one that is stopped by SIGTERM are both silent. Each "
        "cause has a series from the start, so that its first failure is seen as a rise.",
        formula=FAILURE.of("cause_of"),
    ),
)
