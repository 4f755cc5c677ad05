"""Need: what one query asks of the application's executors after a batch was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.decide.executors import Load, need_of
from agent.core.decide.limits import LEARN_BATCHES

if TYPE_CHECKING:
    from agent.core.ended import Ended
    from agent.core.query import Query

#: Slots beyond what any cluster has, where no maximum is set.
NO_BOUND: Final = 2**31


def need(query: Query, ended: Ended) -> None:
    """Where its stages were looked at; else what was needed stays."""
    sizing = query.sizing
    looked_at = ended.work is not None and ended.work.groups
    if not looked_at or ended.replayed or sizing.cost.batches < LEARN_BATCHES:
        return
    arriving = query.arrival_rows()
    if arriving is None:
        return
    most = ended.settings.maximum_executors
    slots = NO_BOUND
    if most is not None and query.run.slots_each:
        slots = max(round(most * query.run.slots_each), 1)
    load = Load(arriving, query.backlog_rows() or 0.0, query.run.trigger_seconds)
    sizing.need = need_of(sizing.cost.curve, sizing.work, load, ended.settings, slots)
