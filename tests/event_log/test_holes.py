"""Zeros in a log that grows, as a network file system's client reads it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from agent.core.decode.events import ProgressEvent
from agent.core.policy import Policy
from agent.service.event_logs import EventLogs
from agent.service.keeper import Keeper
from agent.service.store import Store
from agent.sources.event_log import HOLE_SECONDS, STEP_BYTES, Follower, find_logs
from tests.event_log import lines
from tests.event_log.test_bombs import PACKED
from tests.event_log.test_follow import follow

if TYPE_CHECKING:
    from pathlib import Path


def batches(follower: Follower, now: float) -> list[int | None]:
    """Of the progress that it gives at a time of the agent's."""
    told: list[int | None] = []
    while (request := follower.next_request(now)) is not None:
        bodies = [event.body for _, event in request.events]
        told += [body.progress.batch_id for body in bodies if isinstance(body, ProgressEvent)]
        follower.accepted()
    return told


@pytest.mark.parametrize("ending", ["", ".zstd", ".lz4"])
@pytest.mark.parametrize("rolling", [False, True])
def test_zeros_are_waited_for_where_a_later_write_was_seen_first(
    tmp_path: Path, ending: str, rolling: bool
) -> None:
    """As a client of NFS reads a file that grows."""
    told = [*lines.opening(), lines.started(), *(lines.progress(batch) for batch in range(10))]
    chunks = [PACKED[ending.removeprefix(".")](line) if ending else line for line in told]
    first, late, rest = b"".join(chunks[:5]), b"".join(chunks[5:8]), b"".join(chunks[8:])
    folder = tmp_path / "eventlog_v2_app-1" if rolling else tmp_path
    folder.mkdir(exist_ok=True)
    path = folder / ("events_1_app-1" if rolling else "app-1")
    path = path.with_name(path.name + ending)
    path.write_bytes(first + bytes(len(late)) + rest)
    if rolling:
        path.with_name(f"events_2_app-1{ending}").write_bytes(b"")
    follower = follow(find_logs(tmp_path)[0])
    seen = batches(follower, 1000.0)
    assert seen == list(range(len(seen)))
    assert batches(follower, 1000.0 + HOLE_SECONDS) == []
    path.write_bytes(first + late + rest)
    assert seen + batches(follower, 1001.0 + HOLE_SECONDS) == list(range(10))
    assert follower.skipped == 0


def test_zeros_at_the_end_of_a_file_that_has_just_rolled_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are seen by the look at what was written before it rolled."""
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    path = folder / "events_1_app-1"
    first = b"".join([*lines.opening(), lines.started(), lines.progress(0)])
    late = lines.progress(1) + lines.progress(2)
    path.write_bytes(first)
    follower = follow(find_logs(tmp_path)[0])
    looks = follower._at_end_of_part

    def rolls() -> bool:
        path.write_bytes(first + bytes(len(late)))
        path.with_name("events_2_app-1").write_bytes(lines.progress(3))
        return looks()

    monkeypatch.setattr(follower, "_at_end_of_part", rolls)
    assert batches(follower, 1000.0) == [0]
    monkeypatch.undo()
    assert follower.waits
    path.write_bytes(first + late)
    assert batches(follower, 1001.0) == [1, 2, 3]
    assert not follower.waits


def test_a_log_that_waits_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Else what is behind the zeros, as the end of a run, would be told as still under way."""
    first = b"".join([*lines.opening(), lines.started(), lines.progress(0)])
    path = tmp_path / "app-1.inprogress"
    path.write_bytes(first + bytes(100) + b"\n")
    now = path.stat().st_mtime
    keeper = Keeper(Policy(), Store(None), started_time=now)
    logs = EventLogs([tmp_path], keeper, lambda: now)
    asyncio.run(logs.poll())
    (directory,) = logs.directories
    assert directory.names_behind() == {"app-1"}
    assert "heartbeat" not in keeper.fleet.totals.events
    path.write_bytes(first)
    asyncio.run(logs.poll())
    assert directory.names_behind() == set()
    now += 10.0
    asyncio.run(logs.poll())
    assert keeper.fleet.totals.events["heartbeat"] > 0


def test_zeros_that_stay_hold_up_what_stands_behind_them_for_a_minute(tmp_path: Path) -> None:
    told = [*lines.opening(), lines.started(), lines.progress(0)]
    (tmp_path / "app-1").write_bytes(
        b"".join(told) + bytes(3 * STEP_BYTES) + b"\n" + lines.progress(1)
    )
    follower = follow(find_logs(tmp_path)[0])
    assert batches(follower, 1000.0) == [0]
    assert batches(follower, 1000.0 + HOLE_SECONDS) == []
    assert batches(follower, 1001.0 + HOLE_SECONDS) == [1]
