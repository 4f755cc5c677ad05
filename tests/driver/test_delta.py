"""What waits in a Delta table, counted from its commits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from spark_listener.delta import Commits, DeltaTable, Offset, offset_of, sizes_of


def add(size: int, *, changes: bool = True) -> dict[str, object]:
    return {"add": {"path": "a", "size": size, "dataChange": changes}}


def remove(*, changes: bool = True) -> dict[str, object]:
    return {"remove": {"path": "b", "dataChange": changes}}


INFO = {"commitInfo": {"operation": "WRITE"}}


@pytest.mark.parametrize(
    ("actions", "skips", "sizes"),
    [
        ([INFO, add(10), add(20)], True, (10, 20)),
        ([INFO, {"metaData": {}}, {"protocol": {}}, {"txn": {}}], True, ()),
        ([INFO, add(10, changes=False), remove(changes=False)], False, ()),  # compaction
        ([INFO, add(10), remove(), add(20)], True, ()),
        ([INFO, add(10), remove(), add(20)], False, (10, 20)),
        ([INFO, remove()], False, ()),
        ([INFO, add(10, changes=False), add(20), remove(changes=False)], True, (20,)),
    ],
)
def test_what_a_stream_reads_of_a_commit(
    actions: list[object], skips: bool, sizes: tuple[int, ...]
) -> None:
    text = "\n".join(map(json.dumps, actions)) + "\n\n"
    assert sizes_of(text, skips_changes=skips) == sizes


@pytest.mark.parametrize("text", ["<html>", '{"add":{}}', '{"add":7}', "7", "[" * 100_000])
def test_what_is_no_commit(text: str) -> None:
    with pytest.raises(ValueError, match="no commit"):
        sizes_of(text, skips_changes=True)


@given(
    first=some.integers(0, 10**6),
    sizes=some.lists(some.lists(some.integers(1, 10**9), max_size=5), max_size=8),
    data=some.data(),
)
def test_left_is_all_that_comes_after(
    first: int, sizes: list[list[int]], data: some.DataObject
) -> None:
    at = data.draw(some.integers(0, len(sizes)))
    own = sizes[at] if at < len(sizes) else []
    index = data.draw(some.integers(-1, len(own) - 1))
    known = Commits(first, tuple(map(tuple, sizes)), {}, complete=True)
    unread = [own[index + 1 :], *sizes[at + 1 :]]
    offset = Offset(first + at, index, False)
    assert known.units_after(offset, "files") == sum(map(len, unread))
    assert known.units_after(offset, "bytes") == sum(map(sum, unread))


def test_of_the_table_as_it_was_all_files_count_and_all_commits_after_it() -> None:
    known = Commits(8, ((10, 20), (30,)), {7: (5, 1000)}, complete=True)
    assert known.units_after(Offset(7, -1, True), "files") == 5 + 3
    assert known.units_after(Offset(7, 3, True), "files") == 1 + 3
    assert known.units_after(Offset(7, 3, True), "bytes") == 200 + 60
    assert known.units_after(Offset(7, 4, True), "bytes") == 60


def test_a_stream_outside_of_what_was_read_has_no_backlog() -> None:
    known = Commits(8, ((10,),), {}, complete=False)
    assert known.units_after(Offset(9, -1, False), "files") is None  # it may be one not read yet
    known = Commits(8, ((10,),), {}, complete=True)
    assert known.units_after(Offset(7, 0, False), "files") is None
    assert known.units_after(Offset(7, 0, True), "files") is None
    assert known.units_after(Offset(9, -1, False), "files") == 0  # nobody has made it yet
    assert known.units_after(Offset(9, 0, False), "files") is None  # somebody has, since
    assert known.units_after(Offset(10, -1, False), "files") is None


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, None),
        ("", None),
        ("[]", None),
        ("[" * 100_000, None),
        ({"reservoirVersion": 1, "index": 2}, None),
        ({"reservoirVersion": 1, "index": -100, "isStartingVersion": True}, Offset(1, -1, True)),
        ('{"reservoirVersion": 1, "index": 2, "isStartingVersion": false}', Offset(1, 2, False)),
    ],
)
def test_offsets_as_delta_writes_them(value: object, found: Offset | None) -> None:
    assert offset_of(value) == found


class Log(DeltaTable):
    """A table whose log is a dictionary."""

    def __init__(self, *commits: int) -> None:
        self.files: dict[str, str] = {}
        self.read: list[str] = []
        self._skips_changes, self._countable = True, True
        self._wanted = self._known = self._unreadable = None
        self.fails = ""  # to read, as a file system may for a while
        for files in commits:
            self.commit(files)

    def commit(self, files: int) -> None:
        number = sum(name.endswith(".json") for name in self.files)
        text = "\n".join(json.dumps(add(10)) for _ in range(files))
        self.files[f"{number:020d}.json"] = text

    def _read(self, name: str) -> str | None:
        self.read.append(name)
        if name == self.fails:
            raise OSError(name)
        return self.files.get(name)

    def _exists(self, name: str) -> bool:
        self.read.append(f"{name}?")
        return name in self.files


def place(version: int, index: int, *, whole: bool = False) -> dict[str, object]:
    return {"reservoirVersion": version, "index": index, "isStartingVersion": whole}


def look(log: Log) -> list[str]:
    log.read.clear()
    log.list_files(lambda: 1_795_000_000.0)
    return [str(int(name[:20])) + name[20:] for name in log.read]


def ask(log: Log, start: object, end: object) -> tuple[int | None, int | None]:
    told = log.counted("files", start, end, timeout_seconds=0.0)
    return told.admitted, told.backlog


def test_each_commit_is_read_once_and_what_is_done_is_forgotten() -> None:
    log = Log(3, 4, 5)
    assert look(log) == []  # nobody has said yet where the stream is
    assert ask(log, place(0, 0), place(1, 1)) == (None, None)
    assert look(log) == ["0.json", "1.json", "2.json", "3.json"]
    assert ask(log, place(0, 0), place(1, 1)) == (4, 7)
    log.commit(6)
    assert ask(log, place(1, 1), place(2, 4)) == (7, 0)  # as of the last look
    assert look(log) == ["3.json", "4.json"]
    assert ask(log, place(1, 1), place(2, 4)) == (7, 6)
    assert ask(log, place(4, -1), place(4, -1)) == (0, 0)
    assert look(log) == ["4.json", "3.json?"]
    told = log.counted("files", place(4, -1), place(4, -1), timeout_seconds=0.0)
    assert (told.backlog, told.exact, told.observed_time) == (0, True, "2026-11-18T11:06:40.000Z")


def test_the_first_batch_reads_the_table_as_it_was() -> None:
    log = Log(3, 4)
    log.files[f"{1:020d}.crc"] = json.dumps({"numFiles": 6, "tableSizeBytes": 600})
    log.commit(2)
    assert ask(log, None, place(1, 1, whole=True)) == (None, None)
    assert look(log) == ["1.crc", "2.json", "3.json"]
    assert ask(log, None, place(1, 1, whole=True)) == (2, 4 + 2)
    assert ask(log, place(1, 1, whole=True), place(2, -1)) == (4, 2)


def test_without_a_sum_of_the_table_what_waits_in_it_is_unknown() -> None:
    log = Log(3, 4)
    ask(log, None, place(1, 1, whole=True))
    look(log)
    assert ask(log, None, place(1, 1, whole=True)) == (None, None)


def test_a_log_that_was_cleaned_up_is_unknown() -> None:
    log = Log(3, 4, 5)
    for version in (0, 1):
        del log.files[f"{version:020d}.json"]
    ask(log, place(1, 0), place(1, 1))
    look(log)
    assert ask(log, place(1, 0), place(1, 1)) == (None, None)


def test_what_comes_before_a_commit_that_is_none_is_known_and_read_once() -> None:
    log = Log(3, 4, 5, 6)
    log.files[f"{2:020d}.json"] = "<html>"
    ask(log, place(0, 0), place(0, 1))
    with pytest.raises(ValueError, match="no commit"):
        look(log)
    for _ in range(2):
        told = log.counted("files", place(0, 0), place(0, 1), timeout_seconds=0.0)
        assert (told.backlog, told.exact) == (1 + 4, False)
        assert look(log) == []
    ask(log, place(0, 0), place(2, 0))
    assert look(log) == []
    assert ask(log, place(0, 0), place(2, 0)) == (None, None)
    ask(log, place(3, -1), place(3, 0))
    assert look(log) == ["3.json", "4.json"]
    assert ask(log, place(3, -1), place(3, 0)) == (1, 5)


def test_what_was_read_before_a_read_that_fails_is_kept_and_that_is_tried_again() -> None:
    log = Log(3, 4, 5)
    log.fails = f"{1:020d}.json"
    ask(log, place(0, 0), place(0, 1))
    for read in (["0.json", "1.json"], ["1.json"]):
        with pytest.raises(OSError):  # noqa: PT011 - its text is the file's name
            look(log)
        assert [str(int(name[:20])) + name[20:] for name in log.read] == read
        assert ask(log, place(0, 0), place(0, 1)) == (1, 1)
    log.fails = ""
    assert look(log) == ["1.json", "2.json", "3.json"]
    assert ask(log, place(0, 0), place(0, 1)) == (1, 1 + 4 + 5)


def test_rows_and_what_a_stream_reads_otherwise_are_not_counted() -> None:
    log = Log(3)
    assert log.counted("rows", place(0, 0), place(0, 1), timeout_seconds=0.0).backlog is None
    log._countable = False
    ask(log, place(0, 0), place(0, 1))
    assert look(log) == []


class Jvm:
    """Of py4j as much as reading a commit asks for: one file of a length."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __getattr__(self, _: str) -> Jvm:
        return self

    def __call__(self, *_: object) -> Jvm:
        return self

    def getLen(self) -> int:
        return self.length

    def toString(self, *_: object) -> str:
        return "text"


@pytest.mark.parametrize(("length", "refused"), [(40 * 2**20, False), (100 * 2**20, True)])
def test_a_commit_too_long_to_carry_is_not_carried(length: int, refused: bool) -> None:
    table = DeltaTable.__new__(DeltaTable)
    table._jvm = table._path = table._files = Jvm(length)
    if not refused:
        assert table._read("x.json") == "text"
        return
    with pytest.raises(ValueError, match=r"x\.json is longer than"):
        table._read("x.json")
