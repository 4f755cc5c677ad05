"""A real cluster whose executors follow a load that triples, and what was seen of it.

``python -m tests.plugin.scaling`` plays it without killing anything, says how well the target was
kept, and writes what it saw to docs/images/executors.json, from which ``python -m
scripts.plot_executors`` draws; with ``--local-cluster``, Spark's own small one, or ``--state``, a
job that remembers every row, it only says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from agent.simulation.summary import BAND
from tests.plugin.cluster import ROOT, living, start_cluster
from tests.plugin.conftest import JOBS, SMALL, Bench, Jobs
from tests.service.agents import AgentProcess
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.cluster import Job

#: Rows a second. A row waits 20 ms: one executor of one core reads less than 50 a second.
LOW: Final = 20
#: Of a file: the limit is in files, and is worth as much at every load.
FILE_ROWS: Final = 10
HIGH: Final = 3 * LOW
#: With state each batch takes longer: three executors digest some 60, and one some 30.
LOW_WITH_STATE: Final = 10
HIGH_WITH_STATE: Final = 50
MOST: Final = 3
TARGET_SECONDS: Final = 4
#: Workers of one core each in one process, and what its executors get.
LOCAL_CLUSTER: Final = f"local-cluster[{MOST},1,600]"
SMALL_LOCAL: Final = (
    "spark.executor.memory=600m",
    "spark.executor.cores=1",
    "spark.driver.memory=512m",
)
SEEN: Final = ROOT / "docs" / "images" / "executors.json"


def config(target_seconds: int = TARGET_SECONDS) -> str:
    """Of an agent that sets executors."""
    return f"""
target_seconds: {target_seconds}
executors: 'on'
maximum_executors: {MOST}
executors_quiet_seconds: 20
catch_up_seconds: 30
"""


class Load:
    """So many rows a second, in files of one size."""

    def __init__(self, bench: Bench, rows: int = LOW) -> None:
        self.rows = rows
        self._bench = bench
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(1.0):
            self._bench.files(-(-self.rows // FILE_ROWS), rows=min(self.rows, FILE_ROWS))

    def end(self) -> None:
        self._over.set()
        self._thread.join()


class Course:
    """The job under its load, looked at by ``view``; ``seen`` has each batch once."""

    def __init__(
        self,
        bench: Bench,
        agent: AgentProcess,
        master: str,
        *,
        state: bool = False,
        queries: int = 1,
    ) -> None:
        self.seen: list[dict[str, Any]] = []
        self.high = (HIGH_WITH_STATE if state else HIGH) // queries
        # Each of several has its own fixed costs.
        self.low = (LOW_WITH_STATE if state else LOW) // queries**2
        self.load = Load(bench, self.low)
        self._agent = agent
        self._begun = time.monotonic()
        conf = (f"spark.cores.max={MOST}", "spark.sql.shuffle.partitions=6")
        if master == LOCAL_CLUSTER:
            conf += SMALL_LOCAL
        if state:
            conf += ("spark.waiting.state=true",)
        conf += (f"spark.waiting.queries={queries}",)
        self.job: Job = bench.submit(
            JOBS / "waiting_job.py",
            master=("--master", master, *(() if master == LOCAL_CLUSTER else SMALL)),
            application="waiting",
            conf=conf,
        )

    def view(self) -> dict[str, Any]:
        told = self._agent.http.get("/v1/queries").json()["queries"]
        one: dict[str, Any] = {"executors": None, "batch_id": None, "backlog_rows": None}
        # Of several the one that is furthest behind.
        one = max(told, key=lambda query: query["backlog_rows"] or 0.0, default=one)
        one |= {"after_seconds": time.monotonic() - self._begun, "load": self.load.rows}
        last = self.seen[-1] if self.seen else {}
        if any(last.get(key) != one.get(key) for key in ("query", "batch_id")):
            self.seen.append(one)
        return one

    def present(self) -> int:
        return int((self.view()["executors"] or {"present": 0})["present"])

    def caught_up(self) -> bool:
        return self.present() >= 2 and (self.view()["backlog_rows"] or 0.0) <= 2 * self.high

    def told(self) -> str:
        last = self.seen[-1] if self.seen else {}
        known = ("arrival_rows_per_second", "throughput_rows_per_second", "executors")
        figures = [*self.figures(), {key: last.get(key) for key in known}]
        return "\n".join(map(str, figures)) + self.job.err[-2000:]

    def figures(self) -> list[dict[str, Any]]:
        """Of each batch that was seen."""
        batch = ("after_seconds", "load", "batch_id", "batch_rows", "batch_seconds", "backlog_rows")
        runs_on = ("present", "wanted", "asked")
        return [
            {k: v[k] for k in batch} | {k: (v["executors"] or {}).get(k) for k in runs_on}
            for v in self.seen
            if v["batch_id"] is not None
        ]

    def watch(self, seconds: float) -> None:
        """For so long, whatever happens."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.view()
            time.sleep(0.05)

    def until(self, look: Callable[[], bool], what: str, seconds: float = 240) -> None:
        def looked() -> bool:
            assert self.job.process.poll() is None, self.job.err[-3000:]
            return look()

        until(looked, what, seconds=seconds, telling=self.told)


def executor_processes() -> list[psutil.Process]:
    """Of this process's own cluster."""
    found = []
    for one in living(psutil.Process().children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("CoarseGrainedExecutorBackend" in word for word in one.cmdline()):
                found.append(one)
    return found


def configured(folder: Path, doors: Path, settings: str | None = None) -> AgentProcess:
    """An agent with these settings, one that knows of executors unless told."""
    folder.mkdir()
    file = folder / "weir.yaml"
    file.write_text(config() if settings is None else settings)
    return AgentProcess(folder, "--doors", str(doors), "--config", str(file))


def kept(batches: list[dict[str, Any]], high: int) -> str:
    """How well the target was kept while executors moved, and how soon the backlog was gone."""
    took = [one["batch_seconds"] for one in batches if one["batch_seconds"] is not None]
    outside = [seconds for seconds in took if seconds > (1.0 + BAND) * TARGET_SECONDS]
    rose = next(one["after_seconds"] for one in batches if one["load"] == high)
    after = [one for one in batches if one["after_seconds"] >= rose]
    came = next(one["after_seconds"] for one in after if (one["present"] or 0) >= 2)
    gone = next(
        one["after_seconds"]
        for one in after
        if one["after_seconds"] >= came and (one["backlog_rows"] or 0.0) <= 2 * high
    )
    return (
        f"{len(took)} batches, target {TARGET_SECONDS} s, longest {max(took):.1f} s, "
        f"{len(outside)} above the band; the second executor came {came - rose:.0f} s after the "
        f"load rose, the backlog was gone {gone - came:.0f} s later"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--local-cluster", action="store_true")
    parser.add_argument("--state", action="store_true", help="a query that remembers every row")
    given = parser.parse_args()
    local = given.local_cluster
    # However it is ended, the cluster ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="weir-scaling-"))
    bench = Bench(folder, Jobs(folder))
    try:
        master = LOCAL_CLUSTER if local else start_cluster(bench, folder)
        with configured(folder / "agent", bench.doors) as agent:
            course = Course(bench, agent, master, state=given.state)
            try:
                course.until(lambda: course.present() == 1, "one executor at a low load")
                course.watch(40)
                course.load.rows = course.high
                course.until(course.caught_up, "what waited is caught up with")
                course.watch(60)
                course.load.rows = course.low
                course.until(lambda: course.present() == 1, "fewer executors")
                course.watch(20)
            finally:
                course.load.end()
    finally:
        bench.end()
    print(course.told())
    print(kept(course.figures(), course.high))
    if not local and not given.state:
        lines = ",\n".join(map(json.dumps, course.figures()))
        SEEN.write_text(f'{{"target_seconds": {TARGET_SECONDS}, "batches": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
