"""Numbers as people read them in a sentence: three digits that count, thousands set off."""

from __future__ import annotations

import math
from typing import Final

DIGITS: Final = 3


def figure(value: float) -> str:
    """``12_883.4`` is "12,900", ``0.8812`` is "0.881": never in scientific notation."""
    if not math.isfinite(value):
        return "unlimited" if value > 0.0 else "unknown"
    if value == 0.0:
        return "0"
    places = DIGITS - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):,.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
