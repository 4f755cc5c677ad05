"""A cluster of two hosts, one of them slow, and what Spark's REST API tells of a query on it.

Run as ``python -m tests.judgement.slow_host FOLDER``: a master and two workers, each a process of
its own on a loopback address of its own, which makes two hosts of them for Spark; the executor on
the second one is stopped and let go on by turns. The query's tasks are alike. The last line printed
is JSON: the worst alignment of each look, and which executor was slowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import msgspec
import psutil
import pyspark

from agent.core.judge.alignment import worst
from agent.sources.spark_rest import SparkRest
from tests.kafka.broker import free_ports
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS: Final = ("127.0.0.1", "127.0.0.2")
PARTITIONS: Final = 16
START_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 240.0
#: By turns: the slow executor has a quarter of the time.
STOPPED_SECONDS: Final = 0.3
RUNNING_SECONDS: Final = 0.1
_HOME: Final = Path(pyspark.__file__).parent
_SMALL_JVM: Final = "-Xms64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A standalone master and a worker a host; the master's address, and the workers."""
    (port,) = free_ports(1)
    master = f"spark://{HOSTS[0]}:{port}"
    environment = {
        **os.environ,
        "SPARK_HOME": str(_HOME),
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": _SMALL_JVM,
        "PYSPARK_PYTHON": sys.executable,
    }
    running: list[subprocess.Popen[bytes]] = []

    def launch(name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("wb") as log:
            command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
            one = subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=log, env=environment, cwd=folder
            )
        running.append(one)
        return one

    try:
        launch(
            *("master", "master.Master", "--host", HOSTS[0]),
            *("--port", str(port), "--webui-port", "0"),
        )
        said = folder / "master.log"
        until(
            lambda: "I have been elected leader" in said.read_text(),
            "the master",
            seconds=START_SECONDS,
            every=0.1,
            telling=said.read_text,
        )
        workers = [
            launch(
                *(f"worker-{number}", "worker.Worker", "--host", host, "--port", "0"),
                *("--webui-port", "0", "--cores", "1", "--memory", "700m"),
                *("--work-dir", str(folder / f"work-{number}"), master),
            )
            for number, host in enumerate(HOSTS)
        ]
        yield master, workers
    finally:
        for one in reversed(running):
            for child in [*psutil.Process(one.pid).children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    child.kill()
            one.kill()
            one.wait()


class Slowed:
    """Stops a process and lets it go on, by turns, until the end of the block."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(psutil.Error):
            self._process.resume()

    def _run(self) -> None:
        with contextlib.suppress(psutil.Error):
            while not self._ended.is_set():
                self._process.suspend()
                self._ended.wait(STOPPED_SECONDS)
                self._process.resume()
                self._ended.wait(RUNNING_SECONDS)


def executor_of(worker: subprocess.Popen[bytes]) -> psutil.Process | None:
    for child in psutil.Process(worker.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                return child
    return None


def session(master: str) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": HOSTS[0],
        "spark.driver.bindAddress": HOSTS[0],
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.executor.extraJavaOptions": _SMALL_JVM.replace("-Xms64m ", ""),
        # No task before both hosts are there.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.adaptive.enabled": "false",
        "spark.locality.wait": "0s",
    }
    builder = SparkSession.builder.master(master).appName("slow-host")
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def run(folder: Path) -> dict[str, Any]:
    source = folder / "in"
    source.mkdir()
    with cluster(folder) as (master, workers):
        spark = session(master)
        frame = (
            spark.readStream.schema("value long")
            .option("maxFilesPerTrigger", 1)
            .json(str(source))
            .repartition(PARTITIONS)  # in turn: each task gets as many rows
            .selectExpr("aggregate(sequence(1, 2500), 0L, (a, x) -> a + hash(a, x, value)) as v")
        )
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(folder / "ck"))
            .start()
        )
        feed(source, 0)
        slow = until(
            lambda: executor_of(workers[1]),
            "an executor on the second host",
            seconds=START_SECONDS,
            every=0.1,
        )
        found = re.search(r"--executor-id (\S+)", " ".join(slow.cmdline()))
        assert found is not None
        with Slowed(slow):
            looks = asyncio.run(look_until(spark, query, source))
        query.stop()
        spark.stop()
    return {"looks": looks, "executor": found[1], "host": HOSTS[1]}


def feed(source: Path, number: int) -> None:
    rows = "\n".join(json.dumps({"value": number * 10_000 + row}) for row in range(1600))
    (source / f".{number}").write_text(rows)
    (source / f".{number}").rename(source / f"{number:06d}.json")


async def look_until(spark: Any, query: Any, source: Path) -> list[dict[str, Any]]:
    """Looks at one batch after another until a slow host is said, or time is up."""
    context, said, number = spark.sparkContext, [], 0
    seen: int | None = None
    end = time.monotonic() + LOOK_SECONDS
    async with httpx.AsyncClient() as client:
        while time.monotonic() < end and query.isActive:
            rest = SparkRest(context.uiWebUrl, context.applicationId, client)
            found = await rest.look(str(query.runId))
            if found.batch_id != seen:
                number, seen = number + 1, found.batch_id
                feed(source, number)
            one = worst(found.alignments)
            if one is not None:
                said.append({"batch": found.batch_id, **msgspec.to_builtins(one)})
                if one.why == "slow_host":
                    break
            await asyncio.sleep(0.5)
    return said


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]))))
