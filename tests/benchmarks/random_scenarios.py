"""Checks Weir's laws on scenarios drawn from the whole space of the format, combinations too.

    python -m tests.benchmarks.random_scenarios [--count 300] [--first 0] [--worst 10]

Scenario k is drawn from the random generator seeded with k, so a miss can be looked at again. For
each: does Weir diverge where the best static limit does not; are its committed rows at least 0.97
of the best static limit's; is its 95th percentile of batch seconds at most 1.1 times the oracle's
where the target is feasible throughout. Beside each share stands the oracle's own, which is told
the true costs: what it misses too cannot be reached by a controller that learns them.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from typing import Any

import msgspec

from agent.simulation import best_static, plant, summary
from agent.simulation.live import Live, policy_of
from agent.simulation.oracle import Oracle
from agent.simulation.scenario import Scenario, read_scenario

LEAST_COMMITTED = 0.97
MOST_P95 = 1.1


class Outcome(msgspec.Struct, frozen=True):
    """One scenario."""

    number: int
    tags: str
    feasible: bool
    diverged: bool
    oracle_diverged: bool
    committed: float
    oracle_committed: float
    p95: float
    batches: int


def _between(draw: random.Random, low: float, high: float) -> float:
    """Evenly on the log scale, three digits."""
    return float(f"{math.exp(draw.uniform(math.log(low), math.log(high))):.3g}")


def _changes(
    draw: random.Random, first: float, duration: float, most: float, tag: str, tags: list[str]
) -> list[list[float]]:
    """A series: mostly constant, else a step, a ramp, a spike or a saw."""
    shape = draw.choices(("flat", "step", "ramp", "spike", "saw"), (60, 20, 8, 6, 6))[0]
    if shape == "flat" or first == 0.0:
        return [[0, first]]
    factor = _between(draw, 1.3, most) ** draw.choice((-1, 1))
    tags.append(f"{tag}-{shape}x{factor:.2g}")
    begin = round(draw.uniform(0.2, 0.7) * duration, 1)
    if shape == "step":
        return [[0, first], [begin, first * factor]]
    if shape == "spike":
        long = draw.uniform(0.02, 0.08) * duration
        return [[0, first], [begin, first * factor], [round(begin + long, 1), first]]
    steps = 12
    if shape == "ramp":
        end = min(begin + draw.uniform(0.1, 0.5) * duration, duration)
        return [[0, first]] + [
            [round(begin + (end - begin) * k / steps, 2), first * factor ** (k / steps)]
            for k in range(1, steps + 1)
        ]
    teeth = draw.randint(2, 4)
    return [
        [round(duration * (tooth + k / steps) / teeth, 2), first * factor ** (k / steps)]
        for tooth in range(teeth)
        for k in range(steps)
    ]


def scenario_of(number: int) -> tuple[Scenario, str]:
    """The scenario of a number, and in words what it combines."""
    draw = random.Random(number)
    tags: list[str] = []
    target = _between(draw, 1, 60)
    low, high = draw.choices(((0.02, 0.6), (0.6, 1.0), (1.0, 4.0)), (72, 14, 14))[0]
    fixed = target * _between(draw, low, high)
    throughput = _between(draw, 2, 1e6)
    room = max(target - fixed, 4.0 * fixed if fixed > target else 0.05 * target)
    size = max(room * throughput, 1.0)  # about what the target holds
    usual = max(target, 2.0 * fixed)
    duration = round(usual * draw.uniform(100, 250))
    sustainable = size / (fixed + size / throughput)
    load = draw.choices((0.0, draw.uniform(0.02, 1.0), draw.uniform(1.0, 1.5)), (15, 70, 15))[0]
    tags.append(f"T={target:g} c0/T={fixed / target:.2f} load={load:.2f}")
    backlog = draw.choices((0.0, draw.uniform(0.05, 0.5), draw.uniform(1.0, 2.0)), (35, 30, 35))[0]
    start = draw.choices((1.0, _between(draw, 1 / 400, 1), _between(draw, 1, 30)), (40, 35, 25))[0]
    congestion = draw.choices((None, size * _between(draw, 0.5, 10)), (75, 25))[0]
    timeout = draw.choices((None, max(target, fixed) * draw.uniform(2.5, 8)), (70, 30))[0]
    sigma = draw.choices((0.0, draw.uniform(0.03, 0.3), draw.uniform(0.3, 0.5)), (10, 70, 20))[0]
    trigger = draw.choices((0.0, target * _between(draw, 0.3, 4)), (65, 35))[0]
    fields: dict[str, Any] = {
        "name": f"random-{number}",
        "duration_seconds": duration,
        "trigger_seconds": round(trigger, 2),
        "target_seconds": target,
        "initial_limit_rows": max(1, round(size * start)),
        "initial_backlog_rows": round(backlog * sustainable * duration),
        "arrival_rows_per_second": _changes(draw, load * sustainable, duration, 4, "load", tags),
        "fixed_cost_seconds": _changes(draw, fixed, duration, 3, "c0", tags),
        "throughput_rows_per_second": _changes(draw, throughput, duration, 4, "mu", tags),
        "congestion_rows": None if congestion is None else max(1.0, congestion),
        "noise_sigma": round(sigma, 3),
        "batch_timeout_seconds": None if timeout is None else round(timeout, 2),
        "restart_seconds": round(draw.uniform(1, 10) * target, 1),
    }
    tags.append(f"backlog={backlog:.2f} start={start:.3g} sigma={sigma:.2f}")
    if congestion is not None:
        tags.append(f"congestion={congestion / size:.2g}")
    if timeout is not None:
        tags.append(f"timeout={timeout / target:.1f}T")
    if trigger:
        tags.append(f"trigger={trigger / target:.2f}T")
    text = json.dumps(fields)
    return read_scenario(text, f"random-{number}"), " ".join(tags)


def judge(number: int) -> Outcome:
    """Weir, the oracle and the best static limit on one scenario and the same noise."""
    scenario, tags = scenario_of(number)
    noise = plant.Noise.of(scenario, number)
    oracle = Oracle(scenario, policy_of(scenario))
    told = plant.run(scenario, noise, oracle)
    told_p95 = summary.reference(told).p95_batch_seconds
    best = best_static.search(scenario, noise, told_p95)
    weir = plant.run(scenario, noise, Live(scenario))
    own_p95 = summary.reference(weir).p95_batch_seconds
    spare = summary.SPARE_SECONDS * weir.arrived_rows / scenario.duration_seconds
    allowed = 2 * best.final_backlog_rows + spare
    most = max(best.committed_rows, 1)
    return Outcome(
        number=number,
        tags=tags,
        feasible=oracle.always_feasible,
        diverged=weir.final_backlog_rows > allowed,
        oracle_diverged=told.final_backlog_rows > allowed,
        committed=weir.committed_rows / most,
        oracle_committed=told.committed_rows / most,
        p95=(own_p95 or 0.0) / (told_p95 or math.inf),
        batches=len(weir.attempts),
    )


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / max(whole, 1):.1%})"


def report(outcomes: list[Outcome], worst: int) -> None:
    """Prints the shares that miss and the worst scenarios of each law."""
    count = len(outcomes)
    feasible = [one for one in outcomes if one.feasible]
    diverged = [one for one in outcomes if one.diverged]
    few = [one for one in outcomes if one.committed < LEAST_COMMITTED]
    oracle_few = [one for one in outcomes if one.oracle_committed < LEAST_COMMITTED]
    own_few = [one for one in few if one.oracle_committed >= LEAST_COMMITTED]
    slow = [one for one in feasible if one.p95 > MOST_P95]
    print(f"diverged: {_share(len(diverged), count)}", end="; ")
    print(f"the oracle: {sum(one.oracle_diverged for one in outcomes)}")
    print(f"committed < {LEAST_COMMITTED} of best static: {_share(len(few), count)}", end="; ")
    print(f"the oracle: {len(oracle_few)}; where the oracle does not: {len(own_few)}")
    print(f"p95 > {MOST_P95} of oracle: {_share(len(slow), len(feasible))} feasible ones")
    own_few.sort(key=lambda one: one.committed)
    slow.sort(key=lambda one: -one.p95)
    for title, some in (("diverged", diverged), ("committed", own_few), ("p95", slow)):
        for one in some[:worst]:
            figures = f"{one.committed:.3f}/{one.oracle_committed:.3f} p95 {one.p95:.2f}"
            print(f"  {title} #{one.number}: {figures}, {one.batches} batches; {one.tags}")


def main(arguments: list[str] | None = None) -> int:
    """Prints the report; 1 where a run diverged that the oracle's did not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worst", type=int, default=10)
    chosen: Any = parser.parse_args(arguments)
    begin = time.perf_counter()
    outcomes = [judge(number) for number in range(chosen.first, chosen.first + chosen.count)]
    report(outcomes, chosen.worst)
    print(f"{len(outcomes)} scenarios; {time.perf_counter() - begin:.0f} s")
    return 1 if any(one.diverged and not one.oracle_diverged for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
