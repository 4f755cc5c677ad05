"""Which files hold event logs, whose part they are, and which of them were not read before."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from agent.sources import databricks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROLLING: Final = re.compile(r"^eventlog_v2_(?P<name>.+)$")
#: What a log that rolls has beside its files until its application ends: none of these says so.
_RUNNING: Final = re.compile(r"^appstatus_.+\.inprogress$")
#: But for a compact one that is being written, beside those that it will stand for.
_EVENTS: Final = re.compile(r"^events_(?P<index>\d+)_(?P<rest>.+)(?<!\.compact\.inprogress)$")
_CODECS: Final = ("zstd", "lz4", "snappy", "lzf", "gz")
#: Read whole by one task: more would not fit into an array of Java's, nor should it.
MOST_WHOLE_BYTES: Final = 1 << 30


class Found(msgspec.Struct, frozen=True):
    """A file as its file system lists it; ``path`` is its whole address."""

    path: str
    size: int  # bytes
    modified: int  # epoch milliseconds


class LogFile(msgspec.Struct, frozen=True):
    """A file of a log. ``log`` and ``index`` stay the same while it grows, ends or moves on."""

    log: str
    index: int
    path: str
    size: int
    modified: int
    codec: str  # empty: plain text
    compact: bool
    in_progress: bool  # its last line may not be whole yet
    unlisted: int = 0  # of its bytes, those at its end that its file system's listing leaves out

    @property
    def whole(self) -> bool:
        """Whether one task reads all of it: Spark splits a file by what its listing tells."""
        return bool(self.codec or (self.unlisted and self.size <= MOST_WHOLE_BYTES))

    @property
    def key(self) -> str:
        """What it is remembered by."""
        return f"{self.log}#{self.index}{'c' if self.compact else ''}"


class Read(msgspec.Struct, frozen=True):
    """What is remembered of a file that was read."""

    run: int  # that read it last
    size: int
    modified: int
    events: int = 0  # of Spark's, that stand in it


class Plan(msgspec.Struct, frozen=True):
    """What a run does: files to read now, and the keys of all that count, these included."""

    to_read: list[LogFile]
    valid: set[str]
    refused: list[tuple[str, str]]  # path, reason
    doubled: list[tuple[str, str]] = []  # path, and that of the one which is read instead


def log_files(found: Iterable[Found]) -> list[LogFile]:
    """The files that belong to logs, of all that were listed; Spark's own marks are left out."""
    files: list[LogFile] = []
    running: set[str] = set()  # logs that roll
    for one in found:
        parent, _, name = one.path.rpartition("/")
        if name.startswith((".", "_")) or name.endswith((".crc", ".tmp")):
            continue
        folder = parent.rpartition("/")[2]
        if ROLLING.match(folder):
            if _RUNNING.match(name):
                running.add(parent)
            named = _EVENTS.match(name)
            if named is None:
                continue  # appstatus
            compact = name.endswith(".compact")
            codec = _codec(name.removesuffix(".compact"))
            files.append(_file(one, parent, int(named["index"]), codec, compact=compact))
        elif (part := databricks.index_of(name)) is not None:
            writing = part == databricks.OPEN_INDEX
            files.append(_file(one, parent, part, _codec(name), in_progress=writing))
        else:
            bare = name.removesuffix(".inprogress")
            codec = _codec(bare)
            log = f"{parent}/{bare.removesuffix('.' + codec) if codec else bare}"
            files.append(_file(one, log, 0, codec, in_progress=bare != name))
    files.sort(key=lambda file: (file.log, file.index, file.compact))
    newest = {file.log: file.index for file in files if file.log in running and not file.compact}
    return [
        replace(file, in_progress=True)
        if newest.get(file.log) == file.index and not file.compact
        else file
        for file in files
    ]


def plan(files: Iterable[LogFile], seen: Mapping[str, Read]) -> Plan:
    """What to read, given what was read before.

    A file that is gone stays counted. A compact file stands for all up to its index, and tells less
    of them: it is read only where not all of those were.
    """
    logs: dict[str, list[LogFile]] = defaultdict(list)
    for file in files:
        logs[file.log].append(file)
    known: dict[str, set[int]] = defaultdict(set)
    for key in seen:
        log, _, index = key.rpartition("#")
        if not index.endswith("c"):
            known[log].add(int(index))
    to_read: list[LogFile] = []
    refused: list[tuple[str, str]] = []
    doubled: list[tuple[str, str]] = []
    valid = set(seen)
    for log, parts in logs.items():
        compacts = [part for part in parts if part.compact]
        newest = max(compacts, key=lambda part: part.index, default=None)
        here = known[log] | {part.index for part in parts if not part.compact}
        if newest is not None and not set(range(1, newest.index + 1)) <= here:
            # Parts of what it stands for may be there still: nothing may count twice.
            valid = {key for key in valid if not _before(key, log, newest.index)}
            parts = [  # noqa: PLW2901
                part for part in parts if part is newest or part.index > newest.index
            ]
        else:
            parts = [part for part in parts if not part.compact]  # noqa: PLW2901
        if not {part.index for part in parts} <= known[log] | {databricks.OPEN_INDEX}:
            # One that was closed since: what was read of the open one stands in it.
            valid.discard(f"{log}#{databricks.OPEN_INDEX}")
        for part in _once(parts, seen, doubled):
            reason = refusal(part)
            if reason:
                refused.append((part.path, reason))
                continue
            valid.add(part.key)
            last = seen.get(part.key)
            if last is None or (last.size, last.modified) != (part.size, part.modified):
                to_read.append(part)
    return Plan(to_read, valid, refused, doubled)


def _once(
    parts: list[LogFile], seen: Mapping[str, Read], doubled: list[tuple[str, str]]
) -> list[LogFile]:
    """Of files that are the same part of a log, as one packed beside the plain one, one each.

    That which has ended rather than one still written to, then that which was read before, then
    the newest.
    """

    def worth(part: LogFile) -> tuple[bool, bool, bool, int, bool]:
        last = seen.get(part.key)
        before = last is not None and (last.size, last.modified) == (part.size, part.modified)
        return not refusal(part), not part.in_progress, before, part.modified, not part.codec

    kept: dict[str, LogFile] = {}
    for part in sorted(parts, key=worth, reverse=True):
        if part.key in kept:
            doubled.append((part.path, kept[part.key].path))
        else:
            kept[part.key] = part
    return [part for part in parts if kept[part.key] is part]


def refusal(file: LogFile) -> str:
    """Why a file cannot be read at all; empty where it can."""
    if file.codec == "lzf":
        return "compressed with lzf, which cannot be read here; zstd, lz4, snappy and gzip can"
    if file.codec and file.size > MOST_WHOLE_BYTES:
        return (
            f"{file.size} bytes compressed in one file: unpack it, or let Spark roll its logs "
            "(spark.eventLog.rolling.enabled)"
        )
    return ""


def _before(key: str, log: str, index: int) -> bool:
    name, _, number = key.rpartition("#")
    if name != log:
        return False
    own = int(number.removesuffix("c"))
    return own < index or (own == index and not number.endswith("c"))


def _file(
    one: Found,
    log: str,
    index: int,
    codec: str,
    *,
    compact: bool = False,
    in_progress: bool = False,
) -> LogFile:
    return LogFile(log, index, one.path, one.size, one.modified, codec, compact, in_progress)


def _codec(name: str) -> str:
    ending = name.rpartition(".")[2] if "." in name else ""
    return ending if ending in _CODECS else ""
