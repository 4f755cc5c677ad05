"""Public workloads on a real cluster and a real broker, against what one would do without Weir.

    make evidence [MINUTES=40] [ARGS="--workloads q5/tweets-apple --seconds 60 --seeds 5"]

Runs what is not there yet in ``--results``, a file for each run, seed by seed, the arms of a seed
one after the other in an order that the seed draws; then writes ``evidence.md``, its picture and
``evidence.csv`` into ``--docs``. Ctrl-C loses the run that is under way, and nothing else. Exit
code 1 where runs came to no end: each of them is a line of ``broken.jsonl`` there, and is told.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from examples.demo.plan import Capacity
from tests.benchmarks.evidence import dspbench, report
from tests.benchmarks.evidence.figures import EXECUTORS, figures
from tests.benchmarks.evidence.record import read
from tests.benchmarks.evidence.run import (
    LOAD,
    TARGET_SECONDS,
    BrokenError,
    Run,
    World,
    machine,
)
from tests.benchmarks.evidence.workloads import QUERIES
from tests.benchmarks.recorded import recordings
from tests.kafka.broker import is_there

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT: Final = Path(__file__).resolve().parents[3]
#: Each query with a trace of its own, so that each trace is played.
WORKLOADS: Final = (
    "q5/tweets-apple",
    "q2/llm-code",
    "q8/tweets-google",
    "q7/load-balancer",
    "q11/llm-conv",
    "ysb/taxis",
)
#: Limits that are tried for the best one in hindsight: batches of half the target to four of them.
FIXED: Final = (0.5, 1.0, 2.0, 4.0)


#: Of a folder of runs: those that came to no end, a line for each.
BROKEN: Final = "broken.jsonl"


@dataclasses.dataclass(frozen=True)
class Arm:
    """What a query runs under. ``limit`` is in batches of the target's length."""

    limit: float | None = None
    settings: tuple[tuple[str, str], ...] = ()
    agent: tuple[tuple[str, Any], ...] | None = None


ARMS: Final = {
    "configured": Arm(),
    report.AGAIN: Arm(),
    "weir": Arm(agent=()),
    **{f"fixed-{limit:g}": Arm(limit=limit) for limit in FIXED},
    "dynamic": Arm(settings=(("spark.dynamicAllocation.enabled", "true"),)),
    "weir-executors": Arm(agent=(("executors", "on"), ("maximum_executors", EXECUTORS))),
}


def order(
    workloads: Sequence[str], arms: Sequence[str], seeds: Iterable[int]
) -> Iterable[tuple[str, str, int]]:
    """(workload, arm, seed): all of a seed before the next one, its arms as the seed draws them."""
    for seed in seeds:
        for workload in workloads:
            drawn = list(arms)
            random.Random(f"order {workload} {seed}").shuffle(drawn)
            for arm in drawn:
                yield workload, arm, seed


def missing(wanted: Sequence[tuple[str, str, int]], folder: Path) -> list[tuple[str, str, int]]:
    """Those whose file is not there."""
    found = []
    for workload, arm, seed in wanted:
        query, trace = workload.split("/")
        if not (folder / file_name(query, trace, arm, seed)).exists():
            found.append((workload, arm, seed))
    return found


def run_of(
    workload: str,
    arm: str,
    seed: int,
    seconds: float,
    target_seconds: float,
    capacity: Capacity,
    load: float = LOAD,
) -> Run:
    """With rates and limits that follow from what the machine can do."""
    query, trace = workload.split("/")
    if capacity.fixed_seconds >= target_seconds / 2:
        raise ValueError(
            f"{query}: an empty batch takes {capacity.fixed_seconds:.1f} s here, so a result every "
            f"{target_seconds:g} s is no aim: give a longer one (--target-seconds), or leave it "
            "out (--workloads)"
        )
    target_rows = capacity.rows_in(target_seconds)
    chosen = ARMS[arm]
    return Run(
        query=query,
        trace=trace,
        arm=arm,
        seed=seed,
        seconds=seconds,
        rows=round(load * target_rows * seconds / target_seconds),
        target_rows=target_rows,
        limit_rows=None if chosen.limit is None else round(chosen.limit * target_rows),
        settings=chosen.settings,
        agent=chosen.agent,
        target_seconds=target_seconds,
        load=load,
    )


class Results:
    """The folder of what has been run: all on one machine, of one length, with one target."""

    def __init__(
        self, folder: Path, seconds: float, target_seconds: float, load: float = LOAD
    ) -> None:
        self.folder = folder
        self._about = folder / "about.json"
        here = machine()
        mine = {key: here[key] for key in ("cores", "processor", "spark")}
        mine |= {"seconds": seconds, "target_seconds": target_seconds, "load": load}
        folder.mkdir(parents=True, exist_ok=True)
        if self._about.exists():
            self._told = json.loads(self._about.read_text())
            if self._told["of"] != mine:
                raise ValueError(
                    f"{folder} holds runs of {self._told['of']}, and this is {mine}: give another "
                    "folder (--results)"
                )
        else:
            self._told = {"of": mine, "series": report.series_now(), "capacity": {}}

    def capacity(self, query: str) -> Capacity | None:
        """What was measured of a query; the same for all runs, today's and tomorrow's."""
        found = self._told["capacity"].get(query)
        return None if found is None else Capacity(**found)

    def keep(self, query: str, capacity: Capacity) -> None:
        self._told["capacity"][query] = dataclasses.asdict(capacity)
        self._save()

    def _save(self) -> None:
        part = self._about.with_suffix(".part")
        part.write_text(json.dumps(self._told, indent=1))
        part.replace(self._about)

    def broke(self, workload: str, arm: str, seed: int, load: float, why: str) -> None:
        """A run came to no end: so it is counted, whatever comes of a later one."""
        query, trace = workload.split("/")
        told = {"series": self._told["series"], "query": query, "trace": trace, "load": load}
        now = datetime.now(timezone.utc)  # no two lines are the same
        told |= {"arm": arm, "seed": seed, "at": now.isoformat(), "why": why}
        self._save()  # its series has begun, also where no capacity was kept yet
        with (self.folder / BROKEN).open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    def path(self, run: Run) -> Path:
        return self.folder / file_name(run.query, run.trace, run.arm, run.seed)


def why(error: BaseException, query: str) -> str:
    """In words that name nothing of this machine: what follows them are its paths and its logs."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return report.STOPPED
    if not isinstance(error, (BrokenError, ValueError)):
        return type(error).__name__
    return re.split(r"; |: ", str(error).removeprefix(f"{query}: "), maxsplit=1)[0]


def file_name(query: str, trace: str, arm: str, seed: int) -> str:
    return f"{query}_{trace}_{arm}_{seed}.jsonl.gz"


def run_all(given: argparse.Namespace, results: Results) -> int:
    """What is not there yet; how many runs came to no end."""
    broken = 0
    unknown: set[str] = set()  # queries whose cost this machine could not tell
    begun = time.monotonic()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    wanted = list(order(given.workloads, given.arms, seeds))

    left = missing(wanted, results.folder)
    print(f"{len(wanted) - len(left)} of {len(wanted)} runs are there", flush=True)
    if not left:
        return 0
    folder = Path(tempfile.mkdtemp(prefix="weir-evidence-"))
    try:
        with World(folder) as world:
            for workload, arm, seed in left:
                if given.minutes and time.monotonic() - begun > 60 * given.minutes:
                    print("the time is over; the same command goes on from here")
                    break
                query = workload.split("/")[0]
                if query in unknown:
                    continue
                way = report.MEASURING
                try:
                    capacity = results.capacity(query)
                    if capacity is None:
                        unknown.add(query)  # until it is measured
                        capacity = world.measure(query, given.target_seconds)
                        results.keep(query, capacity)
                        unknown.remove(query)
                        print(
                            f"{query}: a batch takes {capacity.fixed_seconds:.2f} s plus 1 s for "
                            f"every {capacity.rows_per_second:,.0f} rows",
                            flush=True,
                        )
                    way = arm
                    run = run_of(
                        workload,
                        arm,
                        seed,
                        given.seconds,
                        given.target_seconds,
                        capacity,
                        given.load,
                    )
                    record = world.run(run)
                    found = figures(record)
                except (BrokenError, ValueError) as error:
                    broken += 1
                    results.broke(workload, way, seed, given.load, why(error, query))
                    print(f"{workload} {way} {seed}: came to no end: {error}", flush=True)
                    continue
                except BaseException as error:
                    results.broke(workload, way, seed, given.load, why(error, query))
                    raise
                record.write(results.path(run))
                print(
                    f"{(time.monotonic() - begun) / 60:6.1f} min  {workload:16} {arm:14} {seed}  "
                    f"without a result {found.longest_without_result_seconds:5.1f} s, waits p50 "
                    f"{found.wait_p50_seconds:5.1f} p99 {found.wait_p99_seconds:5.1f} s, "
                    f"{found.rows_per_executor_second:,.0f} rows per executor-second",
                    flush=True,
                )
    finally:  # gigabytes, where it is stopped by hand too
        if broken:
            print(f"{broken} runs came to no end; what they left is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.evidence", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--results", type=Path, default=ROOT / ".evidence", help="of all runs")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where the page goes")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), metavar="QUERY/TRACE")
    parser.add_argument(
        "--arms",
        nargs="+",
        default=[arm for arm in ARMS if arm != report.AGAIN],
        choices=list(ARMS),
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1, help="goes on where others ended")
    parser.add_argument("--seconds", type=float, default=120.0, help="in which a trace is played")
    parser.add_argument(
        "--target-seconds", type=float, default=TARGET_SECONDS, help="a result is wanted so often"
    )
    parser.add_argument(
        "--load", type=float, default=LOAD, help="what comes, as a share of what is digested"
    )
    parser.add_argument(
        "--dspbench", type=Path, metavar="CHECKOUT", help="of GMAP/DSPBench: its jobs as well"
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no run after so many")
    parser.add_argument("--report", action="store_true", help="run nothing, write the page")
    given = parser.parse_args()
    for workload in given.workloads:
        query, _, trace = workload.partition("/")
        if query not in QUERIES or trace not in recordings():
            parser.error(
                f"no workload {workload}; queries: {', '.join(QUERIES)}; traces: "
                f"{', '.join(recordings())}"
            )
    if given.seeds < 1 or given.seconds <= 0 or given.target_seconds <= 0:
        parser.error("--seeds, --seconds and --target-seconds are to be above 0")
    if not 0 < given.load < 1:
        parser.error("--load is a share of what is digested: above 0, below 1")
    broken = 0
    if not given.report:
        try:
            if given.dspbench is not None:
                dspbench.build(given.dspbench)
        except ValueError as error:
            parser.error(f"--dspbench: {error}")
        theirs = [one for one in given.workloads if one.split("/")[0] in dspbench.QUERIES]
        if theirs and not dspbench.JAR.exists():
            parser.error(
                f"{theirs[0]} is of DSPBench: give a checkout of https://github.com/GMAP/DSPBench "
                "(--dspbench)"
            )
        if not is_there():
            print("the broker's jars are missing: make kafka")
            return 1
        try:
            results = Results(given.results, given.seconds, given.target_seconds, given.load)
        except ValueError as error:
            parser.error(str(error))
        # So that an end of this process ends all that it started.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            broken = run_all(given, results)
        except KeyboardInterrupt:
            print("stopped; the same command goes on from here")
            return 1
    paths = sorted(given.results.glob("*.jsonl.gz"))
    lost = report.read_broken(given.results / BROKEN)
    if not paths and not lost:
        print(f"{given.results} holds no runs yet")
        return 1
    series = json.loads((given.results / "about.json").read_text())["series"]
    rows = [report.row_of(record := read(path), figures(record), series) for path in paths]
    told = report.write(rows, given.docs, lambda *of: read(given.results / file_name(*of)), lost)
    print(
        f"{len(rows)} runs of {series}, {told} in all, told in {given.docs / 'evidence.md'}"
        + (f"; {len(lost)} came to no end" if lost else "")
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
