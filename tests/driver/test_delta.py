"""What waits in a Delta table, counted from its commits."""

from __future__ import annotations

import json
import os
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from spark_listener import sources
from spark_listener.delta import Commits, DeltaTable, Offset, offset_of, sizes_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from py4j.java_gateway import JavaGateway


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
    lines = [*(json.dumps(action).encode() for action in actions), b"", b" "]
    assert tuple(sizes_of(lines, skips_changes=skips)) == sizes


@pytest.mark.parametrize(
    "line",
    [
        *(b"<html>", b'{"add":{}}', b'{"add":7}', b"7", b"\xff", b"[" * 100_000),
        b'{"add":{"dataChange":true,"size":1e30}}',
    ],
)
def test_what_is_no_commit(line: bytes) -> None:
    with pytest.raises(ValueError, match="no commit"):
        sizes_of([line], skips_changes=True)


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
        ('{"reservoirVersion": 1e999, "index": 2, "isStartingVersion": true}', None),
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
        self._by_kernel, self.staged, self.asked = False, False, 0
        self._hides = None
        for files in commits:
            self.commit(files)

    def commit(self, files: int) -> None:
        number = sum(name.endswith(".json") for name in self.files)
        text = "\n".join(json.dumps(add(10)) for _ in range(files))
        self.files[f"{number:020d}.json"] = text

    def _read(self, name: str) -> Generator[bytes, None, None] | None:
        self.read.append(name)
        if name == self.fails:
            raise OSError(name)
        text = self.files.get(name)
        return None if text is None else (line.encode() for line in text.split("\n"))

    def _stages_commits(self) -> bool:
        self.asked += 1
        return self.staged

    def _exists(self, name: str) -> bool:
        self.read.append(f"{name}?")
        return name in self.files


def place(version: int, index: int, *, whole: bool = False) -> dict[str, object]:
    return {"reservoirVersion": version, "index": index, "isStartingVersion": whole}


def look(log: Log) -> list[str]:
    log.read.clear()
    log.list_files(lambda: 1_795_000_000.0)
    return [str(int(name[:20])) + name[20:] for name in log.read]


def ask(log: DeltaTable, start: object, end: object) -> tuple[int | None, int | None]:
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


@pytest.mark.parametrize(
    ("by_kernel", "staged"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_where_a_catalog_may_have_taken_more_commits_the_count_is_a_lower_bound(
    by_kernel: bool, staged: bool
) -> None:
    log, hides = Log(3, 4), staged
    log._by_kernel, log.staged = by_kernel, staged
    ask(log, place(0, 0), place(0, 1))
    for _ in range(3):
        log.list_files(lambda: 0.0)
    assert log.asked == (3 if by_kernel else 1), "few other tables have any"
    for at, left in ((place(0, 1), 1 + 4), (place(2, -1), 0)):
        told = log.counted("files", place(0, 0), at, timeout_seconds=0.0)
        assert (told.backlog, told.exact) == (left, not hides)
    beyond = log.counted("files", place(2, -1), place(3, -1), timeout_seconds=0.0)
    assert beyond.backlog is None, "it has read what the log does not have yet"


def test_while_commits_are_being_read_the_bound_is_partial() -> None:
    """It grows as they are found, and stays so below one that is not read."""
    log = Log(3, 4, 5)
    log.fails = f"{1:020d}.json"
    ask(log, place(0, 0), place(0, 1))
    with pytest.raises(OSError):  # noqa: PT011 - its text is the file's name
        look(log)
    told = log.counted("files", place(0, 0), place(0, 1), timeout_seconds=0.0)
    assert (told.backlog, told.exact, told.partial) == (1, False, True)
    log.fails = ""
    look(log)
    told = log.counted("files", place(0, 0), place(0, 1), timeout_seconds=0.0)
    assert (told.backlog, told.exact, told.partial) == (10, True, False)
    log._by_kernel = log.staged = True  # more may wait, and what is told has come
    look(log)
    told = log.counted("files", place(0, 0), place(0, 1), timeout_seconds=0.0)
    assert (told.backlog, told.exact, told.partial) == (10, False, False)


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


class Table(DeltaTable):
    """A table of no stream: a log in a folder, read through the JVM."""

    def __init__(self, jvm: Any, folder: Path) -> None:
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path(str(folder))
        self._files = self._path.getFileSystem(jvm.org.apache.hadoop.conf.Configuration())
        self._skips_changes = self._countable = True
        self._by_kernel, self._hides = False, None
        self._wanted = self._known = self._unreadable = None


#: As long as they are, and with what splits a line elsewhere than Spark does.
LONG = {"path": "a" * 100, "size": 10, "dataChange": True, "stats": "\x85\u2028\r" + "é" * 100}
MIB = 2**20


def long_commit(path: Path, length: int) -> int:
    """Writes so many bytes, and tells of how many files they are."""
    line = json.dumps({"add": LONG}, ensure_ascii=False).encode() + b"\n"
    files = length // len(line)
    path.write_bytes(line * files)
    return files


class Noting:
    """The JVM, and how many bytes each call carries from it."""

    def __init__(self, jvm: Any, carried: list[int]) -> None:
        self._jvm, self._carried = jvm, carried

    def __getattr__(self, name: str) -> Any:
        return Noting(getattr(self._jvm, name), self._carried)

    def __call__(self, *given: Any) -> Any:
        answer = self._jvm(*given)
        if isinstance(answer, bytes):
            self._carried.append(len(answer))
        return answer


def test_a_long_commit_is_read_in_pieces(gateway: JavaGateway, tmp_path: Path) -> None:
    files = long_commit(tmp_path / f"{0:020d}.json", 8 * MIB)
    table, carried = Table(gateway.jvm, tmp_path), []
    table._jvm = Noting(gateway.jvm, carried)
    ask(table, place(0, 0), place(0, 0))
    tracemalloc.start()
    table.list_files(lambda: 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ask(table, place(0, 0), place(0, 9)) == (9, files - 10)
    assert table.counted("bytes", place(0, 0), place(0, 9), timeout_seconds=0.0).backlog == (
        10 * (files - 10)
    )
    assert max(carried) * 4 / 3 < MIB / 2, "more would stay in the JVM's heap for long"
    assert len(carried) <= 33, "each has a cost of its own"
    assert peak < 8 * MIB


def test_a_commit_too_long_to_read_is_not_read(gateway: JavaGateway, tmp_path: Path) -> None:
    files = long_commit(tmp_path / f"{0:020d}.json", MIB)
    table, long = Table(gateway.jvm, tmp_path), tmp_path / f"{1:020d}.json"
    long.touch()
    os.truncate(long, 64 * MIB)
    assert table._read(long.name) is not None
    os.truncate(long, 64 * MIB + 1)
    ask(table, place(0, 0), place(0, 0))
    with pytest.raises(ValueError, match=r"1\.json is longer than"):
        table.list_files(lambda: 0.0)
    told = table.counted("files", place(0, 0), place(0, 0), timeout_seconds=0.0)
    assert (told.backlog, told.exact) == (files - 1, False)
    table.list_files(lambda: 0.0)
    for at in (place(1, -1), place(1, 5)):
        ask(table, at, at)
        table.list_files(lambda: 0.0)
        assert ask(table, at, at) == (None, None), "the stream reads it"
    ask(table, place(2, -1), place(2, -1))
    table.list_files(lambda: 0.0)
    assert ask(table, place(2, -1), place(2, -1)) == (0, 0), "the stream has passed it"


@pytest.mark.parametrize("folder", ["_staged_commits", "_commits"])
def test_a_folder_of_staged_commits_counts_once_one_is_in_it(
    gateway: JavaGateway, tmp_path: Path, folder: str
) -> None:
    table, staged = Table(gateway.jvm, tmp_path), tmp_path / folder
    assert not table._stages_commits()
    staged.mkdir()
    assert not table._stages_commits(), "Delta makes it for any table"
    (staged / f"{1:020d}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json").touch()
    assert table._stages_commits()


class Stream:
    """A JVM's stream by its class's name, with the fields that each of the kernel's has."""

    def __init__(self, name: str, gateway: JavaGateway, folder: Path) -> None:
        jvm = gateway.jvm
        self.name = name
        self.fields = {
            "options": Options(),
            "tablePath": str(folder),
            "hadoopConf": jvm.org.apache.hadoop.conf.Configuration(),
        }

    def getClass(self) -> Any:
        return self

    def getName(self) -> str:
        return self.name

    def getDeclaredField(self, name: str) -> Any:
        return Field(self.fields[name])


class Options:
    def skipChangeCommits(self) -> bool:
        return False

    def readChangeFeed(self) -> bool:
        return False

    def excludeRegex(self) -> Any:
        return self

    def isEmpty(self) -> bool:
        return True


class Field:
    def __init__(self, value: Any) -> None:
        self.value = value

    def setAccessible(self, _: bool) -> None:
        pass

    def get(self, _: Any) -> Any:
        return self.value


@pytest.mark.parametrize("name", ["SparkMicroBatchStream", "DeltaV2MicroBatchStream"])
def test_the_kernels_stream_is_known_by_either_of_its_names(
    name: str, gateway: JavaGateway, tmp_path: Path
) -> None:
    name = f"io.delta.spark.internal.v2.read.{name}"
    assert sources.known(name).table == "delta"
    log = tmp_path / "_delta_log"
    log.mkdir()
    files = long_commit(log / f"{0:020d}.json", 1000)
    table = DeltaTable(gateway, Stream(name, gateway, tmp_path))
    ask(table, place(0, 0), place(0, 0))
    table.list_files(lambda: 0.0)
    assert ask(table, place(0, 0), place(0, 1)) == (1, files - 2)
