"""Plots of the report as SVG: plain functions from records to text."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.history.findings import Record

WIDTH: Final = 560
HEIGHT: Final = 190
LEFT: Final = 46
BOTTOM: Final = 20
TOP: Final = 8
_INNER: Final = WIDTH - LEFT - 6
_TALL: Final = HEIGHT - BOTTOM - TOP


class Axis:
    """From values to places: of the plot's width, or from its bottom up."""

    def __init__(self, low: float, high: float, *, length: float) -> None:
        self.low, self.high, self._length = low, max(high, low + 1e-9), length

    def at(self, value: float) -> float:
        """The place of a value, kept within the plot."""
        share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0) * self._length


def short(value: float) -> str:
    """A number in few characters."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def ticks(high: float, count: int = 4) -> list[float]:
    """Round values from zero up."""
    if high <= 0.0:
        return [0.0]
    raw = high / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * one for one in (1, 2, 2.5, 5, 10) if size * one >= raw)
    return [step * place for place in range(int(high / step) + 1)]


def durations(points: Sequence[Record], target: float, incidents: Sequence[Record]) -> str:
    """Batch duration over time: mean as a line, the longest as an area, the target as a rule."""
    across = _time(points)
    up = Axis(0.0, 1.08 * max(target, *(point["seconds_max"] for point in points)), length=_TALL)
    parts = [_frame(up, across, "s"), _spirals(incidents, across)]
    outline = [_place(across, up, point["time"], point["seconds_max"]) for point in points]
    base = _y(up, 0.0)
    area = f"{_x(across, points[0]['time']):.1f},{base:.1f} {' '.join(outline)} "
    parts.append(
        f'<polygon class="most" points="{area}{_x(across, points[-1]["time"]):.1f},{base:.1f}"/>'
    )
    parts.append(_line("line", [_place(across, up, p["time"], p["seconds"]) for p in points]))
    parts.append(_rule(up, target, "target"))
    return _svg("Batch duration over time", parts)


def sizes(points: Sequence[Record]) -> str:
    """Rows of a batch over time, and the limit Weir would have set."""
    across = _time(points)
    # Beside a limit far above every batch, no batch could be seen.
    most = max(point["rows_max"] for point in points)
    limits = [p["would_limit_rows"] for p in points if p["would_limit_rows"] is not None]
    high = max(most, min(max(limits, default=0.0), 2.0 * most))
    up = Axis(0.0, 1.08 * max(high, 1.0), length=_TALL)
    parts = [_frame(up, across, "")]
    outline = [_place(across, up, point["time"], point["rows_max"]) for point in points]
    base = _y(up, 0.0)
    area = f"{_x(across, points[0]['time']):.1f},{base:.1f} {' '.join(outline)} "
    parts.append(
        f'<polygon class="most" points="{area}{_x(across, points[-1]["time"]):.1f},{base:.1f}"/>'
    )
    parts.append(_line("line", [_place(across, up, p["time"], p["rows"]) for p in points]))
    steps: list[str] = []
    last: float | None = None
    for point in points:
        limit = point["would_limit_rows"]
        if limit is None:
            continue
        if last is not None and limit != last:
            steps.append(_place(across, up, point["time"], last))
        steps.append(_place(across, up, point["time"], limit))
        last = limit
    if len(steps) > 1:
        parts.append(_line("would", steps))
    return _svg("Rows of a batch over time", parts)


def cost(points: Sequence[Record], advised: Record) -> str:
    """Duration against rows, the learned cost through it, the limit advised on it."""
    fixed, speed = advised["fixed_cost_seconds"], advised["throughput_rows_per_second"]
    limit, expected = advised["limit_rows"], advised["expected_seconds"]
    most = max(point["rows"] for point in points)
    across = Axis(0.0, 1.08 * max(most, min(limit or 0, 3.0 * most), 1.0), length=_INNER)
    target = advised["target_seconds"]
    tallest = max(point["seconds"] for point in points)
    up = Axis(0.0, 1.08 * max(target, tallest, min(expected or 0.0, 3.0 * tallest)), length=_TALL)
    parts = [_grid(up, "s")]
    parts += [
        f'<text x="{_x(across, one):.1f}" y="{HEIGHT - 4}" text-anchor="middle">{short(one)}</text>'
        for one in ticks(across.high, 5)
    ]
    parts.append(_rule(up, target, "target"))
    parts += [
        f'<circle class="dot" cx="{_x(across, point["rows"]):.1f}" '
        f'cy="{_y(up, point["seconds"]):.1f}" r="2.6"><title>'
        f"{point['rows']:,.0f} rows, {point['seconds']:.3g} s</title></circle>"
        for point in points
    ]
    if fixed is not None and speed:
        end = min(across.high, max((up.high - fixed) * speed, 0.0))
        parts.append(
            f'<line class="fit" x1="{_x(across, 0.0):.1f}" y1="{_y(up, fixed):.1f}" '
            f'x2="{_x(across, end):.1f}" y2="{_y(up, fixed + end / speed):.1f}"/>'
        )
    if limit is not None and expected is not None and limit <= across.high:
        x, y = _x(across, limit), _y(up, expected)
        anchor = "end" if x > WIDTH - 120 else "start"
        shift = -9 if anchor == "end" else 9
        parts.append(f'<circle class="chosen" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        parts.append(
            f'<text class="would-word" x="{x + shift:.1f}" y="{y + 24:.1f}" '
            f'text-anchor="{anchor}">{limit:,} rows</text>'
        )
    return _svg("Duration of a batch by its rows", parts)


def hours(records: Sequence[Record], target: float) -> str:
    """Each hour as a square: days down, hours across, the slower the redder."""
    days = sorted({int(one["hour_time"] // 86400) for one in records})
    tall = 15
    height = tall * len(days) + 20
    wide = (WIDTH - 66) / 24
    parts = []
    for place, day in enumerate(days):
        said = datetime.fromtimestamp(day * 86400, timezone.utc)
        parts.append(f'<text x="0" y="{place * tall + 12}">{said:%a %d %b}</text>')
    for one in records:
        day, hour = divmod(int(one["hour_time"]), 86400)
        x, y = 66 + wide * (hour // 3600), tall * days.index(day)
        told = datetime.fromtimestamp(one["hour_time"], timezone.utc)
        p95 = one["batch_seconds_p95"]
        words = f"{told:%Y-%m-%d %H:%M}: {one['batches']} batches"
        words += (
            "" if p95 is None else f", p95 {p95:.3g} s, {one['batches_over_target']} over target"
        )
        words += f", {one['failures']} failures" if one["failures"] else ""
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{tall}" rx="3" '
            f'style="{_heat(one, target)}"><title>{escape(words)}</title></rect>'
        )
    parts += [
        f'<text x="{66 + wide * hour:.1f}" y="{height - 4}">{hour:02d}</text>'
        for hour in range(0, 24, 3)
    ]
    label = "Hours, by their 95th percentile over the target"
    view = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}"'
    return f'<svg class="hours" {view}>{"".join(parts)}</svg>'


def executors(records: Sequence[Record]) -> str:
    """Executors by the hour: those that there were as an area, those wanted as a line."""
    told = [one for one in records if one.get("executors_wanted") is not None]
    begin, end = told[0]["hour_time"], told[-1]["hour_time"] + 3600.0
    across = Axis(begin, end, length=_INNER)
    most = max(max(one["executors"], one["executors_wanted"]) for one in told)
    up = Axis(0.0, 1.08 * most, length=_TALL)
    parts, base = [_frame(up, across, "")], _y(up, 0.0)
    for one in told:
        left, right = _x(across, one["hour_time"]), _x(across, one["hour_time"] + 3600.0)
        had = _y(up, one["executors"])
        moment = datetime.fromtimestamp(one["hour_time"], timezone.utc)
        words = f"{moment:%Y-%m-%d %H:%M}: had {one['executors']:.3g}, "
        words += f"wanted {one['executors_wanted']:.3g}, at most {one['executors_wanted_max']}"
        parts.append(
            f'<rect class="most" x="{left:.1f}" y="{had:.1f}" width="{right - left:.1f}" '
            f'height="{base - had:.1f}"><title>{escape(words)}</title></rect>'
        )
    runs: list[list[str]] = []
    last = -math.inf
    for one in told:
        begin, wanted = one["hour_time"], one["executors_wanted"]
        if begin != last:
            runs.append([])  # hours of which nothing is known lie between
        last = begin + 3600.0
        runs[-1] += [_place(across, up, time, wanted) for time in (begin, last)]
    parts += [_line("would", run) for run in runs]
    return _svg("Executors by the hour: had, and wanted", parts)


def _heat(hour: Record, target: float) -> str:
    if hour["failures"] or hour["spiral_batches"]:
        return "fill:var(--high-mark)"
    p95 = hour["batch_seconds_p95"]
    if p95 is None:
        return "fill:var(--idle-fill)"
    ratio = p95 / target
    if ratio <= 1.0:
        return f"fill:var(--ok-mark);opacity:{0.35 + 0.5 * ratio:.2f}"
    if ratio <= 2.0:
        return f"fill:var(--low-mark);opacity:{0.45 + 0.5 * (ratio - 1.0):.2f}"
    return f"fill:var(--high-mark);opacity:{min(0.5 + 0.1 * ratio, 1.0):.2f}"


def _spirals(incidents: Sequence[Record], across: Axis) -> str:
    parts = []
    for one in incidents:
        if one["kind"] not in ("spiral", "lag"):
            continue
        begin, end = _x(across, one["begin_time"]), _x(across, one["end_time"])
        words = escape(f"{one['kind']} {one['detail']}: {one['evidence']}")
        parts.append(
            f'<rect class="bad" x="{begin:.1f}" y="{TOP}" width="{max(end - begin, 2):.1f}" '
            f'height="{_TALL}"><title>{words}</title></rect>'
        )
    return "".join(parts)


def _time(points: Sequence[Record]) -> Axis:
    first, last = points[0]["time"], points[-1]["time"]
    return Axis(first, max(last, first + 1.0), length=_INNER)


def _frame(up: Axis, across: Axis, unit: str) -> str:
    span = across.high - across.low
    pattern = "%d %b %H:%M" if span > 86400 else "%H:%M" if span > 600 else "%H:%M:%S"
    words = []
    for share in (0.0, 0.25, 0.5, 0.75):
        moment = datetime.fromtimestamp(across.low + share * span, timezone.utc)
        words.append(
            f'<text x="{LEFT + share * _INNER:.1f}" y="{HEIGHT - 4}">{moment:{pattern}}</text>'
        )
    return _grid(up, unit) + "".join(words)


def _grid(up: Axis, unit: str) -> str:
    parts = []
    for value in ticks(up.high):
        y = _y(up, value)
        told = f"{short(value)} {unit}".strip()
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 6}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{told}</text>')
    return "".join(parts)


def _rule(up: Axis, value: float, name: str) -> str:
    y = _y(up, value)
    return (
        f'<line class="{name}" x1="{LEFT}" x2="{WIDTH - 6}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="{name}-word" x="{WIDTH - 8}" y="{y - 5:.1f}" text-anchor="end">{name}</text>'
    )


def _line(name: str, places: Sequence[str]) -> str:
    return f'<polyline class="{name}" points="{" ".join(places)}"/>'


def _place(across: Axis, up: Axis, x: float, y: float) -> str:
    return f"{_x(across, x):.1f},{_y(up, y):.1f}"


def _x(across: Axis, value: float) -> float:
    return LEFT + across.at(value)


def _y(up: Axis, value: float) -> float:
    return TOP + _TALL - up.at(value)


def _svg(label: str, parts: Sequence[Any]) -> str:
    inner = "".join(str(part) for part in parts)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{inner}</svg>'
