"""Jobs in Java and Scala, compiled once, run by ``spark-submit`` with and without the plugin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from spark_listener import plugin
from tests.kafka.broker import free_ports
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JOBS = Path(__file__).parent / "jobs"
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
#: An application of a cluster: one core, little memory.
SMALL = (
    *("--conf", "spark.executor.memory=512m"),
    *("--conf", "spark.driver.memory=512m"),
    *("--conf", "spark.cores.max=1"),
    *("--conf", "spark.executor.cores=1"),
    *("--conf", "spark.driver.host=127.0.0.1"),
    *("--conf", f"spark.driver.extraJavaOptions={' '.join(OPENED)}"),
)


class Jobs:
    """What the jobs are, compiled against this Spark when one is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def jar(self, main: str) -> Path:
        """With the job of this name in it."""
        (source,) = JOBS.glob(f"{main}.*")
        jar = self._folder / f"{main}.jar"
        if not jar.exists():
            self._compile(source, jar)
        return jar

    def _compile(self, source: Path, jar: Path) -> None:
        jars = f"{SPARK}/jars/*"
        compiler = ["java", "-cp", jars, "scala.tools.nsc.Main", "-usejavacp"]
        if source.suffix == ".java":
            javac = shutil.which("javac")
            if javac is None and os.environ.get("CI") != "true":
                pytest.skip("javac is missing")
            assert javac, "javac is missing"
            compiler = [javac, "--release", "17", "-Xlint:-path", "-cp", jars]
        classes = jar.with_suffix("")
        classes.mkdir()
        done = subprocess.run(
            [*compiler, "-d", str(classes), str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with zipfile.ZipFile(jar, "w") as archive:
            for path in classes.rglob("*.class"):
                archive.write(path, path.relative_to(classes))


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(tmp_path_factory.mktemp("jobs"))


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


class Bench:
    """A directory of files, one of doors, and jobs that read the former."""

    def __init__(self, folder: Path, jobs: Jobs) -> None:
        self.folder = folder
        self.doors = folder / "doors"
        self.input = folder / "in"
        self.hang = folder / "hang"
        self.input.mkdir()
        self._compiled = jobs
        self._jobs: list[Job] = []

    def files(self, count: int, rows: int = 10) -> None:
        """So many more files to read; each line is its own."""
        for number in range(count):
            path = self.input / f"{time.time_ns()}-{number}.txt"
            lines = "".join(f"{path.stem} {row}\n" for row in range(rows))
            path.with_suffix(".tmp").write_text(lines)
            path.with_suffix(".tmp").rename(path)

    def submit(
        self,
        main: str | Path = "JavaJob",
        *,
        name: str = "job",
        limit: str = "5",
        seconds: float = 600,
        ending: str = "stop",
        ways: tuple[str, ...] = plugin.CONFS[:1],
        conf: tuple[str, ...] = (),
        master: tuple[str, ...] = ("--master", "local[2]"),
        application: str = "a job",
        hang: bool = False,
    ) -> Job:
        """Runs a job. ``ways``: the settings that name the plugin, if any.

        ``hang``: its batches wait while there is a file ``bench.hang``.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        options = [
            *master,
            *("--name", application),
            *("--conf", "spark.ui.enabled=false"),
            *("--conf", "spark.sql.shuffle.partitions=2"),
        ]
        for one in conf:
            options += ["--conf", one]
        if ways:
            options += self.plugin(*ways)
        arguments = [str(self.input), f"{folder}/out", f"{folder}/ck", limit, str(seconds), ending]
        arguments += [str(self.hang)] if hang else []
        what = (
            [str(main)]
            if isinstance(main, Path)
            else ["--class", main, str(self._compiled.jar(str(main)))]
        )
        return self.run(folder, str(SPARK / "bin/spark-submit"), *options, *what, *arguments)

    def plugin(self, *ways: str) -> list[str]:
        """The conf pair, with doors of the bench's own; ``ways``: the settings that name it."""
        return [
            *("--jars", str(plugin.JAR)),
            *(one for way in ways for one in ("--conf", f"{way}={plugin.NAME}")),
            *("--conf", f"spark.weir.door.dir={self.doors}"),
        ]

    def run(self, folder: Path, *command: str) -> Job:
        """Any command, ended with the test; ``folder`` gets what it says, and is its own."""
        folder.mkdir(exist_ok=True)
        environ = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("SPARK_", "WEIR_")) or key in JVM_OPTIONS
        }
        environ |= {"PYTHONPATH": os.pathsep.join(PATH), "PYSPARK_PYTHON": sys.executable}
        process = subprocess.Popen(
            command,
            stdout=(folder / "job.out").open("w"),
            stderr=(folder / "job.err").open("w"),
            text=True,
            env=environ,
            cwd=folder,
        )
        job = Job(process, folder)
        self._jobs.append(job)
        return job

    def read(self, name: str = "job") -> list[str]:
        """Every line that the job has written, in order."""
        found: list[str] = []
        for path in (self.folder / name / "out").rglob("part-*.txt"):
            found += path.read_text().splitlines()
        return sorted(found)

    def batches(self, name: str = "job") -> list[int]:
        """How many files each batch read, in order, by the source's own log."""
        found: dict[int, int] = {}
        for path in (self.folder / name / "ck/sources/0").glob("[0-9]*"):
            # A compacted one repeats those before it.
            files = [json.loads(line) for line in path.read_text().splitlines()[1:]]
            found |= Counter(one["batchId"] for one in files)
        return [found[number] for number in sorted(found)]

    def all_lines(self) -> list[str]:
        found: list[str] = []
        for path in self.input.glob("*.txt"):
            found += path.read_text().splitlines()
        return sorted(found)

    def end(self) -> None:
        for job in self._jobs:
            if job.process.poll() is None:
                job.process.kill()
                job.process.wait()


@pytest.fixture
def bench(tmp_path: Path, jobs: Jobs) -> Iterator[Bench]:
    made = Bench(tmp_path, jobs)
    yield made
    made.end()


@pytest.fixture
def agent(bench: Bench, tmp_path: Path) -> Iterator[AgentProcess]:
    folder = tmp_path / "agent"
    folder.mkdir()
    options = ("--target-seconds", "1", "--state-dir", str(tmp_path / "state"))
    with AgentProcess(folder, "--doors", str(bench.doors), *options) as running:
        yield running


@pytest.fixture
def query(agent: AgentProcess) -> Callable[[str], dict[str, Any]]:
    """What the agent knows of a query, once it does."""

    def found(name: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            told = agent.http.get("/v1/queries").json()["queries"]
            return next((one for one in told if one["query"] == name and one["sources"]), None)

        return until(look, f"the query {name}")

    return found


@pytest.fixture
def master(bench: Bench) -> str:
    """The address of a Master with two Workers."""
    spark_class = str(SPARK / "bin/spark-class")
    (port,) = free_ports(1)
    address = f"spark://127.0.0.1:{port}"
    head = bench.run(
        bench.folder / "master",
        *(spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
        *("--port", str(port), "--webui-port", "0"),
    )
    until(lambda: "I have been elected leader" in head.err, "the Master")
    for number in (1, 2):
        folder = bench.folder / f"worker-{number}"
        worker = bench.run(
            folder,
            *(spark_class, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
            *("--webui-port", "0", "--cores", "2", "--memory", "2g"),
            *("--work-dir", str(folder / "work"), address),
        )
        until(
            lambda worker=worker: "Successfully registered with master" in worker.err, "the Worker"
        )
    return address
