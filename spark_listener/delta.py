"""What waits in a Delta table, which progress does not tell: from the table's own log.

A stream reads the files that each commit adds with ``dataChange``, in the order in which they stand
there; its offset is a commit and the index of the last file read, or, at first, a place in the
table as it then was (Delta's ``PROTOCOL.md``, "Add File and Remove File"; ``DeltaSourceOffset``).
Each commit is one small file, read once, by the thread that lists directories.
"""

from __future__ import annotations

import json
import time
from array import array
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_listener.backlog import UNKNOWN, Left
from spark_listener.files import REMOTE_SHARE
from spark_listener.sources import DELTA_KERNELS
from spark_listener.wire import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from spark_listener.wire import Unit

#: Bytes. A commit that is longer is not read: of some 200,000 files, it would keep the thread, for
#: which other sources wait, for ten seconds and more.
LONGEST_COMMIT: Final = 64 * 2**20
#: Bytes carried from the JVM in one call. In base64, as py4j writes them, more would be above the
#: 512 KiB from which on G1 puts an object of a heap of 1 GiB apart, where it stays for long
#: ("humongous"); with fewer the calls, 40 ms where TCP's acknowledgement is late, add up.
PIECE: Final = 2**18
#: Folders of a log for commits that are not in it yet: of a catalog, and of a coordinator.
_STAGED: Final = ("_staged_commits", "_commits")
#: Seconds for the commits of one look: other sources' directories wait for that thread.
LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Offset:
    """``index``: of the last file read, -1 for none; ``whole``: of the table as it then was."""

    version: int
    index: int
    whole: bool


def offset_of(value: Any) -> Offset | None:
    """An offset of progress, parsed or as JSON; None where it is no offset of Delta's."""
    try:
        said = json.loads(value) if isinstance(value, str) else value
        whole = said["isStartingVersion"]
        return Offset(int(said["reservoirVersion"]), max(-1, int(said["index"])), bool(whole))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def sizes_of(commit: Iterable[bytes], *, skips_changes: bool) -> array[int]:
    """Bytes of each file that a stream reads of a commit, in its order; by the commit's lines.

    ``skips_changes``: of a commit that removes rows as well nothing is read. Raises ValueError
    where the lines are no commit.
    """
    sizes = array("q")
    try:
        for line in commit:
            if not line.strip():
                continue
            action = json.loads(line)
            removed, added = action.get("remove"), action.get("add")
            if removed is not None and removed["dataChange"] and skips_changes:
                return array("q")
            if added is not None and added["dataChange"]:
                sizes.append(int(added["size"]))
    except (
        *(ValueError, KeyError, TypeError, AttributeError),
        *(OverflowError, RecursionError),
    ) as error:
        raise ValueError(f"no commit: {error}") from error
    return sizes


@dataclass(frozen=True)
class Commits:
    """Commits without a gap from ``first`` on, and the table as it was at some of them."""

    first: int
    sizes: tuple[Sequence[int], ...]
    tables: dict[int, tuple[int, int]]  # files and bytes
    complete: bool  # there is none after them; else there may be, or one that cannot be read
    epoch_seconds: float = 0.0
    hidden: bool = False  # none in the log: a catalog may have taken some already

    def units_after(self, offset: Offset, unit: Unit) -> int | None:
        """Files or bytes that a stream at ``offset`` has not read; None where that is not known.

        Exact, but for bytes of the table as it was: there files are taken for equally long.
        """
        after, left = offset.version - self.first, 0
        if offset.whole:
            if offset.version not in self.tables:
                return None
            files, size = self.tables[offset.version]
            unread = max(0, files - 1 - offset.index)
            left = unread if unit == "files" else size * unread // files if files else 0
        elif 0 <= after < len(self.sizes):
            left = _units(self.sizes[after][offset.index + 1 :], unit)
        elif after != len(self.sizes) or offset.index >= 0 or not self.complete:
            return None  # else it is before the next commit, which nobody has made yet
        return left + sum(_units(sizes, unit) for sizes in self.sizes[max(0, after + 1) :])


def _units(sizes: Sequence[int], unit: Unit) -> int:
    return len(sizes) if unit == "files" else sum(sizes)


class DeltaTable:
    """The table of one JVM ``DeltaSource``; methods may raise what py4j raises.

    Or of the stream by which Delta's own kernel reads the tables that a catalog manages.

    ``list_files`` is called by the thread ``weir-files``, all else by the observer's.
    """

    share = REMOTE_SHARE  # each commit is read once, so there is little to do

    def __init__(self, gateway: Any, source: Any) -> None:
        def field(name: str) -> Any:
            found = source.getClass().getDeclaredField(name)
            found.setAccessible(True)
            return found.get(source)

        self._jvm = gateway.jvm
        options = field("options")
        self._by_kernel = str(source.getClass().getName()) in DELTA_KERNELS
        if self._by_kernel:
            folder = self._jvm.org.apache.hadoop.fs.Path(field("tablePath"))
            self._path, configuration = self._below(folder, "_delta_log"), field("hadoopConf")
        else:
            log = field("deltaLog")
            self._path, configuration = log.logPath(), log.newDeltaHadoopConf()
        self._files = self._path.getFileSystem(configuration)
        self._skips_changes = bool(options.skipChangeCommits())
        # Of these a stream reads other files than those that commits add, or not all of them.
        self._countable = not bool(options.readChangeFeed()) and options.excludeRegex().isEmpty()
        self._wanted: Offset | None = None
        self._known: Commits | None = None
        self._unreadable: int | None = None  # the version of a commit that is not tried again
        self._hides: bool | None = None

    def entries(self) -> int:
        """Nothing is listed, so the directory may be of any size."""
        return 0

    def counted(self, unit: Unit, start: Any, end: Any, *, timeout_seconds: float) -> Left:
        """Of a batch between two offsets, as progress has them; ``start`` None is the first.

        Answers at once from what was read: needs no ``timeout_seconds``.
        """
        del timeout_seconds
        last = offset_of(end)
        if unit == "rows" or last is None or not self._countable:
            return UNKNOWN
        first = Offset(last.version, -1, True) if start is None else offset_of(start)
        if start is None and not last.whole:
            first = None  # all of the table at a version that the offset does not name any more
        self._wanted = last if first is None else first
        known = self._known
        if known is None:
            return UNKNOWN
        left = known.units_after(last, unit)
        before = None if first is None else known.units_after(first, unit)
        admitted = None if left is None or before is None or before < left else before - left
        exact = known.complete and not known.hidden
        moment = format_time(known.epoch_seconds)
        return Left(admitted, left, exact, moment, partial=not known.complete)

    def list_files(self, clock: Callable[[], float]) -> None:
        """Reads the commits that are new, oldest first; none beyond one that cannot be read.

        Raises ValueError where a commit is too long, or none, and is not tried again. Whatever is
        raised, what was read before is known.
        """
        wanted, known = self._wanted, self._known
        if wanted is None:
            return
        stop = time.monotonic() + LOOK_SECONDS
        first = wanted.version + 1 if wanted.whole else wanted.version
        sizes: list[Sequence[int]] = []
        if known is not None and known.first <= first <= known.first + len(known.sizes):
            sizes = list(known.sizes[first - known.first :])
        tables = {} if known is None else known.tables
        if wanted.whole and wanted.version not in tables:
            tables = self._table(wanted.version)
        moment, complete, hidden, failure = clock(), False, False, None
        while time.monotonic() < stop and first + len(sizes) != self._unreadable:
            try:
                lines = self._read(f"{first + len(sizes):020d}.json")
                if lines is None:
                    if not sizes and first > 0 and not self._exists(f"{first - 1:020d}.json"):
                        return  # cleaned up: what came after is not known to be all
                    complete, hidden = True, self._hides_commits()
                    break
                with closing(lines):
                    sizes.append(sizes_of(lines, skips_changes=self._skips_changes))
            except Exception as error:
                failure = error
                break
        self._known = Commits(first, tuple(sizes), tables, complete, moment, hidden)
        if failure is not None:
            if isinstance(failure, ValueError):  # else the next look may fare better
                self._unreadable = first + len(sizes)
            raise failure

    def _table(self, version: int) -> dict[int, tuple[int, int]]:
        """Files and bytes of the table as it was, by version; empty where its log has no sum."""
        lines = self._read(f"{version:020d}.crc")
        if lines is None:
            return {}
        said = json.loads(b"\n".join(lines))
        return {version: (int(said["numFiles"]), int(said["tableSizeBytes"]))}

    def _hides_commits(self) -> bool:
        """Whether commits may wait that a stream reads before they are in the log.

        A table that the kernel reads is asked at each look, and any other but once: few have any.
        """
        if self._by_kernel or self._hides is None:
            self._hides = self._stages_commits()
        return self._hides

    def _stages_commits(self) -> bool:
        """Whether a catalog, or a coordinator as Delta 3.3 and 4.0 have it, takes its commits.

        Delta's ``PROTOCOL.md``, "Catalog-managed tables". Which of those that are staged it has
        taken only the catalog knows; there may be as many as a month brings, so one is looked for.
        """
        return any(
            self._files.exists(folder) and self._files.listStatusIterator(folder).hasNext()
            for folder in map(self._at, _STAGED)
        )

    def _at(self, name: str) -> Any:
        return self._below(self._path, name)

    def _below(self, folder: Any, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(folder, name)

    def _exists(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def _read(self, name: str) -> Generator[bytes, None, None] | None:
        """The lines of a file, read as they are taken; None where there is no such file."""
        path = self._at(name)
        if not self._files.exists(path):
            return None
        if self._files.getFileStatus(path).getLen() > LONGEST_COMMIT:
            raise ValueError(f"{name} is longer than {LONGEST_COMMIT} bytes")
        return self._lines(path)

    def _lines(self, path: Any) -> Generator[bytes, None, None]:
        io = self._jvm.org.apache.commons.io  # a look at a class is a call, too
        carry, bounded = io.IOUtils.toByteArray, io.input.BoundedInputStream
        stream = self._files.open(path)
        try:
            line, piece = b"", bytes(PIECE)
            while len(piece) == PIECE:
                piece = carry(bounded(stream, PIECE))
                *lines, line = (line + piece).split(b"\n")
                yield from lines
            yield line
        finally:
            stream.close()
