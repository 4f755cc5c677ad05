"""Whether somebody's limit starves a query: batches of it digest less than arrives.

By the cost of a batch as learned (``cost``): ``n`` rows at a time make at most
``n / max(seconds(n), trigger)`` rows per second. What waits then grows for as long as the order
stands, and nothing else would say so: while it stands, Weir decides nothing.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from agent.core.figures import figure

if TYPE_CHECKING:
    from agent.core.query import Query


def starved(query: Query, limit_rows: float | None) -> str | None:
    """What an order of ``limit_rows`` a batch costs, in one clause; None where it costs nothing.

    None too where the cost of such a batch or what arrives is unknown.
    """
    arriving = query.arrival_rows()
    seconds = None if limit_rows is None else query.sizing.cost.seconds(limit_rows)
    if limit_rows is None or arriving is None or seconds is None:
        return None
    digested = limit_rows / max(seconds, query.run.trigger_seconds)
    if arriving <= digested:
        return None
    return (
        f"batches of {figure(limit_rows)} rows digest {figure(digested)} rows/s, and "
        f"{figure(arriving)} arrive: what waits grows"
    )


def advice(query: Query) -> str | None:
    """What to do where an order in force starves the query now; None where none does."""
    order = query.orders.held_by
    if order is None or not query.batch.limited or query.life.terminated:
        return None
    said = starved(query, query.limit_rows())
    if said is None:
        return None
    name = shlex.quote(f"{query.application}/{query.query}")
    return f"{order.what} by {order.who}: {said}; `weir release {name}` gives it back to Weir"
