"""What waits in a table, counted from its snapshots."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from spark_listener.iceberg import (
    Counted,
    History,
    IcebergTable,
    Offset,
    Snapshot,
    offset_of,
    release,
    snapshot_of,
    units_after,
)

ROWS_PER_FILE = 7


def appended(parent: int | None, files: int, total: int = 0) -> Snapshot:
    return snapshot_of(
        parent,
        "append",
        {
            "added-data-files": str(files),
            "added-records": str(files * ROWS_PER_FILE),
            "total-data-files": str(total),
            "total-records": str(total * ROWS_PER_FILE),
        },
    )


@dataclass
class Table:
    """Snapshots 100, 101, ... and how often each was asked for."""

    snapshots: dict[int, Snapshot]

    def __post_init__(self) -> None:
        self.asked: list[int] = []

    def fetch(self, snapshot_id: int) -> Snapshot | None:
        self.asked.append(snapshot_id)
        return self.snapshots.get(snapshot_id)


#: Per snapshot: files, and whether it appends them (else it rewrites).
commits = some.lists(some.tuples(some.integers(0, 9), some.booleans()), min_size=1, max_size=12)


@given(commits=commits, data=some.data())
def test_what_was_read_and_what_is_left_are_all_that_was_appended(
    commits: list[tuple[int, bool]], data: some.DataObject
) -> None:
    snapshots = {}
    stream = [(-1, -1)]  # every place at which a stream can stand, in order
    for number, (files, appends) in enumerate(commits):
        parent = None if number == 0 else 99 + number
        one = appended(parent, files)
        snapshots[100 + number] = one if appends else Snapshot(parent, False, one.added, one.total)
        stream += [(100 + number, position) for position in range(files + 1)] if appends else []
    place = data.draw(some.integers(0, len(stream) - 1))
    at, position = stream[place]
    chain = History(Table(snapshots).fetch).back_to(100 + len(commits) - 1, at, more=lambda: True)
    assert chain is not None
    later = [
        files for number, (files, appends) in enumerate(commits) if appends and 100 + number > at
    ]
    own = dict(enumerate(commits)).get(at - 100, (0, True))[0]
    left = sum(later) + (own - position if at != -1 else 0)
    assert units_after(chain, Offset(at, position, False), "files") == left
    assert units_after(chain, Offset(at, position, False), "rows") == left * ROWS_PER_FILE


def test_of_a_snapshot_that_is_read_whole_all_that_the_table_held_counts() -> None:
    chain = [(101, appended(100, 2, 12)), (100, appended(None, 10, 10))]
    assert units_after(chain[:1], Offset(101, 5, True), "files") == 7
    assert units_after(chain, Offset(100, 10, True), "files") == 2


@pytest.mark.parametrize("unit", ["files", "rows"])
def test_a_summary_that_does_not_tell_is_unknown(unit: Counted) -> None:
    untold = snapshot_of(None, "append", {"added-data-files": "some", "added-records": "x"})
    assert untold.count(unit, whole=False) is None
    assert untold.count(unit, whole=True) is None
    assert units_after([(5, untold)], Offset(5, 1, False), unit) is None
    assert units_after([(6, untold), (5, appended(None, 3))], Offset(5, 1, False), unit) is None
    nothing = snapshot_of(None, "append", {})  # what is not named was not added
    assert units_after([(6, nothing), (5, appended(None, 3))], Offset(5, 1, False), "files") == 2


def test_a_stream_that_stands_outside_of_the_history_has_no_backlog() -> None:
    table = Table({101: appended(100, 2), 100: appended(99, 3)})  # 99 has expired
    history = History(table.fetch)
    assert history.back_to(101, 98, more=lambda: True) is None
    assert history.back_to(101, -1, more=lambda: True) is None
    assert history.back_to(101, 100, more=lambda: True) is not None
    rooted = History(Table({101: appended(None, 2)}).fetch)
    assert rooted.back_to(101, 77, more=lambda: True) is None  # rolled back to before it


def test_each_snapshot_is_asked_for_once_and_a_long_way_back_takes_several_looks() -> None:
    table = Table({number: appended(number - 1, 1) for number in range(1, 31)})
    history = History(table.fetch)
    looks = 0

    def three() -> bool:
        return len(table.asked) < 3 * looks

    chain = None
    while chain is None:
        looks += 1
        chain = history.back_to(30, 11, more=three)
    assert looks == 7
    assert [at for at, _ in chain] == list(range(30, 10, -1))
    table.snapshots[31] = appended(30, 1)
    assert history.back_to(31, 29, more=lambda: True) is not None
    assert table.asked == [*range(30, 10, -1), 31]
    # What lies before the stream is forgotten.
    assert history.back_to(31, 28, more=lambda: False) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "{}",
        "[]",
        7,
        "[" * 100_000,
        {"snapshot_id": 1},
        '{"snapshot_id": "x"}',
        '{"snapshot_id": 1e999, "position": 4, "scan_all_files": true}',
    ],
)
def test_what_is_no_offset_of_icebergs(value: object) -> None:
    assert offset_of(value) is None


def test_an_offset_parsed_or_as_text() -> None:
    said = {"version": 1, "snapshot_id": 2**62, "position": 4, "scan_all_files": True}
    assert offset_of(said) == offset_of(json.dumps(said)) == Offset(2**62, 4, True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1.9.2", (1, 9)),
        ("1.10.0-amzn-1", (1, 10)),
        ("1.11.0-SNAPSHOT", (1, 11)),
        ("unspecified", None),
        ("", None),
    ],
)
def test_the_release_from_its_version(text: str, found: tuple[int, int] | None) -> None:
    assert release(text) == found


class Jvm:
    """A stream as the JVM has it, its table and its snapshots: by their fields and answers."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def getClass(self) -> Any:
        return self

    def getDeclaredField(self, name: str) -> Any:
        if name not in self.fields:
            raise RuntimeError(f"NoSuchFieldException: {name}")
        return Jvm(setAccessible=None, get=self.fields[name])

    def getSuperclass(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.fields[name]


class JvmTable:
    """Snapshots 1, 2, ... of two files each, 1,000 ms apart, and a branch that begins at the last.

    The branch is two snapshots ahead.
    """

    def __init__(self, snapshots: int) -> None:
        self.head = snapshots

    def currentSnapshot(self) -> Jvm:
        return self.snapshot(self.head)

    def snapshot(self, which: int | str) -> Jvm:
        number = self.head + 2 if isinstance(which, str) else which
        return Jvm(
            snapshotId=number,
            parentId=number - 1 or None,
            timestampMillis=1000 * number,
            operation="append",
            summary={"added-data-files": "2", "total-data-files": str(2 * number)},
        )


def at(snapshot: int, position: int = 2) -> str:
    return json.dumps({"snapshot_id": snapshot, "position": position, "scan_all_files": False})


BEGINNING = at(-1, -1)
UNSET = -(2**63)


def stream(snapshots: int, first: str, **fields: Any) -> IcebergTable:
    return IcebergTable(Jvm(table=JvmTable(snapshots), initialOffset=Jvm(json=first), **fields))


@pytest.mark.parametrize(
    ("from_milliseconds", "start", "end", "told"),
    [
        (9_001, BEGINNING, BEGINNING, (0, 0)),  # later than the table: all of it is passed over
        (9_000, BEGINNING, BEGINNING, (0, 2)),  # as old as the newest, which is read
        (6_500, BEGINNING, BEGINNING, (0, 6)),
        (6_500, BEGINNING, at(7), (2, 4)),
        (6_500, None, at(8, 1), (3, 3)),
        (UNSET, BEGINNING, at(1), (2, 16)),
        (9_001, at(4), BEGINNING, (0, 0)),  # passed over at a restart: 5 to 9 are not read
        (9_001, at(4), at(5), (2, 8)),
    ],
)
def test_a_stream_that_begins_at_a_time_passes_over_what_is_older(
    from_milliseconds: int, start: str | None, end: str, told: tuple[int, int]
) -> None:
    table = stream(9, BEGINNING, branch=None, fromTimestamp=from_milliseconds)
    left = table.counted("files", start, end, timeout_seconds=5.0)
    assert (left.admitted, left.backlog) == told


def test_a_time_that_cannot_be_read_matters_before_the_first_snapshot_alone() -> None:
    table = stream(9, BEGINNING, branch=None)
    assert table.counted("files", at(7), at(8), timeout_seconds=5.0).backlog == 2
    with pytest.raises(LookupError, match="fromTimestamp"):
        table.counted("files", BEGINNING, at(8), timeout_seconds=5.0)


@pytest.mark.parametrize("fields", [{}, {"branch": None}, {"branch": "audit"}])
def test_what_waits_is_mains_whatever_the_branch(fields: dict[str, Any]) -> None:
    table = stream(9, at(1), fromTimestamp=UNSET, **fields)
    left = table.counted("files", at(7), at(8), timeout_seconds=5.0)
    assert (left.admitted, left.backlog) == (2, 2)
