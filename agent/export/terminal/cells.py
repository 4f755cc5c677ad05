"""Text in terminal cells: cutting, padding, and the small drawings made of block characters."""

from __future__ import annotations

import io
import math
import textwrap
import unicodedata
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from agent.export.terminal.format import is_known, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

Align = Literal["left", "right"]

STYLES: Final = {
    "high": "bold red",
    "low": "yellow",
    "ok": "green",
    "idle": "dim",
    "unknown": "dim",
}
_STEPS: Final = "▁▂▃▄▅▆▇█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def name(text: str, length: int = 200) -> str:
    """A name from outside whose cells can be counted: stacked marks and selectors are dropped."""
    kept: list[str] = []
    marks = 0
    for mark in visible(text, length):
        if mark == "\ufe0f" or unicodedata.category(mark) in ("Mn", "Me", "Mc"):
            marks += 1
            if marks > 1 or mark == "\ufe0f":
                continue
        else:
            marks = 0
        kept.append(mark)
    return "".join(kept)


def begin(text: str, style: str) -> Text:
    """A line that begins in a style; what is appended doesn't inherit it."""
    return Text().append(text, style)


def fit(text: str, width: int, align: Align = "left") -> str:
    """Exactly ``width`` cells; what is too long ends in an ellipsis."""
    if width <= 0:
        return ""
    length = cell_len(text)
    if length > width:
        cut = set_cell_size(text, width - 1).rstrip()
        text, length = f"{cut}…", cell_len(cut) + 1
    space = " " * (width - length)
    return space + text if align == "right" else text + space


def crop(line: Text, width: int) -> Text:
    """A line of at most ``width`` cells."""
    line.no_wrap = True
    line.truncate(max(0, width), overflow="ellipsis")
    return line


def wrap(text: str, width: int, *, indent: str = "") -> list[str]:
    """Prose in lines of at most ``width`` characters."""
    return textwrap.wrap(text, max(10, width), subsequent_indent=indent) or [""]


def wrap_cells(text: Text, width: int) -> list[Text]:
    """Words, however wide their letters, in lines of at most ``width`` cells; styles are kept."""
    folding = Console(file=io.StringIO(), width=max(2, width))
    return list(text.wrap(folding, folding.width, overflow="fold"))


def _step(value: float | None, top: float) -> str:
    if value is None or not is_known(value):
        return " "
    share = min(1.0, max(0.0, value / top)) if top > 0 else 0.0
    return _STEPS[min(len(_STEPS) - 1, math.floor(share * len(_STEPS)))]


def columns(
    values: Sequence[float | None],
    width: int,
    top: float,
    tall: int,
    styles: Sequence[str],
    *,
    mark: float | None = None,
) -> list[Text]:
    """The last ``width`` values as columns of ``tall`` lines, from 0 to ``top``.

    ``mark`` is a value drawn as a dashed line behind the columns where ``tall`` is over 1.
    """
    shown = list(values)[-width:]
    kept = list(styles)[-width:]
    if tall == 1:
        cells = [(_step(value, top), style) for value, style in zip(shown, kept, strict=True)]
        return [_runs([(" ", "")] * (width - len(shown)) + cells)]
    marked = None
    if mark is not None and 0 < mark <= top:
        marked = tall - 1 - min(tall - 1, math.floor(mark / top * tall))
    drawn = []
    for row in range(tall):
        behind = "┄" if row == marked else " "
        cells = [(behind, "dim")] * (width - len(shown))
        for value, style in zip(shown, kept, strict=True):
            share = 0.0
            if value is not None and is_known(value) and top > 0:
                share = min(1.0, max(0.0, value / top))
            # Any known value leaves a trace on the lowest line.
            eighths = max(math.floor(share * tall * 8), 0 if value is None else 1)
            filled = min(8, max(0, eighths - 8 * (tall - 1 - row)))
            cells.append((_STEPS[filled - 1], style) if filled else (behind, "dim"))
        drawn.append(_runs(cells))
    return drawn


def _runs(cells: Sequence[tuple[str, str]]) -> Text:
    """Cells as text, with one change of style a run: a frame crosses slow connections."""
    text = Text()
    for style, run in groupby(cells, key=lambda cell: cell[1]):
        text.append("".join(character for character, _ in run), style)
    return text


def target_bar(value: float | None, target: float | None, width: int, style: str) -> Text:
    """A bar from 0 to twice the target, with the target marked in the middle."""
    if value is None or target is None or target <= 0 or width < 4:
        return Text(" " * width)
    middle = width // 2
    eighths = round(min(2.0, max(0.0, value / target)) * middle * 8)
    text = Text()
    for cell in range(width):
        filled = min(8, max(0, eighths - 8 * cell))
        if cell == middle:
            text.append("│" if filled < 8 else "┃", "bold" if filled < 8 else f"{style} reverse")
        elif filled == 8:
            text.append("█", style)
        else:
            text.append(
                _EIGHTHS[filled] if filled else "·" if cell < middle else " ",
                style if filled else "dim",
            )
    return text


def share_bar(parts: Sequence[tuple[float, str, str]], width: int) -> Text:
    """Parts of 1 as (share, character, style), side by side; always ``width`` cells."""
    text = Text()
    used = 0
    total = 0.0
    for share, character, style in parts:
        total += share
        until = min(width, math.floor(total * width + 0.5))
        text.append(character * (until - used), style)
        used = until
    text.append(" " * (width - used))
    return text
