"""What waits in an Iceberg table, which progress does not tell: from the table's own snapshots.

A stream reads the files that each snapshot appended, in the order of the snapshots; its offset is a
snapshot and how many of that one's files were read (``StreamingOffset``). How many files and rows a
snapshot appended, and how many the table then held, stands in its summary (Iceberg's table spec,
"Snapshots"). The table is looked at as the stream loaded it when it planned its last batch: nothing
is read again, so asking costs the job no more than the calls.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from spark_listener.backlog import UNKNOWN, Left

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_listener.wire import Unit

Counted = Literal["files", "rows"]
_NAMES: Final[Mapping[Counted, str]] = {"files": "data-files", "rows": "records"}
_NO_SNAPSHOT: Final = -1  # of the offset before a table's first snapshot
_NO_TIME: Final = -(2**63)  # Java's least long: the option's default
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True)
class Offset:
    """Where a stream stands: ``position`` files of a snapshot are read.

    ``whole``: of all files that the table held at that snapshot, not of those that it appended.
    """

    snapshot: int
    position: int
    whole: bool


@dataclass(frozen=True)
class Snapshot:
    """One commit to the table; counts are None where its summary does not tell."""

    parent: int | None
    appends: bool
    added: Mapping[Counted, int | None]
    total: Mapping[Counted, int | None]
    epoch_milliseconds: int = 0

    def count(self, unit: Counted, *, whole: bool) -> int | None:
        """Units of which a stream reads this snapshot; others than appends it passes over."""
        if whole:
            return self.total[unit]
        return self.added[unit] if self.appends else 0


def offset_of(value: Any) -> Offset | None:
    """An offset of progress, parsed or as JSON; None where it is no offset of Iceberg's."""
    try:
        said = json.loads(value) if isinstance(value, str) else value
        found = Offset(
            int(said["snapshot_id"]), int(said["position"]), bool(said["scan_all_files"])
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return found


def snapshot_of(
    parent: int | None, operation: str, summary: Mapping[str, str], epoch_milliseconds: int = 0
) -> Snapshot:
    """A snapshot from its summary; what an append does not name it did not add."""

    def whole(name: str, otherwise: int | None) -> int | None:
        try:
            return int(summary.get(name, otherwise))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None

    return Snapshot(
        parent,
        operation == "append",
        {unit: whole(f"added-{name}", 0) for unit, name in _NAMES.items()},
        {unit: whole(f"total-{name}", None) for unit, name in _NAMES.items()},
        epoch_milliseconds,
    )


class History:
    """The snapshots from a table's latest back to the one that a stream reads."""

    def __init__(self, fetch: Callable[[int], Snapshot | None]) -> None:
        self._fetch = fetch
        self._known: dict[int, Snapshot] = {}

    def back_to(
        self, latest: int, oldest: int, *, more: Callable[[], bool], since: int | None = None
    ) -> list[tuple[int, Snapshot]] | None:
        """From ``latest`` to ``oldest``, both included.

        Where that is no snapshot's, to the first, or to the newest that is older than ``since``.
        None where ``oldest`` is no ancestor, or where ``more`` said that it is enough for now: what
        was fetched is kept, and the next call goes on from there.
        """
        chain: list[tuple[int, Snapshot]] = []
        at: int | None = latest
        while at is not None:
            snapshot = self._known.get(at)
            if snapshot is None:
                snapshot = self._fetch(at) if more() else None
                if snapshot is None:
                    return None
                self._known[at] = snapshot
            chain.append((at, snapshot))
            if at == oldest or (oldest == _NO_SNAPSHOT and _older(snapshot, since)):
                break
            at = snapshot.parent
        else:
            if oldest != _NO_SNAPSHOT:
                return None
        self._known = dict(chain)  # what lies before is never asked for again
        return chain


def _older(snapshot: Snapshot, since: int | None) -> bool:
    return since is not None and snapshot.epoch_milliseconds < since


def units_after(
    chain: list[tuple[int, Snapshot]], offset: Offset, unit: Counted, since: int | None = None
) -> int | None:
    """Units in ``chain``, latest first, that a stream at ``offset`` has not read; None if unknown.

    Before its first snapshot it will read none that is older than ``since``. Exact in files. In
    rows the files of the snapshot in hand are taken for equally long.
    """
    left = 0
    for at, snapshot in chain:
        if offset.snapshot == _NO_SNAPSHOT and _older(snapshot, since):
            break
        if at != offset.snapshot:
            count = snapshot.count(unit, whole=False)
        else:
            files = snapshot.count("files", whole=offset.whole)
            count = snapshot.count(unit, whole=offset.whole)
            if files is None or count is None:
                return None
            unread = max(0, files - max(0, offset.position))
            count = count * unread // files if files else 0
        if count is None:
            return None
        left += count
        if at == offset.snapshot:
            return left
    return left if offset.snapshot == _NO_SNAPSHOT else None


def what_is_read(source: Any) -> str:
    """The table and branch of a JVM ``SparkMicroBatchStream``; may raise what py4j raises."""
    return f"{field_of(source, 'table').name()} {_branch_of(source) or ''}"


def _branch_of(source: Any) -> str | None:
    try:
        branch = field_of(source, "branch")
    except Exception:  # 1.11 for Spark 4.1 keeps none
        return None
    return None if branch is None else str(branch)


def from_milliseconds(source: Any) -> int | None:
    """Of ``stream-from-timestamp``, in epoch time; None where it is not set.

    May raise what py4j raises.
    """
    said = int(field_of(source, "fromTimestamp"))
    return None if said == _NO_TIME else said


def field_of(source: Any, name: str) -> Any:
    """The value of a JVM object's field, private or not, its own or of a class above its own.

    Raises LookupError where there is none of that name; may raise what py4j raises.
    """
    declares = source.getClass()
    while declares is not None:
        found = _declared(declares, name)
        if found is not None:
            found.setAccessible(True)
            return found.get(source)
        declares = declares.getSuperclass()
    raise LookupError(f"no field {name}")


def _declared(java_class: Any, name: str) -> Any:
    try:
        return java_class.getDeclaredField(name)
    except Exception as error:
        if "NoSuchFieldException" not in str(error):
            raise
        return None


class IcebergTable:
    """The table of one JVM ``SparkMicroBatchStream``; methods may raise what py4j raises."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._table = field_of(source, "table")
        self._first = str(field_of(source, "initialOffset").json())
        self._history = History(self._fetch)

    def counted(self, unit: Unit, start: Any, end: Any, *, timeout_seconds: float) -> Left:
        """Of a batch between two offsets, as progress has them; ``start`` None is the first.

        Unknown where the table does not tell, or not within ``timeout_seconds``.
        """
        if unit not in _NAMES:
            return UNKNOWN
        first, last = offset_of(self._first if start is None else start), offset_of(end)
        if first is None or last is None:
            return UNKNOWN
        stop = time.monotonic() + timeout_seconds
        latest = self._latest()
        if latest is None:
            return UNKNOWN
        # Where it cannot be read, what such a stream will read is not known.
        anew = _NO_SNAPSHOT in {first.snapshot, last.snapshot}
        since = from_milliseconds(self._source) if anew else None
        chain = self._history.back_to(
            latest, first.snapshot, more=lambda: time.monotonic() < stop, since=since
        )
        if chain is None:
            return UNKNOWN
        counted: Counted = "files" if unit == "files" else "rows"
        before = units_after(chain, first, counted, since)
        left = units_after(chain, last, counted, since)
        admitted = None if before is None or left is None or before < left else before - left
        if last.snapshot == _NO_SNAPSHOT:
            admitted = 0  # what lies between was passed over, not read
        return Left(admitted, left, exact=counted == "files")

    def _latest(self) -> int | None:
        # Of main: a stream plans from that whatever branch it was given (apache/iceberg#3898).
        found = self._table.currentSnapshot()
        return None if found is None else int(found.snapshotId())

    def _fetch(self, snapshot_id: int) -> Snapshot | None:
        found = self._table.snapshot(snapshot_id)
        if found is None:
            return None  # expired
        parent, summary = found.parentId(), found.summary()
        names = [f"{kind}-{name}" for kind in ("added", "total") for name in _NAMES.values()]
        told = {name: summary.get(name) for name in names}
        return snapshot_of(
            None if parent is None else int(parent),
            str(found.operation()),
            {name: str(value) for name, value in told.items() if value is not None},
            int(found.timestampMillis()),
        )


def release_of(gateway: Any, source: Any) -> tuple[int, int] | None:
    """The first two numbers of the Iceberg that this source is of; None where it does not say."""
    try:
        loader = source.getClass().getClassLoader()
        build = loader.loadClass("org.apache.iceberg.IcebergBuild")
        method = build.getMethod("version", gateway.new_array(gateway.jvm.java.lang.Class, 0))
        said = method.invoke(None, gateway.new_array(gateway.jvm.java.lang.Object, 0))
    except Exception:
        return None
    return release(str(said))


def release(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version.

    >>> release("1.10.0-amzn-1")
    (1, 10)
    """
    found = _RELEASE.match(text)
    return None if found is None else (int(found[1]), int(found[2]))
