"""What an agent costs: events a second on one core, and a thousand queries' scrape and memory.

``python -m tests.benchmarks.agent`` runs a real ``weir agent`` pinned to one core, and sends from
the others. Prints one JSON object; exit code 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.service import wire
from tests.service.agents import AgentProcess

AIM_EVENTS_PER_SECOND = 10_000
AIM_SCRAPE_SECONDS = 0.5
AIM_BYTES_PER_QUERY = 30 * 1024
AIM_BASE_BYTES = 80 * 1024**2
BATCH = 200
QUERIES = 1000
HISTORY = 120


class Connection:
    """A bare client: the figures are the agent's, not httpx's."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._http = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def post(self, body: bytes) -> dict[str, Any]:
        self._http.request("POST", "/v1/events", body, {"Content-Type": "application/json"})
        answer = self._http.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {content[:300]!r}")
        return dict(json.loads(content))

    def get(self, path: str) -> bytes:
        self._http.request("GET", path)
        answer = self._http.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {content[:300]!r}")
        return content


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.agent")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    pin: tuple[str, ...] = ()
    if len(cores) > 1:
        pin = ("taskset", "-c", str(cores[0]))
        os.sched_setaffinity(0, cores[1:])
    with tempfile.TemporaryDirectory() as folder:
        rates = events_per_second(Path(folder), pin, arguments.rounds)
    with tempfile.TemporaryDirectory() as folder:
        many = thousand_queries(Path(folder), pin)
    result = {
        "cores": len(cores),
        "agent_pinned": bool(pin),
        "load_average": os.getloadavg()[0],
        "events": {
            "queries": 10,
            "events_per_request": BATCH,
            "bytes_per_event": len(wire.body([wire.progress(1)])),
            **rates,
        },
        "thousand_queries": many,
    }
    missed = [
        name
        for name, met in (
            ("events_per_second", rates["per_core_second_median"] >= AIM_EVENTS_PER_SECOND),
            ("scrape_seconds", many["scrape_seconds_median"] <= AIM_SCRAPE_SECONDS),
            ("bytes_per_query", many["bytes_per_query"] <= AIM_BYTES_PER_QUERY),
            ("base_bytes", many["base_bytes"] <= AIM_BASE_BYTES),
        )
        if not met
    ]
    print(json.dumps({**result, "aims_missed": missed}, indent=2))
    return 1 if missed else 0


def events_per_second(folder: Path, pin: tuple[str, ...], rounds: int) -> dict[str, Any]:
    """Requests of 200 events, 10 queries, saved to disk, one connection, one after the other.

    By the clock, and by the CPU time the agent used: on a machine with other work the second is
    what one core would do.
    """
    requests = 30
    wall: list[float] = []
    core: list[float] = []
    with AgentProcess(folder, "--state-dir", str(folder / "state"), prefix=pin) as agent:
        connection = Connection(agent.address)
        sequence = 0
        for turn in range(rounds + 1):
            bodies = []
            for _ in range(requests):
                numbers = range(sequence + 1, sequence + 1 + BATCH)
                sequence += BATCH
                bodies.append(wire.body([wire.progress(n, query=n % 10) for n in numbers]))
            cpu = cpu_seconds(agent.process.pid)
            began = time.perf_counter()
            for body in bodies:
                if connection.post(body)["accepted"] != BATCH:
                    raise RuntimeError("an event was refused")
            seconds = time.perf_counter() - began
            used = cpu_seconds(agent.process.pid) - cpu
            if turn:  # the first warms up
                wall.append(requests * BATCH / seconds)
                core.append(requests * BATCH / used)
        agent.stop()
    return {
        "per_second": [round(value) for value in wall],
        "per_second_median": round(statistics.median(wall)),
        "per_core_second": [round(value) for value in core],
        "per_core_second_median": round(statistics.median(core)),
    }


def thousand_queries(folder: Path, pin: tuple[str, ...]) -> dict[str, Any]:
    """A thousand queries of ten applications, with a full history of 120 batches each."""
    options = ("--max-queries", str(QUERIES), "--state-dir", str(folder / "state"))
    with AgentProcess(folder, *options, prefix=pin) as agent:
        connection = Connection(agent.address)
        for path in ("/metrics", "/v1/queries", "/"):
            connection.get(path)  # what is loaded at first use belongs to the base
        warm = wire.body([wire.progress(1)], application="warm", application_id="warm")
        connection.post(warm)
        base = resident_bytes(agent.process.pid)
        sequences = [0] * 10
        for batch in range(HISTORY):
            for application in range(10):
                numbers = range(QUERIES // 10)
                if batch == 0 and application == 9:
                    numbers = range(QUERIES // 10 - 1)  # the one that warmed up
                events = []
                for number in numbers:
                    sequences[application] += 1
                    events.append(
                        wire.progress(
                            sequences[application],
                            query=application * 1000 + number,
                            name=f"enrich-{number:03d}",
                            batch_id=batch,
                            rows=5000 + 37 * batch + number,
                            time=wire.BASE_TIME + 5 * batch,
                        )
                    )
                body = wire.body(
                    events,
                    application=f"application-{application}",
                    application_id=f"app-{application}",
                    instance=f"listener-{application}",
                )
                connection.post(body)
        queries = len(json.loads(connection.get("/v1/queries"))["queries"])
        before_scrape = resident_bytes(agent.process.pid)
        scrapes: list[float] = []
        size = 0
        for _ in range(7):
            time.sleep(2.5)  # beyond the time that a costly exposition is given out again
            began = time.perf_counter()
            size = len(connection.get("/metrics"))
            scrapes.append(time.perf_counter() - began)
        peak = peak_bytes(agent.process.pid)
        time.sleep(2.5)
        resident = resident_bytes(agent.process.pid)
        state = sum(path.stat().st_size for path in (folder / "state").glob("state.sqlite*"))
        agent.stop()
        began = time.perf_counter()
    with AgentProcess(folder, *options, prefix=pin) as again:
        restart = time.perf_counter() - began
        again.stop()
    return {
        "queries": queries,
        "batches_each": HISTORY,
        "base_bytes": base,
        "resident_bytes": resident,
        "resident_before_scrapes_bytes": before_scrape,
        "resident_peak_bytes": peak,
        "bytes_per_query": round((resident - base) / queries),
        "scrape_seconds": [round(value, 3) for value in scrapes],
        "scrape_seconds_median": round(statistics.median(scrapes), 3),
        "exposition_bytes": size,
        "state_on_disk_bytes": state,
        "restart_seconds": round(restart, 2),
    }


def resident_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
