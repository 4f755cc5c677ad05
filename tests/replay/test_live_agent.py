"""A recorded run of real Spark, once through a real agent and once through replay: line by line.

``changing-cost.jsonl.gz`` is what an agent recorded (``--record-file``) while
tests/end_to_end/test_changing_cost.py ran: the first batches, heartbeats, costs that change.
"""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.policy import QueryPolicy
from agent.replay import replay_files
from tests.service.agents import AgentProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = Path(__file__).parent / "changing-cost.jsonl.gz"
TARGET_SECONDS = 10.0


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path, "--target-seconds", str(TARGET_SECONDS)) as running:
        yield running


def recorded() -> list[dict[str, Any]]:
    with gzip.open(RECORD, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def replayed(**more: Any) -> list[dict[str, Any]]:
    out = io.BytesIO()
    settings = QueryPolicy(target_seconds=TARGET_SECONDS, **more)
    assert replay_files([str(RECORD)], settings, out) == []
    return [json.loads(line) for line in out.getvalue().splitlines()]


def told(event: dict[str, Any]) -> int:
    """Lines that replay writes for an event."""
    if event["type"] == "heartbeat":
        return len(event["body"]["queries"])
    return int(event["type"] in {"progress", "terminated"})


def test_the_record_holds_what_it_should() -> None:
    events = recorded()
    kinds = {event["type"] for event in events}
    assert {"started", "progress", "heartbeat", "terminated"} <= kinds
    assert RECORD.stat().st_size < 200_000
    lines = replayed()
    assert sum(line["event"] == "progress" for line in lines) > 35
    assert len({line["limit"]["reason"] for line in lines}) >= 4


def test_replay_tells_what_a_live_agent_decided_line_by_line(agent: AgentProcess) -> None:
    lines = replayed()
    compared = 0
    for sequence, event in enumerate(recorded(), 1):
        body = {
            "application": event.pop("application"),
            "listener": {
                "instance": event.pop("listener")["instance"],
                "queue_length": 0,
                "dropped_total": 0,
                "callback_seconds_total": 0.0,
                "callbacks_total": sequence,
            },
            "events": [event],
        }
        reply = agent.post(body).json()
        assert (reply["accepted"], reply["rejected"]) == (1, [])
        for line in lines[compared : compared + told(event)]:
            path = f"/v1/queries/{line['application']}/{line['query']}"
            live = agent.http.get(path).json()["query"]
            mine = (line["limit"], line["throughput_rows_per_second"], line["fixed_cost_seconds"])
            theirs = (
                live["limit"],
                live["throughput_rows_per_second"],
                live["fixed_cost_seconds"],
            )
            assert mine == theirs, (sequence, event["type"])
            granted = [grant for grant in reply["grants"] if grant["source"] == 0]
            if granted:
                assert granted[0]["limit"] == line["limit"]["next"]
            compared += 1
    assert compared == len(lines) > 60


def test_another_target_decides_otherwise() -> None:
    """The comparison above can fail: replay follows its settings, not the record."""
    other = replayed(deadline_seconds=3.0)
    assert [line["limit"] for line in other] != [line["limit"] for line in replayed()]
