"""The columns of the list: what each shows of a query, and which fit a width."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
from rich.text import Text

from agent.export.terminal.cells import STYLES, Align, begin, crop, fit, name, target_bar
from agent.export.terminal.detail import about, batch_now, batch_spark
from agent.export.terminal.format import UNKNOWN, count, duration
from agent.export.terminal.order import Entry, batch_tone
from agent.export.terminal.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.core.judgement import QueryView


#: ``42.1k → 42.1k``: as long as two counts get.
_PAIR_CELLS: Final = 13


class Column(msgspec.Struct, frozen=True):
    """``cell`` gives exactly ``width`` cells of text."""

    title: str
    width: int
    align: Align
    cell: Callable[[Entry, int], Text]


def columns_for(entries: Sequence[Entry], width: int) -> list[Column]:
    """The columns that fit; the name takes what is left."""
    narrow = width < 72
    optional = [
        Column("Backlog", 8, "right", _backlog_cell),
        Column("Batch", 7, "right", _batch_cell),
        Column("Limit", _PAIR_CELLS, "right", _limit_cell),
        Column("In → out", _PAIR_CELLS, "right", _rate_cell),
        Column("÷ target", 8, "left", _bar_cell),
        Column("Behind", 7, "right", _behind_cell),
        Column("Batches", 14, "left", _spark_cell),
        Column("Reason", 17, "left", _reason_cell),
        Column("Credit", 7, "right", _credit_cell),
    ]
    state = Column("State", 15 if narrow else 17, "left", _state_cell)
    least = 12
    used = 1 + state.width + 1 + least
    taken: list[Column] = []
    for column in optional:
        if used + 1 + column.width > width:
            break
        used += 1 + column.width
        taken.append(column)
    longest = max((len(e.view.application) + len(e.view.query) + 1 for e in entries), default=least)
    spare = width - used
    query = Column(
        "Query", least + (spare if spare < 24 else min(spare, longest)), "left", _name_cell
    )
    return [state, query, *taken]


def titles(columns: Sequence[Column]) -> Text:
    """The list's first line."""
    parts = [fit(column.title, column.width, column.align) for column in columns]
    return Text(" " + " ".join(parts), "dim")


def row(entry: Entry, columns: Sequence[Column], *, chosen: bool) -> Text:
    """One query's line."""
    line = begin("▌" if chosen else " ", "bold cyan")
    for number, column in enumerate(columns):
        if number:
            line.append(" ")
        line.append_text(column.cell(entry, column.width))
    if chosen:
        line.stylize("bold")
    return line


def _state_cell(entry: Entry, width: int) -> Text:
    return Text(fit(f"{entry.level.symbol} {entry.level.label}", width), STYLES[entry.level.tone])


def _name_cell(entry: Entry, width: int) -> Text:
    view = entry.view
    marks = "".join(f" [{mark}]" for mark in _marks(view))
    query, application = name(view.query, 120), name(view.application, 120)
    text = Text(f"{query}{marks}")
    if marks:
        text.stylize("yellow", len(query))
    text.append(f" {application}", "dim")
    crop(text, width)
    text.append(" " * (width - text.cell_len))
    return text


def _marks(view: QueryView) -> list[str]:
    marks: list[str] = (
        [] if view.mode == "on" else ["dry run" if view.mode == "dry-run" else view.mode]
    )
    if view.held:
        marks.append("hold")
    if view.manual_limit is not None:
        marks.append("by hand")
    if view.control != "live":
        marks.append(words().controls.get(view.control, name(view.control, 12)))
    return marks


def _plain(text: str, width: int, entry: Entry, align: Align = "right") -> Text:
    return Text(fit(text, width, align), "" if entry.view.up else "dim")


def _backlog_cell(entry: Entry, width: int) -> Text:
    view = entry.view
    if view.backlog_rows is not None:
        return _plain(f"{about(view)}{count(view.backlog_rows)}", width, entry)
    other = next((s for s in view.sources if s.backlog is not None), None)
    letter = {"files": "f", "bytes": "B"}.get(other.unit or "", "") if other else ""
    return _plain(f"{count(other.backlog)}{letter}" if other else UNKNOWN, width, entry)


def _batch_cell(entry: Entry, width: int) -> Text:
    seconds, running = batch_now(entry.view)
    text = fit(_compact(seconds) + ("+" if running else ""), width, "right")
    if not entry.view.up:
        return Text(text, "dim")
    tone = "high" if running and entry.level.name == "hung" else batch_tone(seconds, entry.view)
    return Text(text, "" if tone in ("ok", "idle") else STYLES[tone])


def _compact(seconds: float | None) -> str:
    return duration(seconds).replace(" min", "m").replace(" ", "")


def _limit_cell(entry: Entry, width: int) -> Text:
    limit = entry.view.limit
    now = "none" if limit.current is None else count(limit.current)
    if limit.current is None and limit.next is None:
        first = next(iter(entry.view.sources), None)
        unlimited = first is not None and first.limit_known and first.limit is None
        return _plain("none" if unlimited else UNKNOWN, width, entry)
    if entry.view.mode == "dry-run":  # the mark beside the name says it; no arrow: nothing moves
        return _plain(now, width, entry)
    if limit.next is not None and limit.next != limit.current and entry.view.up:
        return _plain(f"{now} → {count(limit.next)}", width, entry)
    return _plain(now, width, entry)


def _rate_cell(entry: Entry, width: int) -> Text:
    view = entry.view
    # Where no batch ends nothing is processed; where nobody tells, arrivals are not known either.
    arriving = view.arrival_rows_per_second if view.up else None
    processed = None if entry.level.still else view.processed_rows_per_second
    both = f"{count(arriving)} → {count(processed)}"
    return _plain(both, width, entry)


def _bar_cell(entry: Entry, width: int) -> Text:
    view = entry.view
    seconds, _ = batch_now(view)
    if not view.up:
        return Text(" " * width)
    tone = "high" if entry.level.name == "hung" else batch_tone(seconds, view)
    return target_bar(seconds, view.target_seconds, width, STYLES[tone])


def _behind_cell(entry: Entry, width: int) -> Text:
    behind = entry.view.backlog_seconds
    # Of what nobody has seen wait it is not known since when it does.
    return _plain(_compact(behind if behind or not entry.view.backlog_rows else None), width, entry)


def _spark_cell(entry: Entry, width: int) -> Text:
    return batch_spark(entry.view, width)


def _reason_cell(entry: Entry, width: int) -> Text:
    return _plain(name(entry.view.limit.reason, 40), width, entry, "left")


def _credit_cell(entry: Entry, width: int) -> Text:
    known = [
        (s.exclusive_rows or 0.0) + (s.floating_rows or 0.0)
        for s in entry.view.sources
        if s.exclusive_rows is not None or s.floating_rows is not None
    ]
    return _plain(count(sum(known)) if known else UNKNOWN, width, entry)
