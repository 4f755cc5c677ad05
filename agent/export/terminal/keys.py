"""The keyboard of a terminal: keys as they are pressed, and the terminal as it was afterwards."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing_extensions import Self

_SEQUENCES: Final = {
    "[A": "up",
    "OA": "up",
    "[B": "down",
    "OB": "down",
    "[5~": "page up",
    "[6~": "page down",
    "[H": "home",
    "OH": "home",
    "[1~": "home",
    "[F": "end",
    "OF": "end",
    "[4~": "end",
}
_SINGLE: Final = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "interrupt",
    "\x04": "interrupt",
    "\x0c": "redraw",
}
_MOST_BYTES: Final = 4096
#: Begins the key that is what was pasted.
PASTE: Final = "paste "
#: With these a terminal marks what is pasted, and no longer does.
MARK_PASTES: Final = "\x1b[?2004h"
MARK_NO_PASTES: Final = "\x1b[?2004l"
_PASTE_BEGINS: Final = "\x1b[200~"
_PASTE_ENDS: Final = "\x1b[201~"
#: Characters of a paste that are kept while its end is waited for: more than any name has.
MOST_PASTED: Final = 4096
_HALF_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;<?]*\Z")


def parse_keys(text: str) -> list[str]:
    """What was typed as keys: names for special ones, printable characters as they are.

    Unknown escape sequences (a mouse, a function key) are passed over whole. What was pasted is one
    key.
    """
    keys: list[str] = []
    at = 0
    while at < len(text):
        mark = text[at]
        at += 1
        if mark != "\x1b":
            key = _SINGLE.get(mark, mark if mark.isprintable() else "")
            if key:
                keys.append(key)
            continue
        if text.startswith(_PASTE_BEGINS, at - 1):
            pasted, _, _ = text[at - 1 + len(_PASTE_BEGINS) :].partition(_PASTE_ENDS)
            keys.append(PASTE + pasted)
            at += len(_PASTE_BEGINS) - 1 + len(pasted) + len(_PASTE_ENDS)
            continue
        if at >= len(text) or text[at] not in "[O":
            keys.append("escape")
            continue
        end = at + 1
        while end < len(text) and not (text[end].isalpha() or text[end] == "~"):
            end += 1
        known = _SEQUENCES.get(text[at : end + 1])
        if known:
            keys.append(known)
        at = end + 1
    return keys


def _whole(text: str) -> int:
    """How much of it are whole keys: a paste, or its mark, may end with the next read."""
    begins = text.rfind(_PASTE_BEGINS)
    if begins >= 0 and _PASTE_ENDS not in text[begins:]:
        return begins
    half = _HALF_SEQUENCE.search(text)
    return len(text) if half is None else half.start()


class Keyboard:
    """Keys one by one while it is open; without a terminal on standard input it only waits.

    The terminal's settings are put back when it closes, whatever happened in between.
    """

    def __init__(self, stream: object | None = None) -> None:
        source = sys.stdin if stream is None else stream
        self._fd: int | None = None
        self._saved: Any = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""  # of a key that has only begun
        try:
            fd = source.fileno()  # type: ignore[union-attr]
            self._fd = fd if os.isatty(fd) else None
        except (AttributeError, OSError, ValueError):  # no standard input at all, or not a file
            self._fd = None

    def __enter__(self) -> Self:
        if self._fd is not None:
            try:
                import termios
                import tty

                self._saved = termios.tcgetattr(self._fd)
                tty.setcbreak(self._fd)
                changed = termios.tcgetattr(self._fd)
                # A stop would leave the screen in other hands without being put back.
                changed[6][termios.VSUSP] = b"\x00"
                termios.tcsetattr(self._fd, termios.TCSADRAIN, changed)
            except (ImportError, OSError):
                self._fd = None
            except Exception as error:  # termios.error is no OSError
                if type(error).__module__ != "termios":
                    raise
                self._fd = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is None or self._saved is None:
            return
        import termios

        with contextlib.suppress(termios.error):  # the terminal is gone: nothing to put back
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)
        self._saved = None

    @property
    def usable(self) -> bool:
        """Whether there is a terminal to type on."""
        return self._fd is not None

    def wait(self, seconds: float, *wake: int) -> list[str]:
        """Keys pressed within that time; returns early on a key or when ``wake`` can be read."""
        watched = [*wake] if self._fd is None else [self._fd, *wake]
        ready, _, _ = select.select(watched, [], [], max(0.0, seconds))
        if self._fd is None or self._fd not in ready:
            return []
        try:
            data = os.read(self._fd, _MOST_BYTES)
        except OSError:
            data = b""
        if not data:  # the terminal hung up
            self._fd = None
            return ["interrupt"]
        text = self._rest + self._decoder.decode(data)
        whole = _whole(text)
        self._rest = text[whole:]
        if len(self._rest) > MOST_PASTED:  # its end may be half there
            self._rest = self._rest[: MOST_PASTED // 2] + self._rest[-len(_PASTE_ENDS) :]
        return parse_keys(text[:whole])
