"""Draws a picture of each dashboard from a Prometheus, with the queries that Grafana would send.

``python -m scripts.picture_dashboards URL`` asks the Prometheus at URL, of the last ``--seconds``,
and writes docs/images/dashboard-*.png, and beside them which board each is of: a plot per panel,
laid out as in the dashboard's grid. Made for the pictures in the docs, taken of ``make stack
SECONDS=400 KEEP=1``. Needs a Chromium: the one at CHROMIUM or on PATH, else Playwright's own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import sync_playwright

from scripts.drawn import BOARDS, PICTURES, note, picture_of

#: All four come with one page. The finest lines of a query under bursts take 410 kB.
MOST_BYTES: Final = 450_000
#: A grid cell, as wide as fits the page and nearly as high as Grafana's.
WIDTH: Final = 1000
CELL: Final = 26
POINTS: Final = 200
#: Of a histogram over time.
COLUMNS: Final = 60
MOST_LEGENDS: Final = 6
PALETTE: Final = (
    "#2f7d4f", "#d98c12", "#2a6fb0", "#7a4fa3", "#1f8f9c", "#9a6b2f",
    "#c2588f", "#5b6b7a", "#8aa51f", "#3c4fa0", "#b0522a", "#c8382e",
)  # fmt: skip
NAMED: Final = {
    "green": "#2f9863",
    "yellow": "#dba514",
    "orange": "#e07b1f",
    "red": "#d0342c",
    "dark-red": "#8f1d18",
    "blue": "#3274b5",
    "purple": "#7a4fa3",
    "gray": "#98a4a3",
    "transparent": "#eef1f1",
    "text": "#8a9693",
}
SCALES: Final = ((1e9, " G"), (1e6, " M"), (1e3, " k"))
STYLE: Final = """
* { box-sizing: border-box; margin: 0 }
body { width: 1000px; background: #f3f5f5; color: #17211f;
       font: 12px/1.3 "DejaVu Sans", sans-serif }
h1 { font-size: 17px; font-weight: 600; padding: 12px 14px 0 }
h1 small { font-weight: 400; font-size: 12px; color: #66736f; padding-left: 10px }
main { position: relative; margin: 10px 10px 12px }
.panel { position: absolute; background: #fff; border: 1px solid #dde3e2; border-radius: 5px;
         padding: 6px 8px; overflow: hidden }
.panel h2 { font-size: 11.5px; font-weight: 600; white-space: nowrap; overflow: hidden;
            text-overflow: ellipsis }
.row { position: absolute; font-weight: 600; font-size: 13px; color: #44514e; padding: 6px 4px 0 }
.number { font-size: 27px; font-weight: 600; text-align: center; position: absolute; left: 0;
          right: 0; top: 40%; transform: translateY(-35%); white-space: nowrap }
.number.text { font-size: 17px; color: #8a9693 !important }
svg { display: block; position: absolute }
.legend { position: absolute; left: 8px; right: 8px; bottom: 5px; font-size: 10.5px;
          color: #44514e; display: grid; grid-template-columns: 1fr 1fr; column-gap: 14px }
.legend div { display: flex; gap: 5px; white-space: nowrap; overflow: hidden }
.legend i { flex: none; width: 10px; height: 3px; margin-top: 6px; border-radius: 2px }
.legend span { flex: 1; overflow: hidden; text-overflow: ellipsis }
.legend b { font-weight: 600 }
table { border-collapse: collapse; width: 100%; margin-top: 6px; font-size: 11px }
th { text-align: left; font-weight: 600; color: #2a6fb0; border-bottom: 1px solid #dde3e2;
     padding: 4px 6px; white-space: nowrap }
td { border-bottom: 1px solid #edf0f0; padding: 5px 6px; white-space: nowrap }
.nothing { position: absolute; inset: 40% 0 auto; text-align: center; color: #98a4a3 }
"""


@dataclass(frozen=True)
class Series:
    """One line: a name, and values by epoch seconds."""

    name: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Box:
    """Where a panel is, in pixels."""

    left: float
    top: float
    width: float
    height: float


class Source:
    """A Prometheus, a range of time, and what the dashboards' variables are set to."""

    def __init__(self, url: str, end: float, seconds: float, application: str, query: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)
        self.end = end
        self.start = self.end - seconds
        self.step = max(1.0, round(seconds / POINTS))
        self._variables = {
            "$__rate_interval": f"{max(10, 4 * self.step):.0f}s",
            "$__range": f"{seconds:.0f}s",
            '=~"$instance"': '=~".*"',
            '=~"$application"': '=~".*"',
            '=~"$query"': '=~".*"',
            "$cluster": ".*",
            "$namespace": ".*",
            "$application": application,
            "$query": query,
        }

    def range(self, expression: str, legend: str, points: int | None = None) -> list[Series]:
        """Lines over the range of time, of so many points where that is said."""
        step = self.step if points is None else (self.end - self.start) / points
        found = self._ask("query_range", expression, start=self.start, end=self.end, step=step)
        return [
            Series(
                _named(legend, one["metric"]),
                [(t, float(v)) for t, v in one["values"] if math.isfinite(float(v))],
            )
            for one in found
        ]

    def now(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series at the end."""
        found = self._ask("query", expression, time=self.end)
        return [(one["metric"], float(one["value"][1])) for one in found]

    def _ask(self, path: str, expression: str, **parameters: float) -> list[dict[str, Any]]:
        for name, value in self._variables.items():
            expression = expression.replace(name, value)
        texts = {name: str(value) for name, value in parameters.items()}
        reply = self._http.get(
            f"/api/v1/{path}",
            params={"query": expression, **texts},
        )
        reply.raise_for_status()
        result: list[dict[str, Any]] = reply.json()["data"]["result"]
        return result


def _named(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda m: labels.get(m[1], ""), legend).strip()


def shown(value: float, unit: str) -> str:
    """A number as people read it."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "bytes":
        for size, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return f"{value:.0f} B"
    if unit == "s":
        if value and abs(value) < 1:
            return f"{1000 * value:.3g} ms" if abs(value) >= 1e-3 else f"{1e6 * value:.3g} µs"
        for size, name in ((172_800, "days"), (7_200, "h")):
            if value >= size:
                return f"{value / (86_400 if name == 'days' else 3_600):.3g} {name}"
        if value >= 120:
            return f"{value / 60:.3g} min"
        return f"{value:.3g} s"
    for size, name in SCALES:
        if abs(value) >= size:
            text = f"{value / size:.3g}{name}"
            break
    else:
        text = f"{value:.3g}"
    return text + {"rowsps": " rows/s", "cps": "/s"}.get(unit, "")


def ticks(most: float, unit: str) -> list[float]:
    """Round values from 0 to beyond ``most``."""
    base = 2.0 if unit == "bytes" else 10.0
    raw = (most or 1.0) / 3.2
    power = base ** math.floor(math.log(raw, base))
    factors = (1.0,) if unit == "bytes" else (1.0, 2.0, 2.5, 5.0)
    step = next((f * power for f in factors if f * power >= raw), base * power)
    return [step * place for place in range(math.ceil(most / step - 1e-9) + 1)] or [0.0, 1.0]


class Panel:
    """One panel of a dashboard's JSON, drawn into its box."""

    def __init__(
        self, panel: dict[str, Any], source: Source, marks: list[tuple[float, str]]
    ) -> None:
        self._panel = panel
        self._source = source
        self._marks = marks
        config = panel.get("fieldConfig", {})
        self._defaults = config.get("defaults", {})
        self._unit = self._defaults.get("unit", "none")
        self._overrides: dict[str, dict[str, Any]] = {}
        for one in config.get("overrides", []):
            if one["matcher"]["id"] == "byName":  # a name may have several
                properties = {item["id"]: item["value"] for item in one["properties"]}
                self._overrides.setdefault(one["matcher"]["options"], {}).update(properties)

    def html(self, box: Box) -> str:
        """The panel as an element."""
        kind = self._panel["type"]
        inside = {
            "timeseries": self._graph,
            "stat": self._number,
            "state-timeline": self._states,
            "table": self._table,
            "heatmap": self._spread,
        }[kind](box)
        style = (
            f"left:{box.left:.1f}px;top:{box.top:.1f}px;width:{box.width:.1f}px;"
            f"height:{box.height:.1f}px"
        )
        title = escape(self._panel["title"])
        return f'<div class="panel" style="{style}"><h2>{title}</h2>{inside}</div>'

    def _series(self) -> list[Series]:
        found: list[Series] = []
        for target in self._panel["targets"]:
            found += self._source.range(target["expr"], target.get("legendFormat", ""))
        return [one for one in found if one.points]

    def _colour(self, name: str, place: int) -> str:
        fixed = self._overrides.get(name, {}).get("color", {}).get("fixedColor")
        return NAMED.get(fixed, fixed) if fixed else PALETTE[place % len(PALETTE)]

    # -- lines -----------------------------------------------------------------------------
    def _graph(self, box: Box) -> str:
        series = self._series()
        if not series:
            nothing = escape(self._defaults.get("noValue", "no data in this time"))
            return f'<div class="nothing">{nothing}</div>'
        custom = self._defaults.get("custom", {})
        stacked = custom.get("stacking", {}).get("mode") == "normal"
        # The largest are named; all are drawn.
        series.sort(key=lambda one: -max(value for _, value in one.points))
        listed = series[:MOST_LEGENDS]
        left, right, top = 62.0, 10.0, 32.0
        bottom = 22.0 + 15.0 * math.ceil(len(listed) / 2)
        width, height = box.width - left - right, box.height - top - bottom
        lines = _stack(series) if stacked else [(one, None) for one in series]
        highest = max(value for one, _ in lines for _, value in one.points)
        marked = ticks(max(self._defaults.get("max", highest), 0.0) or 1.0, self._unit)
        most = marked[-1]

        def x(at: float) -> float:
            return left + width * (at - self._source.start) / (
                self._source.end - self._source.start
            )

        def y(value: float) -> float:
            return top + height * (1 - min(value, most) / most)

        parts = [_svg(box)]
        parts += [
            f'<path d="M{left} {y(tick):.1f}H{left + width:.1f}" stroke="#e6eaea"/>'
            f'<text x="{left - 6}" y="{y(tick) + 3.5:.1f}" text-anchor="end">'
            f"{escape(shown(tick, self._unit))}</text>"
            for tick in marked
        ]
        parts += [_clock(x(at), top + height + 13, at) for at in _times(self._source)]
        parts += [
            f'<path d="M{x(at):.1f} {top}v{height:.1f}" stroke="{colour}" stroke-dasharray="2 3" '
            'opacity="0.65"/>'
            for at, colour in self._marks
        ]
        for step in self._defaults.get("thresholds", {}).get("steps", [])[1:]:
            if custom.get("thresholdsStyle") and step["value"] <= most:
                parts.append(
                    f'<path d="M{left} {y(step["value"]):.1f}h{width:.1f}" '
                    f'stroke="{NAMED.get(step["color"], "#d0342c")}" stroke-dasharray="7 4"/>'
                )
        for place, (one, under) in reversed(list(enumerate(lines))):
            colour = self._colour(one.name, place)
            path = _path(one.points, x, y, 3 * self._source.step)
            if under is not None:
                back = " ".join(f"L{x(t):.1f} {y(v):.1f}" for t, v in reversed(under))
                parts.append(
                    f'<path d="{_path(one.points, x, y, math.inf)} {back} Z" fill="{colour}" '
                    'fill-opacity="0.55"/>'
                )
            dash = self._overrides.get(one.name, {}).get("custom.lineStyle")
            parts.append(
                f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"'
                + (' stroke-dasharray="8 5"' if dash else "")
                + ' stroke-linejoin="round"/>'
            )
        parts.append("</svg>")
        legend = "".join(
            f'<div><i style="background:{self._colour(one.name, place)}"></i>'
            f"<span>{escape(one.name)}</span>"
            f"<b>{escape(shown(one.points[-1][1], self._unit))}</b></div>"
            for place, one in enumerate(listed)
        )
        return "".join(parts) + f'<div class="legend">{legend}</div>'

    # -- one number ------------------------------------------------------------------------
    def _number(self, box: Box) -> str:
        values = [value for _, value in self._source.now(self._panel["targets"][0]["expr"])]
        if not values:
            return f'<div class="number text">{escape(self._defaults.get("noValue", ""))}</div>'
        text, colour = self._said(values[0])
        size = min(27.0, box.width / (0.72 * max(len(text), 4)))
        style = f"color:{colour};font-size:{size:.0f}px"
        return f'<div class="number" style="{style}">{escape(text)}</div>'

    def _said(self, value: float) -> tuple[str, str]:
        """A value as the panel says it, as a word, a time ago or a number, and its colour."""
        colour = NAMED["green"]
        for step in self._defaults.get("thresholds", {}).get("steps", []):
            if step.get("value") is None or value >= step["value"]:
                colour = NAMED.get(step["color"], colour)
        for mapping in self._defaults.get("mappings", []):
            if option := mapping["options"].get(f"{value:g}"):
                return str(option["text"]), NAMED.get(option.get("color", ""), colour)
        if self._unit == "dateTimeFromNow":  # epoch milliseconds
            return shown(self._source.end - value / 1000, "s") + " ago", colour
        return shown(value, self._unit), colour

    # -- a histogram over time -------------------------------------------------------------
    def _spread(self, box: Box) -> str:
        target = self._panel["targets"][0]
        found = self._source.range(target["expr"], target.get("legendFormat", ""), COLUMNS)
        found.sort(key=lambda one: float(one.name))
        lower: dict[float, float] = {}
        cells: list[tuple[int, float, float]] = []
        for place, one in enumerate(found):
            for at, count in one.points:
                cells.append((place, at, count - lower.get(at, 0.0)))
                lower[at] = count
        filled = {place for place, _, count in cells if count > 0}
        if not filled:
            return '<div class="nothing">no data in this time</div>'
        first, last = max(0, min(filled) - 1), min(len(found) - 1, max(filled) + 1)
        most = max(count for *_, count in cells)
        left, top = 62.0, 32.0
        width, height = box.width - left - 10, box.height - top - 26
        span = self._source.end - self._source.start
        tall, wide = height / (last - first + 1), width / COLUMNS
        parts = [_svg(box)]
        for place in range(first, last + 1):
            y = top + (last - place) * tall
            bound = float(found[place].name)
            text = shown(bound, self._unit) if math.isfinite(bound) else "more"
            parts.append(
                f'<text x="{left - 6}" y="{y + 3.5:.1f}" text-anchor="end">{escape(text)}</text>'
            )
        parts += [
            f'<rect x="{left + width * (at - self._source.start) / span - wide:.1f}" '
            f'y="{top + (last - place) * tall + 0.5:.1f}" width="{wide - 0.5:.1f}" '
            f'height="{tall - 1:.1f}" fill="#e07b1f" '
            f'fill-opacity="{0.15 + 0.85 * count / most:.2f}"/>'
            for place, at, count in cells
            if count > 0 and first <= place <= last and at > self._source.start
        ]
        for at in _times(self._source):
            where = left + width * (at - self._source.start) / span
            parts.append(_clock(where, box.height - 6, at))
        return "".join([*parts, "</svg>"])

    # -- states ----------------------------------------------------------------------------
    def _states(self, box: Box) -> str:
        rows = self._series()
        left, top = 96.0, 26.0
        width, height = box.width - left - 10, box.height - top - 20
        span = self._source.end - self._source.start
        tall = height / max(len(rows), 1)
        parts = [_svg(box)]
        for place, one in enumerate(rows):
            y = top + place * tall
            parts.append(
                f'<text x="{left - 6}" y="{y + tall / 2 + 3.5:.1f}" text-anchor="end">'
                f'{escape(one.name)}</text><rect x="{left}" y="{y + 1.5:.1f}" width="{width:.1f}" '
                f'height="{tall - 3:.1f}" fill="#eef1f1"/>'
            )
            colour = self._colour(one.name, place)
            for begin, end in _runs(one.points, self._source.step):
                at = left + width * (begin - self._source.start) / span
                wide = width * (min(end, self._source.end) - begin) / span
                parts.append(
                    f'<rect x="{at:.1f}" y="{y + 1.5:.1f}" width="{wide:.1f}" '
                    f'height="{tall - 3:.1f}" fill="{colour}"/>'
                )
        for at in _times(self._source):
            where = left + width * (at - self._source.start) / span
            parts.append(_clock(where, box.height - 6, at))
        return "".join([*parts, "</svg>"])

    # -- tables ----------------------------------------------------------------------------
    def _table(self, _: Box) -> str:
        organised = next(
            item["options"] for item in self._panel["transformations"] if item["id"] == "organize"
        )
        names = organised["renameByName"]
        refs = [one["refId"] for one in self._panel["targets"]]
        columns = {ref: names[f"Value #{ref}" if len(refs) > 1 else "Value"] for ref in refs}
        keys = [
            key
            for key, _ in sorted(organised["indexByName"].items(), key=lambda item: item[1])
            if not key.startswith("Value")
        ]
        # As Grafana merges: what tells rows apart are the labels that all columns have.
        answers = [
            (columns[one["refId"]], self._source.now(one["expr"])) for one in self._panel["targets"]
        ]
        answers = [(name, found) for name, found in answers if found]
        if not answers:
            return f'<div class="nothing">{escape(self._defaults.get("noValue", "no data"))}</div>'
        common = set.intersection(*({*labels} for _, found in answers for labels, _ in found))
        rows: dict[tuple[str, ...], tuple[dict[str, str], dict[str, float]]] = {}
        for name, found in answers:
            for labels, value in found:
                key = tuple(labels[label] for label in keys if label in common)
                words, numbers = rows.setdefault(key, ({}, {}))
                words.update(labels)
                numbers[name] = value
        kept = [
            key
            for key in keys
            if any(words.get(key) for words, _ in rows.values())
            and not self._overrides.get(key, {}).get("custom.hidden")
        ]
        head = "".join(f"<th>{escape(name)}</th>" for name in (*kept, *columns.values()))
        first = self._panel["options"]["sortBy"][0]["displayName"]
        body = ""
        for words, numbers in sorted(rows.values(), key=lambda row: -row[1].get(first, 0.0)):
            cells = "".join(f"<td><b>{escape(words.get(key, '')[:36])}</b></td>" for key in kept)
            cells += "".join(self._cell(name, numbers.get(name)) for name in columns.values())
            body += f"<tr>{cells}</tr>"
        return f"<table><tr>{head}</tr>{body}</table>"

    def _cell(self, name: str, value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return "<td></td>"
        properties = self._overrides.get(name, {})
        text, colour = shown(value, properties.get("unit", "none")), ""
        if properties.get("decimals") == 0:
            text = f"{value:.0f}"
        for step in properties.get("thresholds", {}).get("steps", []):
            if step.get("value") is None or value >= step["value"]:
                colour = NAMED.get(step["color"], "")
        for mapping in properties.get("mappings", []):
            options = mapping["options"]
            if mapping["type"] == "range":
                fits = options["from"] <= value and (
                    options["to"] is None or value <= options["to"]
                )
                option = options["result"] if fits else None
            else:
                option = options.get(f"{value:g}")
            if option:
                text, colour = option["text"], NAMED.get(option["color"], "")
                break
        return f'<td style="color:{colour}">{escape(text)}</td>'


def _runs(points: list[tuple[float, float]], step: float) -> list[tuple[float, float]]:
    """From when to when a state was the present one."""
    found: list[tuple[float, float]] = []
    for at, value in points:
        if value == 1:
            if found and found[-1][1] >= at:
                found[-1] = (found[-1][0], at + step)
            else:
                found.append((at, at + step))
    return found


def _svg(box: Box) -> str:
    return (
        f'<svg width="{box.width:.0f}" height="{box.height:.0f}" style="left:0;top:0" '
        'font-size="10" fill="#66736f">'
    )


def _clock(left: float, top: float, at: float) -> str:
    """The time of day under an axis."""
    text = datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
    return f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="middle">{text}</text>'


def _times(source: Source) -> list[float]:
    span = source.end - source.start
    step = next(s for s in (10, 30, 60, 120, 300, 900, 3600, 14_400, 86_400) if span / s <= 4)
    first = math.ceil(source.start / step) * step
    return [
        at for at in range(int(first), int(source.end), step) if at > source.start + span * 0.04
    ]


def _stack(series: list[Series]) -> list[tuple[Series, list[tuple[float, float]]]]:
    """Each on top of those before it; with the upper edge of what is below."""
    times = sorted({at for one in series for at, _ in one.points})
    below = dict.fromkeys(times, 0.0)
    found = []
    for one in series:
        own = dict(one.points)
        under = [(at, below[at]) for at in times]
        below = {at: below[at] + own.get(at, 0.0) for at in times}
        found.append((Series(one.name, [(at, below[at]) for at in times]), under))
    return found


def _path(points: list[tuple[float, float]], x: Any, y: Any, gap: float) -> str:
    parts, last = [], -math.inf
    for at, value in points:
        parts.append(f"{'M' if at - last > gap or not parts else 'L'}{x(at):.1f} {y(value):.1f}")
        last = at
    return " ".join(parts)


def _marks(board: dict[str, Any], source: Source) -> list[tuple[float, str]]:
    """When each annotation begins, with its colour."""
    found = []
    for one in board["annotations"]["list"]:
        for series in source.range(one["expr"], ""):
            last = -math.inf
            for at, _ in series.points:
                if at - last > 2 * source.step:
                    found.append((at, NAMED.get(one["iconColor"], "#d0342c")))
                last = at
    return found


def page(board: dict[str, Any], source: Source) -> str:
    """A dashboard as HTML."""
    marks = _marks(board, source)
    cell = (WIDTH - 20) / 24
    parts, bottom = [], 0.0
    for panel in board["panels"]:
        grid = panel["gridPos"]
        box = Box(
            grid["x"] * cell + 3, grid["y"] * CELL + 3, grid["w"] * cell - 6, grid["h"] * CELL - 6
        )
        bottom = max(bottom, box.top + box.height)
        if panel["type"] == "row":
            style = f"left:{box.left}px;top:{box.top - 3}px"
            parts.append(f'<div class="row" style="{style}">{escape(panel["title"])}</div>')
        else:
            parts.append(Panel(panel, source, marks).html(box))
    return (
        f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>'
        f"<h1>{escape(board['title'])}<small>{escape(board['description'])}</small></h1>"
        f'<main style="height:{bottom:.0f}px">{"".join(parts)}</main>'
    )


def main() -> int:
    """Writes the pictures; 1 where one is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of a Prometheus")
    parser.add_argument("--seconds", type=float, default=300.0, help="how far back")
    parser.add_argument("--ago", type=float, default=0.0, help="how long ago that ended, seconds")
    parser.add_argument("--application", default="weir-demo")
    parser.add_argument("--query", default="orders")
    parser.add_argument("--out", type=Path, default=PICTURES)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    end = time.time() - options.ago
    source = Source(options.url, end, options.seconds, options.application, options.query)
    chromium = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    wrong = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for path in sorted(BOARDS.glob("*.json")):
            board = json.loads(path.read_text(encoding="utf-8"))
            tab = browser.new_page(viewport={"width": WIDTH, "height": 600})
            tab.set_content(page(board, source))
            file = picture_of(path.stem, options.out)
            tab.screenshot(path=file, full_page=True)
            tab.close()
            size = file.stat().st_size
            sys.stdout.write(f"{file} {size} bytes\n")
            if size > MOST_BYTES:
                sys.stderr.write(f"{file} is larger than {MOST_BYTES} bytes\n")
                wrong = 1
        browser.close()
    note(options.out)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
