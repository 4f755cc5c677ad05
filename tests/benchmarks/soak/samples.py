"""What processes hold on to over time: looked at every few seconds, told as a table, drawn."""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from scripts.plot_control import ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.benchmarks.soak.course import Fault

MEBIBYTE: Final = 1024 * 1024
UNITS: Final = ("MiB", "descriptors", "threads")
#: What is some ten times as large as the rest would make a line on the floor of it.
LARGE: Final = ("driver's JVM", "JVM's heap")
#: More points than pixels would tell nothing.
MOST_POINTS: Final = 360
#: A life's first seconds are its warm-up: classes are loaded and compiled, pools are filled. A
#: JVM on a busy machine takes minutes for it.
WARM_UP_SECONDS: Final = 600.0
AGENT_WARM_UP_SECONDS: Final = 120.0
#: So many samples of a series are needed at least to tell a slope from its noise.
LEAST_SAMPLES: Final = 30
#: What grows by more than its noise, but by less than this share of its level in an hour, takes
#: more than a day to grow by half: a life of a job, not a leak of it.
FLAT_SHARE_PER_HOUR: Final = 0.02
#: Standard errors that a slope has to stand off zero: three are beyond chance in so many rows.
SURE: Final = 3.0
WIDTH, LEFT, RIGHT, PANEL = 900, 60, 130, 150
COLOURS: Final = {
    "driver's Python": "#0f766e",
    "driver's JVM": "#d97706",
    "JVM's heap": "#9333ea",
    "agent": "#2563eb",
    "callbacks": "#9ca3af",
}


@dataclass(frozen=True)
class Point:
    """One value; ``life`` is the process that it was seen of."""

    second: float
    value: float
    life: int


@dataclass(frozen=True)
class Slope:
    """How fast something grows per hour, and its standard error; None where it is too short."""

    level: float
    per_hour: float | None
    noise: float | None

    @property
    def verdict(self) -> str:
        if self.per_hour is None or self.noise is None:
            return "too short to say"
        allowed = FLAT_SHARE_PER_HOUR * self.level
        return "grows" if self.per_hour - SURE * self.noise > allowed else "flat"

    def beyond(self, other: Slope) -> Slope:
        """What is left of it where the other's is none of ours; its noise is that of both."""
        if self.per_hour is None or self.noise is None:
            return self
        if other.per_hour is None or other.noise is None:
            return Slope(self.level, None, None)
        noise = math.hypot(self.noise, other.noise)
        return Slope(self.level, self.per_hour - other.per_hour, noise)


class Series:
    """By name and unit, what was seen."""

    def __init__(self) -> None:
        self.points: dict[tuple[str, str], list[Point]] = {}

    def look(
        self, second: float, name: str, pid: int, descriptors: int = 0, threads: int = 0
    ) -> None:
        """A sample of a process, if it is there, less what is told apart."""
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                found = (
                    process.memory_info().rss / MEBIBYTE,
                    float(process.num_fds() - descriptors),
                    float(process.num_threads() - threads),
                )
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return
        if not found[0]:  # it has ended, and nobody has taken notice yet
            return
        for unit, value in zip(UNITS, found, strict=True):
            self.add(second, name, unit, value, pid)

    def add(self, second: float, name: str, unit: str, value: float, life: int) -> None:
        self.points.setdefault((name, unit), []).append(Point(second, value, life))

    def csv(self) -> str:
        """Every sample, for whoever wants to look closer than the table does."""
        lines = [
            f"{name},{unit},{point.life},{point.second:.1f},{point.value:.2f}"
            for (name, unit), points in self.points.items()
            for point in points
        ]
        return "\n".join(["name,unit,life,second,value", *lines]) + "\n"

    @classmethod
    def of_csv(cls, text: str) -> Series:
        """What ``csv`` told."""
        made = cls()
        for row in csv.DictReader(text.splitlines()):
            seen = float(row["second"]), row["name"], row["unit"], float(row["value"])
            made.add(*seen, int(row["life"]))
        return made


def settled(points: Iterable[Point], since: float, warm_up: float) -> list[list[float]]:
    """Of each life, second, value, second, … as seen after its warm-up and after ``since``."""
    begun: dict[int, float] = {}
    kept: dict[int, list[float]] = {}
    for point in points:
        begin = begun.setdefault(point.life, point.second)
        if point.second >= max(since, begin + warm_up):
            kept.setdefault(point.life, []).extend((point.second, point.value))
    return list(kept.values())


def slope(points: Sequence[Point], since: float, warm_up: float) -> Slope:
    """The slope that all lives after ``since`` have in common, each having a level of its own.

    Samples that follow each other are alike, so that they count as fewer: the standard error is
    that of as many independent ones as the residuals' autocorrelation leaves.
    """
    lives = settled(points, since, warm_up)
    level = statistics.fmean(point.value for point in points)
    xs: list[float] = []
    ys: list[float] = []
    for life in lives:
        seconds, values = life[::2], life[1::2]
        middle, height = statistics.fmean(seconds), statistics.fmean(values)
        xs += [second - middle for second in seconds]
        ys += [value - height for value in values]
    spread = sum(x * x for x in xs)
    freedom = len(xs) - len(lives) - 1
    if len(xs) < LEAST_SAMPLES or not spread or freedom < 1:
        return Slope(level, None, None)
    steep = sum(x * y for x, y in zip(xs, ys, strict=True)) / spread
    rest = [y - steep * x for x, y in zip(xs, ys, strict=True)]
    squares = sum(one * one for one in rest)
    noise = math.sqrt(squares / freedom / spread)
    if squares:
        alike = sum(a * b for a, b in pairwise(rest)) / squares
        alike = min(max(alike, 0.0), 0.99)
        noise *= math.sqrt((1 + alike) / (1 - alike))
    return Slope(level, steep * 3600, noise * 3600)


def table(series: Series, since: float, without: Series | None = None) -> tuple[list[str], bool]:
    """Lines to print, and whether nothing grows: by itself or, where the same course was run
    ``without`` Weir, beyond what grew there."""
    heads = " ".join(f"{head:>9}" for head in ("first", "middle", "last", "most"))
    lines = [f"{'':16} {'':12} {heads} {'slope/hour':>11} {'noise':>9}"]
    good = True
    for (name, unit), points in series.points.items():
        values = [point.value for point in points]
        warm_up = AGENT_WARM_UP_SECONDS if name == "agent" else WARM_UP_SECONDS
        found = slope(points, since, warm_up)
        other = (without.points if without else {}).get((name, unit))
        alone = slope(other, since, warm_up) if other else None
        verdict = (found.beyond(alone) if alone and found.verdict == "grows" else found).verdict
        # What PySpark leaves behind by itself is told, so that it can be told apart.
        good = good and (verdict != "grows" or name == "callbacks")
        told = [f"{value:9.1f}" for value in (values[0], values[len(values) // 2], values[-1])]
        beside = f", without Weir {_said(alone)}" if alone else ""
        lines.append(
            f"{name:16} {unit:12} {' '.join(told)} {max(values):9.1f} {_said(found)}  "
            f"{verdict}{beside}"
        )
    return lines, good


def _said(found: Slope) -> str:
    rate = "-" if found.per_hour is None else f"{found.per_hour:+.2f}"
    noise = "-" if found.noise is None else f"±{found.noise:.2f}"
    return f"{rate:>11} {noise:>9}"


def panels(series: Series) -> list[tuple[str, dict[str, list[Point]]]]:
    """What is drawn together: a unit's series, the large ones apart."""
    found = []
    for unit in UNITS:
        of_unit = {name: points for (name, of), points in series.points.items() if of == unit}
        large = {name: points for name, points in of_unit.items() if name in LARGE}
        small = {name: points for name, points in of_unit.items() if name not in LARGE}
        apart = unit == "MiB" and large and small
        found += [(unit, one) for one in ((large, small) if apart else (of_unit,)) if one]
    return found


def thinned(points: Sequence[Point]) -> Iterable[list[Point]]:
    """Of each life, one point of so many: the one most unlike the one before is never left out."""
    step = max(math.ceil(len(points) / MOST_POINTS * 2), 2)
    lives: dict[int, list[Point]] = {}
    for point in points:
        lives.setdefault(point.life, []).append(point)
    for life in lives.values():
        kept: list[Point] = []
        for start in range(0, len(life), step):
            part = life[start : start + step]
            ends = {min(part, key=lambda one: one.value), max(part, key=lambda one: one.value)}
            kept += sorted(ends, key=lambda one: one.second)
        yield kept


def draw(series: Series, course: Sequence[Fault], seconds: float) -> str:
    """A panel for each unit, and below them a lane for each kind of fault; minutes to the right."""
    kinds = sorted({fault.kind for fault in course})
    shown = panels(series)
    lanes = 14 * len(kinds)
    height = 30 + PANEL * len(shown) + lanes + 40
    marks = ticks(seconds / 60)

    def x(second: float) -> float:
        return round(LEFT + min(second / seconds, 1.0) * (WIDTH - LEFT - RIGHT), 1)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            'font-family="sans-serif" font-size="12" fill="#6b7280" role="img" aria-label="Memory, '
            'descriptors and threads of driver and agent over time, and what was broken when">'
        )
    ]
    for place, (unit, together) in enumerate(shown):
        steps = ticks(max(point.value for points in together.values() for point in points) or 1.0)
        top = 30 + PANEL * place

        def y(value: float, top: float = top, most: float = steps[-1]) -> float:
            return round(top + (PANEL - 30) * (1 - value / most), 1)

        parts.append(f'<text x="{LEFT}" y="{top - 8}" font-size="13">{unit}</text>')
        parts += [
            f'<path d="M{LEFT} {y(value)}H{WIDTH - RIGHT}" stroke="#9ca3af" stroke-opacity="0.3"/>'
            f'<text x="{LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:g}</text>'
            for value in steps
        ]
        for number, (name, points) in enumerate(together.items()):
            parts += [
                f'<polyline points="{" ".join(f"{x(p.second)},{y(p.value)}" for p in life)}" '
                f'fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>'
                for life in thinned(points)
            ]
            parts.append(
                f'<text x="{WIDTH - RIGHT + 8}" y="{top + 12 + 16 * number}" '
                f'fill="{COLOURS[name]}">{name}</text>'
            )
    foot = 30 + PANEL * len(shown)
    for place, kind in enumerate(kinds):
        low = foot + 14 * place
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{low + 9}" font-size="10">{kind}</text>')
        parts += [
            f'<rect x="{x(fault.at_seconds)}" y="{low}" height="9" fill="#b91c1c" '
            f'width="{max(x(fault.until_seconds) - x(fault.at_seconds), 2.0):.1f}"/>'
            for fault in course
            if fault.kind == kind
        ]
    parts += [
        f'<text x="{x(mark * 60)}" y="{foot + lanes + 20}" text-anchor="middle">{mark:g}</text>'
        for mark in marks
        if mark * 60 <= seconds
    ]
    parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{foot + lanes + 20}">minutes</text></svg>')
    return "\n".join(parts) + "\n"


def main() -> int:
    """The table of one soak's samples, beside those of the same course without Weir."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("samples", type=Path, help="FILE.csv of a soak")
    parser.add_argument("without", type=Path, nargs="?", help="that of one --without Weir")
    given = parser.parse_args()
    series = Series.of_csv(given.samples.read_text())
    without = Series.of_csv(given.without.read_text()) if given.without else None
    took = max(point.second for points in series.points.values() for point in points)
    lines, flat = table(series, took / 2, without)
    print(*lines, "all is flat" if flat else "WRONG: something grows", sep="\n")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
