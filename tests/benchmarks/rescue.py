"""Kills real queries at random moments, rescues each, and compares with an undisturbed run.

    python -m tests.benchmarks.rescue --kills 200
    python -m tests.benchmarks.rescue --python /venvs/spark-3.5/bin/python --seconds 600

One JSON line per query (version, operator, store: kills by point, what went wrong), then a summary.
Exit code 1 where a single result differs. Each combination gets a new seed until enough kills were
taken that had something to rescue, or the time is over.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path

from tests.checkpoint.kills import (
    STORES,
    Driver,
    contents,
    fairly,
    finish_rescued,
    make_input,
    make_order,
    point_of,
    take_kills,
)

OPERATORS = ("aggregation", "join", "window")


def one_query(driver, base, source, operator, store, *, most, seed):
    """Kills one query ``most`` times; (kills by point, failures)."""
    order = make_order(base, source, operator, store, limit=4)
    images = take_kills(
        driver, order, base / "images", most=most, chaos=random.Random(seed), wanted=fairly(most)
    )
    truth = contents(order["sink"], operator)
    points, failures = Counter(), []
    for image in images:
        point = point_of(image / "ck")
        points[point] += 1
        wrong = finish_rescued(driver, order, image, truth, limit=3)
        if wrong:
            failures.append({"image": image.name, "point": point, "wrong": wrong})
    return points, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", help="a Python with another PySpark")
    parser.add_argument("--operators", default=",".join(OPERATORS))
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--kills", type=int, default=200, help="with something to rescue, of all")
    parser.add_argument("--each", type=int, default=8, help="kills of one run of a query")
    parser.add_argument("--seconds", type=float, default=3600.0, help="then start no other query")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--conf", action="append", default=[], help="key=value for Spark")
    options = parser.parse_args()
    began, total, wrong = time.monotonic(), Counter(), 0
    folder = Path(tempfile.mkdtemp(prefix="weir-rescue-"))
    source = make_input(folder / "in", files=16)
    pythons = options.python or [sys.executable]
    settings = dict(setting.split("=", 1) for setting in options.conf)
    operators, stores = options.operators.split(","), options.stores.split(",")
    seed = options.seed
    try:
        while useful(total) < options.kills and time.monotonic() - began < options.seconds:
            for python in pythons:
                with Driver(folder / "driver.log", python, settings) as driver:
                    combinations = list(product(operators, stores))
                    random.Random(seed).shuffle(combinations)
                    for operator, store in combinations:
                        if store == "changelog-v2" and driver.version < "4":
                            continue
                        if time.monotonic() - began > options.seconds:
                            break
                        if useful(total) >= options.kills:
                            break
                        base = folder / f"{seed}-{operator}-{store}-{driver.version}"
                        points, failures = one_query(
                            driver, base, source, operator, store, most=options.each, seed=seed
                        )
                        total += points
                        wrong += len(failures)
                        line = {"spark": driver.version, "operator": operator, "store": store}
                        line |= {"seed": seed, "kills": dict(points), "wrong": failures}
                        print(json.dumps(line), flush=True)
                        if not failures:
                            # The store's maintenance may still write there.
                            shutil.rmtree(base, ignore_errors=True)
            seed += 1
    finally:
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
    summary = {"kills": dict(total), "rescued": useful(total), "wrong": wrong}
    summary["seconds"] = round(time.monotonic() - began)
    print(json.dumps(summary), flush=True)
    return 1 if wrong or not total else 0


def useful(points):
    """Kills that left something to rescue."""
    return points.total() - points["between batches"]


if __name__ == "__main__":
    sys.exit(main())
