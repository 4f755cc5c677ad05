"""What thousands of starts of queries leave behind in a driver that Weir watches: nothing.

Run as ``python -m tests.benchmarks.starts --count 10000``. One driver starts short AvailableNow
queries one after the other, in rounds: ``starts`` on one attached session; ``attach``, with a
detach and an attach before each; ``sessions``, with a new session attached for each. It prints the
threads of Python and of the JVM, descriptors, py4j's connections, Python's resident memory and the
JVM's heap, classes and sessions after garbage collection. ``--without`` does the same without Weir:
what Spark itself keeps. ``--door`` has each new session found by a process beyond the plugin's
door, which is measured too, and says how long that took.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

import spark_listener
from spark_listener import plugin
from tests.benchmarks.listener import Beyond
from tests.driver.fake_agent import FakeAgent

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP: Final = 20
KINDS: Final = ("starts", "attach", "sessions")
MEBIBYTE: Final = 1024 * 1024
#: Flat to the last one; the JVM's own pools of threads come and go.
FLAT: Final = (
    *("python_threads", "py4j_connections", "python_descriptors", "jvm_sessions"),
    *("beyond_threads", "beyond_descriptors"),
)


def figures(session: Any) -> dict[str, int]:
    """What a driver holds on to, in numbers that do not depend on the garbage collector."""
    gateway = session.sparkContext._gateway
    jvm_process = psutil.Process(int(gateway.jvm.java.lang.ProcessHandle.current().pid()))
    beans = gateway.jvm.java.lang.management.ManagementFactory
    gc.collect()
    return {
        "python_threads": threading.active_count(),
        "py4j_connections": len(gateway._gateway_client.deque),
        "python_descriptors": psutil.Process().num_fds(),
        "jvm_threads": beans.getThreadMXBean().getThreadCount(),
        "jvm_sockets": len(jvm_process.net_connections()),
    }


def memory(session: Any) -> dict[str, float]:
    """Resident memory of Python, heap and classes of the JVM, in MiB, after collections."""
    jvm = session.sparkContext._gateway.jvm
    beans = jvm.java.lang.management.ManagementFactory
    for _ in range(3):
        gc.collect()
        jvm.java.lang.System.gc()
        time.sleep(1.0)  # Spark's cleaner and py4j's finalizer follow the collector
    return {
        "python_resident_mib": round(psutil.Process().memory_info().rss / MEBIBYTE, 1),
        "jvm_heap_mib": round(beans.getMemoryMXBean().getHeapMemoryUsage().getUsed() / MEBIBYTE, 1),
        "jvm_classes": beans.getClassLoadingMXBean().getLoadedClassCount(),
        "jvm_sessions": sessions(int(jvm.java.lang.ProcessHandle.current().pid())),
    }


def sessions(jvm_pid: int) -> int:
    """How many sessions the JVM holds, by its own count of what is alive."""
    told = subprocess.run(
        ["jcmd", str(jvm_pid), "GC.class_histogram"], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split() for line in told.splitlines()]
    return sum(int(one[1]) for one in lines if one and one[-1].endswith("classic.SparkSession"))


def beyond_figures(pid: int) -> dict[str, float]:
    """Of the process beyond the door."""
    process = psutil.Process(pid)
    return {
        "beyond_threads": process.num_threads(),
        "beyond_descriptors": process.num_fds(),
        "beyond_resident_mib": round(process.memory_info().rss / MEBIBYTE, 1),
    }


def found_once(session: Any, place: Path) -> float:
    """A query that runs until its session is watched; gives the seconds that took."""
    writer = session.readStream.schema("value string").text(str(place / "in")).writeStream
    writer = writer.format("noop").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(processingTime="1 hour").start()
    begun = time.monotonic()
    streams = session._jsparkSession.streams()
    while not len(streams.listListeners()):
        if time.monotonic() - begun > 20:
            raise SystemExit(f"a session was not found: {query.status}, {query.exception()}")
        time.sleep(0.02)
    seconds = time.monotonic() - begun
    query.stop()
    return seconds


def run_once(session: Any, place: Path) -> None:
    """One short query over nothing new, to its end."""
    writer = session.readStream.schema("value string").text(str(place / "in")).writeStream
    writer = writer.format("noop").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def rounds(session: Any, place: Path, kind: str, count: int, attach: Callable[[Any], None]) -> None:
    """``count`` starts of this kind."""
    for _ in range(count):
        used = session
        if kind == "attach":
            spark_listener.detach()
            attach(session)
        elif kind == "sessions":
            used = session.newSession()
            attach(used)
        run_once(used, place)
        del used


def measure(kind: str, count: int, steps: int, *, without: bool, door: bool) -> bool:
    """Prints a line per step; true where nothing that is counted has grown."""
    from pyspark.sql import SparkSession

    doors = Path(tempfile.mkdtemp())
    builder: Any = SparkSession.builder
    if door:
        builder = (
            builder.config("spark.jars", str(plugin.JAR))
            .config(plugin.CONFS[0], plugin.NAME)
            .config("spark.weir.door.dir", str(doors))
        )
    session = (
        builder.master("local[1]")
        .appName("starts")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder, FakeAgent() as agent:
        place = Path(folder)
        (place / "in").mkdir()
        (place / "in" / "1.txt").write_text("x\n")

        def attach(one: Any) -> None:
            if not without:
                made = spark_listener.attach(one, agent_url=agent.url)
                assert made.active, made.reason

        waits: list[float] = []
        beyond = Beyond(session, doors) if door else None

        def go(number: int) -> None:
            if beyond is None:
                rounds(session, place, kind, number, attach)
                return
            waits.extend(found_once(session.newSession(), place) for _ in range(number))

        if beyond is None:
            attach(session)
        else:
            beyond.enter(agent.url)
        go(WARM_UP)
        seen = []
        begun = time.monotonic()
        for step in range(steps + 1):
            if step:
                go(count // steps)
                agent.requests.clear()  # the agent is this process, too
                agent.events.clear()
            found = {**figures(session), **memory(session)}
            if beyond is not None:
                found |= beyond_figures(beyond.pid)
            seen.append(found)
            told = ", ".join(f"{name} {value}" for name, value in found.items())
            done = step * (count // steps)
            seconds = (time.monotonic() - begun) / max(done, 1)
            print(f"{kind}, {done:6d} starts ({seconds:.2f} s each): {told}", flush=True)
        if waits:
            longest = max(waits)
            print(f"found after {statistics.median(waits):.2f} s, at most {longest:.2f} s")
    session.stop()
    # A pool holds what the moment needs, one more or less: what leaks is higher at its lowest.
    half = len(seen) // 2
    grown = [
        name
        for name in FLAT
        if name in seen[0]
        and min(one[name] for one in seen[half + 1 :]) > max(one[name] for one in seen[: half + 1])
    ]
    print(f"{kind}: {'grown: ' + ', '.join(grown) if grown else 'flat'}", flush=True)
    return not grown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10, help="how often to measure")
    parser.add_argument("--kind", choices=KINDS, default="starts")
    parser.add_argument("--without", action="store_true", help="without Weir")
    parser.add_argument("--door", action="store_true", help="new sessions, found through a door")
    given = parser.parse_args()
    kind = "sessions" if given.door else given.kind
    good = measure(kind, given.count, given.steps, without=given.without, door=given.door)
    return 0 if good else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
