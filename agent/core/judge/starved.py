"""Whether somebody's limit starves a query: batches of it digest less than arrives.

By the cost of a batch as learned (``cost``). A source with a limit of ``n`` rows keeps up where no
more than ``n`` of its rows arrive during a batch, which reads these and what comes to the other
sources meanwhile, up to their limits. Where there is no such batch, what waits grows for as long as
the order stands, and nothing else would say so: while it stands, Weir decides nothing.
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Final

from agent.core.decode.events import MOST_SECONDS
from agent.core.figures import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.measure.source import Source
    from agent.core.query import Query

#: No batch is shorter: Spark tells whole milliseconds.
_LEAST_SECONDS: Final = 1e-3


def starved(query: Query, sources: Sequence[Source]) -> str | None:
    """What their limits cost, in one clause, of the source that lacks most; None if nothing.

    None too where the cost of such a batch or what arrives is unknown.
    """
    cost, worst, said = query.sizing.cost, 1.0, None
    for source in sources:
        rows, arriving = source.in_rows(source.current), source.arrival_rows
        if not rows or not arriving or not cost.batches:
            continue
        longest = min(rows / arriving, MOST_SECONDS)  # in which its limit's rows arrive
        of_batch = _batch_rows(query, source, rows, longest)
        at_least = _least_seconds(query, of_batch)
        if at_least <= worst * longest or _settles(query, source, rows, longest):
            continue
        worst = at_least / longest
        expected = cost.seconds(of_batch) or 0.0
        digested = rows / max(expected, query.run.trigger_seconds)
        of = f" of source {source.index}" if len(query.sources) > 1 else ""
        said = (
            f"batches of {figure(rows)} rows{of} digest {figure(digested)} rows/s, and "
            f"{figure(arriving)} arrive: what waits grows"
        )
    return said


def _settles(query: Query, source: Source, rows: float, longest: float) -> bool:
    """Whether shorter batches would last, of what arrives during them.

    Of its own rows such a batch holds what waits now, too; in a long one much comes to the others.
    """
    arriving, waiting = source.arrival_rows or 0.0, source.backlog_rows
    waiting = rows if waiting is None else min(waiting, rows)
    interval = longest / 2.0
    while interval > max(query.run.trigger_seconds, _LEAST_SECONDS):
        own = max(waiting, arriving * interval)
        if _least_seconds(query, _batch_rows(query, source, own, interval)) <= interval:
            return True
        interval /= 2.0
    return False


def _batch_rows(query: Query, source: Source, rows: float, interval: float) -> float:
    """Of a batch of so many rows of a source, and what comes to the others meanwhile."""
    for other in query.sources:
        if other is source:
            continue
        arriving, limit = other.arrival_rows, other.in_rows(other.current)
        comes = float(other.rows or 0) if arriving is None else arriving * interval
        rows += min(comes, math.inf if limit is None else limit)
    return rows


def _least_seconds(query: Query, rows: float) -> float:
    """What a batch surely takes: one deviation of doubt less than is expected at least.

    Beyond the sizes seen that is much less: what nobody saw is no reason for advice.
    """
    cost = query.sizing.cost
    return max((cost.least_seconds(rows) or 0.0) - cost.doubt(rows), query.run.trigger_seconds)


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
