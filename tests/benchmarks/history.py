"""How fast ``weir history`` reads event logs, against Spark reading the same files and no more.

    python -m tests.benchmarks.history [--gigabytes 1 4] [--log FILE] [--shuffle-partitions 200]

A real run is recorded (or ``--log`` given) and multiplied to the sizes asked for, with ids, times,
batches and stages of their own. Three inputs: many applications of equal size, in each size, and in
the smallest size one application that holds nearly all lines. Each is read twice, in processes of
their own: by ``weir history``, all of it, and by a bare scan, ``spark.read.json`` with the schema
of the very fields that Weir reads, into Spark's ``noop``. Neither counts the start of its JVM.

Prints a row for each input: seconds, ratio of the throughputs, and, of the JVM and its Python
workers together, processor seconds and most resident memory; then how time and memory grow with the
input, and what the skew costs.
1 where a ratio is below 0.5.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil

from agent.sources.recording import read_lines
from spark_listener.wire import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

MASTER = "local[2]"
MEMORY = "2g"
LEAST_RATIO = 0.5
APPLICATION_BYTES = 64_000_000
SKEWED_SHARE = 0.9
#: The fields that Weir reads, for the bare scan.
SCHEMA = """
Event string, `App Name` string, `App ID` string, id string, runId string, name string,
timestamp string, exception string,
progress struct<id string, runId string, name string, timestamp string, batchId bigint,
  batchDuration bigint, durationMs map<string,bigint>, eventTime map<string,string>,
  stateOperators array<struct<operatorName string, numRowsTotal bigint, memoryUsedBytes bigint,
    commitTimeMs bigint, numRowsDroppedByWatermark bigint, customMetrics map<string,bigint>>>,
  sources array<struct<description string, startOffset string, endOffset string,
    latestOffset string, numInputRows bigint>>,
  sink struct<description string>>,
`Submission Time` bigint, `Stage IDs` array<bigint>, Properties map<string,string>,
`Stage Info` struct<`Stage ID` bigint, `Stage Attempt ID` bigint, `Stage Name` string,
  `Number of Tasks` bigint, `Submission Time` bigint, `Completion Time` bigint,
  `Failure Reason` string>,
`Stage ID` bigint, `Stage Attempt ID` bigint, `Task End Reason` struct<Reason string>,
`Task Info` struct<Index bigint, `Partition ID` bigint, `Launch Time` bigint,
  `Finish Time` bigint, `Executor ID` string, Host string>,
`Task Metrics` struct<`Input Metrics` struct<`Records Read` bigint, `Bytes Read` bigint>,
  `Shuffle Read Metrics` struct<`Total Records Read` bigint, `Remote Bytes Read` bigint,
    `Local Bytes Read` bigint>>
"""
_TOKEN = re.compile(
    rb'(?P<ms>\b1[78]\d{11}\b)|(?P<iso>"20\d\d-\d\d-\d\dT[0-9:.]+Z")'
    rb'|"Stage IDs?":(?P<stage>\d+|\[[\d,]*\])|"batchId":(?P<batch>\d+)'
    rb'|"streaming\.sql\.batchId":"(?P<property>\d+)"'
)


class Template:
    """A real log, ready to be written again under other names and times."""

    def __init__(self, log: Path) -> None:
        with log.open("rb") as file:
            lines = [line for _, line in read_lines(file, str(log)) if line]
        times = [json.loads(line).get("Timestamp") for line in lines]
        self.head = [
            line for line in lines if b"ApplicationStart" in line[:60] or b"LogStart" in line[:60]
        ]
        self.tail = [line for line in lines if b"ApplicationEnd" in line[:60]]
        edges = {*self.head, *self.tail}
        self.body = b"\n".join(line for line in lines if line not in edges) + b"\n"
        self.milliseconds = max(t for t in times if t) - min(t for t in times if t) + 1000
        found = [m for m in _TOKEN.finditer(self.body) if m["stage"]]
        self.stages = 1 + max(int(n) for m in found for n in re.findall(rb"\d+", m["stage"]))
        self.batches = 1 + max(
            int(m["batch"]) for m in _TOKEN.finditer(self.body) if m["batch"] is not None
        )
        self.pieces = list(self._cut())
        query_ids = re.findall(rb'"sql\.streaming\.queryId":"([0-9a-f-]{36})"', self.body)
        self.queries = set(query_ids)
        self.runs = set(re.findall(rb'"runId":"([0-9a-f-]{36})"', self.body))

    def _cut(self) -> Iterator[tuple[str, bytes]]:
        place = 0
        for match in _TOKEN.finditer(self.body):
            kind = match.lastgroup or ""
            begin, end = match.span(kind)
            yield "", self.body[place:begin]
            yield kind, self.body[begin:end]
            place = end
        yield "", self.body[place:]

    def write(self, path: Path, name: str, least_bytes: int) -> int:
        """An application's log of about so many bytes."""
        written = turn = 0
        with path.open("wb") as file:
            for line in self.head:
                told = re.sub(rb'"App ID":"[^"]*"', b'"App ID":"' + path.name.encode() + b'"', line)
                told = re.sub(rb'"App Name":"[^"]*"', b'"App Name":"' + name.encode() + b'"', told)
                written += file.write(told + b"\n")
            while written < least_bytes:
                written += file.write(self._turn(path.name, turn))
                turn += 1
            for line in self.tail:
                written += file.write(self._moved("ms", line, turn - 1) + b"\n")
        return written

    def _turn(self, log: str, turn: int) -> bytes:
        """The whole run once more, later: new runs of the same queries."""
        text = b"".join(
            self._moved(kind, piece, turn) if kind else piece for kind, piece in self.pieces
        )
        for ids, salt in ((self.queries, log), (self.runs, f"{log}/{turn}")):
            for one in ids:
                text = text.replace(one, _salted(one, salt))
        return text

    def _moved(self, kind: str, piece: bytes, turn: int) -> bytes:
        if not turn:
            return piece
        later = turn * self.milliseconds
        if kind == "ms":
            return re.sub(rb"\b1[78]\d{11}\b", lambda m: b"%d" % (int(m[0]) + later), piece)
        if kind == "iso":
            moved = parse_time(piece[1:-1].decode()) + later / 1000.0
            return b'"' + format_time(moved).encode() + b'"'
        shift = turn * (self.stages if kind == "stage" else self.batches)
        return re.sub(rb"\d+", lambda m: b"%d" % (int(m[0]) + shift), piece)


def _salted(one: bytes, salt: str) -> bytes:
    import uuid

    return str(uuid.uuid5(uuid.UUID(one.decode()), salt)).encode()


def generate(template: Template, folder: Path, size: int, *, skewed: bool) -> int:
    """Logs of about so many bytes in all; gives how many it is."""
    folder.mkdir(parents=True)
    shares: list[int] = []
    if skewed:
        big = int(size * SKEWED_SHARE)
        shares = [big, *[(size - big) // 8] * 8]
    else:
        count = max(1, size // APPLICATION_BYTES)
        shares = [size // count] * count
    return sum(
        template.write(folder / f"app-{number:04d}", f"orders-{number:04d}", share)
        for number, share in enumerate(shares)
    )


def child(kind: str, folder: Path, out: Path) -> None:
    """One measured run; prints its seconds."""
    from agent.history.command import Options, history
    from agent.history.job import session

    spark = session(MASTER, {"spark.driver.memory": MEMORY, "spark.ui.enabled": "false"})
    began = time.perf_counter()
    if kind == "bare":
        frame = spark.read.schema(" ".join(SCHEMA.split())).json(str(folder))
        frame.write.format("noop").mode("overwrite").save()
    else:
        options = Options(logs=[str(folder)], out=str(out), quiet=True)
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            code = history(options, out=nowhere)
        if code:
            raise SystemExit(f"weir history ended with {code}")
    sys.stdout.write(f"\nseconds {time.perf_counter() - began:.3f}\n")


class Measured(msgspec.Struct):
    """One run."""

    seconds: float
    cpu_seconds: float  # of all processes: what a busy machine does not stretch as much
    resident_megabytes: float


def measure(kind: str, folder: Path, out: Path) -> Measured:
    """In a process of its own, watched."""
    command = [sys.executable, "-m", "tests.benchmarks.history", "--child", kind]
    process = subprocess.Popen(
        [*command, str(folder), str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    most = [0.0]
    cpu: dict[int, float] = {}
    done = threading.Event()

    def watch() -> None:
        root = psutil.Process(process.pid)
        while not done.wait(0.25):
            try:
                members = [root, *root.children(recursive=True)]
            except psutil.Error:
                return
            most[0] = max(most[0], sum(map(_resident, members)) / 1e6)
            cpu.update((one.pid, spent) for one in members if (spent := _cpu(one)))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    told, complaint = process.communicate()
    done.set()
    watcher.join()
    found = re.search(r"^seconds ([\d.]+)$", told, re.MULTILINE)
    if process.returncode or found is None:
        raise SystemExit(f"{kind}: ended with {process.returncode}\n{complaint[-3000:]}")
    return Measured(float(found[1]), sum(cpu.values()), most[0])


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0  # it has ended


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def record(folder: Path, seconds: float, shuffle_partitions: int) -> Path:
    """A real run's log, recorded in a process of its own."""
    more = [str(folder), str(seconds), str(shuffle_partitions)]
    command = [sys.executable, "-m", "tests.history.real_run", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip().splitlines()[-1].strip().rpartition(" ")[2].strip())


def main(arguments: list[str] | None = None) -> int:
    """Prints the tables; 1 where a ratio is below the least."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gigabytes", nargs="+", type=float, default=[1.0, 4.0])
    parser.add_argument("--log", type=Path, help="a real run's log, instead of recording one")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the run to record")
    parser.add_argument(
        "--shuffle-partitions",
        type=int,
        default=200,
        help="of the run to record; 200 is the default of Spark. The fewer tasks a batch has, the "
        "more batches a gigabyte holds, and each is judged",
    )
    parser.add_argument("--folder", type=Path, help="where to write; it must have room")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    chosen: Any = parser.parse_args(arguments)
    if chosen.child:
        kind, folder, out = chosen.child
        child(kind, Path(folder), Path(out))
        return 0
    place = Path(tempfile.mkdtemp(prefix="weir-history-", dir=chosen.folder))
    try:
        return compare(chosen, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def compare(chosen: Any, place: Path) -> int:
    """All inputs, one after the other; only one lies on the disk at a time."""
    log = chosen.log or record(place / "run", chosen.seconds, chosen.shuffle_partitions)
    template = Template(log)
    megabytes, seconds = len(template.body) / 1e6, template.milliseconds / 1000
    batches = template.body.count(b"QueryProgressEvent")
    print(f"real run: {megabytes:.1f} MB of log in {seconds:.0f} s, {batches} batches")
    print(
        "| input | MB | bare scan s | weir history s | MB/s | ratio | bare CPU s | weir CPU s "
        "| bare RSS MB | weir RSS MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    sizes = sorted(chosen.gigabytes)
    inputs = [(f"{size:g} GB", size, False) for size in sizes]
    inputs.insert(1, (f"{sizes[0]:g} GB, skewed", sizes[0], True))
    seen: dict[str, tuple[float, Measured, Measured]] = {}
    low = False
    for name, size, skewed in inputs:
        folder, out = place / "logs", place / "out"
        total = generate(template, folder, round(size * 1e9), skewed=skewed) / 1e6
        bare = measure("bare", folder, out)
        ours = measure("weir", folder, out)
        ratio = bare.seconds / ours.seconds
        low = low or ratio < LEAST_RATIO
        seen[name] = (total, bare, ours)
        print(
            f"| {name} | {total:.0f} | {bare.seconds:.1f} | {ours.seconds:.1f} "
            f"| {total / ours.seconds:.1f} | {ratio:.2f} | {bare.cpu_seconds:.0f} "
            f"| {ours.cpu_seconds:.0f} | {bare.resident_megabytes:.0f} "
            f"| {ours.resident_megabytes:.0f} |",
            flush=True,
        )
        shutil.rmtree(folder)
        shutil.rmtree(out, ignore_errors=True)
    first, last = seen[inputs[0][0]], seen[inputs[-1][0]]
    if len(sizes) > 1:
        print(f"\n{last[0] / first[0]:.2f} times the bytes:")
        print(f"- {last[2].seconds / first[2].seconds:.2f} times the seconds")
        grown = last[2].resident_megabytes / first[2].resident_megabytes
        print(f"- {grown:.2f} times the memory")
    skewed_run = seen[inputs[1][0]]
    per_byte = (skewed_run[2].seconds / skewed_run[0]) / (first[2].seconds / first[0])
    print(f"- {SKEWED_SHARE:.0%} in one application: {per_byte:.2f} times the seconds of even ones")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
