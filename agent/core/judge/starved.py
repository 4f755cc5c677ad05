"""Whether somebody's limit starves a query: batches of it digest less than arrives.

By the cost of a batch as learned (``cost``). A source with a limit of ``n`` rows keeps up where no
more than ``n`` of its rows arrive during a batch, which reads these and what comes to the other
sources meanwhile, up to their limits. Where there is no such batch, what waits grows for as long as
the order stands, and nothing else would say so: while it stands, Weir decides nothing.
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from agent.core.decode.events import MOST_SECONDS
from agent.core.figures import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.measure.source import Source
    from agent.core.query import Query


def starved(query: Query, sources: Sequence[Source]) -> str | None:
    """What their limits cost, in one clause, of the source that lacks most; None if nothing.

    None too where the cost of such a batch or what arrives is unknown.
    """
    worst, said = 1.0, None
    for source in sources:
        rows, arriving = source.in_rows(source.current), source.arrival_rows
        if not rows or not arriving:
            continue
        longest = min(rows / arriving, MOST_SECONDS)  # in which its limit's rows arrive
        seconds = _batch_seconds(query, source, rows, longest)
        if seconds is None or seconds <= worst * longest or _settles(query, source, rows, longest):
            continue
        worst = seconds / longest
        of = f" of source {source.index}" if len(query.sources) > 1 else ""
        said = (
            f"batches of {figure(rows)} rows{of} digest {figure(rows / seconds)} rows/s, and "
            f"{figure(arriving)} arrive: what waits grows"
        )
    return said


def _settles(query: Query, source: Source, rows: float, longest: float) -> bool:
    """Whether shorter batches would last: in a long one much comes to the others, which is dear."""
    shortest = _batch_seconds(query, source, rows, 0.0) or 0.0
    interval = longest / 2.0
    while interval > shortest:
        if (_batch_seconds(query, source, rows, interval) or 0.0) <= interval:
            return True
        interval /= 2.0
    return False


def _batch_seconds(query: Query, source: Source, rows: float, interval: float) -> float | None:
    """Seconds of a batch of so many rows of a source, and what comes to the others meanwhile."""
    for other in query.sources:
        if other is source:
            continue
        arriving, limit = other.arrival_rows, other.in_rows(other.current)
        comes = float(other.rows or 0) if arriving is None else arriving * interval
        rows += min(comes, math.inf if limit is None else limit)
    seconds = query.sizing.cost.seconds(rows)
    return None if seconds is None else max(seconds, query.run.trigger_seconds)


def advice(query: Query) -> str | None:
    """What to do where an order in force starves the query now; None where none does."""
    order = query.orders.held_by
    if order is None or query.life.terminated:
        return None
    said = starved(query, [one for one in ordered(query) if one.limited])
    if said is None:
        return None
    name = shlex.quote(f"{query.application}/{query.query}")
    return f"{order.what} by {order.who}: {said}; `weir release {name}` gives it back to Weir"


def ordered(query: Query) -> list[Source]:
    """The sources whose limits an order by hand sets, or holds."""
    unit = query.orders.unit
    return [source for source in query.controlled() if unit in (None, source.unit)]
