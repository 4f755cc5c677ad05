"""What a key does to the reader's choice. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from agent.export.terminal.ask import VERBS, answer, begin, was_read
from agent.export.terminal.keys import PASTE
from agent.export.terminal.orders import Told
from agent.export.terminal.render import SORTS, Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE: Final = 10
_LONGEST_FILTER: Final = 80
_TOO_EARLY: Final = Told(
    "nothing was ordered: the y came with the question; ask again, and answer when it stands",
    done=False,
)


def press(
    key: str, selection: Selection, listed: Sequence[tuple[str, str]], now: float
) -> Selection | None:
    """The choice after a key pressed at ``now``, on a steady clock; None quits.

    ``listed`` are the queries as they stand on screen.
    """
    replace = msgspec.structs.replace
    if key == "interrupt":
        return None
    selection = replace(selection, told=None)
    if selection.ask is not None:
        if key == "y" and selection.ask.sure and not was_read(selection.ask, now):
            return replace(selection, ask=None, told=_TOO_EARLY)
        asked, send = answer(key, selection.ask)
        return replace(selection, ask=asked, send=send)
    if key.startswith(PASTE) and not selection.typing:
        return selection
    if selection.typing:
        return _type(key, selection)
    if selection.help:
        more = key == "?" and selection.help == 1
        return None if key == "q" else replace(selection, help=2 if more else 0)
    if key in ("q", "Q"):
        return None
    moves = {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "page up": -_PAGE,
        "page down": _PAGE,
        "home": -len(listed),
        "g": -len(listed),
        "end": len(listed),
        "G": len(listed),
    }
    if key in moves and listed:
        at = listed.index(selection.key) if selection.key in listed else 0
        return replace(selection, key=listed[min(max(0, at + moves[key]), len(listed) - 1)])
    if key == "enter":
        return replace(selection, open=not selection.open)
    if key == "escape":
        return replace(selection, open=False, filter="" if not selection.open else selection.filter)
    if key == "s":
        after = SORTS[(SORTS.index(selection.sort) + 1) % len(SORTS)]
        return replace(selection, sort=after)
    if key == "/":
        return replace(selection, typing=True)
    if key in ("p", " "):
        return replace(selection, paused=not selection.paused)
    if key == "?":
        return replace(selection, help=1)
    if key in VERBS and listed:
        of = selection.key
        chosen = listed[0] if of is None or of not in listed else of
        return replace(selection, ask=begin(VERBS[key], chosen))
    return selection


def _type(key: str, selection: Selection) -> Selection:
    replace = msgspec.structs.replace
    if key == "enter":
        return replace(selection, typing=False)
    if key == "escape":
        return replace(selection, typing=False, filter="")
    if key == "backspace":
        return replace(selection, filter=selection.filter[:-1])
    more = "".join(filter(str.isprintable, key.removeprefix(PASTE)))
    if len(key) == 1 or key.startswith(PASTE):
        return replace(selection, filter=(selection.filter + more)[:_LONGEST_FILTER])
    return selection
