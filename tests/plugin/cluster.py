"""Processes of Spark's: jobs that are submitted, and a standalone cluster, Master and Workers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyspark

from tests.kafka.broker import free_ports
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
#: For short lives: tests/conftest.py sets them.
JVM_OPTIONS = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
#: Before this checkout the PySpark that is tried, where that is not the installed one.
PATH = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one] + [str(ROOT)]
#: What Java 17 wants, and Spark 3.5 starts a cluster's driver without.
OPENED = [
    f"--add-opens=java.base/{one}=ALL-UNNAMED"
    for one in ("java.lang", "java.net", "java.nio", "java.util", "sun.nio.ch", "sun.util.calendar")
]


@dataclass
class Job:
    """A job as it runs."""

    process: subprocess.Popen[str]
    folder: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def out(self) -> str:
        return (self.folder / "job.out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "job.err").read_text()

    def wait(self, seconds: float = 120) -> int:
        return self.process.wait(seconds)


class Children:
    """Processes, each with a folder of its own, that end with whoever started them."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self.environment: dict[str, str] = {}  # of what is run from now on, beside the usual

    def running(self) -> list[Job]:
        """Those that have not ended."""
        return [job for job in self._jobs if job.process.poll() is None]

    def run(self, folder: Path, *command: str) -> Job:
        """Any command; ``folder`` gets what it says, and is its own."""
        folder.mkdir(exist_ok=True)
        environ = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("SPARK_", "WEIR_")) or key in JVM_OPTIONS
        }
        environ |= {"PYTHONPATH": os.pathsep.join(PATH), "PYSPARK_PYTHON": sys.executable}
        environ |= self.environment
        with (folder / "job.out").open("w") as out, (folder / "job.err").open("w") as err:
            process = subprocess.Popen(
                command, stdout=out, stderr=err, text=True, env=environ, cwd=folder
            )
        job = Job(process, folder)
        self._jobs.append(job)
        return job

    def end(self) -> None:
        for job in self._jobs:
            if job.process.poll() is None:
                job.process.kill()
                job.process.wait()


def living(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    """Those that have not ended."""
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.status() != psutil.STATUS_ZOMBIE:
                yield one


def start_cluster(
    children: Children, folder: Path, *, workers: int = 2, cores: int = 2, memory: str = "2g"
) -> str:
    """The address of a Master with so many Workers of so many cores."""
    spark_class = str(SPARK / "bin/spark-class")
    (port,) = free_ports(1)
    address = f"spark://127.0.0.1:{port}"
    head = children.run(
        folder / "master",
        *(spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
        *("--port", str(port), "--webui-port", "0"),
    )
    until(lambda: "I have been elected leader" in head.err, "the Master")
    for number in range(1, workers + 1):
        own = folder / f"worker-{number}"
        worker = children.run(
            own,
            *(spark_class, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
            *("--webui-port", "0", "--cores", str(cores), "--memory", memory),
            *("--work-dir", str(own / "work"), address),
        )
        until(
            lambda worker=worker: "Successfully registered with master" in worker.err, "the Worker"
        )
    return address
