"""How fast ``weir replay`` reads a recording, and that its memory does not grow with it.

    python -m tests.benchmarks.replay [--megabytes 20 80] [--form plain gzip zstd]

A simulated query's events, multiplied to the sizes asked for with times and batches that go on, are
replayed by the command in a process of its own. Prints a row per size and form: lines, seconds,
megabytes per second of the plain text, and the process's largest resident memory. 1 where memory
grew by more than a fifth from the smallest to the largest.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import zstandard

from agent.simulation import plant
from agent.simulation.live import EPOCH_SECONDS, Live
from spark_listener.wire import format_time, parse_time
from tests.simulation.scenarios import scenario_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Events of one drain: limited batches with heartbeats between them.
SECONDS = 7200.0


def events() -> list[dict[str, Any]]:
    """What a driver would send of one query."""
    found: list[dict[str, Any]] = []
    scenario = scenario_of(
        duration_seconds=SECONDS,
        initial_backlog_rows=10**8,
        throughput_rows_per_second=[[0, 10_000], [2000, 5000], [5000, 12_000]],
    )
    live = Live(scenario, on_event=found.append)
    plant.run(scenario, plant.Noise(0.15, 1), live)
    return found


def multiplied(base: list[dict[str, Any]], least_bytes: int) -> Iterator[bytes]:
    """The events again and again, time and batch ids going on."""
    batches = 1 + max(e["body"]["batchId"] for e in base if e["type"] == "progress")
    written, turn = 0, 0
    while written < least_bytes:
        for event in base:
            if turn and event["type"] == "started":
                continue
            shifted = json.loads(json.dumps(event))
            later = turn * SECONDS
            shifted["time"] = format_time(parse_time(event["time"]) + later)
            body = shifted["body"]
            if event["type"] == "progress":
                body["timestamp"] = format_time(parse_time(body["timestamp"]) + later)
                body["batchId"] += turn * batches
            for running in body.get("queries", ()):
                running["batchId"] += turn * batches
            line = json.dumps(shifted, separators=(",", ":")).encode() + b"\n"
            written += len(line)
            yield line
        turn += 1


OPENERS: dict[str, Callable[[Path], Any]] = {
    "plain": lambda path: path.open("wb"),
    "gzip": lambda path: gzip.open(path, "wb", compresslevel=3),  # noqa: SIM115 - the caller closes
    "zstd": lambda path: zstandard.open(path, "wb"),
}


def write(path: Path, form: str, base: list[dict[str, Any]], size: int) -> tuple[int, int]:
    """Lines and plain bytes written."""
    lines = total = 0
    with OPENERS[form](path) as file:
        out: BinaryIO = file
        for line in multiplied(base, size):
            out.write(line)
            lines += 1
            total += len(line)
    return lines, total


def replay(path: Path) -> tuple[float, float, int]:
    """Seconds, megabytes of resident memory at most, and lines of output."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "agent.cli", "replay", str(path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    judged = sum(chunk.count(b"\n") for chunk in iter(lambda: process.stdout.read(1 << 20), b""))
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"replay ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024, judged


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 where memory grows with the recording."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", nargs="+", type=float, default=[20, 80])
    parser.add_argument("--form", nargs="+", choices=sorted(OPENERS), default=list(OPENERS))
    chosen: Any = parser.parse_args(arguments)
    base = events()
    assert parse_time(base[0]["time"]) == EPOCH_SECONDS
    print("| form | plain MB | events | judged lines | seconds | MB/s | RSS MB |")
    print("|---|---|---|---|---|---|---|")
    grew = False
    for form in chosen.form:
        least: float | None = None
        for size in sorted(chosen.megabytes):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "recording"
                lines, total = write(path, form, base, round(size * 1e6))
                seconds, resident, judged = replay(path)
            print(
                f"| {form} | {total / 1e6:.0f} | {lines} | {judged} | {seconds:.1f} "
                f"| {total / 1e6 / seconds:.2f} | {resident:.0f} |",
                flush=True,
            )
            least = resident if least is None else least
            grew = grew or resident > 1.2 * least
    return 1 if grew else 0


if __name__ == "__main__":
    sys.exit(main())
