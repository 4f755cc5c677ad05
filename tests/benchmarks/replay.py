"""How fast ``weir replay`` reads a recording, and that its memory does not grow with it.

    python -m tests.benchmarks.replay [--megabytes 10 1000] [--form plain zstd] [--recording FILE]

What an agent recorded of a real query on Spark, multiplied to the sizes asked for, is replayed by
the command in a process of its own. Each copy is a later run of the same query: its own run id,
times, batches and offsets that go on. Prints a row per size and form: lines, seconds, megabytes per
second of the plain text, and the process's largest resident memory. 1 where memory grew by more
than a fifth from the smallest to the largest.
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
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import zstandard

from spark_listener.wire import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A record of ``tests/end_to_end/test_changing_cost.py``.
RECORDING = Path("tests/replay/changing-cost.jsonl.gz")
#: Between the end of a run and the next, as if it had been restarted.
PAUSE_SECONDS = 30.0


def events(recording: Path) -> list[dict[str, Any]]:
    """The events of one recorded run."""
    opened = gzip.open if recording.suffix == ".gz" else open
    with opened(recording, "rb") as file:
        return [json.loads(line) for line in file]


def multiplied(base: list[dict[str, Any]], least_bytes: int) -> Iterator[bytes]:
    """The run again and again: later, under a new run id, batches and offsets going on."""
    batches = 1 + max(e["body"]["batchId"] for e in base if e["type"] == "progress")
    seconds = parse_time(base[-1]["time"]) - parse_time(base[0]["time"]) + PAUSE_SECONDS
    written, turn = 0, 0
    while written < least_bytes:
        run = str(uuid.uuid5(uuid.NAMESPACE_OID, str(turn)))
        for event in base:
            line = _shifted(event, turn * seconds, turn * batches, run)
            written += len(line)
            yield line
        turn += 1


def _shifted(event: dict[str, Any], seconds: float, batches: int, run: str) -> bytes:
    shifted = json.loads(json.dumps(event))
    body = shifted["body"]
    shifted["time"] = format_time(parse_time(event["time"]) + seconds)
    for said in (shifted, body, *body.get("queries", ())):
        if "runId" in said:
            said["runId"] = run
        if said.get("batchId") is not None:
            said["batchId"] += batches
        for limit in said.get("limits", ()):
            if "observed_time" in limit:
                limit["observed_time"] = format_time(parse_time(limit["observed_time"]) + seconds)
    if event["type"] == "progress":
        body["timestamp"] = format_time(parse_time(body["timestamp"]) + seconds)
        for source in body["sources"]:
            for offset in (source["startOffset"], source["endOffset"]):
                if offset is not None and "logOffset" in offset:
                    offset["logOffset"] += batches
    return json.dumps(shifted, separators=(",", ":")).encode() + b"\n"


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
    parser.add_argument("--megabytes", nargs="+", type=float, default=[10, 1000])
    parser.add_argument("--form", nargs="+", choices=sorted(OPENERS), default=["plain", "zstd"])
    parser.add_argument("--recording", type=Path, default=RECORDING)
    chosen: Any = parser.parse_args(arguments)
    base = events(chosen.recording)
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
