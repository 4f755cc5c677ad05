"""Kills real queries at random moments, rescues each, and compares with an undisturbed run.

    make sparks kafka                                # once
    python -m tests.benchmarks.rescue --kills 200    # until the results hold so many
    python -m tests.benchmarks.rescue --seconds 600  # a slice; the next goes on from there
    python -m tests.benchmarks.rescue --table        # what the results hold so far

A cell is a version of Spark, a source, a state store and an operator. Whatever cell has the fewest
kills comes next, so that a short run covers as many cells as it can. Results are appended to a file
of JSON lines, one a run of a query. Only kills that left something to rescue count; ``between
batches`` is told apart. Exit code 1 where a single result differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path

import msgspec

from tests.checkpoint.kills import (
    CHEAP,
    POINTS,
    Driver,
    contents,
    fairly,
    fill_topics,
    finish_rescued,
    make_input,
    make_order,
    point_of,
    take_kills,
)

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / ".make" / "rescue.jsonl"
VERSIONS = ("3.5", "4.0", "4.2", "4.3")
SOURCES = ("files", "kafka")
STORES = ("hdfs", "rocksdb", "changelog")
MORE_STORES = ("changelog-v2",)  # checkpoint format v2, of Spark 4
OPERATORS = ("aggregation", "join", "transform")
MORE_OPERATORS = ("window",)
ROWS_PER_FILE = 10
FILES = 10
LIMIT, LIMIT_AFTER = 3, 5  # files a batch, before and after the rescue
#: A driver is started anew for another version after so many runs of queries.
RUNS_PER_DRIVER = 12
#: More partitions than cores, so that a kill can hit when some of them have committed.
SETTINGS = {**CHEAP, "spark.sql.shuffle.partitions": "3"}


class Cell(msgspec.Struct, frozen=True, order=True):
    """One combination."""

    spark: str
    source: str
    store: str
    operator: str

    def exists(self) -> bool:
        """Whether this version of Spark has it."""
        old = self.spark == "3.5"
        if self.operator == "transform":
            return not old and self.store != "hdfs"  # wants RocksDB
        return not (old and self.store == "changelog-v2")


class Run(msgspec.Struct, frozen=True):
    """One run of a query: its kills by point, and what went wrong."""

    cell: Cell
    version: str
    seed: int
    seconds: float
    kills: dict[str, int]
    wrong: list[dict[str, str]]
    error: str = ""  # the undisturbed run itself failed: nothing is known


def useful(run):
    """Kills that left something to rescue."""
    return sum(count for point, count in run.kills.items() if point != "between batches")


def one_run(driver, base, cell, seed, *, most, source, broker):
    """Kills one query up to ``most`` times."""
    began = time.monotonic()
    order = make_order(base, source, cell.operator, cell.store, limit=LIMIT)
    if cell.source == "kafka":
        order |= {"kafka": broker.bootstrap, "topic": base.name, "unit_rows": ROWS_PER_FILE}
        fill_topics(broker, base.name, source)
    points, wrong, error = Counter(), [], ""
    try:
        images = take_kills(
            driver,
            order,
            base / "images",
            most=most,
            chaos=random.Random(seed),
            wanted=fairly(most),
        )
        truth = contents(order["sink"], cell.operator)
        for image in images:
            point = point_of(image / "ck")
            points[point] += 1
            differs = finish_rescued(driver, order, image, truth, limit=LIMIT_AFTER)
            if differs:
                wrong.append({"image": str(image), "point": point, "wrong": differs})
    except RuntimeError as problem:
        error = str(problem)
    seconds = round(time.monotonic() - began, 1)
    return Run(cell, driver.version, seed, seconds, dict(points), wrong, error)


def next_cells(cells, runs):
    """The cells of the version that is furthest behind, the fewest kills first."""
    # transformWithState in Python takes several times as long: its turn comes after the others.
    kills = Counter({cell: 3 * (cell.operator == "transform") for cell in cells})
    for run in runs:
        if run.cell in kills:
            # A cell that fails by itself must not hold up the others.
            kills[run.cell] += useful(run) or 1
    by_version = Counter()
    for cell in cells:
        by_version[cell.spark] += kills[cell]
    sizes = Counter(cell.spark for cell in cells)
    behind = min(sizes, key=lambda spark: (by_version[spark] / sizes[spark], spark))
    of_version = [cell for cell in cells if cell.spark == behind]
    random.Random(len(runs)).shuffle(of_version)
    return sorted(of_version, key=kills.__getitem__)[:RUNS_PER_DRIVER]


def python_of(spark):
    return ROOT / ".make" / f"spark-{spark}" / "bin" / "python"


@contextlib.contextmanager
def broker_if(wanted, folder):
    """A broker where a cell wants one; its topics last as long as the slice."""
    if not wanted:
        yield None
        return
    from tests.kafka.broker import Broker

    with Broker(folder / "kafka") as broker:
        yield broker


def slice_of_runs(cells, runs, options, folder, broker):
    """Yields runs until there are enough kills, or the time is over."""
    source = make_input(folder / "in", files=FILES, rows=ROWS_PER_FILE)
    ends = time.monotonic() + options.seconds
    while sum(map(useful, runs)) < options.kills and time.monotonic() < ends:
        chosen = next_cells(cells, runs)
        settings = dict(SETTINGS)
        if broker is not None:
            from tests.kafka.broker import connector

            settings["spark.jars"] = connector(chosen[0].spark)
        with Driver(folder / "driver.log", python_of(chosen[0].spark), settings) as driver:
            for cell in chosen:
                if time.monotonic() > ends or sum(map(useful, runs)) >= options.kills:
                    break
                seed = options.seed + len(runs)
                base = folder / f"{seed}-{cell.spark}-{cell.source}-{cell.store}-{cell.operator}"
                run = one_run(
                    driver, base, cell, seed, most=options.each, source=source, broker=broker
                )
                if not run.wrong:
                    # The store's maintenance may still write there.
                    shutil.rmtree(base, ignore_errors=True)
                yield run
                if run.error:
                    break  # the driver may be at an end


def read_results(path):
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Run) for line in path.read_bytes().splitlines() if line]


def table(runs):
    """Kills by version, source, store and operator; then by point."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=120)
    cells, wrong = Counter(), Counter()
    for run in runs:
        cells[run.cell] += useful(run)
        wrong[run.cell] += len(run.wrong)
    seen = {run.cell.operator for run in runs}
    operators = [o for o in (*OPERATORS, *MORE_OPERATORS) if o in seen]
    columns = [(s, o) for s in SOURCES for o in operators]
    shown = Table(
        "Spark", "store", *(f"{s}\n{o}" for s, o in columns), title="kills rescued (wrong)"
    )
    versions = {run.cell.spark: run.version for run in runs}
    for spark, store in product(VERSIONS, (*STORES, *MORE_STORES)):
        row = [Cell(spark, s, store, o) for s, o in columns]
        if not any(cells[cell] for cell in row):
            continue
        texts = [
            ("-" if not cell.exists() else str(cells[cell]))
            + (f" ({wrong[cell]})" if wrong[cell] else "")
            for cell in row
        ]
        shown.add_row(versions.get(spark, spark), store, *texts)
    console.print(shown)
    points = Counter()
    for run in runs:
        points.update(run.kills)
    by_point = Table("the kill hit", "kills")
    for point in POINTS:
        by_point.add_row(point, str(points[point]))
    console.print(by_point)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", default=",".join(VERSIONS))
    parser.add_argument("--sources", default=",".join(SOURCES))
    parser.add_argument("--operators", default=",".join(OPERATORS), help="and window")
    parser.add_argument("--stores", default=",".join(STORES), help="and changelog-v2")
    parser.add_argument("--kills", type=int, default=200, help="with something to rescue, of all")
    parser.add_argument("--each", type=int, default=6, help="kills of one run of a query")
    parser.add_argument("--seconds", type=float, default=3600.0, help="then start no other query")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print what the results hold, and end")
    options = parser.parse_args()
    runs = read_results(options.results)
    lists = (options.versions, options.sources, options.stores, options.operators)
    cells = [Cell(*names) for names in product(*(names.split(",") for names in lists))]
    cells = [cell for cell in cells if cell.exists()]
    missing = {cell.spark for cell in cells if not python_of(cell.spark).exists()}
    if not options.table:
        if missing:
            sys.exit(f"no PySpark {', '.join(sorted(missing))}: make sparks")
        options.results.parent.mkdir(parents=True, exist_ok=True)
        # Stopped from outside, it ends the driver and the broker that it started.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="weir-rescue-"))
        wrong = False
        with broker_if(any(cell.source == "kafka" for cell in cells), folder) as broker:
            for run in slice_of_runs(cells, runs, options, folder, broker):
                runs.append(run)
                wrong |= bool(run.wrong)
                with options.results.open("ab") as file:
                    file.write(msgspec.json.encode(run) + b"\n")
                print(json.dumps(msgspec.to_builtins(run)), flush=True)
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"this slice took {time.monotonic() - began:.0f} s", flush=True)
    table(runs)
    kills, wrong_kills = sum(map(useful, runs)), sum(len(run.wrong) for run in runs)
    failed = sum(bool(run.error) for run in runs)
    print(
        f"{kills} kills rescued, {wrong_kills} wrong, in {len({run.cell for run in runs})} cells;"
        f" {failed} runs failed by themselves"
    )
    return 1 if wrong_kills or not kills else 0


if __name__ == "__main__":
    sys.exit(main())
