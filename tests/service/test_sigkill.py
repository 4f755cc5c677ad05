"""Kill the agent again and again while 20,000 numbered events arrive: each counts exactly once."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.service import wire
from tests.service.agents import AgentProcess

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = 20_000
QUERIES = 10
#: The plant behind the events: a batch takes 0.5 s plus its rows at 8,000 a second.
FIXED_SECONDS = 0.5
ROWS_PER_SECOND = 8000.0


def event(sequence: int, base_time: float) -> dict[str, Any]:
    rows = 1000 + (sequence * 7919) % 9000
    return wire.progress(
        sequence,
        query=sequence % QUERIES,
        rows=rows,
        seconds=FIXED_SECONDS + rows / ROWS_PER_SECOND,
        time=base_time + sequence * 0.01,
    )


class Sender(threading.Thread):
    """Sends numbered events as the listener does: the unacknowledged tail again until taken."""

    def __init__(self, port: int, base_time: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.released = 0
        self.acknowledged = 0
        self.unanswered = 0
        self.failure: str | None = None
        self._base_time = base_time
        self._random = random.Random(seed)
        self._url = f"http://127.0.0.1:{port}"

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=10, trust_env=False) as http:
            while self.acknowledged < EVENTS and self.failure is None:
                first = self.acknowledged + 1
                last = min(self.released, self.acknowledged + self._random.randint(1, 60))
                if last < first:
                    time.sleep(0.001)
                    continue
                body = wire.body([event(n, self._base_time) for n in range(first, last + 1)])
                try:
                    answer = http.post(
                        "/v1/events", content=body, headers={"content-type": "application/json"}
                    )
                except httpx.TransportError:
                    self.unanswered += 1
                    time.sleep(0.005)
                    continue
                if answer.status_code != 200 or answer.json()["rejected"]:
                    self.failure = f"{answer.status_code} {answer.text[:500]}"
                    return
                acknowledged = answer.json()["acknowledged"]
                if acknowledged < last:
                    self.failure = f"sent up to {last}, acknowledged {acknowledged}"
                    return
                self.acknowledged = acknowledged


@pytest.mark.parametrize(
    "kills", [2, pytest.param(50, marks=pytest.mark.slow("a start of the agent for each kill"))]
)
@pytest.mark.timeout(900)  # half a minute on a machine of its own
def test_kills_lose_nothing_and_count_nothing_twice(tmp_path: Path, kills: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # a failing run can be looked at again
    chance = random.Random(seed)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base_time = time.time() - EVENTS * 0.01
    sender = Sender(port, base_time, seed)
    options = ("--state-dir", str(tmp_path / "state"))
    began = time.monotonic()
    for kill in range(kills + 1):
        with AgentProcess(tmp_path, *options, port=port) as agent:
            if kill == 0:
                sender.start()
            if kill < kills:
                sender.released = EVENTS * (kill + 1) // kills
                time.sleep(chance.uniform(0.0, 0.15))
                agent.kill()
                continue
            sender.join(300)
            assert sender.failure is None
            assert sender.acknowledged == EVENTS
            seconds = time.monotonic() - began
            before = _learned(agent)
            duplicates = _check_counts(agent)
            agent.kill()
    print(
        f"{kills} kills, {EVENTS} events in {seconds:.1f} s; {sender.unanswered} requests "
        f"unanswered, {duplicates:.0f} events came twice and counted once"
    )
    # Learned capacity survives one more kill, to the last digit, and is the plant's.
    with AgentProcess(tmp_path, *options, port=port) as agent:
        assert _learned(agent) == before
        _check_counts(agent)
    for throughput, fixed in before.values():
        assert throughput == pytest.approx(ROWS_PER_SECOND, rel=0.05)
        assert fixed == pytest.approx(FIXED_SECONDS, rel=0.2)


def _check_counts(agent: AgentProcess) -> float:
    expected: dict[str, list[int]] = {f"query-{number}": [] for number in range(QUERIES)}
    for sequence in range(1, EVENTS + 1):
        expected[f"query-{sequence % QUERIES}"].append(1000 + (sequence * 7919) % 9000)
    metrics = agent.metrics()
    assert metrics['weir_agent_events_total{type="progress"}'] == EVENTS
    for name, rows in expected.items():
        labels = f'application="orders",query="{name}"'
        assert metrics[f"weir_rows_total{{{labels}}}"] == sum(rows)
        assert metrics[f'weir_batches_total{{{labels},result="completed"}}'] == len(rows)
        assert metrics[f"weir_batch_duration_seconds_count{{{labels}}}"] == len(rows)
    answer = json.loads(agent.http.get("/v1/queries").content)
    totals = {one["query"]: one["totals"] for one in answer["queries"]}
    assert {name: one["rows"] for name, one in totals.items()} == {
        name: sum(rows) for name, rows in expected.items()
    }
    assert sum(one["events"]["progress"] for one in totals.values()) == EVENTS
    return metrics["weir_agent_duplicate_events_total"]


def _learned(agent: AgentProcess) -> dict[str, tuple[float, float]]:
    answer = agent.http.get("/v1/queries").json()
    return {
        one["query"]: (one["throughput_rows_per_second"], one["fixed_cost_seconds"])
        for one in answer["queries"]
    }
