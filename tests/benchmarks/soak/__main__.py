"""Hours of real streaming under Weir while everything around it breaks at random.

    python -m tests.benchmarks.soak --hours 2 [--svg FILE] [--seed N] [--without]
    python -m tests.benchmarks.soak.samples FILE.csv [CSV OF THE SAME --without]

A real Spark runs queries over a real Kafka and over files, two stateless, one windowed with a
watermark, one in AvailableNow runs, under a real agent. Meanwhile, as ``course.py`` draws it:
agent, broker, driver and Python workers are killed and started again, the disk of the agent's state
is filled, its clock is set, limits are moved by hand, queries go and come. In the end each row has
to have been counted once, none dropped as late, no limit left behind, and nothing that is sampled
may grow. Exit code 1 where that is not so; the folder with all logs is then kept. ``--without``
runs the same course without agent and listener, to tell what grows in Spark itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from tests.benchmarks.soak import job
from tests.benchmarks.soak.course import LONG_QUERIES, OF_WEIR, Fault, plan
from tests.benchmarks.soak.rows import RATES
from tests.benchmarks.soak.samples import draw, table
from tests.benchmarks.soak.world import SETTLE_SECONDS, World
from tests.kafka.broker import is_there
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_SECONDS: Final = 5.0
#: A burst brings so many seconds' worth of rows at once.
BURST_SECONDS: Final = 45.0


def run(world: World, course: list[Fault], seconds: float) -> float:
    """The whole course, with samples; the seconds it took."""
    steps: list[tuple[float, Callable[[Fault], None], Fault]] = []
    for fault in course:
        steps.append((fault.at_seconds, world.begin, fault))
        if fault.lasts_seconds:
            steps.append((fault.until_seconds, world.end, fault))
    steps.sort(key=lambda step: step[0])
    begun = last = time.monotonic()
    sampled = -SAMPLE_SECONDS
    bursts = 0
    with ThreadPoolExecutor(8) as pool:
        doing = []
        while (second := time.monotonic() - begun) < seconds:
            while steps and steps[0][0] <= second:
                _, do, fault = steps.pop(0)
                if do == world.begin:
                    print(f"{second:7.0f} s {fault.kind} {fault.target}", flush=True)
                doing.append(pool.submit(do, fault))
            now = time.monotonic()
            world.rows.produce(now - last + BURST_SECONDS * (world.bursts - bursts))
            last, bursts = now, world.bursts
            if second - sampled >= SAMPLE_SECONDS:
                sampled = second
                world.look(second)
            time.sleep(0.2)
        for one in doing:
            one.result(SETTLE_SECONDS)
    return time.monotonic() - begun


def settle(world: World) -> list[str]:
    """After the last fault: everything comes back and every row through; what is not so."""
    wrong = []
    world.rows.close_windows()
    if extra := world.rows.sent_twice():
        raise AssertionError(f"Kafka holds {extra} rows more than were produced: the soak's own")

    def whole(name: str) -> bool:
        return not world.rows.counted(name)[0]

    def comes(what: str, look: Callable[[], Any]) -> None:
        try:
            until(look, what, seconds=SETTLE_SECONDS, every=1.0, ignoring=(httpx.HTTPError,))
        except AssertionError as error:
            wrong.append(str(error)[:2000])

    comes("every query to run", lambda: not world.away())
    if world.weir:
        comes("the agent to be ready", lambda: world.agent.http.get("/readyz").is_success)
        for order in ({"hold": False}, {"mode": "off"}):
            comes(f"the order {order}", partial(world.order, "*", order))
    comes("the limits as configured", lambda: not world.limits_left())
    print(f"limits that are not the configured ones: {world.limits_left() or 'none'}")
    for name in LONG_QUERIES:
        comes(f"all rows of {name}", partial(whole, name))
    if world.weir:
        metrics = world.agent.metrics()
        dropped = sum_of(metrics, "weir_watermark_dropped_rows_total")
        print(
            f"rows dropped as late: {dropped:g}; grants: {sum_of(metrics, 'weir_grants_total'):g}; "
            f"batches: {sum_of(metrics, 'weir_batches_total'):g}"
        )
        if dropped:
            wrong.append(f"{dropped:g} rows were dropped as late; all came within the delay")
    job.write(world.folder / "wanted.json", {"finish": True})
    comes("the driver to finish", (world.folder / "finished.json").exists)
    for name in RATES:
        missing, doubled = world.rows.counted(name)
        failed = f"failed and started again {world.failed[name]} times"
        said = f"{world.rows.produced[name]} rows, {missing} missing, {doubled} doubled; {failed}"
        print(f"{name:10} {said}")
        if missing or doubled:
            wrong.append(f"{name}: {missing} rows missing, {doubled} doubled")
    return wrong


def sum_of(metrics: dict[str, float], name: str) -> float:
    return sum(value for key, value in metrics.items() if key.split("{")[0] == name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument(
        "--svg", type=Path, help="draw what the table tells; every sample: FILE.csv"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", action="store_true", help="Spark alone, by the same course")
    parser.add_argument("--folder", type=Path, help="to work in and keep; a new one")
    given = parser.parse_args()
    if not is_there():
        print("the broker's jars are missing: make kafka")
        return 1
    seconds = given.hours * 3600
    course = plan(seconds, given.seed)
    if given.without:
        course = [fault for fault in course if fault.kind not in OF_WEIR]
    # Before anything starts, so that an end of this process ends all that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = given.folder or Path(tempfile.mkdtemp(prefix="weir-soak-"))
    world = World(folder, given.seed, weir=not given.without)
    wrong: list[str] = ["it did not come to its end"]
    try:
        world.start()
        if world.weir and not world.disk_can_fill:
            print("the disk is not filled: only root can mount a small one")
        until(lambda: not world.away(), "every query to run", seconds=SETTLE_SECONDS, every=0.5)
        took = run(world, course, seconds)
        wrong = settle(world)
    finally:
        world.stop()
        if not wrong and given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"logs are kept in {folder}")
    if given.svg:
        given.svg.write_text(draw(world.series, course, took), encoding="utf-8")
        given.svg.with_suffix(".csv").write_text(world.series.csv(), encoding="utf-8")
    lines, flat = table(world.series, took / 2)
    print(*lines, sep="\n")
    print(f"faults: {dict(Counter(fault.kind for fault in course))}")
    print(f"beside them: {dict(world.told)}")
    if not flat:
        wrong.append("something grows: see the table")
    print("all is as it should be" if not wrong else "WRONG:", *wrong, sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
