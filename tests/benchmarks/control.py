"""Compares Weir with the yardsticks on every scenario family.

    python -m tests.benchmarks.control [--seeds 20] [--processes 1] [--first-seed 0] [FAMILY ...]
    python -m tests.benchmarks.control --seeds 10 --write  # docs/yardsticks.md, between its marks

For each family, means over the seeds: the share of limited batches in band; rows committed over the
best static limit's; the 95th percentile of batch seconds over the oracle's; the batches until it
settled after a change (median; the first of three in a row in band, 1 is the first batch that
started after it); runs that diverged. ``ok`` says whether each aim is met, or which is not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import textwrap
import time
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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

PAGE: Final = Path(__file__).parents[2] / "docs" / "yardsticks.md"
MARK: Final = "<!-- yardsticks: written by python -m tests.benchmarks.control --write -->\n"
MARK_END: Final = "<!-- yardsticks end -->\n"
#: What a reader asks first, by family; the rest is in the folded table.
PLAIN: Final = {
    "drain": "a backlog is worked off",
    "drain-slower-rows": "meanwhile rows become twice as expensive",
    "drain-fixed-doubles": "meanwhile the fixed cost doubles",
    "start-30-too-big": "the first limit is 30 times too big",
    "congestion": "large batches cost more per row",
    "heavy-noise": "noise is strong (sigma 0.5)",
}
NAMES = ("weir", "static", "pid", "flip183", "oracle")  # static: the best one in hindsight
#: A share of fewer limited batches than this per run says nothing: one batch moves it by tenths.
LEAST_LIMITED = 10.0
#: Two shares closer than this are equal: half a batch in a hundred.
IN_BAND_SLACK = 0.005


class Outcome(msgspec.Struct):
    """One controller on one seed."""

    in_band: float | None
    limited: int
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
            limited=sum(
                a.limited and a.batch_id >= summary.FIRST_JUDGED_BATCH for a in trace.attempts
            ),
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
    limited: float
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
    limited = {k: statistics.fmean(o[k].limited for o in every) for k in NAMES}
    if feasible and own is not None and limited["weir"] >= LEAST_LIMITED:
        for other in ("static", "pid", "flip183"):
            theirs = in_band[other]
            if (
                theirs is not None
                and limited[other] >= LEAST_LIMITED
                and own < theirs - IN_BAND_SLACK
            ):
                misses.append(f"in-band<{other}")
    if committed["weir"] < 0.97:
        misses.append("committed")
    if feasible and p95["weir"] > 1.1:
        misses.append("p95")
    # Where even the oracle takes longer, three in a row is luck.
    if feasible and (settle["weir"] or 0) > 4 >= (settle["oracle"] or 0):
        misses.append("settle")
    if diverged:
        misses.append("diverged")
    return Row(
        name=name,
        feasible=feasible,
        limited=limited["weir"],
        in_band=in_band,
        committed=committed,
        p95=p95,
        p99=ratio("weir", "p99", "oracle"),
        settle=settle,
        diverged=diverged,
        timeouts={k: statistics.fmean(o[k].timeouts for o in every) for k in NAMES},
        misses=misses,
    )


HEADER = """\
| family | target feasible | limited batches | in band: weir | static | pid | flip183 | oracle \
| committed: weir | pid | flip183 | oracle | p95: weir | pid | flip183 \
| settle: weir | flip183 | oracle | diverged | time-outs: weir | static | missed |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def line(row: Row) -> str:
    """A row of the table."""
    cells = [row.name, "yes" if row.feasible else "no", f"{row.limited:.0f}"]
    cells += [_text(row.in_band[k]) for k in NAMES]
    cells += [f"{row.committed[k]:.3f}" for k in ("weir", "pid", "flip183", "oracle")]
    cells += [f"{row.p95[k]:.2f}" for k in ("weir", "pid", "flip183")]
    cells += [_text(row.settle[k], ".3g") for k in ("weir", "flip183", "oracle")]
    cells += [str(row.diverged)]
    cells += [f"{row.timeouts[k]:.1f}" for k in ("weir", "static")]
    cells += [", ".join(row.misses) or "-"]
    return f"| {' | '.join(cells)} |"


def section(rows: list[Row], seeds: int) -> str:
    """What stands in docs/yardsticks.md, marks included: the plain case, then the table, folded."""
    named = {row.name: row for row in rows}
    judged = [row for row in rows if row.feasible and row.limited >= LEAST_LIMITED]
    judged = [row for row in judged if row.in_band["weir"] is not None]
    good = [row for row in judged if not any(miss.startswith("in-band") for miss in row.misses)]
    opening = (
        f"Each controller gets the same simulated query under {len(rows)} kinds of load. On"
        f" {len(good)} of the {len(judged)} where the target can be kept and a limit matters, Weir"
        " keeps at least as many batches within 30 % of the target as the best fixed limit chosen"
        " in hindsight, Spark's DStreams PID and FLIP-183's own rule; an oracle that is told the"
        " true costs shows what can be had. What is missed, and why, stands below the table."
    )
    text = [
        *textwrap.wrap(opening, 104, break_on_hyphens=False),
        "",
        "| batches within 30 % of the target | Weir | best fixed | PID | FLIP-183 | oracle |",
        "|---|---|---|---|---|---|",
    ]
    for family, plain in PLAIN.items():
        cells = [_text(named[family].in_band[name], ".2f") for name in NAMES]
        text.append(f"| {plain} (*{family}*) | {' | '.join(cells)} |")
    text += [
        "",
        f"<details><summary>All {len(rows)} kinds of load, means over {seeds} seeds</summary>",
        "",
        HEADER,
        *map(line, rows),
        "",
        "</details>",
    ]
    return MARK + "\n".join(text) + "\n" + MARK_END


def write(page: Path, rows: list[Row], seeds: int) -> None:
    """Puts the figures between the page's marks. Raises ValueError where it has none."""
    before, mark, rest = page.read_text("utf-8").partition(MARK)
    _, end, after = rest.partition(MARK_END)
    if not mark or not end:
        raise ValueError(f"{page}: the marks of the yardsticks are missing")
    page.write_text(before + section(rows, seeds) + after, "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--write", nargs="?", type=Path, const=PAGE, metavar="PAGE", help="put it there too"
    )
    chosen: Any = parser.parse_args(arguments)
    if chosen.write and chosen.families:
        parser.error("--write wants all families")
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
    if chosen.write:
        write(chosen.write, rows, chosen.seeds)
    missed = sum(bool(row.misses) for row in rows)
    seconds = time.perf_counter() - begin
    print(f"{len(rows)} families, {chosen.seeds} seeds, {missed} with a miss; {seconds:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
