"""Savepoints of real queries at random moments, and the tools killed at every step, each restored.

    make sparks
    python -m tests.benchmarks.savepoints --versions 4.2 --seconds 600
    python -m tests.benchmarks.savepoints --table

For each combination: while the query runs, savepoints at random moments; each is restored
elsewhere twice, with the sink rolled back to its batch and with an empty sink, and run to its end.
Then one kill of the query is rescued many times: ``rescue --apply`` killed before each of its
steps, ``--undo`` killed before each of its steps, and ``savepoint`` likewise; what each leaves is
started by Spark. The result must be an undisturbed run's. Results are appended to a file of JSON
lines. Exit code 1 where a single result differs.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path

import msgspec

from agent.checkpoint import journal
from agent.checkpoint.folder import CheckpointError, LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.savepoint import take_savepoint
from tests.benchmarks.rescue import (
    FILES,
    LIMIT,
    LIMIT_AFTER,
    ROOT,
    ROWS_PER_FILE,
    SETTINGS,
    STORES,
    VERSIONS,
    python_of,
)
from tests.checkpoint.build import killed_at, tree
from tests.checkpoint.kills import (
    Driver,
    contents,
    finish,
    make_input,
    make_order,
    point_of,
    roll_back,
    take_kills,
)
from tests.checkpoint.test_rescue_rules import plan

RESULTS = ROOT / ".make" / "savepoints.jsonl"
OPERATORS = ("aggregation", "join")


class Run(msgspec.Struct, frozen=True):
    """One combination: restored results by kind, and what went wrong."""

    spark: str
    store: str
    operator: str
    seed: int
    seconds: float
    right: dict[str, int]
    wrong: list[dict[str, str]]


def take(folder, to, say=None):
    return take_savepoint(LocalFolder(folder), to, now=time.time, sleep=time.sleep, on_step=say)


def under_load(order, base, chaos, most):
    """Takes savepoints at moments of its own while the query runs; a callback and what it took."""
    taken = []
    due = time.monotonic() + chaos.uniform(0, 2)

    def meanwhile():
        nonlocal due
        if len(taken) >= most or time.monotonic() < due:
            return
        due = time.monotonic() + chaos.uniform(0, 2)
        to = base / f"savepoint-{len(taken)}"
        try:
            manifest = take(Path(order["checkpoint"]), to / "ck")
        except CheckpointError as error:
            if "no batch is committed yet" not in str(error):
                raise
        else:
            taken.append((to, manifest.batch_id))

    return meanwhile, taken


def restored_with_an_empty_sink(driver, order, to, batch_id, truth):
    """An empty sink gets what came after the savepoint: with the rest, all of it and no more."""
    image = to.with_name(to.name + "-empty")
    image.mkdir()
    shutil.copytree(to / "ck", image / "ck")
    again = {**order, "checkpoint": str(image / "ck"), "sink": str(image / "sink.db")}
    answer = driver.ask({"run": {**again, "limit": LIMIT_AFTER}})
    if "error" in answer:
        return answer["error"]
    if not Path(again["sink"]).exists():  # it was taken at the end: nothing was left to do
        sqlite3.connect(again["sink"]).execute("create table appended (batch, key, value)")
    old, new = sqlite3.connect(order["sink"]), sqlite3.connect(again["sink"])
    before = old.execute(
        "select key, value from appended where batch <= ? order by batch", (batch_id,)
    ).fetchall()
    after = new.execute("select key, value from appended order by batch").fetchall()
    old.close()
    new.close()
    if order["operator"] == "aggregation":
        both = dict(before) | dict(after)
        return "" if both == truth[1] else "the two sinks together differ"
    return "" if sorted(before + after) == truth[1] else "the two sinks together differ"


def steps_of(act, copy):
    """Kills ``act`` before its first step, its second, … until it got to its end; the copies."""
    step = 0
    while True:
        image = copy(step)
        if not killed_at(step, lambda say, image=image: act(image, say)):
            shutil.rmtree(image)
            return
        yield step, image
        step += 1


def killed_tools(driver, order, image, truth, base, tell, every):
    """Apply, undo and savepoint, killed before each ``every``-th step."""
    wanted = plan(image / "ck")
    batch = wanted.base_batch

    def check(kind, step, copy):
        if step % every == 0:
            roll_back(copy / "sink.db", batch)
            tell(kind, f"step {step}", finish(driver, order, copy, truth, limit=LIMIT_AFTER))
        shutil.rmtree(copy, ignore_errors=True)

    def apply(copy, say):
        journal.apply_plan(copy / "ck", wanted, now=1e9, on_step=say)

    for step, copy in steps_of(apply, lambda n: shutil.copytree(image, base / f"apply-{n}")):
        check("apply killed", step, copy)

    done = shutil.copytree(image, base / "applied")
    journal.apply_plan(done / "ck", wanted, now=1e9)

    def undo(copy, say):
        [found] = journal.find_rescues(copy / "ck")
        journal.undo(copy / "ck", found, on_step=say)

    for step, copy in steps_of(undo, lambda n: shutil.copytree(done, base / f"undo-{n}")):
        check("undo killed", step, copy)

    before = tree(image / "ck")

    def savepoint(copy, say):
        take(image / "ck", copy / "ck", say)

    def empty(step):
        (base / f"copy-{step}").mkdir()
        return base / f"copy-{step}"

    for step, copy in steps_of(savepoint, empty):
        if (copy / "ck").exists():
            shutil.copy2(image / "sink.db", copy / "sink.db")
            check("savepoint killed", step, copy)
        else:
            tell("savepoint killed", f"step {step}", "")
            shutil.rmtree(copy)
    tell("savepoint killed", "source", "" if tree(image / "ck") == before else "it was changed")


def one_run(driver, base, source, spark, store, operator, seed, options):
    began, chaos = time.monotonic(), random.Random(seed)
    order = make_order(base, source, operator, store, limit=LIMIT)
    right, wrong = Counter(), []

    def tell(kind, where, differs):
        if differs:
            wrong.append({"kind": kind, "where": where, "wrong": differs})
        else:
            right[kind] += 1

    def half_done(image):
        committed = read_checkpoint(LocalFolder(image / "ck")).layout.latest_commit >= 0
        return committed and point_of(image / "ck") in ("some state", "all state")

    meanwhile, taken = under_load(order, base, chaos, options.savepoints)
    images = take_kills(
        driver,
        order,
        base / "images",
        most=1,
        chaos=chaos,
        wanted=half_done,
        meanwhile=meanwhile,
    )
    truth = contents(order["sink"], operator)
    for to, batch_id in taken:
        tell(
            "savepoint, empty sink",
            f"batch {batch_id}",
            restored_with_an_empty_sink(driver, order, to, batch_id, truth),
        )
        shutil.copy2(order["sink"], to / "sink.db")
        roll_back(to / "sink.db", batch_id)
        tell(
            "savepoint, sink rolled back",
            f"batch {batch_id}",
            finish(driver, order, to, truth, limit=LIMIT_AFTER),
        )
    for image in images:
        killed_tools(driver, order, image, truth, base, tell, options.every)
    seconds = round(time.monotonic() - began, 1)
    return Run(spark, store, operator, seed, seconds, dict(right), wrong)


def read_results(path):
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Run) for line in path.read_bytes().splitlines() if line]


def show(runs):
    total, wrong = Counter(), Counter()
    for run in runs:
        total.update(run.right)
        wrong.update(one["kind"] for one in run.wrong)
    for kind in sorted({*total, *wrong}):
        print(f"{kind:30} {total[kind]:5} right {wrong[kind]:5} wrong")
    cells = sorted({(run.spark, run.store, run.operator) for run in runs})
    print(f"{len(cells)} combinations: " + ", ".join("/".join(cell) for cell in cells))
    return 1 if wrong.total() or not total else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", default=",".join(VERSIONS))
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--operators", default=",".join(OPERATORS))
    parser.add_argument("--savepoints", type=int, default=3, help="of one run of a query")
    parser.add_argument("--every", type=int, default=1, help="restart after each so many steps")
    parser.add_argument("--seconds", type=float, default=1200.0, help="then start no other query")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print what the results hold, and end")
    options = parser.parse_args()
    runs = read_results(options.results)
    if options.table:
        return show(runs)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ends = time.monotonic() + options.seconds
    folder = Path(tempfile.mkdtemp(prefix="weir-savepoints-"))
    source = make_input(folder / "in", files=FILES, rows=ROWS_PER_FILE)
    lists = [names.split(",") for names in (options.stores, options.operators)]
    for spark in options.versions.split(","):
        if time.monotonic() > ends:
            break
        with Driver(folder / "driver.log", python_of(spark), SETTINGS) as driver:
            done = Counter((run.spark, run.store, run.operator) for run in runs)
            cells = sorted(product(*lists), key=lambda cell: done[(spark, *cell)])
            for store, operator in cells:
                if time.monotonic() > ends:
                    break
                seed = len(runs) + 1
                base = folder / f"{seed}-{spark}-{store}-{operator}"
                run = one_run(driver, base, source, spark, store, operator, seed, options)
                runs.append(run)
                with options.results.open("ab") as file:
                    file.write(msgspec.json.encode(run) + b"\n")
                print(json.dumps(msgspec.to_builtins(run)), flush=True)
                if not run.wrong:
                    shutil.rmtree(base, ignore_errors=True)
    if not any(run.wrong for run in runs):
        shutil.rmtree(folder, ignore_errors=True)
    return show(runs)


if __name__ == "__main__":
    sys.exit(main())
