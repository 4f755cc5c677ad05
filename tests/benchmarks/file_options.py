"""Every combination of a file source's options, alone and under limits that move at random.

    python -m tests.benchmarks.file_options            # all of them
    python -m tests.benchmarks.file_options --every 5  # each fifth
    python -m tests.benchmarks.file_options --give-limits

Each of ``latestFirst``, ``maxFileAge``, ``cleanSource``, ``fileNameOnly``, a maximum of files or of
bytes or none, ``AvailableNow`` or ``ProcessingTime``: the rows of both runs must be the same. With
``--give-limits`` the sources are steered that are not by default, which shows what for.
Ends with 1 where rows differ.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import spark_listener
from tests.driver.fake_agent import FakeAgent
from tests.spark.file_options import Case, all_read, at_random


def cases() -> list[Case]:
    """All combinations that this Spark knows."""
    limits = ["", "files"] if pyspark.__version__.startswith("3.") else ["", "files", "bytes"]
    both, clean = [False, True], ["off", "delete", "archive"]
    every = [Case(*one) for one in itertools.product(both, both, clean, limits, both, both)]
    # Spark alone reads some files of one name twice, and may find them cleaned up by then.
    return [case for case in every if not (case.file_name_only and case.clean != "off")]


def main() -> int:
    """Prints each case whose rows differ, and how many were tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--give-limits", action="store_true")
    parser.add_argument("--at-once", type=int, default=4)
    arguments = parser.parse_args()
    chosen = cases()[:: arguments.every]
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("file options")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, FakeAgent() as agent:
        alone = all_read(spark, chosen, Path(folder) / "alone", at_once=arguments.at_once)
        agent.decide = at_random(random.Random(arguments.seed))
        agent.give_limits = arguments.give_limits or None
        spark_listener.attach(
            spark, agent_url=agent.url, heartbeat_seconds=0.3, first_batch_seconds=10.0
        )
        agent.wait(lambda a: a.events)
        weir = all_read(spark, chosen, Path(folder) / "weir", at_once=arguments.at_once)
        controls: Counter[str] = Counter()
        for event in agent.of("progress"):
            controls.update(
                entry.get("note", "").partition(":")[0] or entry["control"]
                for entry in event["limits"]
            )
        spark_listener.detach()
    spark.stop()
    differ = 0
    for case, (expected, _), (found, batches) in zip(chosen, alone, weir, strict=True):
        if found != expected:
            differ += 1
            lost, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
            print(f"{case}: {len(expected)} rows alone, {len(found)} under Weir, {batches}")
            print(f"   lost {sorted(lost)}, more {sorted(more)}")
    many = [sum(len(batches) for _, batches in runs) for runs in (alone, weir)]
    print(
        f"PySpark {pyspark.__version__}: {len(chosen)} combinations, {differ} with other rows; "
        f"{many[0]} batches alone, {many[1]} under Weir; progress by control or note "
        f"{dict(controls.most_common())}; {time.monotonic() - began:.0f} s"
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
