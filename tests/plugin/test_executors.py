"""Executors of a real cluster follow the load, and the job's rows are what they would have been."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.plugin.cluster import SPARK, start_cluster
from tests.plugin.conftest import JOBS
from tests.plugin.scaling import (
    HIGH,
    LOCAL_CLUSTER,
    LOW,
    MOST,
    SMALL_LOCAL,
    Course,
    Load,
    config,
    configured,
    executor_processes,
)
from tests.service.agents import weir
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugin.conftest import Bench
    from tests.service.agents import AgentProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.slow("a cluster whose executors come and go, each after some quiet seconds"),
]


@pytest.fixture
def scaling(bench: Bench, tmp_path: Path) -> Iterator[AgentProcess]:
    with configured(tmp_path / "agent", bench.doors) as running:
        yield running


@pytest.fixture
def patient(bench: Bench, tmp_path: Path) -> Iterator[AgentProcess]:
    """One executor keeps its target at a low load even where a batch takes seconds of itself."""
    with configured(tmp_path / "agent", bench.doors, config(target_seconds=15)) as running:
        yield running


#: How many events the status store lets wait for it.
QUEUE = "spark.scheduler.listenerbus.eventqueue.appStatus.capacity"
#: Each that is killed takes its state with it, and some seconds of all others.
HIGH_WITH_STATE_AND_KILLS = 40


class Killer:
    """Kills one executor after the other, whichever and whenever its seed draws."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._over = threading.Event()
        self.killed = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # Rarer than the quiet time and what an executor takes to come back and warm up on a slow
        # machine: else the load that is left to the others is more than they digest, and none goes.
        while not self._over.wait(self._draw.uniform(45.0, 75.0)):
            if found := executor_processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._draw.choice(found).kill()
                    self.killed += 1

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def test_executors_come_when_a_load_needs_them_and_go_when_switched_off(
    bench: Bench, patient: AgentProcess
) -> None:
    """However slow the machine; how well they follow is for the courses."""
    course = Course(bench, patient, LOCAL_CLUSTER)
    course.load.rows = LOW // 4
    try:
        course.until(lambda: course.present() == 1, "one executor at a low load")
        course.load.rows = course.high
        course.until(lambda: course.present() >= 2, "more executors")
        done = weir("mode", "off", "waiting/*", "--url", patient.address)
        assert done.returncode == 0, done.stderr
        course.until(lambda: course.present() == MOST, "the job's own number")
    finally:
        course.load.end()
    (bench.folder / "stop").touch()
    assert course.job.wait(240) == 0, course.job.err[-3000:]
    assert bench.read() == bench.all_lines()


@pytest.mark.course("a load that waits for nobody, and executors killed at random meanwhile")
@pytest.mark.parametrize(
    ("where", "state", "queries"),
    [
        ("standalone", True, 1),
        ("standalone", False, 2),
        ("local-cluster", False, 1),
    ],
)
def test_executors_follow_the_load(
    bench: Bench, scaling: AgentProcess, where: str, *, state: bool, queries: int
) -> None:
    """Up, down, while they are killed at random, and back to the job's own number."""
    master = LOCAL_CLUSTER if where == "local-cluster" else start_cluster(bench, bench.folder)
    course = Course(bench, scaling, master, state=state, queries=queries)
    if state:
        course.high = HIGH_WITH_STATE_AND_KILLS
    own = 0

    def one_is_enough() -> bool:
        nonlocal own
        present = course.present()
        own = max(own, present)
        return present == 1

    try:
        course.until(one_is_enough, "one executor at a low load")
        course.load.rows = course.high
        course.until(lambda: course.present() >= 2, "more executors", seconds=120)
        killer = Killer(len(where))
        try:
            course.until(course.caught_up, "what waited is caught up with", seconds=400)
            until(lambda: killer.killed >= 2, "some to be killed", seconds=180)
            course.load.rows = course.low
            course.until(lambda: course.present() == 1, "fewer executors", seconds=400)
        finally:
            killer.end()
        done = weir("mode", "off", "waiting/*", "--url", scaling.address)
        assert done.returncode == 0, done.stderr
        course.until(lambda: course.present() == own, "the job's own number", seconds=120)
    finally:
        course.load.end()
    print(f"{killer.killed} executors were killed; the job's own number is {own}")
    (bench.folder / "stop").touch()
    assert course.job.wait(240) == 0, course.job.err[-3000:]
    for number in range(queries):
        assert bench.read(out=f"out{number or ''}") == bench.all_lines()
    asked = {(one["executors"] or {"asked": 1})["asked"] for one in course.seen}
    assert asked <= {None, 1, 2, MOST}
    print(course.told())


#: By what bounds it: the mode, how many executors there may be, and what is wanted in the end.
#: That a lock is shared shows only by what more executors brought: they come and go there. A scan
#: of files has as many tasks as there are cores, and more where more executors come.
REASONS = {
    "tasks": ("dry-run", 4, 1),
    "critical_path": ("dry-run", 4, None),
    "driver": ("dry-run", 4, 1),
    "contention": ("on", 3, 1),
    "maximum": ("dry-run", 1, 1),
    "scan": ("dry-run", 4, 4),
}


@pytest.mark.course("a load for each; by its figures each is judged every time")
@pytest.mark.parametrize("reason", REASONS)
def test_what_keeps_more_from_helping_is_named(bench: Bench, tmp_path: Path, reason: str) -> None:
    """A query that really is so, overloaded: the reason is named, and nobody pays for more."""
    mode, most, wanted = REASONS[reason]
    settings = (
        f"target_seconds: 12\nexecutors: '{mode}'\nmaximum_executors: {most}\n"
        "executors_quiet_seconds: 8\ncatch_up_seconds: 30\n"
    )
    seen: list[Any] = []
    # So few that one does, although three that wait for each other look like three times the work;
    # and while a job starts, which takes minutes on a slow machine, no batch of minutes gathers.
    load = Load(bench, LOW // 8)
    try:
        with configured(tmp_path / "agent", bench.doors, settings) as agent:
            job = bench.submit(
                JOBS / "bounded_job.py",
                ending=reason,
                application=reason,
                master=("--master", f"local-cluster[{3 if mode == 'on' else 2},1,600]"),
                conf=SMALL_LOCAL,
            )

            def told() -> dict[str, Any]:
                queries = agent.http.get("/v1/queries").json()["queries"]
                one: dict[str, Any] = (queries or [{}])[0]
                found: dict[str, Any] = one.get("executors") or {}
                batch = [one.get(key) for key in ("batch_id", "batch_rows", "batch_seconds")]
                if not seen or seen[-1][0] != batch:
                    seen.append((batch, found))
                return found

            def named() -> bool:
                assert job.process.poll() is None, job.err[-3000:]
                now = told()
                bound = "maximum" if reason == "scan" else reason
                return now.get("bound") == bound and wanted in (None, now["wanted"])

            def log() -> str:
                return "\n".join(map(str, seen)) + job.err[-2000:]

            if mode == "on":
                until(lambda: told().get("present") == 1, "one", seconds=240, telling=log)
                # What one digests it is seen to, in batches as large as it can, before others come.
                load.rows = LOW // 2
                batches = len(seen) + 12
                until(
                    lambda: told() and len(seen) > batches, "some batches", seconds=120, telling=log
                )
            else:
                until(lambda: told().get("present"), "a batch", seconds=240, telling=log)
            load.rows = 4 * HIGH if reason == "scan" else HIGH  # more than four digest
            until(named, f"{reason} to be named", seconds=240, every=0.5, telling=log)
    finally:
        load.end()
    print(log())


def test_an_executor_on_which_the_job_keeps_a_frame_stays(bench: Bench) -> None:
    """What is checked in tests/driver by a Spark that is played, asked of the real one."""
    command = (str(SPARK / "bin/spark-submit"), "--master", LOCAL_CLUSTER)
    conf = ("--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=600m")
    job = bench.run(bench.folder / "job", *command, *conf, str(JOBS / "cached_job.py"))
    assert job.wait() == 0, job.err[-3000:]
    assert [line for line in job.out.splitlines() if line] == [
        "came 3",
        "kept 1000",
        "asked for one 2",
        "still 1000 True",
        "let go 1",
    ]


@pytest.mark.course("a cluster more, for a fault that is rare")
def test_executors_go_though_the_end_of_a_job_was_dropped(bench: Bench) -> None:
    """Spark's status store, whose queue of events overflows, has a job run for ever."""
    command = (str(SPARK / "bin/spark-submit"), "--master", LOCAL_CLUSTER)
    conf = ("spark.ui.enabled=false", "spark.executor.memory=600m", f"{QUEUE}=1")
    given = (part for one in conf for part in ("--conf", one))
    job = bench.run(bench.folder / "job", *command, *given, str(JOBS / "dropped_job.py"))
    assert job.wait() == 0, job.err[-3000:]
    assert [line for line in job.out.splitlines() if line] == [
        "came 3",
        "runs, says the status store True",
        "one runs 3",
        "let go 1",
        "runs still, says the status store True",
    ]
