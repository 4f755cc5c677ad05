"""One frame of the terminal view. Pure: an answer, a time and a choice in, lines out."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from rich.console import Group
from rich.text import Text

from agent.core.names import LONGEST_NAME
from agent.export.terminal.ask import MODES, Ask
from agent.export.terminal.cells import STYLES, begin, crop, name, wrap, wrap_cells
from agent.export.terminal.columns import columns_for, row, titles
from agent.export.terminal.detail import detail
from agent.export.terminal.format import UNKNOWN, clock, duration
from agent.export.terminal.order import Entry, matches, worst_first
from agent.export.terminal.orders import Told
from agent.export.terminal.snapshot import NotAnAgent, Snapshot, read_answer
from agent.export.terminal.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import RenderableType

    from agent.core.judgement import QueryView

Sort = Literal["worst", "backlog", "batch", "rate", "name"]
SORTS: Final[tuple[Sort, ...]] = ("worst", "backlog", "batch", "rate", "name")
#: Between two answers a running batch grows older by at most this: then the answer is late.
MOST_AGING_SECONDS: Final = 10.0
_TWO_ROWS_HEIGHT: Final = 16
#: What an agent says of an order is a sentence or two; the list needs the room.
_TOLD_LINES: Final = 3


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What the reader chose."""

    key: tuple[str, str] | None = None  # None: the first of the list
    open: bool = False  # the details fill the screen
    sort: Sort = "worst"
    filter: str = ""
    typing: bool = False  # the filter is being typed
    paused: bool = False
    help: int = 0  # its page: the keys, then what the levels mean; 0: none
    ask: Ask | None = None  # an order in the making
    send: Ask | None = None  # one that was said yes to, to be sent
    told: Told | None = None  # what became of the last one, until the next key


def render(
    snapshot: Snapshot | Mapping[str, Any],
    now: float,
    selection: Selection | int,
    width: int,
    height: int,
) -> RenderableType:
    """One frame of exactly ``height`` lines, none longer than ``width`` cells.

    ``snapshot`` may be the agent's JSON answer as a mapping; what does not fit is said in the
    frame. ``now`` is epoch seconds on the agent's clock. ``selection`` may be a place in the list.
    """
    if not isinstance(snapshot, Snapshot):
        try:
            snapshot = read_answer(snapshot)
        except NotAnAgent as error:
            return Group(*[Text(line) for line in wrap(str(error), width)[:height]])
    if isinstance(selection, int):
        listed = arrange(snapshot, Selection())
        place = min(max(0, selection), len(listed) - 1)
        selection = Selection(key=listed[place].key if listed else None)
    body = lines(snapshot, now, selection, width, height)
    return Group(*body)


def arrange(snapshot: Snapshot, selection: Selection) -> list[Entry]:
    """The queries as listed: filtered and sorted."""
    entries = worst_first(snapshot.views)
    chosen = selection.filter.lower().split()
    entries = [entry for entry in entries if matches(entry, chosen)]
    if selection.sort == "name":
        return sorted(entries, key=lambda e: e.key)
    read: dict[str, Callable[[QueryView], float | None]] = {
        "backlog": lambda v: v.backlog_rows,
        "batch": lambda v: max(v.running_seconds or 0.0, v.batch_seconds or 0.0),
        "rate": lambda v: v.arrival_rows_per_second,
    }
    value = read.get(selection.sort)
    if value is None:
        return entries
    # sorted keeps the order of equals: worst first among them.
    return sorted(entries, key=lambda e: -(value(e.view) or 0.0))


def lines(
    snapshot: Snapshot, now: float, selection: Selection, width: int, height: int
) -> list[Text]:
    """The frame's lines."""
    snapshot = aged(snapshot, now)
    entries = arrange(snapshot, selection)
    top = [
        _head(snapshot, now, selection, width),
        *_levels(snapshot, width, 0 if selection.help else height),
    ]
    if snapshot.lost_since_time is not None:
        top.append(_lost(snapshot))
    foot = _foot(snapshot, selection, width)
    room = max(0, height - len(top) - len(foot))
    if selection.help:
        middle = _help(selection.help, width, room)
    elif not entries:
        middle = _nothing(snapshot, selection, width)
    else:
        at = next((n for n, e in enumerate(entries) if e.key == selection.key), 0)
        middle = _body(
            entries, at, now, alone=selection.open, width=width, room=room, url=snapshot.url
        )
    middle = middle[:room] + [Text() for _ in range(room - len(middle))]
    drawn = [crop(line, width) for line in [*top, *middle, *foot]]
    # A question, and the keys that answer it, are what a low screen must show.
    return drawn[:height] if selection.ask is None else drawn[max(0, len(drawn) - height) :]


def aged(snapshot: Snapshot, now: float) -> Snapshot:
    """Running batches as old as they are now, unless the answer itself is old."""
    passed = now - snapshot.time
    if snapshot.lost_since_time is not None or not 0 < passed < MOST_AGING_SECONDS:
        return snapshot
    views = [
        msgspec.structs.replace(view, running_seconds=view.running_seconds + passed)
        if view.up and view.running_seconds is not None
        else view
        for view in snapshot.views
    ]
    return msgspec.structs.replace(snapshot, views=views)


# -- around the list ----------------------------------------------------------------------------


def _head(snapshot: Snapshot, now: float, selection: Selection, width: int) -> Text:
    number = len(snapshot.views)
    left = Text()
    left.append(" weir ", "bold reverse")
    left.append(f"  mode {_modes(snapshot)}", "bold")
    left.append(f"   {number} {'query' if number == 1 else 'queries'}")
    if snapshot.url:
        left.append(f"   {name(snapshot.url, 60)}", "dim")
    for key, value in list(snapshot.labels.items())[:3]:
        left.append(f"  {name(key, 30)}={name(value, 30)}", "dim")
    right = Text()
    if selection.paused:
        age = duration(math.floor(snapshot.paused_seconds))
        right.append(f"paused, {age} old  ", "bold yellow")
    if snapshot.lost_since_time is None:
        if not selection.paused:  # the agent answers, but this is no live picture
            right.append("● live  ", "green")
    else:
        right.append("○ not reachable  ", "bold red")
    right.append(clock(now))
    crop(left, width - right.cell_len - 1)
    left.append(" " * max(1, width - left.cell_len - right.cell_len))
    return left.append_text(right)


def _modes(snapshot: Snapshot) -> str:
    modes = Counter(view.mode for view in snapshot.views)
    said = {"dry-run": "dry run"}
    if not modes:
        return said.get(snapshot.mode, name(snapshot.mode, 20)) if snapshot.mode else UNKNOWN
    if len(modes) == 1:
        only = next(iter(modes))
        return said.get(only, only)
    return ", ".join(f"{said.get(mode, mode)} {number}" for mode, number in modes.items())


def _levels(snapshot: Snapshot, width: int, height: int) -> list[Text]:
    """How many queries are how bad; in words as far as they fit, the red ones' first."""
    found = Counter(entry.level.name for entry in worst_first(snapshot.views))
    shown = [(level, found[level.name]) for level in words().levels if found[level.name]]
    each = [(f" {lv.symbol} {n} {lv.label} ", STYLES[lv.tone]) for lv, n in shown]
    red = [part for part, (lv, _) in zip(each, shown, strict=True) if lv.tone == "high"]
    sums = [
        (f" {symbol} {sum(n for lv, n in shown if lv.tone == tone)} {word} ", STYLES[tone])
        for tone, symbol, word in (("low", "◆", "amber"), ("ok", "●", "ok"), ("idle", "○", "idle"))
        if any(lv.tone == tone for lv, _ in shown)
    ]
    lines = _rows_of(each, width)
    if len(lines) > 1:
        lines = _rows_of([*red, *sums], width)
    return lines[: 2 if height >= _TWO_ROWS_HEIGHT else 1] or [Text()]


def _rows_of(parts: list[tuple[str, str]], width: int) -> list[Text]:
    lines: list[Text] = []
    for text, style in parts:
        if not lines or lines[-1].cell_len + len(text) > width:
            lines.append(Text())
        lines[-1].append(text, style)
    return lines


def _lost(snapshot: Snapshot) -> Text:
    return Text(
        f" Agent not reachable since {clock(snapshot.lost_since_time)}"
        f" ({duration(snapshot.lost_seconds)}): {name(snapshot.problem, 200)}",
        "bold red",
    )


def _foot(snapshot: Snapshot, selection: Selection, width: int) -> list[Text]:
    if selection.ask is not None:
        return _asking(snapshot, selection.ask, width)
    if selection.typing:
        return [Text.assemble(("/", "bold"), name(selection.filter, 200), ("▏", "blink"))]
    if selection.told is not None:
        told = selection.told
        mark, style = ("✓", STYLES["ok"]) if told.done else ("✗", STYLES["high"])
        said = wrap(name(told.text, 400), width - 3)[:_TOLD_LINES]
        return [Text(f" {mark if n == 0 else ' '} {line}", style) for n, line in enumerate(said)]
    keys = [
        ("q", "quit"),
        ("↑↓", "select"),
        ("⏎", "list" if selection.open else "details"),
        ("h r m l", "steer"),
        ("?", "help"),
        ("/", f"filter: {name(selection.filter, 30)}" if selection.filter else "filter"),
        ("s", f"sort: {selection.sort}"),
        ("p", "go on" if selection.paused else "pause"),
    ]
    return [_keys(keys, width)]


def _keys(keys: list[tuple[str, str]], width: int) -> Text:
    line = Text()
    for key, does in keys:
        part = Text.assemble((f" {key} ", "reverse"), f" {does}  ")
        if line.cell_len + part.cell_len <= width:
            line.append_text(part)
    return line


def unit_of(snapshot: Snapshot, key: tuple[str, str]) -> str | None:
    """In which a query's limit is; None where that is not known."""
    found = (view for view in snapshot.views if (view.application, view.query) == key)
    return next((view.limit.unit for view in found), None)


def _asking(snapshot: Snapshot, ask: Ask, width: int) -> list[Text]:
    """Where an order is made: its keys, and whole what they would do, above where it is long."""
    said = "/".join(name(one, LONGEST_NAME) for one in ask.key)
    unit = unit_of(snapshot, ask.key)
    if ask.sure:
        keys = [("y", "yes"), ("n", "no")]
        question = begin(ask.sentence(said, unit), "bold yellow")
    elif ask.verb == "mode":
        keys = [*MODES.items(), ("Esc", "leave it")]
        question = begin(f"Mode of {said}?", "bold yellow")
    else:
        keys = [("⏎", "set"), ("Esc", "leave it")]
        question = begin(f"Limit of {said}, in {unit or 'units of its source'}: ", "bold yellow")
        question.append(ask.value, "bold").append("▏", "blink")
    line = _keys(keys, width)
    if line.cell_len + question.cell_len <= width:
        return [line.append_text(question)]
    return [*(begin(" ", "").append_text(part) for part in wrap_cells(question, width - 1)), line]


def _help(number: int, width: int, room: int) -> list[Text]:
    legend = _legend(width, room)
    if number > 1:
        return legend
    keys = (
        ("q, Ctrl-C", "quit"),
        ("↑ ↓, j k", "select a query"),
        ("Enter", "its details on the whole screen, and back"),
        ("s", "sort: worst first, by backlog, by batch time, by rate, by name"),
        ("/", "filter by any word; Enter keeps it, Esc drops it"),
        ("p", "pause the picture"),
        ("h, r", "hold the query's limit as it is; release it, or one set by hand"),
        ("m", "its mode: on, dry-run, off"),
        ("l", "set its limit by hand, until released"),
        ("?", "this page, then what the levels mean; any other key goes back"),
    )
    page = [Text(), *[Text.assemble((f"  {k:<11}", "bold"), d) for k, d in keys]]
    page.insert(-1, Text("             each of these is asked once more before it is done"))
    page.append(
        Text.assemble(("  12s+       ", "bold"), "a batch that has run for 12 s and still runs")
    )
    # The legend is a page of its own where the screen is too low for both.
    return page + legend if len(page) + len(legend) <= room else page


def _legend(width: int, room: int) -> list[Text]:
    """What the levels mean: whole where there is room, else each as far as its line goes."""
    short = [
        begin(f"  {level.symbol} {level.label:<16}", STYLES[level.tone]).append(level.means)
        for level in words().levels
    ]
    whole = [Text()]
    for level in words().levels:
        head = begin(f"  {level.symbol} {level.label:<16}", STYLES[level.tone])
        first, *rest = wrap(level.means, width - head.cell_len)
        whole += [head.append(first), *[Text(" " * 20 + more) for more in rest]]
    return whole if len(whole) <= room else short


def _nothing(snapshot: Snapshot, selection: Selection, width: int) -> list[Text]:
    if snapshot.views:
        return [Text(), Text(f"  No query matches {name(selection.filter, 60)!r}.")]
    if snapshot.time == 0.0:
        return [Text(), Text("  No figures yet: the agent has not answered.")]
    said = (
        "No query yet. A job on the agent's machine, as the same user, in any language, with these "
        "settings:"
    )
    conf = ('--jars "$(weir plugin)"', "--conf spark.extraListeners=weir.WeirPlugin")
    code = ("from spark_listener import attach", "attach(spark)")
    return [
        Text(),
        *[Text(f"  {line}") for line in wrap(said, width - 4)],
        Text(),
        *[Text(f"    {line}", "bold") for line in conf],
        Text(),
        Text("  A PySpark job anywhere:"),
        Text(),
        *[Text(f"    {line}", "bold") for line in code],
        Text(),
        Text(f"  with WEIR_AGENT_URL={name(snapshot.url, 100)} in the job's environment."),
        Text(),
        *[
            Text(f"  {line}")
            for line in wrap(
                "A job that nobody may touch: weir agent --event-log-dirs DIR follows its Spark "
                "event log.",
                width - 4,
            )
        ],
    ]


# -- the list -----------------------------------------------------------------------------------


def _body(
    entries: list[Entry],
    at: int,
    now: float,
    *,
    alone: bool,
    width: int,
    room: int,
    url: str,
) -> list[Text]:
    if alone:
        return detail(entries[at], now, width, room, url=url)
    wanted = detail(entries[at], now, width, 100, url=url, stretch=False)
    # At least half of the screen for the list, as far as it needs it; a pane below 6 lines says
    # too little to be worth its place.
    rows = min(len(entries), max(room // 2 - 1, room - 1 - len(wanted)))
    if room - 1 - rows < 6:
        rows = min(len(entries), room - 1)
    first = min(max(0, at - rows // 2), max(0, len(entries) - rows))
    if at < rows:
        first = 0
    columns = columns_for(entries, width)
    listed = [titles(columns)]
    listed += [
        row(entries[n], columns, chosen=n == at)
        for n in range(first, min(first + rows, len(entries)))
    ]
    return listed + detail(entries[at], now, width, room - len(listed), url=url)
