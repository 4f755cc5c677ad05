"""What Weir costs a job: time on Spark's listener bus, and time per batch with and without it.

Run as ``python -m tests.benchmarks.listener`` (``--bus``, ``--rows`` or ``--threads`` for a part;
``--door`` for the plugin and a process beyond its door instead of ``attach``). Bus times are
the JVM's own timer of the streaming listener bus; each listener has a fresh JVM. Time per batch is
that of one query of small batches with state in RocksDB, to and from which Weir comes and goes;
A/A blocks, without Weir like those that they are held against, show what noise alone does. CPU
time (driver and JVM together) is told beside it: other load disturbs it less. ``--threads``
compares nothing: it reads the processor time of Weir's own threads, Python's and those that serve
them in the JVM, which bounds what a job whose cores are all busy can lose, with little noise.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psutil

from spark_listener import plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[2]
BUS_BATCHES: Final = 16
BUS_WARM_UP: Final = 4  # of them, not counted: first calls, first connection, JIT
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: Blocks: the JVM compiles for minutes.
WARM_UP_BLOCKS: Final = 10
#: After Weir came or went: past the first exchange, as in any job that runs for a while.
SETTLING_SECONDS: Final = 3.0
#: No block takes so long.
LATE_SECONDS: Final = 300.0
#: How Weir finds its agent; None is no Weir at all, which shows what noise alone does.
KINDS: Final[tuple[str | None, ...]] = ("up", "gone", "hangs", "garbage", None)
#: Time per batch with Weir over without, noise included.
MOST: Final = 1.02
#: Of the driver, whose master is ``local[2]``.
CORES: Final = 2
TIMER_END: Final = "StreamingQueryListenerBus"
RESERVOIR: Final = 1028  # what a timer of the JVM keeps; with fewer events it keeps them all


def spark_session(name: str, partitions: int = 2, doors: Path | None = None) -> Any:
    """``doors``: where the plugin opens one; None is without the plugin."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    if doors is not None:
        builder = (
            builder.config("spark.jars", str(plugin.JAR))
            .config(plugin.CONFS[0], plugin.NAME)
            .config("spark.weir.door.dir", str(doors))
        )
    session = (
        builder.master(f"local[{CORES}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def write_input(folder: Path, files: int, rows_per_file: int) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        lines = (f'{{"k":{n % 97},"v":{n}}}' for n in range(rows_per_file))
        (folder / f"{number:05d}.json").write_text("\n".join(lines))


def stateful(session: Any, folder: Path, files_per_batch: int) -> Any:
    frame = (
        session.readStream.schema("k int, v int")
        .option("maxFilesPerTrigger", str(files_per_batch))
        .json(str(folder))
    )
    return frame.groupBy("k").count().writeStream.outputMode("update").format("noop")


# -- time on the listener bus ----------------------------------------------------------------------


def bus_child(mode: str, agent_url: str) -> None:
    """Runs the job with one listener and prints what the JVM's timer saw."""
    session = spark_session("listener bus", partitions=1)  # few events: the timer keeps 1028
    heard: list[str] = []
    if mode == "pyspark":
        from pyspark.sql.streaming import StreamingQueryListener

        class Same(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:
                pass

            def onQueryProgress(self, event: Any) -> None:
                heard.append(event.progress.json)

            def onQueryIdle(self, event: Any) -> None:
                pass

            def onQueryTerminated(self, event: Any) -> None:
                pass

        session.streams.addListener(Same())
    elif mode == "weir":
        import spark_listener

        assert spark_listener.attach(session, agent_url=agent_url, first_batch_seconds=0).active
    with tempfile.TemporaryDirectory() as place:
        write_input(Path(place) / "in", BUS_BATCHES, 20)
        writer = stateful(session, Path(place) / "in", 1)
        query = writer.option("checkpointLocation", f"{place}/checkpoint").start()
        bus = session.sparkContext._jsc.sc().listenerBus()
        timers = bus.metrics().metricRegistry().getTimers()
        timer = timers[next(key for key in timers if key.endswith(TIMER_END))]

        def durations_after(batches: int) -> tuple[int, collections.Counter[int]]:
            while len(query.recentProgress) < batches:
                assert query.isActive
                time.sleep(0.1)
            bus.waitUntilEmpty(120_000)
            seen = len(query.recentProgress)
            found = collections.Counter(timer.getSnapshot().getValues())
            assert timer.getCount() <= RESERVOIR, timer.getCount()
            return seen, found

        cold, before = durations_after(BUS_WARM_UP)
        warm, after = durations_after(BUS_BATCHES)
        query.stop()
    milliseconds = sorted(value / 1e6 for value in (after - before).elements())
    events = warm - cold
    print(
        json.dumps(
            {
                "events": events,
                "mean": sum(milliseconds) / events,
                # The events of progress are by far the longest: the rest only passes by.
                "median": statistics.median(milliseconds[-events:]),
            }
        )
    )
    session.stop()


def bus() -> float:
    """Prints and returns how many times less the bus is kept busy."""
    found: dict[str, dict[str, float]] = {}
    with agent_process("up") as url:
        for mode in ("none", "pyspark", "weir"):
            done = subprocess.run(
                [sys.executable, "-m", __spec__.name, "--child", mode, "--agent", url],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=400,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{mode}: {done.stderr[-2000:]}")
            found[mode] = json.loads(done.stdout.strip().splitlines()[-1])
    base = found["none"]["mean"]
    print(f"listener bus without a listener: {base:.2f} ms per batch, taken off below")
    for mode in ("pyspark", "weir"):
        print(
            f"listener bus, {mode:8}: mean {found[mode]['mean'] - base:8.2f} ms, median "
            f"{found[mode]['median']:8.2f} ms per progress event ({found[mode]['events']} events)"
        )
    ratio = (found["pyspark"]["mean"] - base) / (found["weir"]["mean"] - base)
    medians = found["pyspark"]["median"] / found["weir"]["median"]
    print(f"ratio: {ratio:.0f} times less on the listener bus (of medians: {medians:.0f}; aim: 50)")
    return ratio


# -- time per batch --------------------------------------------------------------------------------


@contextmanager
def agent_process(kind: str) -> Iterator[str]:
    """The address of an agent of this kind, in a process of its own."""
    if kind == "gone":
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        yield f"http://127.0.0.1:{port}"
        return
    if kind == "up":
        # Dry run: everything but the change of limits, which would change the job itself.
        state = Path(tempfile.mkdtemp())
        process = subprocess.Popen(
            [Path(sys.executable).parent / "weir", "agent", "--port", "0",
             "--state-dir", state, "--address-file", state / "address", "--mode", "dry-run"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            address = state / "address"
            until = time.monotonic() + 30
            while not (address.exists() and address.read_text().strip()):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit("the agent did not start")
                time.sleep(0.05)
            text = address.read_text().strip()
            yield text if text.startswith("http") else f"http://{text}"
        finally:
            process.terminate()
            process.wait(20)
            shutil.rmtree(state, ignore_errors=True)
        return
    mode = {"hangs": "hang", "garbage": "garbage"}[kind]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.driver.fake_agent", mode],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)


class Block(NamedTuple):
    """Some batches of the query that runs all the time."""

    cycle_seconds: float  # median, from the beginning of a batch to that of the next
    cpu_seconds: float  # a batch: driver and JVM together
    batches: int = 1  # how many it was


class Running:
    """One query of small batches that never rests, looked at block by block."""

    def __init__(self, session: Any, folder: Path) -> None:
        jvm = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        self._processes = (psutil.Process(), psutil.Process(jvm))
        writer = stateful(session, folder / "in", 1)
        self._query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    def block(self, batches: int) -> Block:
        """The next so many whole batches."""
        self._past(self._batch_id())
        first, used = self._batch_id(), self._cpu_seconds()
        last = self._past(first + batches)
        used = self._cpu_seconds() - used
        began = {
            progress["batchId"]: datetime.fromisoformat(
                progress["timestamp"].replace("Z", "+00:00")
            )
            for progress in self._query.recentProgress
        }
        cycles = [
            (began[number + 1] - began[number]).total_seconds()
            for number in range(first + 1, first + batches)
        ]
        return Block(statistics.median(cycles), used / (last - first), last - first)

    def stop(self) -> None:
        self._query.stop()

    def _cpu_seconds(self) -> float:
        return float(sum(sum(process.cpu_times()[:2]) for process in self._processes))

    def _batch_id(self) -> int:
        last = self._query._jsq.lastProgress()
        return -1 if last is None else int(last.batchId())

    def _past(self, batch_id: int) -> int:
        late = time.monotonic() + LATE_SECONDS
        while self._batch_id() <= batch_id:
            if not self._query.isActive or time.monotonic() > late:
                raise SystemExit(f"the query ended or rests: {self._query.exception()}")
            time.sleep(0.05)
        return self._batch_id()


def told(name: str, ratios: list[Block]) -> float:
    """Prints the ratios; returns what the median of time per batch may be at most."""
    cycles = [one.cycle_seconds for one in ratios]
    cpu = [one.cpu_seconds for one in ratios]
    error, median = strays(cycles), statistics.median(cycles)
    print(
        f"{name:13}: time per batch {median:.3f} ± {error:.3f} (from {min(cycles):.3f} to "
        f"{max(cycles):.3f}), CPU {statistics.median(cpu):.3f} ± {strays(cpu):.3f}, "
        f"{len(ratios)} blocks",
        flush=True,
    )
    return median + error


def strays(values: list[float]) -> float:
    """What their median strays by: 1.25 standard errors of a mean, twice for 95 %."""
    return 2 * 1.2533 * statistics.stdev(values) / len(values) ** 0.5


class Beyond:
    """A process beyond the door of a session, in and out as ``attach`` and ``detach`` are."""

    def __init__(self, session: Any, doors: Path) -> None:
        self._streams = session._jsparkSession.streams()
        self._doors = doors
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu_seconds(self) -> float:
        """What the process has taken so far."""
        told = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text().split()[0]) for one in told) / 1e9

    def enter(self, url: str) -> None:
        def door() -> Path | None:
            return next(self._doors.glob("*.door"), None)

        self._wait(lambda: door() is not None)
        path = door()
        assert path is not None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spark_listener.beyond", str(path), "--agent-url", url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._wait(lambda: len(self._streams.listListeners()) > 0)

    def leave(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._wait(lambda: len(self._streams.listListeners()) == 0)

    def _wait(self, seen: Callable[[], bool]) -> None:
        late = time.monotonic() + 60
        while not seen():
            if time.monotonic() > late:
                raise SystemExit("nobody went through the door")
            time.sleep(0.05)


class Threads:
    """Processor time of Weir's threads in a driver: Python's, and the JVM's that serve them."""

    def __init__(self, session: Any) -> None:
        self._jvm = session.sparkContext._jvm
        self._beans = self._jvm.java.lang.management.ManagementFactory.getThreadMXBean()
        self._mine = int(self._jvm.java.lang.Thread.currentThread().getId())  # serves this one

    def cpu_seconds(self) -> tuple[float, float]:
        """``(in Python, in the JVM)``, since they began."""
        python = 0.0
        for thread in threading.enumerate():
            if thread.name.startswith("weir-"):
                told = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text()
                python += int(told.split()[0]) / 1e9
        jvm = 0.0
        for one in self._beans.dumpAllThreads(False, False):
            frames = (str(frame.getClassName()) for frame in one.getStackTrace())
            serves = any(name.startswith("py4j.") for name in frames)
            if int(one.getThreadId()) != self._mine and (
                serves or str(one.getThreadName()).startswith("weir-")
            ):
                jvm += max(0, int(self._beans.getThreadCpuTime(one.getThreadId()))) / 1e9
        return python, jvm


def threads(rounds: int, batches: int, *, door: bool = False) -> bool:
    """Prints what Weir's threads take of a batch; true where that is at most ``MOST`` - 1.

    Of what the job's cores can do in that time: by so much a batch is longer at most, where none of
    them is ever idle. The process beyond a door is another container's in production; here its
    time counts like the driver's.
    """
    import spark_listener

    place = Path(tempfile.mkdtemp())
    doors = place / "doors"
    session = spark_session("weir's threads", doors=doors if door else None)
    beyond = Beyond(session, doors) if door else None
    kinds = [kind for kind in KINDS if kind is not None]
    write_input(place / "in", (len(kinds) * (rounds + 2) + WARM_UP_BLOCKS + 2) * batches * 2, 200)
    running, ours = Running(session, place), Threads(session)
    for _ in range(WARM_UP_BLOCKS):
        running.block(batches)
    worst = 0.0
    for kind in kinds:
        with agent_process(kind) as url:
            if beyond is not None:
                beyond.enter(url)
            else:
                made = spark_listener.attach(session, agent_url=url)
                assert made.active, made.reason
            time.sleep(SETTLING_SECONDS)
            shares, python_ms, jvm_ms = [], [], []
            for number in range(rounds + 1):
                before = ours.cpu_seconds()
                outside = 0.0 if beyond is None else beyond.cpu_seconds()
                block = running.block(batches)
                python, jvm = (b - a for a, b in zip(before, ours.cpu_seconds(), strict=True))
                if beyond is not None:
                    python += beyond.cpu_seconds() - outside
                if number == 0:
                    continue  # cold: first calls, the JVM's compiler
                python_ms.append(python / block.batches * 1000.0)
                jvm_ms.append(jvm / block.batches * 1000.0)
                shares.append((python + jvm) / block.batches / block.cycle_seconds / CORES)
            spark_listener.detach() if beyond is None else beyond.leave()
        error, share = strays(shares), statistics.median(shares)
        worst = max(worst, share + error)
        print(
            f"agent {kind:8}: {statistics.median(python_ms):.2f} ms in Python, "
            f"{statistics.median(jvm_ms):.2f} ms in the JVM a batch of "
            f"{block.cycle_seconds * 1000:.0f} ms: {share:.2%} ± {error:.2%} of its {CORES} cores",
            flush=True,
        )
    running.stop()
    session.stop()
    shutil.rmtree(place, ignore_errors=True)
    print(f"at most {worst:.2%}, noise included (aim: {MOST - 1:.0%})")
    return worst <= MOST - 1


def rows(rounds: int, batches: int, *, door: bool = False) -> bool:
    """Prints time per batch with Weir over without; true where it is at most ``MOST``.

    One query runs all the time, and Weir comes and goes: each block of batches with it is held
    against those without before and after it, so that whatever else changes with time (the JVM's
    compiler, the machine's other load, the source's log) changes both.
    """
    import spark_listener

    place = Path(tempfile.mkdtemp())
    doors = place / "doors"
    session = spark_session("time per batch", doors=doors if door else None)
    beyond = Beyond(session, doors) if door else None
    # Of each block some batches pass while Weir comes or goes, and more than that at the start.
    write_input(place / "in", (2 * len(KINDS) * rounds + WARM_UP_BLOCKS + 2) * batches * 2, 200)
    running = Running(session, place)
    with contextlib.ExitStack() as stack:
        urls = {
            kind: stack.enter_context(agent_process(kind)) for kind in KINDS if kind is not None
        }

        def block(kind: str | None) -> Block:
            if kind is not None and beyond is not None:
                beyond.enter(urls[kind])
            elif kind is not None:
                made = spark_listener.attach(session, agent_url=urls[kind])
                assert made.active, made.reason
            time.sleep(SETTLING_SECONDS)
            try:
                return running.block(batches)
            finally:
                if kind is not None:
                    spark_listener.detach() if beyond is None else beyond.leave()

        for _ in range(WARM_UP_BLOCKS):
            running.block(batches)
        found: dict[str | None, list[Block]] = {kind: [] for kind in KINDS}
        before = block(None)
        for number in range(rounds):
            for kind in KINDS[number % len(KINDS) :] + KINDS[: number % len(KINDS)]:
                ours, after = block(kind), block(None)
                found[kind].append(
                    Block(
                        *(
                            2 * mine / (one + other)
                            for mine, one, other in zip(
                                ours[:2], before[:2], after[:2], strict=True
                            )
                        )
                    )
                )
                before = after
    running.stop()
    print(f"a batch takes {before.cycle_seconds * 1000:.0f} ms at the end, without Weir")
    names = {kind: "A/A, no Weir" if kind is None else f"agent {kind}" for kind in KINDS}
    for kind, ratios in found.items():
        told(names[kind], ratios)
    worst = told("with Weir", [one for kind in KINDS if kind is not None for one in found[kind]])
    print(f"at most {worst:.3f}, noise included (aim: {MOST})")
    session.stop()
    shutil.rmtree(place, ignore_errors=True)
    return worst <= MOST


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bus", action="store_true", help="only the listener bus")
    parser.add_argument("--rows", action="store_true", help="only rows per second")
    parser.add_argument("--threads", action="store_true", help="only what Weir's threads take")
    parser.add_argument("--door", action="store_true", help="by the plugin's door, not attach")
    parser.add_argument("--rounds", type=int, default=12, help="blocks with each kind of agent")
    parser.add_argument("--batches", type=int, default=40, help="of a block; at most 90")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--agent", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        bus_child(given.child, given.agent)
        return 0
    good = True
    if given.threads:
        return 0 if threads(given.rounds, given.batches, door=given.door) else 1
    if given.door:
        return 0 if rows(given.rounds, given.batches, door=True) else 1
    if given.bus or not given.rows:
        good = bus() >= 50 and good
    if given.rows or not given.bus:
        good = rows(given.rounds, given.batches) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
