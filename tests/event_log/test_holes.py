"""Zeros in a log that grows, as a network file system's client reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.core.decode.events import ProgressEvent
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


def test_zeros_that_stay_hold_up_what_stands_behind_them_for_a_minute(tmp_path: Path) -> None:
    told = [*lines.opening(), lines.started(), lines.progress(0)]
    (tmp_path / "app-1").write_bytes(
        b"".join(told) + bytes(3 * STEP_BYTES) + b"\n" + lines.progress(1)
    )
    follower = follow(find_logs(tmp_path)[0])
    assert batches(follower, 1000.0) == [0]
    assert batches(follower, 1000.0 + HOLE_SECONDS) == []
    assert batches(follower, 1001.0 + HOLE_SECONDS) == [1]
