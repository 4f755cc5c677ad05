"""Whole jobs in processes of their own: weir-run, sessions that stop, zip import, a job's end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

JOB = """
import sys
from pyspark.sql import SparkSession

def session(name):
    made = (SparkSession.builder.master("local[2]").appName(name)
            .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
            .config("spark.ui.showConsoleProgress", "false").getOrCreate())
    made.sparkContext.setLogLevel("OFF")
    return made

def run(spark, checkpoint, **trigger):
    frame = (spark.readStream.schema("k int, v int").option("maxFilesPerTrigger", "2")
             .json(sys.argv[1]))
    return (frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            .queryName("q").trigger(**trigger).start())
"""


def run(
    command: list[str], job: str, arguments: list[str], tmp_path: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "job.py"
    path.write_text(job)
    return subprocess.run(
        [*command, str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )


def our_warnings(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("weir")]


def under_weir_run(job: str, source: Any, agent: Any, tmp_path: Path, *python: str) -> Any:
    """The job as weir-run runs it: it is told what to read, and where it may write."""
    command = [sys.executable, *python, "-m", "spark_listener.run"]
    given = [str(source.path), str(tmp_path / "out")]
    return run(command, job, given, tmp_path, WEIR_AGENT_URL=agent.url)


@pytest.mark.slow("a Spark of its own; a job's end under weir-run is looked at every time")
def test_weir_run_watches_every_session_of_a_job_nobody_changed(
    agent: Any, folder: Any, tmp_path: Path
) -> None:
    job = JOB + (
        "first = session('one')\n"
        "run(first, sys.argv[2] + '/a', availableNow=True).awaitTermination()\n"
        "run(first.newSession(), sys.argv[2] + '/b', availableNow=True).awaitTermination()\n"
        "first.stop()\n"
        "second = session('two')\n"
        "run(second, sys.argv[2] + '/c', availableNow=True).awaitTermination()\n"
        "def within(frame, batch):\n"
        "    place = f'{sys.argv[2]}/d{batch}'\n"
        "    run(frame.sparkSession, place, availableNow=True).awaitTermination()\n"
        "(second.readStream.schema('k int, v int').json(sys.argv[1]).writeStream\n"
        " .foreachBatch(within).option('checkpointLocation', sys.argv[2] + '/e')\n"
        " .trigger(availableNow=True).start().awaitTermination())\n"
        "second.stop()\n"
        "print('rows done')\n"
        "sys.exit(5)\n"
    )
    done = under_weir_run(job, folder(files=6), agent, tmp_path)
    assert done.returncode == 5, done.stderr[-3000:]
    assert "rows done" in done.stdout
    assert our_warnings(done) == []
    names = {request["application"]["name"] for request in agent.requests}
    assert names == {"one", "two"}
    assert len(agent.of("started")) == 5
    assert len(agent.of("terminated")) == 5
    assert not any(event["body"].get("driverEnded") for event in agent.of("terminated"))
    assert len(agent.of("progress")) >= 9


@pytest.mark.slow("a Spark of its own; a job's end under weir-run is looked at every time")
def test_the_two_lines_of_the_page_bring_weir_run_into_spark_submit(
    agent: Any, folder: Any, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "driver.md").read_text("utf-8")
    (lines,) = re.findall(r"```python\n(from spark_listener\.run .*?)```", page, re.DOTALL)
    launcher = tmp_path / "elsewhere" / "weir-job.py"
    launcher.parent.mkdir()
    launcher.write_text(lines)
    (tmp_path / "beside.py").write_text("name = 'a module of the job'")
    job = JOB + (
        "import beside\n"
        "spark = session('ours')\n"
        "print(beside.name, spark.conf.get('spark.given'))\n"
        "run(spark, sys.argv[2], availableNow=True).awaitTermination()\n"
        "sys.exit(5)\n"
    )
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    given = [str(folder(files=4).path), str(tmp_path / "ck")]
    command = [submit, "--conf", "spark.given=by spark-submit", str(launcher)]
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = run(command, job, given, tmp_path, WEIR_AGENT_URL=agent.url, **python)
    assert done.returncode == 5, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["a module of the job by spark-submit"]
    assert our_warnings(done) == []
    assert len(agent.of("progress")) >= 2


def test_weir_run_leaves_a_session_as_it_is_until_it_streams(
    agent: Any, folder: Any, tmp_path: Path
) -> None:
    """Spark copies the Hadoop configuration when a session is first used, be it by us.

    PySpark is in reach by the job's own code alone, as with ``findspark``.
    """
    packages = str(Path(pyspark.__file__).parents[1])
    job = (
        f"import sys\nassert {packages!r} not in sys.path\nsys.path.insert(0, {packages!r})\n"
        + JOB
        + "spark = session('late')\n"
        "spark._jsc.hadoopConfiguration().set('weir.test', 'said late')\n"
        "print(spark._jsparkSession.sharedState().hadoopConf().get('weir.test'))\n"
        "run(spark, sys.argv[2], availableNow=True).awaitTermination()\n"
        "spark.stop()\n"
    )
    done = under_weir_run(job, folder(files=2), agent, tmp_path, "-S")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["said late"]
    assert our_warnings(done) == []
    assert len(agent.of("started")) == 1, "it is watched all the same"


@pytest.mark.slow("a Spark of its own; that a job is watched is looked at every time")
def test_weir_run_attaches_nothing_that_the_job_took_off(
    agent: Any, folder: Any, tmp_path: Path
) -> None:
    job = JOB + (
        "from spark_listener import attach, detach\n"
        "def another(name, take_off):\n"
        "    made = spark.newSession()\n"
        "    take_off(made)\n"
        "    run(made, f'{sys.argv[2]}/{name}', availableNow=True).awaitTermination()\n"
        "spark = session('own words')\n"
        "another('refused', lambda made: attach(made, enabled=False))\n"
        "another('taken off', lambda made: attach(made).detach())\n"
        "another('detached', detach)\n"
        "another('watched', lambda made: None)\n"
        "another('all detached', lambda made: detach())\n"
        "attach(spark)\n"
        "another('watched again', lambda made: None)\n"
        "spark.stop()\n"
    )
    done = under_weir_run(job, folder(files=2), agent, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    places = [Path(event["body"]["checkpointLocation"]).name for event in agent.of("started")]
    assert places == ["watched", "watched again"]


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("", marks=pytest.mark.slow("as the one that stops its query, without a word")),
        pytest.param(
            "spark.stop()\n", marks=pytest.mark.slow("as the one that stops its query, and Spark")
        ),
        pytest.param(
            "raise RuntimeError('mine')\n",
            marks=pytest.mark.slow("as the one that stops its query, with an error"),
        ),
        "query.stop()\n",
    ],
)
def test_a_job_ends_as_it_would_with_its_queries_running(
    agent: Any, folder: Any, tmp_path: Path, ending: str
) -> None:
    job = JOB + (
        "spark = session('ends')\n"
        "query = run(spark, sys.argv[2], processingTime='300 milliseconds')\n"
        "import time\n"
        "while not query.lastProgress: time.sleep(0.1)\n"
        "time.sleep(1.5)\n"  # events reach listeners late
        "print('seen')\n" + ending
    )
    done = under_weir_run(job, folder(files=60), agent, tmp_path)
    assert done.returncode == (1 if "raise" in ending else 0), done.stderr[-3000:]
    assert "seen" in done.stdout
    assert our_warnings(done) == []
    assert "weir" not in done.stderr.lower().replace(str(ROOT).lower(), ""), done.stderr
    assert agent.of("started")
    assert agent.of("progress")
    assert agent.wait(lambda a: a.of("terminated"), 5.0)
    (told,) = (event["body"] for event in agent.of("terminated"))
    stopped = told["exception"] is None and not told.get("driverEnded", False)
    assert stopped == (ending == "query.stop()\n"), "else it ran when its driver ended"


@pytest.mark.slow("a Spark of its own; whose connections are whose is looked at every time")
def test_where_threads_share_connections_the_jobs_own_are_left_to_it(
    agent: Any, folder: Any, tmp_path: Path
) -> None:
    """Each is a thread of the JVM's, and knows its pool, its job group and its active session."""
    job = JOB + (
        "import psutil, threading, time\n"
        "from spark_listener import attach\n"
        "spark = session('unpinned')\n"
        "own, by = spark.sparkContext._gateway._gateway_client, set()\n"
        "create = own._create_connection\n"
        "def noted():\n"
        "    by.add(threading.current_thread().name)\n"
        "    return create()\n"
        "own._create_connection = noted\n"
        # What Python collects within a call of the job's goes by one more of the job's own.
        "connected = lambda: len(psutil.Process().net_connections()) - len(own.deque)\n"
        "before = connected()\n"
        "attached = attach(spark, heartbeat_seconds=0.3)\n"
        "query = run(spark, sys.argv[2], processingTime='0 seconds')\n"
        "found = []\n"
        "for count in range(200):\n"
        "    spark.sparkContext.setLocalProperty('spark.scheduler.pool', str(count))\n"
        "    time.sleep(0.005)\n"
        "    pool = spark.sparkContext.getLocalProperty('spark.scheduler.pool')\n"
        "    found.append((pool == str(count), SparkSession.getActiveSession() is not None))\n"
        "query.processAllAvailable()\n"
        "attached.detach()\n"
        "for _ in range(50):\n"  # a connection is gone a moment after it is closed
        "    if connected() == before: break\n"
        "    time.sleep(0.1)\n"
        "print(set(found), attached, connected() - before, by <= {'MainThread'})\n"
        "spark.stop()\n"
    )
    given = [str(folder(files=6).path), str(tmp_path / "out")]
    environment = {"PYSPARK_PIN_THREAD": "false", "WEIR_AGENT_URL": agent.url}
    done = run([sys.executable], job, given, tmp_path, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert our_warnings(done) == []
    assert done.stdout.splitlines() == [
        "{(True, True)} <weir off: detached, or Spark is gone> 0 True"
    ]
    assert len(agent.of("progress")) >= 3


@pytest.mark.slow("a Spark of its own; what py4j tells of calls is looked at every time")
def test_the_jobs_log_is_as_it_was_set_up_and_holds_no_call_of_ours(
    agent: Any, folder: Any, tmp_path: Path
) -> None:
    """Also where the JVM goes before the process, while threads of ours wait for its answer."""
    job = JOB + (
        "import logging, threading, time\n"
        "from pyspark import SparkContext\n"
        "from spark_listener import attach\n"
        "told = []\n"
        "class Keep(logging.Handler):\n"
        "    def emit(self, record): told.append((record.threadName, record.getMessage()))\n"
        "spark = session('logs')\n"
        "logging.getLogger('py4j').setLevel('DEBUG')\n"
        "logging.getLogger('py4j').addHandler(Keep())\n"
        "attach(spark)\n"
        "print([one for one in told if one[0] == 'MainThread'])\n"
        "query = run(spark, sys.argv[2], processingTime='300 milliseconds')\n"
        "query.processAllAvailable()\n"
        "query.stop()\n"
        "print(bool(told))\n"
        "spark.stop()\n"
        "SparkContext._gateway.shutdown()\n"
        "while any(one.name.startswith('weir-') for one in threading.enumerate()):\n"
        "    time.sleep(0.1)\n"
        "print([one for one in told if one[0].startswith(('weir-', 'Dummy-'))])\n"
        "print(logging.getLogger().handlers)\n"
    )
    given = [str(folder(files=6).path), str(tmp_path / "out")]
    done = run([sys.executable], job, given, tmp_path, WEIR_AGENT_URL=agent.url)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["[]", "True", "[]", "[]"]
    assert len(agent.of("progress")) >= 3


@pytest.mark.slow("the wheel itself reports a real query in tests/packaging")
def test_from_a_wheel_as_py_files_ships_it(agent: Any, folder: Any, tmp_path: Path) -> None:
    """Imported out of a zip, with nothing else of this repository in reach."""
    wheel = tmp_path / "weir.zip"
    with zipfile.ZipFile(wheel, "w") as archive:
        for module in (ROOT / "spark_listener").glob("*.py"):
            archive.write(module, f"spark_listener/{module.name}")
    job = (
        f"import sys; sys.path.insert(0, {str(wheel)!r})\n"
        + JOB
        + (
            "import spark_listener\n"
            "assert '.zip' in spark_listener.__file__, spark_listener.__file__\n"
            "from spark_listener import attach\n"
            "spark = session('zipped')\n"
            "made = attach(spark)\n"
            "from spark_listener import attach, detach\n"
            "assert attach(spark).active and made.active\n"
            "run(spark, sys.argv[2], availableNow=True).awaitTermination()\n"
            "detach(spark)\n"
            "assert not made.active\n"
        )
    )
    done = run(
        [sys.executable],
        job,
        [str(folder(files=6).path), str(tmp_path / "ck")],
        tmp_path,
        WEIR_AGENT_URL=agent.url,
        PYTHONPATH="",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(agent.of("progress")) >= 3
