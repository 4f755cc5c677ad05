"""What is counted of a file source's directory: what Spark reads there, and nothing else."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_listener.files import FileSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Sized

PURGED = 1_000  # epoch milliseconds; older files are none to the source
OLD, NEW = 500, 2_000


def matches(name: str, pattern: str) -> bool:
    choices = pattern[1:-1].split(",") if pattern.startswith("{") else [pattern]
    return any(fnmatch(name, one.replace("[^", "[!")) for one in choices)


class Status:
    """As Hadoop tells of an entry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.modified = int(path.stat().st_mtime * 1000)
        self.is_file = path.is_file()

    def getModificationTime(self) -> int:
        return self.modified

    def getPath(self) -> Path:
        return self.path


class Disk:
    """Hadoop's file system over a folder."""

    def __init__(self) -> None:
        self.walked: list[str] = []  # patterns

    def exists(self, path: Path) -> bool:
        return path.exists()

    def getUri(self) -> Any:
        return SimpleNamespace(getScheme=lambda: "file")

    def globStatus(self, pattern: str, keeps: Any) -> list[Status] | None:
        self.walked.append(pattern)
        found = [Path("/")]
        for part in pattern.strip("/").split("/"):
            inside = [one for path in found if path.is_dir() for one in path.iterdir()]
            found = [one for one in inside if matches(one.name, part)]
        return [Status(one) for one in found if keeps(one.name)] or None


def glob_filter(pattern: str, also: Any = None) -> Any:
    return lambda name: matches(name, pattern) and (also is None or also(name))


class Text(str):
    """One of the JVM's objects that is told by its text."""

    __slots__ = ()

    def toString(self) -> str:
        return str(self)


class Options(dict[str, str]):
    """A file source's, as the JVM shows them."""

    def optionMapWithoutPath(self) -> Any:
        return SimpleNamespace(get=self._option)

    def _option(self, name: str) -> Any:
        return SimpleNamespace(isDefined=lambda: name in self, get=lambda: self[name])

    def cleanSource(self) -> Text:
        return Text("OFF")

    def fileNameOnly(self) -> bool:
        return "filenameonly" in self


def reader(
    base: str,
    disk: Disk,
    max_entries: int = 100,
    purged: Callable[[], int] = lambda: PURGED,
    **options: str,
) -> FileSource:
    """Of a source of this path, which has seen no file; ``purged`` tells which are too old."""
    seen = dict[str, Any]()
    return source_of(base, disk, Options(options), max_entries, purged=purged, seen=lambda: seen)


def source_of(
    base: str,
    disk: Any,
    options: Options,
    max_entries: int,
    *,
    purged: Callable[[], int],
    seen: Callable[[], Sized],
    unread: Callable[[], Sized | None] = lambda: None,
    log: Sequence[Sized] = (),
) -> FileSource:
    """Over what one of Spark's holds: its file system, files seen and unread, batches logged.

    An entry of the file system says whether it ``is_file``; a file when it was ``modified``.
    """
    fields = {
        "metadataLog": None,
        "fs": disk,
        "qualifiedBasePath": Text(base),
        "sourceOptions": options,
    }

    def length(of: Sized | None) -> int | None:
        return None if of is None else len(of)

    programs = SimpleNamespace(
        path=str,
        whole=lambda name: not name.endswith("._COPYING_"),
        fields={name: SimpleNamespace(get=lambda _, one=one: one) for name, one in fields.items()},
        admitted=lambda _: SimpleNamespace(apply=lambda first, _: len(log[first])),
        purged=SimpleNamespace(get=lambda _: purged()),
        unread=SimpleNamespace(apply=lambda _: length(unread())),
        oldest=SimpleNamespace(
            apply=lambda found: min(found, key=lambda one: one.modified, default=None)
        ),
        files=SimpleNamespace(apply=lambda found: [one for one in found if one.is_file]),
    )
    hadoop = SimpleNamespace(fs=SimpleNamespace(GlobFilter=glob_filter))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)), Object=None)
    gateway = SimpleNamespace(jvm=jvm, new_array=lambda *_: [])
    source = SimpleNamespace(
        seenFiles=lambda: SimpleNamespace(size=lambda: len(seen())),
        sourceHasMetadata=lambda: SimpleNamespace(isDefined=lambda: False),
    )
    return FileSource(gateway, source, programs, max_entries)  # type: ignore[arg-type]


def count(base: str, disk: Disk | None = None, **options: Any) -> tuple[int, bool] | None:
    """Files that a source of this path counts, and whether exactly."""
    listing = reader(base, disk or Disk(), **options).list_files(lambda: 0.0)
    return None if listing is None else (listing.files, listing.exact)


def lay(folder: Path, *names: str, milliseconds: int = NEW) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
        os.utime(folder / name, (milliseconds / 1000, milliseconds / 1000))


def test_files_of_one_folder(tmp_path: Path) -> None:
    assert count(f"{tmp_path}/in") == (0, True), "it is not there yet"
    lay(tmp_path, "in/a.json", "in/b.json", "in/c.txt", "in/_SUCCESS", "in/.d.json")
    assert count(f"{tmp_path}/in") == (3, True)
    assert count(f"{tmp_path}/in", pathglobfilter="*.json") == (2, True)
    assert count(f"{tmp_path}/i?/*") == count(f"{tmp_path}/i?") == (3, True)
    assert count(f"{tmp_path}/in/*.json") == (2, True), "hidden ones are not read by any name"
    lay(tmp_path, "in/e.json", milliseconds=OLD)
    assert count(f"{tmp_path}/in") is None, "whether it was read, nobody tells any more"


def test_files_in_folders_that_spark_does_not_look_into_do_not_wait(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.json", "in/b.json", "in/error/c.json", "in/error/d.json")
    lay(tmp_path, "in/error/e.json", milliseconds=OLD)
    assert count(f"{tmp_path}/in") == (2, False), "what is below may be read after all"
    assert count(f"{tmp_path}/i*") == (2, False)


def test_of_partitions_beside_other_folders_nobody_tells_what_waits(tmp_path: Path) -> None:
    """Spark reads them, too, where the others hold no file, and fails where they do."""
    lay(tmp_path, "in/a.json", "in/day=1/b.json", "in/day=2/c.json")
    (tmp_path / "in/tmp").mkdir()
    assert count(f"{tmp_path}/in") is None
    (tmp_path / "in/tmp").rmdir()
    assert count(f"{tmp_path}/in") == (3, True)


@pytest.mark.parametrize("base", ["lake", "la*"])
def test_files_of_partitions_are_counted_however_deep(tmp_path: Path, base: str) -> None:
    days = [f"lake/country={where}/day={day}/a.json" for where in ("DE", "FR") for day in (1, 2)]
    lay(tmp_path, *days, "lake/country=DE/day=1/_SUCCESS", "lake/_spark_metadata/0")
    assert count(f"{tmp_path}/{base}") == (4, True)
    assert count(f"{tmp_path}/{base}", pathglobfilter="*.txt") == (0, True)
    assert count(f"{tmp_path}/{base}", filenameonly="true") is None, "four of one name"
    lay(tmp_path, "lake/country=DE/day=0/a.json", milliseconds=OLD)
    assert count(f"{tmp_path}/{base}") is None, "the folder above was changed just now"


def test_names_are_passed_over_as_spark_does(tmp_path: Path) -> None:
    """``HadoopFSUtils.shouldFilterOutPathName``; seen in the log of a source that read these."""
    read = ["_in=1/a.json", "_in=2/_x=1.json", "_in=2/_metadata", "_in=2/_common_metadata"]
    lay(tmp_path, *(f"in/{name}" for name in read))
    over = ["_in=1/b.json._COPYING_", "_in=1/_SUCCESS", "_in=1/.c=1.json", "_temporary/0/d.json"]
    lay(tmp_path, *(f"in/{name}" for name in over))
    for base in ("in", "i*"):
        assert count(f"{tmp_path}/{base}") == (4, True)
        assert count(f"{tmp_path}/{base}", pathglobfilter="*.json*") == (2, True)
    assert count(f"{tmp_path}/in/_in=1/*") == (1, True)


def test_files_below_are_counted_where_they_are_asked_for(tmp_path: Path) -> None:
    lay(tmp_path, "in/a.json", "in/x/b.json", "in/x/y/c.json")
    assert count(f"{tmp_path}/in", recursivefilelookup="TRUE") == (3, True)
    assert count(f"{tmp_path}/in", recursivefilelookup="false") == (1, False)


@pytest.mark.parametrize("names", [["in/a.json"], ["in/day=1/a.json", "in/day=2/b.json"]])
def test_where_a_file_is_past_its_age_nothing_is_walked_until_it_is_removed(
    tmp_path: Path, names: list[str]
) -> None:
    """The time before which files are past it only rises."""
    lay(tmp_path, *names, "in/day=1/c.json")
    lay(tmp_path, names[0], milliseconds=OLD)
    disk = Disk()
    source = reader(f"{tmp_path}/in", disk)
    assert source.list_files(lambda: 0.0) is None
    walked = list(disk.walked)
    assert source.list_files(lambda: 0.0) is None
    assert disk.walked == walked
    (tmp_path / names[0]).unlink()
    found = source.list_files(lambda: 0.0)
    assert found is not None
    assert found.files == len(names)


@pytest.mark.parametrize("old", ["in/day=1/a.json", "in/day=1/at=2/b.json"])
def test_files_that_spark_forgets_while_folders_are_walked_do_not_wait(
    tmp_path: Path, old: str
) -> None:
    """At its first planning a source forgets what is past its age; until then nothing is."""
    lay(tmp_path, "in/day=1/a.json", "in/day=1/at=2/b.json")
    lay(tmp_path, old, milliseconds=OLD)
    disk = Disk()
    lowest = f"{tmp_path}/in/*/*/*".count("/")

    def purged() -> int:
        last = bool(disk.walked) and disk.walked[-1].count("/") == lowest
        return PURGED if last and next(times, None) is None else -PURGED

    times = iter([1])  # the lowest folder was looked at before
    source = reader(f"{tmp_path}/in", disk, purged=purged)
    assert source.list_files(lambda: 0.0) is None
    walked = len(disk.walked)
    assert source.list_files(lambda: 0.0) is None
    assert len(disk.walked) == walked, "until it is removed"


def test_that_read_files_are_removed_is_seen_by_the_oldest_one(tmp_path: Path) -> None:
    """Retention takes them, and as many come meanwhile: their number tells nothing of it."""
    lay(tmp_path, "in/a.json", milliseconds=NEW)
    lay(tmp_path, "in/b.json", milliseconds=NEW + 1_000)
    source = reader(f"{tmp_path}/in", Disk())
    told = [source.list_files(lambda: 0.0) for _ in range(2)]
    assert [one and one.removed for one in told] == [False, False]
    (tmp_path / "in/a.json").unlink()
    lay(tmp_path, "in/c.json", milliseconds=NEW + 2_000)
    found = source.list_files(lambda: 0.0)
    assert found is not None
    assert (found.files, found.removed) == (2, True)
    found = source.list_files(lambda: 0.0)
    assert found is not None
    assert found.removed, "whoever takes no notice of one listing knows it by the next"


def test_that_a_file_past_its_age_is_removed_tells_nothing(tmp_path: Path) -> None:
    """The source, too, knows no more of it."""
    lay(tmp_path, "in/b.json", milliseconds=NEW + 1_000)
    lay(tmp_path, "in/c.json", milliseconds=NEW + 2_000)
    forgotten = PURGED
    source = reader(f"{tmp_path}/in", Disk(), purged=lambda: forgotten)
    assert source.list_files(lambda: 0.0) is not None
    (tmp_path / "in/b.json").unlink()
    forgotten = NEW + 1_500
    found = source.list_files(lambda: 0.0)
    assert found is not None
    assert not found.removed


def test_more_entries_than_are_listed_end_a_walk_whatever_their_age(tmp_path: Path) -> None:
    """Folders are entries, too, and so are files that the source does not read."""
    lay(tmp_path, *(f"in/day={day}/{name}.json" for day in range(3) for name in "ab"))
    lay(tmp_path, "in/day=0/a.json", milliseconds=OLD)
    for most, level in ((2, "*"), (5, "*/*")):
        for pattern in ("*.json", "*.txt"):
            disk = Disk()
            found = count(f"{tmp_path}/in", disk, max_entries=most, pathglobfilter=pattern)
            assert found is not None
            assert found[0] > most
            assert disk.walked[-1].count("/") == f"{tmp_path}/in/{level}".count("/")
    assert count(f"{tmp_path}/in", max_entries=6) is None
