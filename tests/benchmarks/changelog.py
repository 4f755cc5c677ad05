"""Changelog checkpointing on against off at three state sizes, as FLIP-158 compared its backends.

``python -m tests.benchmarks.changelog [--batches 20] [--sizes 20000,100000,400000]`` runs one
stateful RocksDB query for each and prints a JSON object a line: commit time of a batch (p50, p99,
summed over partitions), bytes written to the checkpoint per batch (from the files themselves), and
how long a restarted query needs for its first batch, which must load the state.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PARTITIONS = 2
CHANGED_ROWS = 500
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(round(share * (len(ordered) - 1)), len(ordered) - 1)]


def state_files(checkpoint: Path) -> dict[str, int]:
    """Size of every file of the state, by path."""
    found = {}
    for directory, _, names in os.walk(checkpoint / "state"):
        for name in names:
            path = Path(directory, name)
            try:
                found[str(path)] = path.stat().st_size
            except FileNotFoundError:
                continue
    return found


def measure(spark: Any, work: Path, size: int, batches: int) -> dict[str, Any]:
    source, checkpoint = work / "in", work / "ck"
    source.mkdir(parents=True)

    def put(name: str, keys: range) -> None:
        hidden = source / f".{name}"
        hidden.write_text("\n".join(json.dumps({"key": k, "text": f"{k:064d}"}) for k in keys))
        hidden.rename(source / name)

    put("0000.json", range(size))

    def start() -> Any:
        rows = spark.readStream.schema("key long, text string").option("maxFilesPerTrigger", 1)
        return (
            rows.json(str(source))
            .groupBy("key", "text")
            .count()
            .writeStream.outputMode("update")
            .format("noop")
            .option("checkpointLocation", str(checkpoint))
            .start()
        )

    def wait(query: Any, batch: int) -> Any:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            done = [p for p in query.recentProgress if p["batchId"] == batch and p["numInputRows"]]
            if done:
                return done[-1]
            time.sleep(0.05)
        raise TimeoutError(f"batch {batch} did not end")

    query = start()
    wait(query, 0)
    commits, written = [], []
    for batch in range(1, batches + 1):
        before = state_files(checkpoint)
        first = (batch * CHANGED_ROWS) % max(size - CHANGED_ROWS, 1)
        put(f"{batch:04d}.json", range(first, first + CHANGED_ROWS))
        progress = wait(query, batch)
        after = state_files(checkpoint)
        commits.append(progress["stateOperators"][0]["commitTimeMs"] / 1000.0)
        written.append(sum(after[path] for path in after.keys() - before.keys()))
    query.stop()
    put(f"{batches + 1:04d}.json", range(CHANGED_ROWS))
    spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    began = time.monotonic()
    query = start()
    wait(query, batches + 1)
    recovery = time.monotonic() - began
    query.stop()
    return {
        "commit_p50_seconds": round(percentile(commits, 0.5), 3),
        "commit_p99_seconds": round(percentile(commits, 0.99), 3),
        "bytes_per_batch": round(sum(written) / len(written)),
        "recovery_seconds": round(recovery, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--sizes", default="20000,100000,400000")
    arguments = parser.parse_args()
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("changelog")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.sql.streaming.minBatchesToRetain", "1000")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    key = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    try:
        for size in (int(part) for part in arguments.sizes.split(",")):
            for changelog in (False, True):
                spark.conf.set(key, str(changelog).lower())
                with tempfile.TemporaryDirectory(prefix="weir-changelog-") as directory:
                    found = measure(spark, Path(directory), size, arguments.batches)
                print(json.dumps({"state_rows": size, "changelog": changelog, **found}), flush=True)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
