"""Files appear whole, in order, on time; and stopping stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.demo.feed import Feed, Schedule
from examples.demo.plan import Drop, Plan
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def ready(tmp_path: Path, rows: int = 5) -> tuple[Feed, Path]:
    feed = Feed(tmp_path / "work")
    feed.prepare(rows, files=3)
    folder = tmp_path / "in"
    folder.mkdir()
    return feed, folder


def test_a_drop_is_whole_files_with_their_rows(tmp_path: Path) -> None:
    feed, folder = ready(tmp_path)
    arrival = feed.drop(folder, 7)
    assert (arrival.files, arrival.rows) == (7, 35)
    found = sorted(folder.iterdir())
    assert [path.name for path in found] == [f"{number:07d}.csv" for number in range(7)]
    for path in found:
        lines = path.read_text().splitlines()
        assert len(lines) == 5
        assert all(len(line.split(",")) == 2 for line in lines)


def test_names_go_on_from_drop_to_drop_and_rows_differ(tmp_path: Path) -> None:
    feed, folder = ready(tmp_path)
    feed.drop(folder, 2)
    feed.drop(folder, 2)
    texts = [path.read_text() for path in sorted(folder.iterdir())]
    assert len(texts) == 4
    assert len(set(texts[:3])) == 3
    assert texts[3] == texts[0]


def test_a_schedule_follows_its_plan(tmp_path: Path) -> None:
    feed, folder = ready(tmp_path)
    course = Plan(1.0, 5, (Drop(0.0, 1), Drop(0.2, 3)), 3, (0.2,))
    schedule = Schedule(feed, folder, course)
    schedule.start()
    until(lambda: len(schedule.arrivals) >= 2, "both drops", seconds=10, every=0.01)
    schedule.stop()
    first, second = schedule.arrivals
    assert (first.files, second.files) == (1, 3)
    assert 0.15 < second.time - first.time < 1.0
    assert len(list(folder.glob("*.csv"))) == 4


def test_a_stopped_schedule_drops_nothing_more(tmp_path: Path) -> None:
    feed, folder = ready(tmp_path)
    course = Plan(60.0, 5, (Drop(0.0, 1), Drop(50.0, 3)), 3, (50.0,))
    schedule = Schedule(feed, folder, course, again=True)
    schedule.start()
    schedule.stop()
    assert len(list(folder.glob("*.csv"))) <= 1
    assert schedule.error is None


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    feed, folder = ready(tmp_path)
    folder.rmdir()
    schedule = Schedule(feed, folder, Plan(1.0, 5, (Drop(0.0, 1),), 1, (0.0,)))
    schedule.start()
    schedule.stop()
    assert isinstance(schedule.error, FileNotFoundError)
