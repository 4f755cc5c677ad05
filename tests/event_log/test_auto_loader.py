"""Databricks' Auto Loader tells its backlog in files; live, replayed and in history alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agent.core.fleet import Fleet
from agent.core.policy import Policy, QueryPolicy
from agent.history import rows, tables
from agent.sources.event_log import Follower, find_logs
from tests.event_log import lines
from tests.history.test_judge import followed, judged, judgements, replayed

if TYPE_CHECKING:
    from pathlib import Path

    from agent.core.judgement import QueryView

TARGET = QueryPolicy(target_seconds=1.0)


def log_of(*batches: bytes) -> bytes:
    return b"".join([*lines.opening(), lines.started(), *batches])


def view_of(folder: Path) -> QueryView:
    """How the query stands once its log is read."""
    fleet = Fleet(Policy(default=TARGET), started_time=0.0)
    follower, now = Follower(find_logs(folder)[0], 0, {}.get, {}.get, {}.get), 0.0
    while (request := follower.next_request()) is not None:
        now = request.events[-1][1].time
        fleet.receive(request, now=now)
        follower.accepted()
    (view,) = fleet.views(now)
    return view


def test_what_waits_is_told_in_files_and_by_what_was_read_of_them_in_rows(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(log_of(*[lines.auto_loader(n, 30 + n) for n in range(8)]))
    view = view_of(tmp_path)
    (source,) = view.sources
    assert (source.unit, source.backlog, source.backlog_bound) == ("files", 37, "exact")
    assert source.rows_per_unit == pytest.approx(2.0)
    assert view.backlog_rows == pytest.approx(74.0)
    # 6 files were let in and one more waits, each five seconds, of two rows each
    assert source.arrival_rows_per_second == pytest.approx(2 * 7 / 5)


@pytest.mark.parametrize(
    ("batch", "backlog", "bound"),
    [
        (lines.auto_loader(0, 3, queued=14_353), 14_356, "exact"),
        (lines.auto_loader(0, 3, whole=False), 3, "lower"),
        (lines.auto_loader(0, 0), 0, "exact"),
    ],
    ids=["a queue holds more", "it still lists", "nothing waits"],
)
def test_a_queue_counts_and_a_part_is_called_one(
    tmp_path: Path, batch: bytes, backlog: int, bound: str
) -> None:
    (tmp_path / "app-1").write_bytes(log_of(batch))
    (source,) = view_of(tmp_path).sources
    assert (source.backlog, source.backlog_bound) == (backlog, bound)


def test_files_are_never_called_rows(tmp_path: Path) -> None:
    """Delta's offsets do not say how many files a batch took: what waits in rows is not known."""
    told = json.loads(lines.auto_loader(0, 30))
    for which in ("startOffset", "endOffset"):
        told["progress"]["sources"][0][which] = json.dumps({"reservoirVersion": 4, "index": 1})
    (tmp_path / "app-1").write_bytes(log_of(json.dumps(told).encode() + b"\n"))
    view = view_of(tmp_path)
    assert (view.sources[0].unit, view.sources[0].backlog) == ("files", 30)
    assert view.backlog_rows is None


def test_live_replayed_and_in_history_it_is_the_same(tmp_path: Path) -> None:
    content = log_of(*[lines.auto_loader(n, 30 + n) for n in range(8)], lines.terminated())
    (tmp_path / "app-1").write_bytes(content)
    told = judged([content.splitlines()])
    ours = judgements(told)
    assert [line["backlog_rows"] for line in ours[:8]] == [2.0 * (30 + n) for n in range(8)]
    assert ours == replayed(tmp_path / "app-1")
    assert ours == json.loads(json.dumps(followed(tmp_path)))
    place = [column.name for column in tables.BATCH_COLUMNS].index("sources")
    sources: list[Any] = next(values[place] for name, values in told if name == rows.BATCHES)
    admitted_rows, backlog_rows = sources[0][3:5]
    assert (admitted_rows, backlog_rows) == (None, None)
