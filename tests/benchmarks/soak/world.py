"""All that runs in a soak: how it starts, what is done to it, how it looks."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import httpx
import psutil

from tests.benchmarks.soak import job
from tests.benchmarks.soak.course import LONG_QUERIES, Fault
from tests.benchmarks.soak.rows import TOPICS, Rows
from tests.benchmarks.soak.samples import Series
from tests.kafka.broker import Broker
from tests.service.agents import ROOT, AgentProcess, ahead, environment

if TYPE_CHECKING:
    from pathlib import Path

#: Room for what the agent saves of four queries, many times over, and quickly filled.
STATE_MIB: Final = 32
#: How long anything may take to come back, and every row to be read, on a machine so busy that a
#: batch takes twenty times as long as on a quiet one.
SETTLE_SECONDS: Final = 1800.0


class World:
    """Broker, agent and driver in a folder; ``begin`` and ``end`` do a fault to them."""

    def __init__(self, folder: Path, seed: int, *, weir: bool = True) -> None:
        self.folder = folder
        self.weir = weir
        self.series = Series()
        self.told: Counter[str] = Counter()  # what happened that no fault says
        self.failed: Counter[str] = Counter()  # by query, how often it failed
        self.bursts = 0  # so many were wanted; by the one thread that produces
        self._seed = seed
        self._wanted = {*LONG_QUERIES, "nightly"}
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._status: dict[str, Any] = {}
        self._ahead = folder / "ahead"
        self._state = folder / "state"
        self.disk_can_fill = False
        self.driver: subprocess.Popen[bytes] | None = None
        self._running: AgentProcess | None = None
        self.broker = Broker(folder / "kafka")

    def start(self) -> None:
        for name in ("in/files", "in/nightly", "state", "agent"):
            (self.folder / name).mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={STATE_MIB}m", "weir-soak", str(self._state)]
        self.disk_can_fill = subprocess.run(mount, check=False, capture_output=True).returncode == 0
        self.broker.start()
        for topic, partitions in TOPICS.values():
            self.broker.create_topic(topic, partitions)
        self.rows = Rows(self.folder, self.broker, self._seed)
        if self.weir:
            self._start_agent(0)
        self._want()
        self._start_driver()

    def stop(self) -> None:
        self._kill_driver()
        if self._running is not None:
            self._running.__exit__(None, None, None)
        self.broker.kill()
        if self.disk_can_fill:
            subprocess.run(["umount", "-l", str(self._state)], check=False)

    def _start_agent(self, port: int) -> None:
        options = ("--state-dir", str(self._state), "--target-seconds", "2")
        brokers = ("--kafka-bootstrap-servers", self.broker.bootstrap)
        self._running = AgentProcess(
            self.folder / "agent", *options, *brokers, port=port, prefix=ahead(self._ahead)
        )

    @property
    def agent(self) -> AgentProcess:
        """The one that was started last."""
        assert self._running is not None
        return self._running

    def _start_driver(self) -> None:
        address = self.agent.address if self.weir else ""
        command = [sys.executable, "-m", job.__name__, str(self.folder), address]
        more = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with (self.folder / "driver.log").open("ab") as log:
            self.driver = subprocess.Popen(
                [*command, self.broker.bootstrap],
                cwd=ROOT,
                # glibc's arenas, many for each thread, would hide what the JVM itself takes.
                env=environment(**more, MALLOC_ARENA_MAX="2"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _kill_driver(self) -> None:
        """Python, JVM and workers at once, as when a machine dies; none is left when it returns."""
        if self.driver is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.driver.pid)
            family = [process, *process.children(recursive=True)]
            for one in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            self.driver.wait()
            psutil.wait_procs(family, timeout=30)

    # Faults

    def begin(self, fault: Fault) -> None:
        with self._lock_of(fault):
            getattr(self, "_" + fault.kind.replace(" ", "_"))(fault)

    def end(self, fault: Fault) -> None:
        undo = getattr(self, f"_{fault.kind.replace(' ', '_')}_undone")
        # The begin of a full disk waits for its end: until then the agent may not start.
        with contextlib.nullcontext() if fault.kind == "disk full" else self._lock_of(fault):
            undo(fault)

    def _lock_of(self, fault: Fault) -> threading.Lock:
        return self._locks[fault.kind.split()[0]]

    def _agent_killed(self, fault: Fault) -> None:
        self.agent.kill()

    def _agent_killed_undone(self, fault: Fault) -> None:
        end = time.monotonic() + SETTLE_SECONDS
        while not self._starts():
            # As under Kubernetes: again, until its disk lets it.
            self.told["starts of the agent that failed"] += 1
            assert time.monotonic() < end, "the agent does not start any more"
            time.sleep(2.0)

    def _starts(self) -> bool:
        try:
            self._start_agent(int(self.agent.address.rsplit(":", 1)[1]))
        except AssertionError:
            return False
        return True

    def _broker_stopped(self, fault: Fault) -> None:
        self.broker.stop()

    def _broker_killed(self, fault: Fault) -> None:
        self.broker.kill()

    def _broker_stopped_undone(self, fault: Fault) -> None:
        self.broker.start()

    _broker_killed_undone = _broker_stopped_undone

    def _worker_killed(self, fault: Fault) -> None:
        assert self.driver is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self.driver.pid).children(recursive=True)
            workers = [one for one in family if "pyspark.daemon" in " ".join(one.cmdline())]
            if workers:
                max(workers, key=lambda one: one.create_time()).kill()

    def _driver_killed(self, fault: Fault) -> None:
        self._kill_driver()
        self._start_driver()

    def _disk_full(self, fault: Fault) -> None:
        if not self.disk_can_fill:
            return
        with self._locks["agent"]:
            restart = bool(fault.value) and self.agent.process.poll() is None
            if restart:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.agent.stop()
                self.agent.kill()
            with (
                contextlib.suppress(OSError),
                (self._state / "ballast").open("wb", buffering=0) as file,
            ):
                while True:
                    file.write(b"x" * 4096)
            if restart:
                self._agent_killed_undone(fault)

    def _disk_full_undone(self, fault: Fault) -> None:
        (self._state / "ballast").unlink(missing_ok=True)

    def _clock_set(self, fault: Fault) -> None:
        self._ahead.write_text(str(fault.value))

    def _limit_by_hand(self, fault: Fault) -> None:
        unit = "files" if fault.target == "files" else "rows"
        limit = round(fault.value) * (1 if unit == "files" else 20)
        self.order(fault.target, {"limit": limit, "unit": unit})

    def _limit_by_hand_undone(self, fault: Fault) -> None:
        self.order(fault.target, {"hold": False})

    def _query_away(self, fault: Fault) -> None:
        self._wanted.discard(fault.target)
        self._want()

    def _query_away_undone(self, fault: Fault) -> None:
        self._wanted.add(fault.target)
        self._want()

    def _burst(self, fault: Fault) -> None:
        self.bursts += 1

    def order(self, query: str, order: dict[str, Any]) -> bool:
        """Tells the agent; whether it took it."""
        path = f"/v1/queries/{job.APPLICATION}/{query}/control"
        try:
            answer = self.agent.http.post(path, json={**order, "reason": "soak"})
        except (httpx.HTTPError, RuntimeError):
            self.told["orders that found no agent"] += 1
            return False
        if not answer.is_success:
            self.told[f"orders answered {answer.status_code}"] += 1
        return answer.is_success

    def _want(self) -> None:
        job.write(self.folder / "wanted.json", {"queries": sorted(self._wanted)})

    # Looks

    def look(self, second: float) -> None:
        """A sample of each process; a driver that ended by itself is started again, and told."""
        assert self.driver is not None
        lock = self._locks["driver"]
        if self.driver.poll() is not None and lock.acquire(blocking=False):
            try:
                if self.driver.poll() is not None:
                    self.told["driver ended by itself"] += 1
                    self._start_driver()
            finally:
                lock.release()
        status = job.read(self.folder / "status.json")
        if status.get("python") == self.driver.pid:
            self.failed.update(
                {
                    name: count - self._status.get("failed", {}).get(name, 0)
                    if self._status.get("python") == self.driver.pid
                    else count
                    for name, count in status["failed"].items()
                }
            )
            self._status = status
            apart = status["callbacks"]
            self.series.look(second, "driver's Python", self.driver.pid, apart, apart)
            self.series.look(second, "driver's JVM", status["jvm"], apart)
            self.series.add(second, "callbacks", "threads", apart, self.driver.pid)
            if status["heap_mib"] is not None:
                self.series.add(second, "JVM's heap", "MiB", status["heap_mib"], status["jvm"])
        if self.weir and self.agent.process.poll() is None:
            self.series.look(second, "agent", self.agent.process.pid)

    def limits_left(self) -> dict[str, list[str]]:
        """Queries whose limit is not the configured one, with what is in force; those not seen."""
        status = job.read(self.folder / "status.json")
        told = status.get("queries", {})
        if self.driver is None or status.get("python") != self.driver.pid:
            told = {}
        seen = {name: told.get(name, {}) for name in LONG_QUERIES}
        return {
            name: one.get("in_force", ["does not run"])
            for name, one in seen.items()
            if not one or one["in_force"] != one["configured"]
        }

    def away(self) -> set[str]:
        status = job.read(self.folder / "status.json")
        assert self.driver is not None
        if status.get("python") != self.driver.pid:
            return set(LONG_QUERIES)
        return set(LONG_QUERIES) - set(status["queries"])
