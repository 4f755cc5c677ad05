"""What tests of jobs with the plugin say to the agent, and find behind the door."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psutil

from spark_listener import door
from tests.plugin.cluster import living

if TYPE_CHECKING:
    from tests.plugin.conftest import Bench
    from tests.service.agents import AgentProcess


def beyond(agent: AgentProcess) -> psutil.Process | None:
    """The agent's process at the door."""
    return next(living(psutil.Process(agent.process.pid).children()), None)


def limit(found: dict[str, Any]) -> int | None:
    return found["sources"][0]["limit"]


def order(agent: AgentProcess, name: str, files: int, application: str = "a job") -> None:
    answer = agent.http.post(
        f"/v1/queries/{quote(application)}/{name}/control",
        json={"limit": files, "unit": "files", "reason": "a test"},
    )
    assert answer.status_code == 200, answer.text


def secrets(bench: Bench) -> list[str]:
    """Of the doors; each that opens has one of its own."""
    found = []
    for path in bench.doors.glob("*.door"):
        with contextlib.suppress(OSError, door.NoDoor):
            found.append(door.read(path).token)
    return found


def instances(agent: AgentProcess) -> set[str]:
    """The listeners that the agent heard of: each process at a door is one."""
    told = agent.http.get("/v1/queries").json()["listeners"]
    return {one["listener"]["instance"] for one in told}
