"""Hours of real streaming under Weir while everything around it breaks at random.

    python -m tests.benchmarks.soak --hours 2 [--svg FILE] [--seed N]

A real Spark runs queries over a real Kafka and over files, two stateless, one windowed with a
watermark, one in AvailableNow runs, under a real agent. Meanwhile, as ``course.py`` draws it:
agent, broker, driver and Python workers are killed and started again, the disk of the agent's state
is filled, its clock is set, limits are moved by hand, queries go and come. In the end each row has
to have been counted once, none dropped as late, no limit left behind, and nothing that is sampled
may grow. Exit code 1 where that is not so; the folder with all logs is then kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psutil
from confluent_kafka import Producer

from tests.benchmarks.soak import job
from tests.benchmarks.soak.course import LONG_QUERIES, Fault, plan
from tests.benchmarks.soak.samples import Series, draw, table
from tests.kafka.broker import Broker, is_there
from tests.service.agents import ROOT, AgentProcess, ahead, environment
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_SECONDS: Final = 5.0
STATE_MIB: Final = 32
#: Rows a second, and rows of a file; a burst is so many seconds' worth at once.
RATES: Final = {"orders": 40.0, "windows": 20.0, "files": 10.0, "nightly": 10.0}
TOPICS: Final = {"orders": ("orders", 3), "windows": ("clicks", 1)}
ROWS_PER_FILE: Final = 20
BURST_SECONDS: Final = 45.0
#: Event time of the first click, and how far each goes on, in seconds.
BEGIN: Final = datetime(2030, 1, 1, tzinfo=timezone.utc)
CLICK_SECONDS: Final = 0.25
FLUSH: Final = -1  # number of the row so far ahead that it closes every window; it is in none
SETTLE_SECONDS: Final = 600.0


class Soak:
    """Everything that runs, what is done to it, and what has been produced."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.series = Series()
        self.produced: Counter[str] = Counter()
        self.told: Counter[str] = Counter()  # what happened that nobody planned
        self.failed: Counter[str] = Counter()
        self._draw = random.Random(f"rows {seed}")
        self._due: dict[str, float] = dict.fromkeys(RATES, 0.0)
        self._wanted = {*LONG_QUERIES, "nightly"}
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._status: dict[str, Any] = {}
        self._ahead = folder / "ahead"
        self._state = folder / "state"
        self.disk_can_fill = False
        self.driver: subprocess.Popen[bytes] | None = None
        self.agent: AgentProcess | None = None
        self.broker = Broker(folder / "kafka")

    # Life

    def start(self) -> None:
        for name in ("in/files", "in/nightly", "state", "agent"):
            (self.folder / name).mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={STATE_MIB}m", "weir-soak", str(self._state)]
        self.disk_can_fill = subprocess.run(mount, check=False, capture_output=True).returncode == 0
        self.broker.start()
        for topic, partitions in TOPICS.values():
            self.broker.create_topic(topic, partitions)
        # Each row once and in order, however often the broker goes away meanwhile.
        self._producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 900_000,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )
        self._start_agent(0)
        self._want()
        self._start_driver()

    def stop(self) -> None:
        self._kill_driver()
        if self.agent is not None:
            self.agent.__exit__(None, None, None)
        self.broker.kill()
        if self.disk_can_fill:
            subprocess.run(["umount", "-l", str(self._state)], check=False)

    def _start_agent(self, port: int) -> None:
        options = ("--state-dir", str(self._state), "--target-seconds", "2")
        brokers = ("--kafka-bootstrap-servers", self.broker.bootstrap)
        self.agent = AgentProcess(
            self.folder / "agent", *options, *brokers, port=port, prefix=ahead(self._ahead)
        )

    def _agent(self) -> AgentProcess:
        assert self.agent is not None
        return self.agent

    def _start_driver(self) -> None:
        command = [sys.executable, "-m", job.__name__, str(self.folder), self._agent().address]
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

    # Rows

    def produce(self, seconds: float) -> None:
        """What arrives in so many seconds."""
        for name, rate in RATES.items():
            self._due[name] += rate * seconds
            while self._due[name] >= 1.0:
                count = 1 if name in TOPICS else ROWS_PER_FILE
                self._due[name] -= count
                numbers = range(self.produced[name], self.produced[name] + count)
                if name == "orders":
                    self._send("orders", str(numbers[0]))
                elif name == "windows":
                    self._click(numbers[0], self._draw.uniform(0.0, job.DELAY_SECONDS - 1.0))
                else:
                    self._put(self.folder / "in" / name, numbers)
                self.produced[name] += count
        self._producer.poll(0)

    def close_windows(self) -> None:
        """One click so far ahead that every window of the others is complete."""
        self._click(FLUSH, -86_400.0)
        assert not self._producer.flush(120.0), "the broker takes no rows"

    def _click(self, number: int, late_seconds: float) -> None:
        at = CLICK_SECONDS * self.produced["windows"] - late_seconds
        time_text = (BEGIN + timedelta(seconds=at)).isoformat(timespec="milliseconds")
        self._send("clicks", json.dumps({"id": number, "t": time_text}))

    def _send(self, topic: str, value: str) -> None:
        # In turn: a key or chance would let partitions drift apart.
        partitions = dict(TOPICS.values())[topic]
        turn = self.produced["orders"] % partitions
        self._producer.produce(topic, value, partition=turn)

    @staticmethod
    def _put(place: Path, numbers: range) -> None:
        path = place / f"{numbers[0]:09d}.json"
        part = place / f".{path.name}"
        part.write_text("".join(f'{{"id": {number}}}\n' for number in numbers))
        part.rename(path)

    def sent_twice(self) -> int:
        """Rows that Kafka holds beyond what was produced; the flush is one."""
        held = sum(sum(self.broker.end_offsets(topic).values()) for topic, _ in TOPICS.values())
        return held - 1 - sum(self.produced[name] for name in TOPICS)

    def counted(self, name: str) -> tuple[int, int]:
        """Rows of a query that are missing, and those that were counted more than once or never
        came."""
        found: Counter[int] = Counter()
        for path in (self.folder / "out" / name).glob("*.json"):
            found.update(json.loads(path.read_text()))
        right = sum(1 for number in range(self.produced[name]) if number in found)
        return self.produced[name] - right, sum(found.values()) - right

    # Faults

    def begin(self, fault: Fault) -> None:
        with self._locks[fault.kind.split()[0]]:
            getattr(self, "_" + fault.kind.replace(" ", "_"))(fault)

    def end(self, fault: Fault) -> None:
        with self._locks[fault.kind.split()[0]]:
            getattr(self, f"_{fault.kind.replace(' ', '_')}_undone")(fault)

    def _agent_killed(self, fault: Fault) -> None:
        self._agent().kill()

    def _agent_killed_undone(self, fault: Fault) -> None:
        port = int(self._agent().address.rsplit(":", 1)[1])
        end = time.monotonic() + SETTLE_SECONDS
        while not self._starts(port):
            # As under Kubernetes: again, until its disk lets it.
            self.told["agent did not start"] += 1
            assert time.monotonic() < end, "the agent does not start any more"
            time.sleep(2.0)

    def _starts(self, port: int) -> bool:
        try:
            self._start_agent(port)
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
        if self.disk_can_fill:
            with (
                contextlib.suppress(OSError),
                (self._state / "ballast").open("wb", buffering=0) as file,
            ):
                while True:
                    file.write(b"x" * 4096)

    def _disk_full_undone(self, fault: Fault) -> None:
        (self._state / "ballast").unlink(missing_ok=True)

    def _clock_set(self, fault: Fault) -> None:
        self._ahead.write_text(str(fault.value))

    def _limit_by_hand(self, fault: Fault) -> None:
        unit = "files" if fault.target == "files" else "rows"
        limit = round(fault.value) * (1 if unit == "files" else 20)
        self._order(fault.target, {"limit": limit, "unit": unit})

    def _limit_by_hand_undone(self, fault: Fault) -> None:
        self._order(fault.target, {"hold": False})

    def _query_away(self, fault: Fault) -> None:
        self._wanted.discard(fault.target)
        self._want()

    def _query_away_undone(self, fault: Fault) -> None:
        self._wanted.add(fault.target)
        self._want()

    def _burst(self, fault: Fault) -> None:
        self.told["bursts wanted"] += 1  # by the one thread that produces

    def _order(self, query: str, order: dict[str, Any]) -> bool:
        path = f"/v1/queries/{job.APPLICATION}/{query}/control"
        try:
            answer = self._agent().http.post(path, json={**order, "reason": "soak"})
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
            self.series.look(second, "driver's Python", self.driver.pid)
            self.series.look(second, "driver's JVM", status["jvm"])
            if status["heap_mib"] is not None:
                self.series.add(second, "JVM's heap", "MiB", status["heap_mib"], status["jvm"])
        agent = self._agent().process
        if agent.poll() is None:
            self.series.look(second, "agent", agent.pid)

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

    def run(self, course: list[Fault], seconds: float) -> float:
        """The whole course, with samples; the seconds it took."""
        steps: list[tuple[float, Callable[[Fault], None], Fault]] = []
        for fault in course:
            steps.append((fault.at_seconds, self.begin, fault))
            if fault.lasts_seconds:
                steps.append((fault.until_seconds, self.end, fault))
        steps.sort(key=lambda step: step[0])
        begun = last = time.monotonic()
        sampled = -SAMPLE_SECONDS
        bursts = 0
        with ThreadPoolExecutor(8) as pool:
            doing = []
            while (second := time.monotonic() - begun) < seconds:
                while steps and steps[0][0] <= second:
                    _, do, fault = steps.pop(0)
                    if do == self.begin:
                        print(f"{second:7.0f} s {fault.kind} {fault.target}", flush=True)
                    doing.append(pool.submit(do, fault))
                now = time.monotonic()
                self.produce(now - last + BURST_SECONDS * (self.told["bursts wanted"] - bursts))
                last, bursts = now, self.told["bursts wanted"]
                if second - sampled >= SAMPLE_SECONDS:
                    sampled = second
                    self.look(second)
                time.sleep(0.2)
            for one in doing:
                one.result(SETTLE_SECONDS)
        return time.monotonic() - begun

    def settle(self) -> list[str]:
        """After the last fault: everything comes back and every row through; what is not so."""
        wrong = []
        self.close_windows()
        if extra := self.sent_twice():
            raise AssertionError(
                f"Kafka holds {extra} rows more than were produced: the soak's own"
            )

        def comes(what: str, look: Callable[[], Any]) -> None:
            try:
                until(look, what, seconds=SETTLE_SECONDS, every=1.0)
            except AssertionError as error:
                wrong.append(str(error)[:2000])

        comes("the agent to be ready", lambda: self._agent().http.get("/readyz").is_success)
        comes("every query to run", lambda: not self._away())
        for order in ({"hold": False}, {"mode": "off"}):
            comes(f"the order {order}", lambda order=order: self._order("*", order))
        comes("the limits as configured", lambda: not self.limits_left())
        print(f"limits that are not the configured ones: {self.limits_left() or 'none'}")
        for name in LONG_QUERIES:
            comes(f"all rows of {name}", lambda name=name: not self.counted(name)[0])
        metrics = self._agent().metrics()
        dropped = sum_of(metrics, "weir_watermark_dropped_rows_total")
        print(
            f"rows dropped as late: {dropped:g}; grants: {sum_of(metrics, 'weir_grants_total'):g}; "
            f"batches: {sum_of(metrics, 'weir_batches_total'):g}"
        )
        if dropped:
            wrong.append(f"{dropped:g} rows were dropped as late; all came within the delay")
        job.write(self.folder / "wanted.json", {"finish": True})
        comes("the driver to finish", (self.folder / "finished.json").exists)
        for name in RATES:
            missing, doubled = self.counted(name)
            failed = f"failed and started again {self.failed[name]} times"
            said = f"{self.produced[name]} rows, {missing} missing, {doubled} doubled; {failed}"
            print(f"{name:10} {said}")
            if missing or doubled:
                wrong.append(f"{name}: {missing} rows missing, {doubled} doubled")
        return wrong

    def _away(self) -> set[str]:
        status = job.read(self.folder / "status.json")
        assert self.driver is not None
        if status.get("python") != self.driver.pid:
            return set(LONG_QUERIES)
        return set(LONG_QUERIES) - set(status["queries"])


def sum_of(metrics: dict[str, float], name: str) -> float:
    return sum(value for key, value in metrics.items() if key.split("{")[0] == name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument("--svg", type=Path, help="draw memory, descriptors, threads and faults")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if not is_there():
        print("the broker's jars are missing: make kafka")
        return 1
    seconds = given.hours * 3600
    course = plan(seconds, given.seed)
    # Before anything starts, so that an end of this process ends all that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="weir-soak-"))
    soak = Soak(folder, given.seed)
    wrong: list[str] = ["it did not come to its end"]
    try:
        soak.start()
        if not soak.disk_can_fill:
            print("the disk is not filled: only root can mount a small one")
        until(lambda: not soak._away(), "every query to run", seconds=SETTLE_SECONDS, every=0.5)
        took = soak.run(course, seconds)
        wrong = soak.settle()
    finally:
        soak.stop()
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"logs are kept in {folder}")
    if given.svg:
        given.svg.write_text(draw(soak.series, course, took), encoding="utf-8")
    lines, flat = table(soak.series, took / 2)
    print(*lines, sep="\n")
    print(f"faults: {dict(Counter(fault.kind for fault in course))}")
    print(f"beside them: {dict(soak.told)}")
    if not flat:
        wrong.append("something grows: see the table")
    print("all is as it should be" if not wrong else "WRONG:", *wrong, sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
