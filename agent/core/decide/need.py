"""Need: what one query asks of the application's executors, after a batch or at rest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agent.core.decide.executors import Load, need_of
from agent.core.decide.limits import capacity_known
from agent.core.measure.flow import looks_once

if TYPE_CHECKING:
    from agent.core.ended import Ended
    from agent.core.policy import QueryPolicy
    from agent.core.query import Query


def need(query: Query, ended: Ended) -> None:
    """Where its stages were looked at; else what was needed stays."""
    if query.untold():
        query.sizing.need = None  # it is of a run before, which read from elsewhere
        return
    sizing = query.sizing
    if ended.work is not None and ended.work.groups:
        sizing.need_time, sizing.untold_batches = ended.time, 0
        if not ended.replayed and capacity_known(query):
            _renew(query, ended.settings, query.incoming_rows())
    elif ended.batch.rows:
        sizing.untold_batches += 1


def need_at_rest(query: Query, settings: QueryPolicy, *, found_nothing: bool) -> None:
    """While no batch runs: one that gets no more rows has no batch that would say so.

    Where a source tells no backlog, only a trigger that ``found_nothing`` says so: until then it is
    a pause between two batches.
    """
    if query.sizing.need is None or not query.rests():
        return
    if found_nothing or all(source.backlog_rows is not None for source in query.sources):
        _renew(query, settings, query.arrival_at_rest_rows())


def _renew(query: Query, settings: QueryPolicy, arriving: float | None) -> None:
    sizing = query.sizing
    if arriving is None or not query.run.trigger:
        return  # of a batch nobody knows for how long it must suffice, nor how soon it must end
    most = settings.maximum_executors
    slots = math.inf
    if most is not None and query.run.slots_each:
        slots = max(round(most * query.run.slots_each), 1)
    load = Load(
        arriving,
        query.left_behind_rows(),
        query.run.trigger_seconds,
        looks_once(query),
        sizing.cost.cautious_sigma,
    )
    sizing.need = need_of(sizing.cost.curve, sizing.work, load, settings, slots)
    sizing.work.told = True
