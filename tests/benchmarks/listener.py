"""What Weir costs a job: time on Spark's listener bus, and rows per second with and without it.

Run as ``python -m tests.benchmarks.listener`` (``--bus`` or ``--rows`` for one half; ``--door`` for
rates with the plugin and a process beyond its door, instead of ``attach``). Bus times are
the JVM's own timer of the streaming listener bus; each listener has a fresh JVM. Rates are paired
and interleaved runs of the same job in one JVM, the first of a pair alternating; A/A pairs, both
without Weir, show what the machine's noise alone does to such a ratio. Rows per second of CPU time
(driver and JVM together) are told beside it: other load on the machine disturbs them less.
"""

from __future__ import annotations

import argparse
import collections
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
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
WARM_UP_RUNS: Final = 10  # the JVM compiles for minutes; a job that gets faster favours the second
TIMER_END: Final = "StreamingQueryListenerBus"
NOISY: Final = 0.05  # beyond this, being inside the noise says nothing
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
        builder.master("local[2]")
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


# -- rows per second -------------------------------------------------------------------------------


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


class Rate(NamedTuple):
    """Of one run over the whole input."""

    per_second: float
    per_cpu_second: float


def timed(session: Any, folder: Path, files_per_batch: int, rows: int) -> Rate:
    jvm = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    processes = (psutil.Process(), psutil.Process(jvm))

    def cpu_seconds() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    checkpoint = tempfile.mkdtemp()
    writer = stateful(session, folder, files_per_batch).option("checkpointLocation", checkpoint)
    begun, used = time.perf_counter(), cpu_seconds()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds, used = time.perf_counter() - begun, cpu_seconds() - used
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == rows
    shutil.rmtree(checkpoint, ignore_errors=True)
    return Rate(rows / seconds, rows / used)


def pairs(
    count: int,
    run: Callable[[], Rate],
    warm_up: Callable[[], object],
    prepare: Callable[[], None],
    undo: Callable[[], None],
) -> list[Rate]:
    """Ratios of rates, prepared over plain; which comes first alternates.

    Before each timed run a short query runs, with Weir or without like the run itself: what an
    attach costs once in a driver's life (an agent that hangs holds one first batch) is not in a
    job's rate.
    """

    def prepared() -> Rate:
        prepare()
        try:
            warm_up()
            return run()
        finally:
            undo()

    def plainly() -> Rate:
        warm_up()
        return run()

    ratios = []
    for number in range(count):
        if number % 2:
            plain, ours = plainly(), prepared()
        else:
            ours, plain = prepared(), plainly()
        ratios.append(Rate(*(mine / its for mine, its in zip(ours, plain, strict=True))))
    return ratios


def told(name: str, ratios: list[Rate]) -> float:
    """Prints the ratios; returns the median of rows per second."""
    wall = [ratio.per_second for ratio in ratios]
    cpu = [ratio.per_cpu_second for ratio in ratios]
    print(
        f"{name}: rows/s median {statistics.median(wall):.3f} ({min(wall):.3f} to {max(wall):.3f})"
        f", rows per CPU second median {statistics.median(cpu):.3f} ({min(cpu):.3f} to "
        f"{max(cpu):.3f}), {len(ratios)} pairs",
        flush=True,
    )
    return statistics.median(wall)


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


def rows(
    count: int, files: int, rows_per_file: int, files_per_batch: int, *, door: bool = False
) -> bool:
    """Prints the ratios per kind of agent; true where each is 0.99 or inside the noise."""
    import spark_listener

    place = Path(tempfile.mkdtemp())
    doors = place / "doors"
    session = spark_session("rows per second", doors=doors if door else None)
    beyond = Beyond(session, doors) if door else None
    write_input(place / "in", files, rows_per_file)

    def run() -> Rate:
        return timed(session, place / "in", files_per_batch, files * rows_per_file)

    write_input(place / "short", 1, 10)

    def warm_up() -> Rate:
        return timed(session, place / "short", 1, 10)

    for _ in range(WARM_UP_RUNS):
        run()
    noise = pairs(count, run, warm_up, lambda: None, lambda: None)
    told("A/A, no Weir", noise)
    # What the median of so many pairs strays by: 1.25 standard errors of a mean, twice for 95 %.
    error = 2 * 1.2533 * statistics.stdev(ratio.per_second for ratio in noise) / count**0.5
    print(f"noise: a median of {count} pairs strays by {error:.3f} (95 %)")
    good = True
    for kind in ("up", "gone", "hangs", "garbage"):
        with agent_process(kind) as url:

            def attach(url: str = url) -> None:
                if beyond is not None:
                    beyond.enter(url)
                else:
                    made = spark_listener.attach(session, agent_url=url)
                    assert made.active, made.reason
                time.sleep(0.3)  # past the first exchange, as in any job that runs for a while

            leave = spark_listener.detach if beyond is None else beyond.leave
            ratios = pairs(count, run, warm_up, attach, leave)
        median = told(f"agent {kind:8}", ratios)
        good = good and (median >= 0.99 or 1.0 - median <= error)
    if error > NOISY:
        print("TOO NOISY to tell: run it on an idle machine")
    elif not good:
        print("TOO SLOW: a ratio is below 0.99 and outside the noise")
    else:
        print("fine: each ratio is at least 0.99 or inside the noise")
    good = good and error <= NOISY
    session.stop()
    shutil.rmtree(place, ignore_errors=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bus", action="store_true", help="only the listener bus")
    parser.add_argument("--rows", action="store_true", help="only rows per second")
    parser.add_argument("--door", action="store_true", help="rows per second, by the plugin's door")
    parser.add_argument("--pairs", type=int, default=14, help="even: each side first as often")
    parser.add_argument("--files", type=int, default=48)
    parser.add_argument("--rows-per-file", type=int, default=4000)
    parser.add_argument("--files-per-batch", type=int, default=4)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--agent", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        bus_child(given.child, given.agent)
        return 0
    good = True
    sizes = (given.pairs, given.files, given.rows_per_file, given.files_per_batch)
    if given.door:
        return 0 if rows(*sizes, door=True) else 1
    if given.bus or not given.rows:
        good = bus() >= 50 and good
    if given.rows or not given.bus:
        good = rows(*sizes) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
