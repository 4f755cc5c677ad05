"""How far two colours stand apart, as WCAG 2 has it, and the colours that a style sheet names."""

from __future__ import annotations

import re


def contrast(one: str, other: str) -> float:
    """From 1, for the same colour, to 21; each as ``#rrggbb``."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def palettes(style: str) -> list[dict[str, str]]:
    """Name → colour, in light and in dark."""
    found = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", part))
        for part in style.split("prefers-color-scheme: dark", 1)
    ]
    assert len(found) == 2
    assert all(found)
    return found


def lines(style: str) -> dict[str, str]:
    """Selector of what is drawn as a line → its colour's name."""
    pattern = r"^(\.[\w.-]+) \{ (?:fill: none; )?stroke: var\(--([\w-]+)\)"
    return dict(re.findall(pattern, style, re.MULTILINE))


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
