"""Jobs in Java and Scala, compiled once, run by ``spark-submit`` with and without the plugin."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from spark_listener import plugin
from tests.lacking import plugin_jar, program
from tests.plugin.cluster import OPENED, SPARK, Children, start_cluster
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.plugin.cluster import Job

JOBS = Path(__file__).parent / "jobs"
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
        compiler = [program("java"), "-cp", jars, "scala.tools.nsc.Main", "-usejavacp"]
        if source.suffix == ".java":
            compiler = [program("javac"), "--release", "17", "-Xlint:-path", "-cp", jars]
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


class Bench(Children):
    """A directory of files, one of doors, and jobs that read the former."""

    def __init__(self, folder: Path, jobs: Jobs) -> None:
        super().__init__()
        self.folder = folder
        self.doors = folder / "doors"
        self.input = folder / "in"
        self.hang = folder / "hang"
        self.input.mkdir()
        self._compiled = jobs
        self.submitted: list[Job] = []

    def files(self, count: int, rows: int = 10) -> None:
        """So many more files to read; each line is its own."""
        paths = [self.input / f"{time.time_ns()}-{number}.txt" for number in range(count)]
        for path in paths:
            lines = "".join(f"{path.stem} {row}\n" for row in range(rows))
            path.with_name(f".{path.name}").write_text(lines)
        for path in paths:  # together: of what is listed in between Spark keeps a shorter list
            path.with_name(f".{path.name}").rename(path)

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
        job = self.run(folder, str(SPARK / "bin/spark-submit"), *options, *what, *arguments)
        self.submitted.append(job)
        return job

    def plugin(self, *ways: str) -> list[str]:
        """The conf pair, with doors of the bench's own; ``ways``: the settings that name it."""
        return [
            *("--jars", str(plugin_jar())),
            *(one for way in ways for one in ("--conf", f"{way}={plugin.NAME}")),
            *("--conf", f"spark.weir.door.dir={self.doors}"),
        ]

    def read(self, name: str = "job", out: str = "out") -> list[str]:
        """Every line that the job has written, in order.

        By the sink's own log, as Spark reads it: an executor that dies leaves files of tasks that
        ran again elsewhere.
        """
        parts: set[str] = set()
        for log in (self.folder / name / out / "_spark_metadata").glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError):  # one that was compacted meanwhile
                parts |= {json.loads(line)["path"] for line in log.read_text().splitlines()[1:]}
        found: list[str] = []
        for part in parts:
            found += Path(urlsplit(part).path).read_text().splitlines()
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
def query(bench: Bench, agent: AgentProcess) -> Callable[[str], dict[str, Any]]:
    """What the agent knows of a query, once it does."""

    def found(name: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            told = agent.http.get("/v1/queries").json()["queries"]
            return next((one for one in told if one["query"] == name and one["sources"]), None)

        def told() -> str:
            known = agent.http.get("/v1/queries").text
            jobs = "\n".join(f"{job.out}\n{job.err}" for job in bench.submitted)
            return f"{known}\n{jobs}\n{agent.log()}"

        return until(look, f"the query {name}", telling=told)

    return found


@pytest.fixture
def master(bench: Bench) -> str:
    """The address of a Master with two Workers."""
    return start_cluster(bench, bench.folder)
