"""Rollouts on a real Spark under a deadline: does the batch that comes again end in time?

``python -m tests.benchmarks.rollouts [--life 100] [--drivers 4]`` runs one load under Weir twice,
one after the other: as Weir is, and without its room for a driver that starts. More waits than can
be read. A probe, as Kubernetes' of liveness, kills the driver whose batch is older than the
deadline; a rollout kills it in mid-batch, every ``--life`` seconds, the first time after twice as
long. A batch's age counts from its plan, or from when its driver had begun to stream. Prints of
each arm what was killed and committed, and of each driver's first batch what it took over the same
rows once warm.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.evidence.job import newest
from tests.service.agents import ROOT, AgentProcess, environment

if TYPE_CHECKING:
    from collections.abc import Iterable

TARGET_SECONDS: Final = 15.0
DEADLINE_SECONDS: Final = 30.0
ROWS_PER_FILE: Final = 20_000
FILES: Final = 20_000
#: What the job configures: few, so that its very first batch ends in time.
FILES_A_BATCH: Final = 4
#: A driver that does not stream after so long never does.
START_SECONDS: Final = 120.0
#: The agent without the room: what it would do was it not for the driver that may start.
WITHOUT: Final = """
import math, sys
import agent.core.decide.size as size
size.restart_rows = lambda *_: math.inf
from agent import cli
sys.argv = ["weir", *sys.argv[4:]]
cli.main()
"""


def job(work: Path, address: str, files: int) -> None:
    """A driver: parses, digests and counts; until it is killed. "" is no agent's address."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    from spark_listener import attach

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("rollouts")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.dir", (work / "events").as_uri())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if address:
        attach(spark, agent_url=address)
    query = (
        spark.readStream.schema("value string")
        .option("maxFilesPerTrigger", files)
        .text(str(work / "in"))
        .select(f.from_json("value", "id long, name string, tags array<string>").alias("row"))
        .select("row.id", f.explode("row.tags").alias("tag"), "row.name")
        .groupBy("tag", f.substring(f.sha2(f.concat("name", "tag"), 256), 1, 2).alias("part"))
        .agg(f.count("id").alias("n"), f.max("name").alias("last"))
        .writeStream.queryName("counts")
        .outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(work / "ck"))
        .start()
    )
    (work / "streams").touch()
    query.awaitTermination()


def feed(folder: Path) -> None:
    """All that waits: one file under many names, as what it holds does not matter."""
    folder.mkdir()
    (folder.parent / "events").mkdir()
    rows = (
        json.dumps({"id": n, "name": f"name {n}", "tags": [f"t{n % 7}", f"t{n % 11}"]})
        for n in range(ROWS_PER_FILE)
    )
    first = folder.parent / "rows"
    first.write_text("\n".join(rows) + "\n")
    for number in range(FILES):
        os.link(first, folder / f"{number:06d}")


class Driver:
    """One process of the job's, with all that it started."""

    def __init__(self, work: Path, address: str, files: int = FILES_A_BATCH) -> None:
        self.work = work
        (work / "streams").unlink(missing_ok=True)
        with (work / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, "--job", str(work), address, str(files)],
                cwd=ROOT,
                env=environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._began = time.monotonic()

    def age_seconds(self) -> float:
        """Of the batch under way; 0 where there is none."""
        try:
            streams = (self.work / "streams").stat().st_mtime
        except FileNotFoundError:
            if time.monotonic() - self._began > START_SECONDS or self._process.poll() is not None:
                end = (self.work / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the driver does not stream: {end}") from None
            return 0.0
        batch = newest(self.work / "ck" / "offsets")
        if batch <= newest(self.work / "ck" / "commits"):
            return 0.0
        planned = (self.work / "ck" / "offsets" / str(batch)).stat().st_mtime
        return time.time() - max(planned, streams)

    @property
    def streams(self) -> bool:
        return (self.work / "streams").exists()

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def run(arm: str, life_seconds: float, drivers: int) -> dict[str, Any]:
    """One arm; its kills, and the batches that its agent heard of."""
    work = Path(tempfile.mkdtemp(prefix="weir-rollouts-"))
    feed(work / "in")
    settings = {
        "WEIR_MODE": "on",
        "WEIR_TARGET_SECONDS": f"{TARGET_SECONDS:g}",
        "WEIR_DEADLINE_SECONDS": f"{DEADLINE_SECONDS:g}",
        "WEIR_ABOVE_CONFIGURED": "true",
        "WEIR_RECORD_FILE": str(work / "record"),
        "WEIR_STATE_DIR": str(work / "state"),
    }
    prefix = (sys.executable, "-c", WITHOUT) if arm == "without" else ()
    kills: list[int] = []
    current: Driver | None = None
    try:
        with AgentProcess(work, env=settings, prefix=prefix) as agent:
            for number in range(drivers):
                # The first lives twice as long, for batches enough to learn what they cost.
                life = life_seconds * (1 if number else 2)
                current = Driver(work, agent.address)
                ends: float | None = None  # this life, counted from its first stream
                while True:
                    time.sleep(0.1)
                    if ends is None and current.streams:
                        ends = time.monotonic() + life
                    age = current.age_seconds()
                    if age > DEADLINE_SECONDS:
                        kills.append(newest(work / "ck" / "offsets"))
                        current.kill()
                        current = Driver(work, agent.address)
                    elif ends is not None and time.monotonic() > ends and age > 1.0:
                        break  # in mid-batch
                current.kill()
                current = None
        batches = batches_of((work / "record").read_text().splitlines())
    finally:
        if current is not None:
            current.kill()
        shutil.rmtree(work, ignore_errors=True)
    return {"kills": kills, "batches": batches}


def batches_of(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Those with rows: run, number, rows, seconds."""
    told = []
    for line in lines:
        event = json.loads(line)
        body = event.get("body", {})
        if event.get("type") == "progress" and body.get("numInputRows"):
            told.append(
                {
                    "run": body["runId"],
                    "batch": body["batchId"],
                    "rows": body["numInputRows"],
                    "seconds": body["durationMs"]["triggerExecution"] / 1e3,
                }
            )
    return told


def warm(batches: list[dict[str, Any]]) -> tuple[float, float]:
    """Seconds a row, and those of an empty batch, of the later half of each run: least squares."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for one in batches:
        runs.setdefault(one["run"], []).append(one)
    later = [one for mine in runs.values() for one in mine[max(len(mine) // 2, 4) :]]
    if len({one["rows"] for one in later}) < 2:
        return math.nan, math.nan
    slope, fixed = statistics.linear_regression(
        [one["rows"] for one in later], [one["seconds"] for one in later]
    )
    return slope, fixed


def told(arm: str, ran: dict[str, Any]) -> str:
    """What one arm came to, in lines."""
    batches = ran["batches"]
    per_row, fixed = warm(batches)
    head = (
        f"{arm}: {len(ran['kills'])} killed of batches {ran['kills']}, "
        f"{sum(one['rows'] for one in batches):,} rows committed in {len(batches)} batches; warm "
        f"{fixed:.2f} s and 1 s for every {1 / per_row:,.0f} rows"
    )
    lines = [head]
    seen: set[str] = set()
    for one in batches:
        if one["run"] not in seen:
            seen.add(one["run"])
            even = fixed + per_row * one["rows"]
            lines.append(
                f"  first batch {one['batch']}: {one['rows']:,} rows, {one['seconds']:.1f} s, warm "
                f"{even:.1f} s: {one['seconds'] - even:.1f} s beside"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--life", type=float, default=100.0, help="seconds until a rollout")
    parser.add_argument("--drivers", type=int, default=4, help="rolled out, one after the other")
    parser.add_argument("--arms", nargs="+", default=["weir", "without"])
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        job(Path(given.job[0]), given.job[1], int(given.job[2]))
        return 0
    for arm in given.arms:
        print(told(arm, run(arm, given.life, given.drivers)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
