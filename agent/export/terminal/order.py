"""The order of the list, worst first, and what of a query is drawn how. Pure functions of a view.

How bad a query is ``agent.core.judge.attention`` has judged. ``agent/export/page/assets/order.js``
orders the page alike; a test holds the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.judge.attention import LATE_TARGETS
from agent.core.judgement import QueryView
from agent.export.terminal.format import is_known
from agent.export.terminal.words import Level, levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WINDOW_SECONDS: Final = 60.0


class Entry(msgspec.Struct, frozen=True):
    """A query and its place in the list."""

    view: QueryView
    level: Level
    rank: int

    @property
    def key(self) -> tuple[str, str]:
        """What the query is called."""
        return self.view.application, self.view.query


class Shares(msgspec.Struct, frozen=True):
    """Shares of the last minute by state; they add up to 1."""

    busy: float
    backpressured: float
    idle: float


def worst_first(views: Iterable[QueryView]) -> list[Entry]:
    """By level, then urgency, then application and query name by code point."""
    entries = []
    for view in views:
        rank, level = levels()[view.attention.level]
        entries.append(Entry(view, level, rank))
    return sorted(entries, key=lambda e: (e.rank, -e.view.attention.urgency, *e.key))


def shares(view: QueryView, now: float) -> Shares | None:
    """How the last minute was spent; None where no batch tells.

    A point's time is its batch's end. A batch counts as backpressured when the limit left more
    behind than the batch took.
    """
    running = view.running_seconds if view.up else None
    if view.history:
        oldest = view.history[0]
        first = oldest.time - (oldest.batch_seconds or 0.0)
    elif running is not None:
        first = now - running
    else:
        return None
    start = max(now - WINDOW_SECONDS, first)
    if not now > start:
        return None
    spent = {False: 0.0, True: 0.0}
    for point in view.history:
        if point.batch_seconds is not None:
            begin = max(point.time - point.batch_seconds, start)
            held = point.limited and (point.backlog_rows is None or point.backlog_rows > point.rows)
            spent[held] += max(0.0, min(point.time, now) - begin)
    if running is not None:
        held = any(s.limit is not None and (s.backlog or 0) > s.limit for s in view.sources)
        spent[held] += now - max(now - running, start)
    # Clocks differ a little: the parts never exceed the whole.
    total = max(now - start, spent[False] + spent[True])
    idle = total - spent[False] - spent[True]
    return Shares(spent[False] / total, spent[True] / total, idle / total)


def matches(entry: Entry, words: Sequence[str]) -> bool:
    """Whether every word is found in the names, state, level, mode, sink or sources."""
    if not words:
        return True
    view = entry.view
    text = "\n".join(
        (
            view.application,
            view.query,
            view.state,
            entry.level.label,
            "" if view.mode == "on" else view.mode,
            "hold" if view.held else "",
            view.sink,
            *(source.description for source in view.sources),
        )
    ).lower()
    return all(word in text for word in words)


def batch_tone(seconds: float | None, view: QueryView) -> str:
    """``high`` past the deadline, ``low`` over 1.5 times the target, else ``ok``."""
    if seconds is None or not is_known(seconds):
        return "idle"
    if view.deadline_seconds is not None and seconds > view.deadline_seconds:
        return "high"
    if view.target_seconds is not None and seconds > LATE_TARGETS * view.target_seconds:
        return "low"
    return "ok"
