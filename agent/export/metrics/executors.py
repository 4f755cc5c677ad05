"""Metrics of what an application runs on, what its queries need, and what more would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from agent.core.decide.executors import BOUNDS
from agent.core.judgement import MODES
from agent.export.metrics.row import EXECUTORS, QUERY, WORK, Label

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.core.judgement import ExecutorsView, QueryView
    from agent.export.metrics.row import Metric

_Value = TypeVar("_Value")
_OF_ALL: Final = "Of the application: each of its queries has the same, so take `max`, not `sum`."


def _of(read: Callable[[ExecutorsView], _Value]) -> Callable[[QueryView], _Value | None]:
    return lambda view: None if view.executors is None else read(view.executors)


METRICS: Final[tuple[Metric, ...]] = (
    QUERY.gauge(
        "weir_executors_wanted",
        "Executors that the queries of the application need: the least that digest what arrives "
        "inside the target and catch up in time.",
        _of(lambda one: one.wanted),
        running=True,
        note=f"{_OF_ALL} Told whether or not Weir may ask for them. Absent until each of its "
        "queries is known, and where the driver runs the tasks itself (`local`).",
        formula=EXECUTORS.of("need_of"),
    ),
    QUERY.gauge(
        "weir_executors_present",
        "Executors that the application has.",
        _of(lambda one: one.present or None),
        running=True,
        note=f"{_OF_ALL} Absent where the driver runs the tasks itself (`local`).",
    ),
    QUERY.gauge(
        "weir_executors_asked",
        "Executors that Weir has asked the cluster for.",
        _of(lambda one: one.asked),
        running=True,
        note=f"{_OF_ALL} Absent while the number is the job's own.",
    ),
    QUERY.gauge(
        "weir_executor_slots",
        "Tasks that can run at once, in all executors together.",
        _of(lambda one: one.slots),
        running=True,
        note=_OF_ALL,
        not_shown="the page says it beside the executors",
    ),
    QUERY.states(
        "weir_executors_mode",
        "What Weir may do to the number of executors: nothing, decide without acting, or act.",
        Label("mode", MODES),
        _of(lambda one: one.mode),
        running=True,
        note="At most one is 1. The most cautious setting of the application's queries; `dry-run` "
        "where it is `on` and Weir cannot ask, as beside Spark's dynamic allocation.",
        not_shown="it changes by hand; the page says it",
    ),
    QUERY.states(
        "weir_executors_bound",
        "What keeps more executors from helping.",
        Label("bound", BOUNDS),
        _of(lambda one: None if one.wanted is None else one.bound),
        running=True,
        note="At most one is 1; absent while what is wanted is. `enough`: nothing, that suffices. "
        "`maximum`: the one configured. `tasks`: no more tasks than slots. `critical_path`: one "
        "slow task. `driver`: the time in which no task runs. `contention`: more slots were seen "
        "to bring little, as where a sink does not scale.",
        formula=EXECUTORS.of("bound_of"),
    ),
    QUERY.gauge(
        "weir_executors_contention_ratio",
        "How much slower tasks get the more run at once: 0 not at all, 1 as much as there are more "
        "of them.",
        _of(lambda one: one.contention),
        unit="ratio",
        running=True,
        note="Learned from what more executors brought, less where fewer cost more than that; 0 "
        "until some came.",
        not_shown="`weir_executors_bound` says when it matters",
        formula=WORK.of("Work.judge"),
    ),
    QUERY.gauge_by(
        "weir_batch_work_seconds",
        "What batches are made of: all their tasks together, the slowest tasks one after the "
        "other, and the time in which no task runs.",
        Label("part", ("tasks", "critical_path", "driver")),
        lambda view: (
            {}
            if view.executors is None
            else {
                "tasks": view.executors.task_seconds,
                "critical_path": view.executors.longest_seconds,
                "driver": view.executors.driver_seconds,
            }
        ),
        unit="seconds",
        running=True,
        note="Means of the batches looked at last. No number of executors makes a batch shorter "
        "than `critical_path` and `driver` together.",
        formula=WORK.of("Work.longest_seconds"),
    ),
)
