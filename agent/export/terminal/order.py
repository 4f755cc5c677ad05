"""How bad a query is, and the order of the list: worst first. Pure functions of a view.

``agent/export/page/assets/order.js`` says the same for the page; a test holds the two together.
``docs/status-page.md`` describes the order for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.core.judgement import QueryView
from agent.export.terminal.format import is_known
from agent.export.terminal.words import Level, levels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.core.judgement import Point

LATE_RUNNING_TARGETS: Final = 2
LATE_TARGETS: Final = 1.5
WINDOW_SECONDS: Final = 60.0
_GROWING_POINTS: Final = 6
_GROWING_FACTOR: Final = 1.25


class Entry(msgspec.Struct, frozen=True):
    """A query and its place in the list."""

    view: QueryView
    level: Level
    rank: int
    weight: int

    @property
    def key(self) -> tuple[str, str]:
        """What the query is called."""
        return self.view.application, self.view.query


class Shares(msgspec.Struct, frozen=True):
    """Shares of the last minute by state; they add up to 1."""

    busy: float
    backpressured: float
    idle: float


def level_name(view: QueryView) -> str:
    """The first level that holds; ``words.json`` lists and explains them, worst first."""
    running = view.running_seconds if view.up else None
    if view.state == "terminated":
        return "ended" if view.failure is None else "failed"
    if view.up and view.state == "stalled":
        return "hung"
    # The state is as of the agent's answer; the batch has grown older since.
    deadline = view.deadline_seconds
    if running is not None and deadline is not None and running > deadline:
        return "hung"
    if view.spiral.phase in ("spiralling", "timing_out", "dead"):
        return "spiralling"
    if not view.up:
        return "lost"
    if view.required_capacity_ratio is not None and view.required_capacity_ratio > 1:
        return "overloaded"
    if view.pressure == "high":
        return "pressured"
    if view.target_feasible is False:
        return "infeasible"
    if is_growing(view.history):
        return "growing"
    if view.target_seconds is not None:
        if running is not None and running > LATE_RUNNING_TARGETS * view.target_seconds:
            return "late"
        last = None if view.state == "idle" else view.batch_seconds
        if last is not None and last > LATE_TARGETS * view.target_seconds:
            return "late"
    if view.pressure == "low":
        return "low"
    return "idle" if view.state == "idle" else "ok"


def is_growing(history: Sequence[Point]) -> bool:
    """More than a batch waits, and the later half holds a quarter more than the earlier."""
    known = [(p.backlog_rows, p.rows) for p in history if p.backlog_rows is not None]
    if len(known) < _GROWING_POINTS:
        return False
    half = len(known) // 2
    earlier = sum(backlog for backlog, _ in known[:half]) / half
    later = sum(backlog for backlog, _ in known[half:]) / (len(known) - half)
    backlog, rows = known[-1]
    return later > _GROWING_FACTOR * earlier and backlog > rows


def weight(view: QueryView, name: str) -> int:
    """Within a level, how bad, in powers of two, so that neighbours don't swap all the time."""
    if name in ("hung", "late"):
        return _doublings(view.running_seconds or 0.0)
    if name == "overloaded":
        return _doublings(10 * (view.required_capacity_ratio or 0.0))
    if view.backlog_seconds is not None:
        return _doublings(view.backlog_seconds)
    return _doublings((view.backlog_rows or 0.0) / 1000)


def _doublings(value: float) -> int:
    steps = 0
    while value >= 1 and steps < 64:
        value /= 2
        steps += 1
    return steps


def worst_first(views: Iterable[QueryView]) -> list[Entry]:
    """By level, then weight, then application and query name by code point."""
    entries = []
    for view in views:
        name = level_name(view)
        rank, level = levels()[name]
        entries.append(Entry(view, level, rank, weight(view, name)))
    return sorted(entries, key=lambda e: (e.rank, -e.weight, e.view.application, e.view.query))


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
