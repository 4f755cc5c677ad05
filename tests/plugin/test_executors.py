"""Executors of a real cluster follow the load, and the job's rows are what they would have been."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.plugin.conftest import JOBS, SMALL
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugin.conftest import Bench

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.slow("a cluster whose executors come and go, each after some quiet seconds"),
]
#: A row waits 20 ms: one executor of one core reads less than 50 a second.
LOW, HIGH = 20, 70
MOST = 3
CONFIG = f"""
target_seconds: 4
executors: 'on'
maximum_executors: {MOST}
executors_quiet_seconds: 8
catch_up_seconds: 30
"""


class Load:
    """So many rows a second, a file each second."""

    def __init__(self, bench: Bench) -> None:
        self.rows = LOW
        self._bench = bench
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(1.0):
            self._bench.files(1, rows=self.rows)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def scaling(bench: Bench, tmp_path: Path) -> Iterator[AgentProcess]:
    folder = tmp_path / "agent"
    folder.mkdir()
    config = folder / "weir.yaml"
    config.write_text(CONFIG)
    with AgentProcess(folder, "--doors", str(bench.doors), "--config", str(config)) as running:
        yield running


def executor_processes() -> list[psutil.Process]:
    """Of this test's own cluster."""
    return [
        one
        for one in psutil.Process().children(recursive=True)
        if one.status() != psutil.STATUS_ZOMBIE
        and any("CoarseGrainedExecutorBackend" in word for word in one.cmdline())
    ]


def test_executors_follow_the_load(bench: Bench, scaling: AgentProcess, master: str) -> None:
    seen: list[dict[str, Any]] = []

    def view() -> dict[str, Any]:
        told = scaling.http.get("/v1/queries").json()["queries"]
        one: dict[str, Any] = told[0] if told else {"executors": None, "batch_id": None}
        if not seen or seen[-1]["batch_id"] != one["batch_id"]:
            seen.append(one)
        return one

    def present() -> int:
        return int((view()["executors"] or {"present": 0})["present"])

    load = Load(bench)
    try:
        conf = (f"spark.cores.max={MOST}", "spark.sql.shuffle.partitions=6")
        job = bench.submit(
            JOBS / "waiting_job.py",
            master=("--master", master, *SMALL),
            application="waiting",
            conf=conf,
        )

        def told() -> str:
            batch = ("batch_id", "batch_rows", "batch_seconds", "backlog_rows")
            runs_on = ("present", "wanted", "asked")
            figures = [
                (*(v[k] for k in batch), *((v["executors"] or {}).get(k) for k in runs_on))
                for v in seen
                if v["batch_id"] is not None
            ]
            return "\n".join(map(str, figures)) + job.err[-2000:]

        until(lambda: present() == 1, "one executor at a low load", seconds=240, telling=told)
        load.rows = HIGH
        until(lambda: present() >= 2, "more executors", seconds=120, telling=told)
        (killed, *_) = executor_processes()
        killed.kill()
        until(
            lambda: killed not in executor_processes() and present() >= 2,
            "executors after one was killed",
            seconds=120,
            telling=told,
        )
        until(
            lambda: present() >= 2 and (view()["backlog_rows"] or 0.0) <= 2 * HIGH,
            "what waited is caught up with",
            seconds=240,
            telling=told,
        )
        load.rows = LOW
        until(lambda: present() == 1, "fewer executors", seconds=240, telling=told)
    finally:
        load.end()
    (bench.folder / "stop").touch()
    assert job.wait(240) == 0, job.err[-3000:]
    assert bench.read() == bench.all_lines()
    assert all((one["executors"] or {"asked": 1})["asked"] in (None, 1, 2, MOST) for one in seen)
    print(told())
