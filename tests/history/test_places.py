"""Addresses: what lies where, however it is written."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError

from agent.history.logs import Found, log_files
from agent.history.places import GONE, Named, NoSuchPlace, Places, _named, within


@pytest.mark.parametrize(
    ("address", "folder", "lies"),
    [
        ("file:/logs/a", "file:/logs", True),
        ("file:/logs/a", "file:/logs/", True),
        ("file:/logs", "file:/logs", True),
        ("file:/logs-a/b", "file:/logs", False),
        ("s3a://logs/events/a", "s3a://results/events", False),
        ("s3a://logs/events/a", "s3a://weir/", False),
        ("s3a://weir/batches/a", "s3a://weir/", True),
        ("file:/a", "file:/", True),
        # One place may be written in several ways.
        ("hdfs://nn:8020/logs/weir/x", "hdfs://nn/logs/weir", True),
        ("s3a://b/logs/weir/x", "s3://b/logs/weir/", True),
        ("s3a://b:1/logs/weir/x", "s3a://c/logs/weir", False),
        ("hdfs://nn:8020/logs/weird/x", "hdfs://nn/logs/weir", False),
        ("file:/logs/weir", "file:/logs/weir", True),
    ],
)
def test_what_lies_in_a_folder(address: str, folder: str, lies: bool) -> None:
    assert within(address, folder) is lies


def test_a_file_is_known_by_how_spark_calls_it() -> None:
    paths = ["s3a://eu/events/a", "s3a://us/events/a", "file:/events/b %41#", "hdfs://n/events/c"]
    files = {file.path: file for file in log_files(Found(path, 1, 1) for path in paths)}
    named = Named(files.values())
    for path in paths:
        assert named.of(path) is files[path]
    assert named.of_url("s3a://eu/events/a") is files["s3a://eu/events/a"]
    assert named.of_url("file:///events/b%20%2541%23") is files["file:/events/b %41#"]
    assert named.of("hdfs://n:8020/events/c") is files["hdfs://n/events/c"]
    assert named.of("s3a://eu/events/d") is None


class Text(str):
    """A string of Java's."""

    __slots__ = ()

    def toString(self) -> str:
        return str(self)


class Status:
    def __init__(self, path: str, size: int | None) -> None:
        self._path, self._size = path, size

    def getPath(self) -> Text:
        return Text(self._path)

    def isDirectory(self) -> bool:
        return self._size is None

    def getLen(self) -> int:
        return self._size or 0

    def getModificationTime(self) -> int:
        return 1


class Stream:
    """What reads a file that is written to; ``HdfsDataInputStream``, or another."""

    closed = False

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size

    def getClass(self) -> Stream:
        return self

    def getSimpleName(self) -> str:
        return self._name

    def getVisibleLength(self) -> int:
        return self._size

    def close(self) -> None:
        self.closed = True


class System:
    """A file system with files by path, and what is not to be read."""

    def __init__(self, files: dict[str, int], refused: set[str]) -> None:
        self.files, self.refused = files, refused
        self.stream = Stream("HdfsDataInputStream", 500)

    def _check(self, path: str) -> None:
        if path in self.refused:
            raise Py4JError("AccessControlException: Permission denied: user=kim")

    def listFiles(self, path: str, _: bool) -> Any:
        raise Py4JError("AccessControlException: Permission denied: somewhere below")

    def listStatus(self, path: str) -> list[Status]:
        self._check(path)
        below = {one.removeprefix(f"{path}/") for one in self.files if one.startswith(f"{path}/")}
        if not below:
            raise Py4JError("FileNotFoundException: no such folder")
        names = sorted({one.partition("/")[0] for one in below})
        return [Status(f"{path}/{name}", self.files.get(f"{path}/{name}")) for name in names]

    def access(self, path: str, _: Any) -> None:
        self._check(path)
        if path not in self.files:
            raise Py4JError("FileNotFoundException: no such file")

    def exists(self, path: str) -> bool:
        return path in self.files

    def open(self, _: str) -> Stream:
        return self.stream


class Anything:
    def __getattr__(self, _: str) -> Anything:
        return self


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    found = System(
        {"hdfs://n/a/app-1": 1, "hdfs://n/a/eventlog_v2_x/events_1_x": 2, "hdfs://n/a/b/c": 3},
        {"hdfs://n/a/eventlog_v2_x"},
    )
    monkeypatch.setattr(Places, "_path", lambda _, address: address)
    monkeypatch.setattr(Places, "_system", lambda *_: found)
    return found


@pytest.fixture
def places(system: System) -> Places:
    made = Places.__new__(Places)
    made._jvm = Anything()
    return made


def test_a_folder_that_is_anothers_alone_hides_no_other(places: Places, system: System) -> None:
    """Spark makes the folder of a log that rolls for its owner alone."""
    refused: dict[str, str] = {}
    found = places.files("hdfs://n/a", refused)
    assert sorted(one.path for one in found) == ["hdfs://n/a/app-1", "hdfs://n/a/b/c"]
    assert list(refused) == ["hdfs://n/a/eventlog_v2_x"]
    assert "Permission denied: user=kim" in refused["hdfs://n/a/eventlog_v2_x"]
    with pytest.raises(NoSuchPlace, match="hdfs://n/other: FileNotFoundException"):
        places.files("hdfs://n/other", refused)
    system.refused.add("hdfs://n/a")
    with pytest.raises(NoSuchPlace, match="Permission denied"):
        places.files("hdfs://n/a", refused)


def test_whether_a_file_may_be_read_and_is_there(places: Places, system: System) -> None:
    system.refused.add("hdfs://n/a/b/c")
    assert places.not_to_be_read("hdfs://n/a/app-1") == ""
    assert "Permission denied" in places.not_to_be_read("hdfs://n/a/b/c")
    assert places.not_to_be_read("hdfs://n/a/app-2") == GONE
    assert places.is_there("hdfs://n/a/app-1")
    assert not places.is_there("hdfs://n/a/app-2")


def test_what_hdfs_does_not_show_of_a_file_that_is_written_to(
    places: Places, system: System
) -> None:
    path = "hdfs://n/a/app-1"
    assert places.unclosed_bytes(path, 0) == 500
    assert places.unclosed_bytes(path, 500) == 0
    assert system.stream.closed
    assert places.unclosed_bytes("s3a://n/a/app-1", 0) == 0
    system.stream = Stream("FSDataInputStream", 500)
    assert places.unclosed_bytes(path, 0) == 0
    assert system.stream.closed


def test_what_java_says_of_a_place_holds_no_secret() -> None:
    class Java:
        def __getattr__(self, name: str) -> object:
            return lambda: "IOException" if name == "getSimpleName" else self

        def getMessage(self) -> str:
            return "403 for s3a://k:hunter2@b/x, fs.s3a.secret.key=hunter2\n\tat a.b"

    error = Py4JJavaError.__new__(Py4JJavaError)
    error.java_exception = Java()
    with pytest.raises(NoSuchPlace) as told, _named("s3a://b/x"):
        raise error
    assert str(told.value) == "s3a://b/x: IOException: 403 for s3a://b/x, fs.s3a.secret.key=***"
