"""Weir beside FLIP-183's own rule and the oracle, on arrivals that were recorded in the world.

    python -m tests.benchmarks.recorded [--seeds 3] [--processes 1] [--stretch-gain G] [TRACE ...]

Each trace in ``arrivals/`` (its source stands in it) is played in its own time, each bin's events
spread evenly over it, at a mean load of half and of four fifths of what batches of the target's
size digest. Told are the 95th and 99th percentile of a batch's seconds and the longest, in
targets, and the greatest backlog over that under FLIP-183's rule: what leaving the target bought.
Means over the seeds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from multiprocessing import Pool
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from agent.simulation import plant, summary
from agent.simulation.live import Live, policy_of
from agent.simulation.run import controller_of
from agent.simulation.scenario import Scenario, Series

FOLDER: Final = Path(__file__).parent / "arrivals"
NAMES: Final = ("weir", "flip183", "oracle")
LOADS: Final = (0.5, 0.8)
#: A fixed cost that is small beside the target, and one that is not.
FIXED_SHARES: Final = (0.1, 0.35)
TARGET_SECONDS: Final = 5.0
THROUGHPUT: Final = 10_000.0
#: What is asked for, by the share of the fixed cost: p95 and p99 in targets, peak over FLIP-183's.
AIMS: Final = {0.1: (1.2, 1.5, 1.05), 0.35: (2.2, None, 1.0)}


class Recording(NamedTuple):
    """Events per bin of so many seconds."""

    name: str
    bin_seconds: float
    events: tuple[int, ...]
    what: str = ""


class Case(NamedTuple):
    """A trace under a load, a fixed cost and a seed; ``gain`` 0 is Weir's own default."""

    trace: str
    load: float
    fixed_share: float
    seed: int
    gain: float = 0.0


class Outcome(NamedTuple):
    """Of one controller; seconds in targets."""

    p95: float
    p99: float
    longest: float
    most_backlog_rows: int


def read(path: Path) -> Recording:
    """A trace: lines of comment, ``bin_seconds N``, then the counts. Raises ValueError."""
    told = path.read_text("utf-8").splitlines()
    lines = [line for line in told if not line.startswith("#")]
    key, _, seconds = lines[0].partition(" ")
    if key != "bin_seconds":
        raise ValueError(f"{path}: bin_seconds is missing")
    events = tuple(map(int, " ".join(lines[1:]).split()))
    return Recording(path.stem, float(seconds), events, told[0].removeprefix("# "))


def recordings() -> dict[str, Recording]:
    """All of them by name."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.txt"))}


def scenario_of(trace: Recording, load: float, fixed_share: float) -> Scenario:
    """The trace at a mean load of what batches of the target's size digest."""
    digested = THROUGHPUT * (1.0 - fixed_share)
    scale = load * digested / statistics.fmean(trace.events)
    times = tuple(place * trace.bin_seconds for place in range(len(trace.events)))
    return Scenario(
        name=trace.name,
        duration_seconds=len(trace.events) * trace.bin_seconds,
        trigger_seconds=0.0,
        target_seconds=TARGET_SECONDS,
        initial_limit_rows=20_000,
        initial_backlog_rows=0,
        arrival_rows_per_second=Series(times, tuple(scale * count for count in trace.events)),
        fixed_cost_seconds=Series((0.0,), (fixed_share * TARGET_SECONDS,)),
        throughput_rows_per_second=Series((0.0,), (THROUGHPUT,)),
        congestion_rows=None,
        noise_sigma=0.15,
        batch_timeout_seconds=None,
        restart_seconds=30.0,
    )


def run(case: Case) -> tuple[Case, dict[str, Outcome]]:
    """All controllers on one case."""
    scenario = scenario_of(recordings()[case.trace], case.load, case.fixed_share)
    noise = plant.Noise.of(scenario, case.seed)
    outcomes = {}
    settings = policy_of(scenario)
    if case.gain:
        settings = msgspec.structs.replace(settings, stretch_gain=case.gain)
    for name in NAMES:
        weir = Live(scenario, settings=settings) if name == "weir" else None
        trace = plant.run(scenario, noise, weir or controller_of(name, scenario))
        ordered = sorted(attempt.seconds / TARGET_SECONDS for attempt in trace.attempts)
        outcomes[name] = Outcome(
            summary.percentile(ordered, 0.95) or 0.0,
            summary.percentile(ordered, 0.99) or 0.0,
            ordered[-1],
            trace.max_backlog_rows,
        )
    return case, outcomes


HEADER: Final = """\
| trace | busiest/median | c0/T | load | p95: weir | flip183 | oracle | p99: weir | flip183 | \
oracle | longest: weir | flip183 | oracle | peak backlog/flip183's: weir | oracle | missed |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def lines(runs: list[tuple[Case, dict[str, Outcome]]]) -> tuple[list[str], int]:
    """The table's rows, and how many miss an aim."""
    known = recordings()
    told: list[str] = []
    missed = 0
    for key in sorted({case._replace(seed=0) for case, _ in runs}):
        mine = [outcomes for case, outcomes in runs if case._replace(seed=0) == key]

        def mean(name: str, field: str, mine: Any = mine) -> float:
            return statistics.fmean(getattr(one[name], field) for one in mine)

        peaks = {
            name: statistics.fmean(
                one[name].most_backlog_rows / max(one["flip183"].most_backlog_rows, 1)
                for one in mine
            )
            for name in ("weir", "oracle")
        }
        p95, p99, peak = AIMS[key.fixed_share]
        seen = ("p95", mean("weir", "p95"), p95), ("p99", mean("weir", "p99"), p99)
        misses = [
            what
            for what, value, most in (*seen, ("peak", peaks["weir"], peak))
            if most and value > most
        ]
        missed += bool(misses)
        events = known[key.trace].events
        middle = statistics.median(events)
        cells = [key.trace, f"{max(events) / middle:.3g}" if middle else "-"]
        cells += [f"{key.fixed_share:g}", f"{key.load:g}"]
        cells += [
            f"{mean(name, field):.2f}" for field in ("p95", "p99", "longest") for name in NAMES
        ]
        cells += [f"{peaks[name]:.3f}" for name in ("weir", "oracle")]
        told.append(f"| {' | '.join([*cells, ', '.join(misses) or '-'])} |")
    return told, missed


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("traces", nargs="*", metavar="TRACE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--stretch-gain", type=float, default=0.0, help="Weir's; its default")
    given = parser.parse_args(arguments)
    known = recordings()
    if unknown := set(given.traces) - set(known):
        parser.error(f"no trace {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    cases = [
        Case(name, load, share, seed, given.stretch_gain)
        for name in given.traces or known
        for share in FIXED_SHARES
        for load in LOADS
        for seed in range(given.seeds)
    ]
    with Pool(given.processes) as pool:
        runs = pool.map(run, cases, chunksize=1)
    told, missed = lines(runs)
    print(HEADER, *told, sep="\n")
    print(f"{len(told)} cases, {given.seeds} seeds, {missed} with a miss")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
