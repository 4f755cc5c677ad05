"""Draws docs/images/control-*.svg: python -m scripts.plot_control.

From the simulator, and one from the recorded events of a run on Spark, whose sink and state get
dearer while it runs (tests/end_to_end/test_changing_cost.py).
"""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from agent.simulation import plant
from agent.simulation.run import ControllerName, controller_of
from agent.simulation.scenario import read_scenario
from spark_listener.wire import parse_time

if TYPE_CHECKING:
    from agent.simulation.scenario import Scenario

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "docs" / "images"
RECORD: Final = ROOT / "tests" / "replay" / "changing-cost.jsonl.gz"
CHANGES: Final = ROOT / "tests" / "replay" / "changing-cost.json"
SEED: Final = 1
WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 30, 34
COLOURS: Final = {"flip183": "#d97706", "pid": "#9333ea", "static": "#6b7280", "weir": "#0f766e"}
#: Prices of a longer batch that are compared, and the recorded arrivals on which they are.
GAINS: Final = (1.0, 0.5, 0.25, 0.125, 0.06, 0.03)
BURSTS: Final = ("llm-code", "load-balancer", "tweets-apple", "tweets-google")
BASE: Final[dict[str, Any]] = {
    "name": "plot",
    "duration_seconds": 600,
    "trigger_seconds": 0,
    "target_seconds": 5,
    "initial_limit_rows": 20_000,
    "initial_backlog_rows": 9_000_000,
    "arrival_rows_per_second": [[0, 2000]],
    "fixed_cost_seconds": [[0, 1.2]],
    "throughput_rows_per_second": [[0, 10_000]],
    "congestion_rows": None,
    "noise_sigma": 0.15,
    "batch_timeout_seconds": None,
    "restart_seconds": 30,
}
#: name: (title, what is plotted, controllers, what differs from BASE)
PLOTS: Final[dict[str, tuple[str, str, tuple[ControllerName, ...], dict[str, Any]]]] = {
    "floor-trap": (
        "Fixed cost above the target: million rows committed",
        "committed",
        ("flip183", "pid", "weir"),
        {
            "fixed_cost_seconds": [[0, 7]],
            "arrival_rows_per_second": [[0, 5000]],
            "initial_backlog_rows": 0,
        },
    ),
    "too-big": (
        "A first limit 30 times too big: seconds per batch",
        "seconds",
        ("flip183", "weir"),
        {"initial_limit_rows": 1_140_000},
    ),
    "slower": (
        "Rows cost twice as much from second 300 on: seconds per batch",
        "seconds",
        ("flip183", "weir"),
        {"throughput_rows_per_second": [[0, 10_000], [300, 5000]]},
    ),
    "noise": (
        "Noise of sigma 0.45: the limit in thousand rows",
        "limit",
        ("flip183", "pid", "weir"),
        {"noise_sigma": 0.45},
    ),
}


def points(scenario: Scenario, name: ControllerName, what: str) -> list[tuple[float, float]]:
    """(second, value) of a run."""
    noise = plant.Noise.of(scenario, SEED)
    trace = plant.run(scenario, noise, controller_of(name, scenario))
    if what == "seconds":
        return [(a.start_seconds, a.seconds) for a in trace.attempts]
    if what == "limit":
        return [(a.start_seconds, (a.limit_rows or 0) / 1e3) for a in trace.attempts]
    done, found = 0, [(0.0, 0.0)]
    for attempt in trace.attempts:
        done += 0 if attempt.killed else attempt.rows
        found.append((attempt.end_seconds, done / 1e6))
    return found


def recorded() -> tuple[list[tuple[float, float]], list[tuple[float, str]]]:
    """(second, seconds) of each recorded batch, and (second, what) of each change of its cost."""
    # The batch before the first that started after a change was running when it came, and paid it.
    said = json.loads(CHANGES.read_text("utf-8"))
    changes = {max(one["batch_id"] - 1, 0): one["what"] for one in said}
    batches: list[tuple[float, float]] = []
    marks: list[tuple[float, str]] = []
    first: float | None = None
    with gzip.open(RECORD, "rt", encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            if event["type"] != "progress" or not event["body"]["numInputRows"]:
                continue
            body = event["body"]
            began = parse_time(body["timestamp"])
            first = began if first is None else first
            seconds = body["durationMs"]["triggerExecution"] / 1000
            # The first batch starts Spark's own machinery: it would flatten all others.
            if body["batchId"]:
                batches.append((began - first, seconds))
            if body["batchId"] in changes:
                marks.append((began - first, changes[body["batchId"]]))
    return batches, marks


def ticks(most: float) -> list[float]:
    """Round values from 0 to beyond ``most``, four to seven of them."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= most / 5)
    return [step * place for place in range(math.ceil(most / step) + 1)]


def draw(
    title: str,
    lines: dict[str, list[tuple[float, float]]],
    end: float,
    target: float | None,
    marks: list[tuple[float, str]] | None = None,
) -> str:
    """One picture as SVG, readable on a light and on a dark page."""
    steps = ticks(max(value for line in lines.values() for _, value in line))
    most = steps[-1]

    def x(second: float) -> float:
        return round(LEFT + second / end * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM), 1)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12" fill="#6b7280">'
        ),
        f'<text x="{LEFT}" y="16" font-size="13">{title}</text>',
    ]
    parts.extend(
        f'<path d="M{LEFT} {y(value)}H{WIDTH - RIGHT}" stroke="#9ca3af" stroke-opacity="0.3"/>'
        f'<text x="{LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:g}</text>'
        for value in steps
    )
    # The axis ends on its unit, where there is room for it beside the last number.
    last = WIDTH - RIGHT - 46
    parts.extend(
        f'<text x="{x(second)}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{second}</text>'
        for second in range(0, int(end) + 1, 100)
        if x(second) < last - 14
    )
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - BOTTOM + 16}" text-anchor="end">seconds</text>'
    )
    if target is not None:
        parts.append(
            f'<path d="M{LEFT} {y(target)}H{WIDTH - RIGHT}" stroke="#6b7280" '
            'stroke-dasharray="4 3"/>'
        )
    for second, what in marks or ():
        parts.append(
            f'<path d="M{x(second)} {TOP}V{HEIGHT - BOTTOM}" stroke="#d97706" '
            'stroke-dasharray="2 3"/>'
            f'<text x="{x(second) + 4}" y="{HEIGHT - BOTTOM - 6}" font-size="10">{what}</text>'
        )
    for index, (name, line) in enumerate(lines.items()):
        path = " ".join(f"{x(second)},{y(value)}" for second, value in line)
        colour = COLOURS[name]
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'<text x="{WIDTH - RIGHT - 60 * (len(lines) - index) + 50}" y="16" '
            f'text-anchor="end" fill="{colour}">{name}</text>'
        )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def price() -> str:
    """What a longer batch buys, by how much it has to: targets and backlog, on recorded bursts."""
    from tests.benchmarks.recorded import Case, run

    seconds: list[tuple[float, float]] = []
    backlog: list[tuple[float, float]] = []
    for place, gain in enumerate(GAINS):
        found = [run(Case(trace, 0.8, 0.35, SEED, gain))[1] for trace in BURSTS]
        seconds.append((place, fmean(one["weir"].p95 for one in found)))
        parts = [one["weir"].most_backlog_rows / one["flip183"].most_backlog_rows for one in found]
        backlog.append((place, fmean(parts)))
    steps = ticks(max(value for _, value in seconds))

    def x(place: float) -> float:
        return round(LEFT + 30 + place / (len(GAINS) - 1) * (WIDTH - LEFT - RIGHT - 60), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - value / steps[-1] * (HEIGHT - TOP - BOTTOM), 1)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12" fill="#6b7280">'
        ),
        f'<text x="{LEFT}" y="16" font-size="13">Recorded bursts, fixed cost 0.35 targets</text>',
    ]
    parts += [
        f'<path d="M{LEFT} {y(value)}H{WIDTH - RIGHT}" stroke="#9ca3af" stroke-opacity="0.3"/>'
        f'<text x="{LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:g}</text>'
        for value in steps
    ]
    parts += [
        f'<text x="{x(place)}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{gain:.4g}</text>'
        for place, gain in enumerate(GAINS)
    ]
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end">'
        "stretch_gain: what twice the time must bring</text>"
    )
    told = (
        ("95th percentile of batches, in targets", seconds, "#0f766e", 16),
        ("greatest backlog over FLIP-183's", backlog, "#d97706", 32),
    )
    for what, line, colour, top in told:
        path = " ".join(f"{x(place)},{y(value)}" for place, value in line)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{WIDTH - RIGHT}" y="{top}" text-anchor="end" fill="{colour}">{what}</text>'
        )
        parts += [f'<circle cx="{x(p)}" cy="{y(v)}" r="3" fill="{colour}"/>' for p, v in line]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Writes every picture."""
    for name, (title, what, controllers, changes) in PLOTS.items():
        scenario = read_scenario(json.dumps({**BASE, **changes}), name)
        lines = {one: points(scenario, one, what) for one in controllers}
        target = scenario.target_seconds if what == "seconds" else None
        path = FOLDER / f"control-{name}.svg"
        path.write_text(draw(title, lines, scenario.duration_seconds, target), encoding="utf-8")

    batches, marks = recorded()
    target = json.loads(CHANGES.read_text("utf-8"))[0]["target_seconds"]
    title = "A real query whose costs change: seconds per batch, and the target"
    picture = draw(title, {"weir": batches}, batches[-1][0] + 10, target, marks[1:])
    (FOLDER / "control-live.svg").write_text(picture, encoding="utf-8")
    (FOLDER / "control-price.svg").write_text(price(), encoding="utf-8")


if __name__ == "__main__":
    main()
