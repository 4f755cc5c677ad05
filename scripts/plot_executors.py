"""Draws docs/images/executors.svg: python -m scripts.plot_executors.

From what ``python -m tests.plugin.scaling`` saw on a real cluster.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from scripts.plot_control import ticks

ROOT: Final = Path(__file__).parent.parent
SEEN: Final = ROOT / "docs" / "images" / "executors.json"
PICTURE: Final = SEEN.with_suffix(".svg")
WIDTH: Final = 720
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 34
LANE, GAP = 110, 34
TEAL, AMBER, GREY = "#0f766e", "#d97706", "#6b7280"


def draw(seen: dict[str, Any]) -> str:
    """Three lanes over one time: what a batch took, executors, and rows that waited and arrived."""
    batches: list[dict[str, Any]] = seen["batches"]
    target = float(seen["target_seconds"])
    begun = batches[0]["after_seconds"]
    times = [one["after_seconds"] - begun for one in batches]
    last = times[-1] or 1.0

    def x(time: float) -> float:
        return round(LEFT + time / last * (WIDTH - LEFT - RIGHT), 1)

    parts: list[str] = []
    height = TOP + 3 * (LANE + GAP)

    def lane(number: int, title: str, most: float) -> Any:
        top = TOP + 18 + number * (LANE + GAP)
        steps = ticks(most or 1.0)

        def y(value: float) -> float:
            return round(top + LANE - value / steps[-1] * LANE, 1)

        parts.append(f'<text x="{LEFT}" y="{top - 7}" font-size="13">{title}</text>')
        parts.extend(
            f'<path d="M{LEFT} {y(step)}H{WIDTH - RIGHT}" stroke="#9ca3af" '
            f'stroke-opacity="0.3"/><text x="{LEFT - 6}" y="{y(step) + 4}" '
            f'text-anchor="end">{step:g}</text>'
            for step in steps
        )
        return y

    def steps_of(key: str, y: Any, colour: str, dashes: str = "") -> None:
        path, before = "", None
        for time, one in zip(times, batches, strict=True):
            value = one[key]
            if value is None:
                continue
            path += f"M{x(time)} {y(value)}" if before is None else f"H{x(time)}V{y(value)}"
            before = value
        if path:
            style = f' stroke-dasharray="{dashes}"' if dashes else ""
            parts.append(
                f'<path d="{path}H{x(last)}" fill="none" stroke="{colour}" '
                f'stroke-width="2"{style}/>'
            )

    y = lane(
        0,
        "Seconds that a batch took; dashed: the target",
        max(target, *(one["batch_seconds"] or 0.0 for one in batches)),
    )
    parts.append(
        f'<path d="M{LEFT} {y(target)}H{WIDTH - RIGHT}" stroke="{GREY}" stroke-dasharray="4 3"/>'
    )
    for time, one in zip(times, batches, strict=True):
        if one["batch_seconds"] is not None:
            parts.append(
                f'<path d="M{x(time)} {y(0)}V{y(one["batch_seconds"])}" stroke="{TEAL}" '
                f'stroke-opacity="0.35"/><circle cx="{x(time)}" cy="{y(one["batch_seconds"])}" '
                f'r="2.5" fill="{TEAL}"/>'
            )
    most = max(max(one["present"] or 0, one["wanted"] or 0) for one in batches)
    y = lane(1, "Executors; dashed: wanted", most)
    steps_of("present", y, TEAL)
    steps_of("wanted", y, AMBER, "5 3")
    y = lane(
        2,
        "Rows that wait; amber: rows a second that arrive",
        max(max(one["backlog_rows"] or 0.0, one["load"]) for one in batches),
    )
    steps_of("backlog_rows", y, TEAL)
    steps_of("load", y, AMBER)
    parts.extend(
        f'<text x="{x(mark)}" y="{height + 4}" text-anchor="middle">{mark:g}</text>'
        for mark in ticks(last)
        if mark <= last * 0.94
    )
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{height + 4}" text-anchor="end">seconds</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + 14}" '
        f'font-family="sans-serif" font-size="12" fill="{GREY}" role="img" aria-label="What a '
        'batch took, executors, and rows that wait, on a cluster whose load triples">'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(json.loads(SEEN.read_text("utf-8"))), "utf-8")
