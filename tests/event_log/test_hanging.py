"""Storage that does not answer keeps one directory from being followed, and nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import structlog

from agent.core.policy import Policy
from agent.service import event_logs
from agent.service.event_logs import EventLogs
from agent.service.keeper import Keeper
from agent.service.store import Store
from agent.sources.event_log import find_logs
from tests.event_log import lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest

    from agent.sources.event_log import Log


def of_directories(told: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in told if "directory" in one]


def test_a_directory_that_hangs_leaves_the_others_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung, well = tmp_path / "hung", tmp_path / "well"
    began, ahead_seconds = time.monotonic(), 0.0

    def clock() -> float:
        return lines.BASE + 100.0 + time.monotonic() - began + ahead_seconds

    monkeypatch.setattr(event_logs, "PULSE_SECONDS", 0.1)  # what the first turn of all may wait
    for folder in (hung, well):
        folder.mkdir()
        path = folder / f"app-{folder.name}.inprogress"
        told_so_far = [*lines.opening(folder.name, f"app-{folder.name}"), lines.started()]
        told_so_far += [lines.progress(batch) for batch in range(3)]
        path.write_bytes(b"".join([*told_so_far, lines.job(3, clock())]))
        os.utime(path, (clock(), clock()))
    answers = threading.Event()

    def find(directory: Path) -> list[Log]:
        if directory == hung:
            answers.wait(30.0)
        return find_logs(directory)

    monkeypatch.setattr(event_logs, "find_logs", find)
    keeper = Keeper(Policy(), Store(None), started_time=clock())
    logs = EventLogs([hung, well], keeper, clock)
    first, second = logs.directories

    async def follow(seconds: int) -> None:
        nonlocal ahead_seconds
        for _ in range(seconds):
            await logs.poll()
            ahead_seconds += 1.0

    async def run() -> None:
        await follow(50)
        assert list(second.followers) == ["app-well"]
        assert keeper.fleet.totals.events["progress"] == 3
        pulses = keeper.fleet.totals.events["heartbeat"]
        assert pulses > 40, "who has none for 15 s is silent"
        assert not of_directories(told), "it may only be slow"
        await follow(30)
        (warning,) = of_directories(told)
        assert (warning["log_level"], warning["directory"]) == ("warning", hung)
        assert "does not answer" in warning["event"]
        assert keeper.fleet.totals.events["heartbeat"] > pulses
        answers.set()
        for _ in range(100):
            await logs.poll()
            if first.followers:
                break
            await asyncio.sleep(0.01)
        assert list(first.followers) == ["app-hung"]
        await logs.poll()

    with structlog.testing.capture_logs() as told:
        asyncio.run(run())
    assert [one["event"] for one in of_directories(told)][1:] == [
        "an event log directory answers again"
    ]


HANGS = """
import asyncio, pathlib, time
from agent.core.policy import Policy
from agent.service import event_logs
from agent.service.keeper import Keeper
from agent.service.store import Store

event_logs.find_logs = lambda _: time.sleep(1000)
keeper = Keeper(Policy(), Store(None), started_time=time.time())
logs = event_logs.EventLogs([pathlib.Path("/")], keeper, time.time)

async def run():
    following = asyncio.create_task(logs.poll())
    await asyncio.sleep(0.2)
    assert not following.done()

asyncio.run(run())
print("ended")
"""


def test_a_directory_that_hangs_does_not_keep_the_agent_from_ending() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
