"""Compares Weir with the yardsticks on every scenario family.

    python -m tests.benchmarks.control [--seeds 20] [--processes 1] [--first-seed 0] [FAMILY ...]

For each family, means over the seeds: the share of limited batches in band; rows committed over the
best static limit's; the 95th percentile of batch seconds over the oracle's; the batches until it
settled after a change (median; the first of three in a row in band, 1 is the first batch that
started after it); runs that diverged. ``ok`` says whether each aim is met, or which is not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from multiprocessing import Pool
from typing import TYPE_CHECKING, Any

import msgspec

from agent.simulation import best_static, plant, summary
from agent.simulation.live import Live, policy_of
from agent.simulation.oracle import Oracle
from agent.simulation.run import controller_of
from agent.simulation.yardsticks import Static
from tests.benchmarks.families import FAMILIES

if TYPE_CHECKING:
    from agent.simulation.plant import Controller, Trace
    from tests.benchmarks.families import Family

NAMES = ("weir", "static", "pid", "flip183", "oracle")  # static: the best one in hindsight
#: Means over seeds carry their own noise: two standard errors of the paired difference are none.
IN_BAND_SLACK = 0.005


class Outcome(msgspec.Struct):
    """One controller on one seed."""

    in_band: float | None
    committed: int
    p95: float
    p99: float
    settle: list[int | None]
    timeouts: int
    diverged: bool


def settled(trace: Trace, change: float, target: float) -> int | None:
    """The number of the first batch after a change with which three in a row are in band."""
    after = [a for a in trace.attempts if a.start_seconds >= change]
    good = [not a.killed and summary.in_band(a.seconds, target) for a in after]
    for index in range(len(good) - 2):
        if all(good[index : index + 3]):
            return index + 1
    return None


def compare(job: tuple[str, int]) -> tuple[str, int, bool, dict[str, Outcome]]:
    """All controllers on one family and seed."""
    name, seed = job
    family = next(one for one in FAMILIES if one.scenario.name == name)
    scenario = family.scenario
    noise = plant.Noise(scenario.noise_sigma, seed)
    oracle = Oracle(scenario, policy_of(scenario))
    traces: dict[str, Trace] = {"oracle": plant.run(scenario, noise, oracle)}
    p95 = summary.reference(traces["oracle"]).p95_batch_seconds
    best = best_static.search(scenario, noise, p95)
    run_static = msgspec.structs.replace(scenario, initial_limit_rows=best.limit_rows)
    traces["static"] = plant.run(run_static, noise, Static(best.limit_rows))
    controllers: dict[str, Controller] = {"weir": Live(scenario)}
    controllers |= {other: controller_of(other, scenario) for other in ("pid", "flip183")}
    for other, controller in controllers.items():
        traces[other] = plant.run(scenario, noise, controller)
    spare = summary.SPARE_SECONDS * traces["oracle"].arrived_rows / scenario.duration_seconds
    outcomes = {}
    for other, trace in traces.items():
        ordered = sorted(a.seconds for a in trace.attempts)
        outcomes[other] = Outcome(
            in_band=summary.in_band_share(trace, scenario.target_seconds),
            committed=trace.committed_rows,
            p95=summary.percentile(ordered, 0.95) or 0.0,
            p99=summary.percentile(ordered, 0.99) or 0.0,
            settle=[settled(trace, at, scenario.target_seconds) for at in family.changes],
            timeouts=sum(a.killed for a in trace.attempts),
            diverged=trace.final_backlog_rows > 2 * best.final_backlog_rows + spare,
        )
    return name, seed, oracle.always_feasible, outcomes


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _median(values: list[int | None]) -> float | None:
    if not values:
        return None
    return statistics.median([999.0 if value is None else float(value) for value in values])


def _text(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else ("never" if value == 999 else format(value, form))


class Row(msgspec.Struct):
    """One family's line."""

    name: str
    feasible: bool
    in_band: dict[str, float | None]
    committed: dict[str, float]
    p95: dict[str, float]
    p99: float
    settle: dict[str, float | None]
    diverged: int
    timeouts: dict[str, float]
    misses: list[str]


def judge(family: Family, runs: list[tuple[str, int, bool, dict[str, Outcome]]]) -> Row:
    """A family's figures and which aims are missed."""
    name = family.scenario.name
    mine = [(feasible, outcomes) for of, _, feasible, outcomes in runs if of == name]
    every = [outcomes for _, outcomes in mine]
    feasible = all(good for good, _ in mine)

    def ratio(other: str, field: str, to: str) -> float:
        return statistics.fmean(
            getattr(o[other], field) / max(getattr(o[to], field), 1e-9) for o in every
        )

    in_band = {k: _mean([o[k].in_band for o in every]) for k in NAMES}
    settle = {k: _median([s for o in every for s in o[k].settle]) for k in NAMES}
    committed = {k: ratio(k, "committed", "static") for k in NAMES}
    p95 = {k: ratio(k, "p95", "oracle") for k in NAMES}
    diverged = sum(o["weir"].diverged for o in every)
    misses = []
    own = in_band["weir"]
    if feasible and own is not None:
        for other in ("static", "pid", "flip183"):
            theirs = in_band[other]
            if theirs is not None and own < theirs - IN_BAND_SLACK:
                misses.append(f"in-band<{other}")
    if committed["weir"] < 0.97:
        misses.append("committed")
    if feasible and p95["weir"] > 1.1:
        misses.append("p95")
    if feasible and settle["weir"] is not None and settle["weir"] > 4:
        misses.append("settle")
    if diverged:
        misses.append("diverged")
    return Row(
        name=name,
        feasible=feasible,
        in_band=in_band,
        committed=committed,
        p95=p95,
        p99=ratio("weir", "p99", "oracle"),
        settle=settle,
        diverged=diverged,
        timeouts={k: statistics.fmean(o[k].timeouts for o in every) for k in NAMES},
        misses=misses,
    )


HEADER = (
    f"{'family':26} feas | {'in band':^35} | {'committed/static':^20} | {'p95/oracle':^20} | "
    f"p99  | {'settle':^14} | div | time-outs | aims\n"
    f"{'':26}      | weir   static pid    flip   oracle | weir   pid    flip   | "
    f"weir   pid    flip   | weir | weir flip orac |     | weir stat |"
)


def line(row: Row) -> str:
    """A row as printed."""
    band = " ".join(f"{_text(row.in_band[k]):6}" for k in NAMES)
    rows = " ".join(f"{row.committed[k]:6.3f}" for k in ("weir", "pid", "flip183"))
    p95 = " ".join(f"{row.p95[k]:6.3f}" for k in ("weir", "pid", "flip183"))
    settle = " ".join(f"{_text(row.settle[k], '.3g'):>4}" for k in ("weir", "flip183", "oracle"))
    return (
        f"{row.name:26} {'yes ' if row.feasible else 'no  '} | {band} | {rows} | {p95} | "
        f"{row.p99:4.2f} | {settle} | {row.diverged:3d} | "
        f"{row.timeouts['weir']:4.1f} {row.timeouts['static']:4.1f} | "
        f"{'ok' if not row.misses else ', '.join(row.misses)}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    chosen: Any = parser.parse_args(arguments)
    families = [
        one for one in FAMILIES if not chosen.families or one.scenario.name in chosen.families
    ]
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    jobs = [(one.scenario.name, seed) for one in families for seed in seeds]
    begin = time.perf_counter()
    if chosen.processes > 1:
        with Pool(chosen.processes) as pool:
            runs = pool.map(compare, jobs, chunksize=4)
    else:
        runs = [compare(job) for job in jobs]
    print(HEADER)
    rows = [judge(one, runs) for one in families]
    for row in rows:
        print(line(row))
    missed = sum(bool(row.misses) for row in rows)
    seconds = time.perf_counter() - begin
    print(f"{len(rows)} families, {chosen.seeds} seeds, {missed} with a miss; {seconds:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
