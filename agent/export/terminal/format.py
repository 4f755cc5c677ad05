"""Numbers, durations and names as people read them, the same in every locale.

``agent/export/page/assets/format.js`` does the same for the page; a test holds the two together.
"""

from __future__ import annotations

import math
import re
import time
from typing import Final

UNKNOWN: Final = "\u2013"  # an en dash
_COUNT: Final = ("", "k", "M", "G", "T", "P", "E")
_BYTES: Final = (" B", " kB", " MB", " GB", " TB", " PB", " EB")
_UNSEEN = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_NAMED: Final = {"\n": "␊", "\r": "␍", "\t": "␉", "\0": "␀", "\x1b": "␛"}


def _rounded(value: float, digits: int) -> str:
    """Halves go up, as on the page."""
    scale = 10**digits
    return f"{math.floor(value * scale + 0.5) / scale:.{digits}f}"


def _short(value: float, suffixes: tuple[str, ...]) -> str:
    scaled = abs(value)
    step = 0
    while scaled >= 999.5 and step < len(suffixes) - 1:
        scaled /= 1000
        step += 1
    if step == 0 and scaled == int(scaled):
        text = str(int(scaled))
    elif scaled >= 99.95:
        text = _rounded(scaled, 0)
    elif scaled >= 0.995:
        text = _rounded(scaled, 1)
    else:
        text = _rounded(scaled, 2)
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return ("\u2212" if value < 0 and text != "0" else "") + text + suffixes[step]


def count(value: float | None) -> str:
    """Three digits or so with a suffix: 0.25, 4.2, 420, 4.2k, 421k, 4.2M."""
    return UNKNOWN if not is_known(value) else _short(value or 0, _COUNT)


def quantity(value: float | None, unit: str | None) -> str:
    """A count in a source's unit: ``52k rows``, ``1 file``, ``1.2 GB``."""
    if not is_known(value):
        return UNKNOWN
    if unit == "bytes":
        return _short(value or 0, _BYTES)
    word = unit or "rows"
    return f"{count(value)} {word.removesuffix('s') if value == 1 else word}"


def rate(value: float | None) -> str:
    """Rows per second."""
    return f"{count(value)} rows/s" if is_known(value) else UNKNOWN


def percent(share: float | None) -> str:
    """A share of 1 in whole percent."""
    return f"{_rounded((share or 0.0) * 100, 0)} %" if is_known(share) else UNKNOWN


def duration(seconds: float | None) -> str:
    """``83 ms``, ``4.2 s``, ``42 s``, ``4 min 12 s``, ``1 h 3 min``, ``3 d 4 h``."""
    if not is_known(seconds):
        return UNKNOWN
    value = max(0.0, seconds or 0.0)
    if value == 0.0:
        return "0 s"
    if value < 0.0005:
        return "< 1 ms"
    if value < 0.9995:
        return f"{_rounded(value * 1000, 0)} ms"
    if value < 9.95:
        return f"{_rounded(value, 1).removesuffix('.0')} s"
    whole = math.floor(value + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _pair(whole // 60, "min", whole % 60, "s")
    minutes = whole // 60
    if minutes < 1440:
        return _pair(minutes // 60, "h", minutes % 60, "min")
    hours = minutes // 60
    return _pair(hours // 24, "d", hours % 24, "h")


def _pair(large: int, large_unit: str, little: int, little_unit: str) -> str:
    return f"{large} {large_unit}" + (f" {little} {little_unit}" if little else "")


def clock(epoch_seconds: float | None) -> str:
    """24-hour local time."""
    if epoch_seconds is None or not is_known(epoch_seconds):
        return UNKNOWN
    return time.strftime("%H:%M:%S", time.localtime(epoch_seconds))


def is_known(value: float | None) -> bool:
    """Whether there is a finite number."""
    return value is not None and math.isfinite(value)


def visible(text: str, length: int = 200) -> str:
    """A name fit for a terminal: nothing invisible or controlling, at most ``length`` characters.

    Control and direction characters are shown by their code, since a name that hides what it
    holds is worse than an ugly one.
    """
    if not text:
        return "(no name)"
    shown = _UNSEEN.sub(_by_code, text[:length])
    if not shown.strip():
        return "␣" * min(len(shown), 20)
    return f"{shown}…" if len(text) > length else shown


def _by_code(match: re.Match[str]) -> str:
    mark = match.group()
    return _NAMED.get(mark) or f"\u2039{ord(mark):04X}\u203a"
