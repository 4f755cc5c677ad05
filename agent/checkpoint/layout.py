"""Reading a checkpoint: which file is what, and what the small ones say.

Spark's layout, as written by 3.5 to 4.3: ``metadata`` (the query's id), ``offsets/N`` (planned
batches), ``commits/N`` (finished ones), ``sources/i/`` (a source's own log), and
``state/operator/partition[/store]/`` with ``V.delta`` and ``V.snapshot`` of the HDFS store or
``V.changelog``, ``V.zip`` and shared ``SSTs/`` of RocksDB. Version V is the state after batch
V - 1. Checkpoint format v2 names state files ``V_id`` and keeps the ids of a batch in its commit.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from agent.checkpoint.folder import CheckpointError, FileEntry, Folder, reported
from agent.core.decode.events import MOST_PARTS
from agent.core.decode.kafka_offsets import parse_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

StateKind = Literal["delta", "snapshot", "changelog", "zip"]
SourceKind = Literal["file", "kafka", "delta", "iceberg", "numbered", "other", "unknown"]
StoreKind = Literal["HDFS", "RocksDB", "RocksDB + changelog", "none"]

#: What makes a folder a savepoint.
MANIFEST: Final = "weir-savepoint.json"
_NUMBER = re.compile(r"\d{1,18}\Z")
_LOG_NAME = re.compile(r"(\d{1,18})(\.compact)?\Z")
_SINK_LOG = re.compile(r"sinks/[^/]+/(\d{1,18})(?:\.compact)?")
_STATE_NAME = re.compile(r"(\d{1,18})(?:_([0-9A-Za-z-]+))?\.(delta|snapshot|changelog|zip)\Z")
_SCHEMA_NAME = re.compile(r"(\d{1,18})(?:_.*)?\Z")
#: Schemas of state, of all partitions: in 4.0 and later some stand beside the partitions.
_SCHEMA_PATH = re.compile(r"state/\d+/(0(/[^/]+)?/_metadata/schema|_stateSchema/[^/]+/[^/]+)\Z")
#: The key's schema comes first. Without keys it has no column (an aggregation), or a single one of
#: no type (a limit). That of a session window always has keys: Spark wants one besides the window.
_KEY_SCHEMA = re.compile(
    rb'\{"type":"struct","fields":\[(\]|\{"name":"key","type":"(?:void|null)",'
    rb'"nullable":(?:true|false),"metadata":\{[^{}]*\}\}\])?'
)
#: An operator without keys runs in one partition, though Spark's metadata names all of them: it
#: takes the number from the settings.
_ONE_PARTITION: Final = frozenset({"globalLimit"})
_SOURCE_FOLDER = re.compile(r"sources/(\d{1,9})/")
_CHECKSUM = re.compile(r"\.?(?P<name>.+?)(?:\.crc)+\Z")
_TEMPORARY = re.compile(r"\..+\.tmp\Z")
#: Bytes of a log's entry that are read. Kafka's offsets take some 20 a partition, ids of the state
#: some 40 a store and partition: room for 400,000 of them, in what Spark itself reads whole.
MOST_ENTRY_BYTES: Final = 16 << 20
#: Of all offsets together; decoded they take some ten times that. What is older only tells history.
MOST_HISTORY_BYTES: Final = 4 * MOST_ENTRY_BYTES
#: Of a line that names one file: some times the longest path that there is.
_LINE_BYTES: Final = 64 << 10
#: Spark's default of spark.sql.streaming.fileSource.log.compactInterval, and of fileSink's.
COMPACT_INTERVAL: Final = 10
#: Spark counts what a compacted entry stands for in 32 bits, and offsets and times in 64.
_MOST_INT: Final = 2**31 - 1
_MOST_LONG: Final = 2**63 - 1
#: Versions whose form is known: of the offset log, of the commit log, of an operator's metadata.
_OFFSET_VERSIONS: Final = ("v1", "v2")
_COMMIT_VERSIONS: Final = ("v1", "v2", "v3")
_OPERATOR_VERSIONS: Final = ("v1", "v2")


class LogFile(msgspec.Struct, frozen=True):
    """An entry of the offset log, the commit log, or a source's log."""

    path: str
    batch_id: int
    compact: bool
    size: int
    modified: float


class StateFile(msgspec.Struct, frozen=True):
    """A file that holds state of one version, or the changes that lead to it."""

    path: str
    operator: int
    partition: int
    store: str
    version: int
    kind: StateKind
    unique_id: str | None  # checkpoint format v2
    size: int
    modified: float


class StoreKey(msgspec.Struct, frozen=True, order=True):
    """One state store: an operator's partition, and which of the operator's stores."""

    operator: int
    partition: int
    store: str

    @property
    def folder(self) -> str:
        """Its folder below the checkpoint."""
        base = f"state/{self.operator}/{self.partition}"
        return base if self.store == "default" else f"{base}/{self.store}"


class Layout(msgspec.Struct):
    """Every file of a checkpoint under what it is."""

    metadata: FileEntry | None = None
    offsets: dict[int, LogFile] = {}
    commits: dict[int, LogFile] = {}
    sources: dict[int, list[LogFile]] = {}  # in the order of the offsets' names
    named_sources: dict[str, list[LogFile]] = {}  # by folder, where that is no place of a source
    state: dict[StoreKey, list[StateFile]] = {}
    shared: dict[StoreKey, list[FileEntry]] = {}  # SST files and RocksDB's logs
    schemas: list[FileEntry] = []  # state/…/_metadata, state/…/_stateSchema
    others: list[FileEntry] = []  # sources' own files and whatever Spark did not write
    temporary: list[FileEntry] = []
    checksums: dict[str, list[FileEntry]] = {}  # by the file they belong to
    newest: float = 0.0  # epoch seconds of the last change
    count: int = 0
    bytes: int = 0

    @property
    def noted_by_sink(self) -> tuple[str, int] | None:
        """The newest batch that its sink has noted here, as Elasticsearch's does, and where."""
        found = [
            (int(log[1]), file.path)
            for file in self.others
            if (log := _SINK_LOG.fullmatch(file.path)) is not None
        ]
        return max(found)[::-1] if found else None

    @property
    def latest_offset(self) -> int:
        """The newest planned batch; -1 without one."""
        return max(self.offsets, default=-1)

    @property
    def latest_commit(self) -> int:
        """The newest finished batch; -1 without one."""
        return max(self.commits, default=-1)

    @property
    def latest_finished(self) -> int:
        """The newest batch that has finished by what the logs say; -1 for none.

        Without any commit it is the one before the newest planned, as each is planned after the end
        of the one before: Spark before 2.2 kept no commits, and every later one restarts so.
        """
        if self.commits or not self.offsets:
            return self.latest_commit
        return self.latest_offset - 1 if self.latest_offset - 1 in self.offsets else -1

    def companions(self, path: str) -> list[FileEntry]:
        """The checksum files of a file."""
        return self.checksums.get(path, [])


class Offsets(msgspec.Struct, frozen=True):
    """What ``offsets/N`` says: each source's end, the watermark, and what Spark fixed."""

    batch_id: int
    log_version: str
    sources: list[Any]  # decoded JSON; None where a source had nothing yet
    names: list[str]  # of the sources: their place, or the names that log version 2 keeps
    watermark_ms: int | None
    timestamp_ms: int | None
    conf: dict[str, str]


class Commit(msgspec.Struct, frozen=True):
    """What ``commits/N`` says; ``state_ids`` is operator → partition → ids of its stores."""

    batch_id: int
    log_version: str
    next_watermark_ms: int | None
    state_ids: dict[int, list[list[str]]] | None


class OperatorInfo(msgspec.Struct, frozen=True):
    """What ``state/N/_metadata`` says of a stateful operator."""

    operator: int
    name: str
    stores: dict[str, int]  # name → partitions
    path: str = ""  # of the metadata
    #: Addresses of the files with its schemas, as a start reads them (transformWithState).
    schemas: list[str] = []

    @property
    def schema_places(self) -> list[tuple[str, str]]:
        """Of each schema the checkpoint, by its address, and the path below; "" where unknown."""
        places = []
        for address in self.schemas:
            root, found, name = address.rpartition(f"/state/{self.operator}/_stateSchema/")
            below = f"state/{self.operator}/_stateSchema/{name}" if found else ""
            places.append((root if found else address, below))
        return places


class SourceInfo(msgspec.Struct, frozen=True):
    """One source: its kind by the form of its offsets, and where its own log ends."""

    index: int
    kind: SourceKind
    log_end: int | None  # the newest entry of its own log
    offset: Any  # of the newest planned batch
    name: str  # its place, or its own name (source evolution, Spark 4.2): that of its folder
    began: Any = None  # the offset before its first batch, of files and Kafka where it is told

    @property
    def folder(self) -> str:
        """Where its own log is."""
        return f"sources/{self.name}"


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint as read: its layout, and its small files decoded.

    ``unreadable`` names files that should have been readable, and why they were not.
    """

    name: str
    layout: Layout
    query_id: str | None
    offsets: dict[int, Offsets]
    commits: dict[int, Commit]
    operators: dict[int, OperatorInfo]
    sources: list[SourceInfo]
    unreadable: dict[str, str]
    #: Operators by what the schema of their state says: with no key all of it is in one partition.
    keyed: dict[int, bool] = {}

    @property
    def conf(self) -> dict[str, str]:
        """The settings that Spark fixed in the newest readable offsets."""
        return self.offsets[max(self.offsets)].conf if self.offsets else {}

    @property
    def partitions(self) -> int | None:
        """Partitions of the finished state: as at the query's first start, or set offline since."""
        finished = self.offsets.get(self.layout.latest_finished)
        conf = finished.conf if finished is not None else self.conf
        value = conf.get("spark.sql.shuffle.partitions", "")
        return int(value) if _NUMBER.match(value) else None

    @property
    def store_kind(self) -> StoreKind:
        """Which state store wrote the state."""
        kinds = {file.kind for files in self.layout.state.values() for file in files}
        if kinds & {"changelog"}:
            return "RocksDB + changelog"
        if kinds & {"zip"}:
            return "RocksDB"
        return "HDFS" if kinds else "none"

    @property
    def state_format(self) -> int | None:
        """Checkpoint format of the state: 1, or 2 with ids; None without state."""
        ids = [file.unique_id for files in self.layout.state.values() for file in files]
        if not ids:
            return None
        return 2 if any(ids) else 1

    @property
    def source_kinds(self) -> list[SourceKind]:
        """Kinds in the order of the sources."""
        return [source.kind for source in self.sources]


def classify(files: Iterable[FileEntry]) -> Layout:
    """Sorts a folder's files by what they are. Pure."""
    layout = Layout()
    for file in files:
        layout.count += 1
        layout.bytes += file.size
        layout.newest = max(layout.newest, file.modified)
        _place(layout, file)
    for entries in (*layout.sources.values(), *layout.named_sources.values()):
        entries.sort(key=lambda entry: (entry.batch_id, entry.compact))
    for stored in layout.state.values():
        stored.sort(key=lambda entry: (entry.version, entry.kind, entry.unique_id or ""))
    return layout


def _place(layout: Layout, file: FileEntry) -> None:
    parts = file.path.split("/")
    folder, name = parts[:-1], parts[-1]
    if _TEMPORARY.match(name):
        layout.temporary.append(file)
        return
    if name.endswith(".crc") and (match := _CHECKSUM.match(name)):
        owner = "/".join([*folder, match["name"]])
        layout.checksums.setdefault(owner, []).append(file)
        return
    if parts == ["metadata"]:
        layout.metadata = file
        return
    log = _LOG_NAME.match(name)
    if folder in (["offsets"], ["commits"]) and log and not log[2]:
        entries = layout.offsets if folder == ["offsets"] else layout.commits
        entries[int(log[1])] = _log_file(file, log)
        return
    if len(folder) == 2 and folder[0] == "sources" and log:
        own = _log_file(file, log)
        if _NUMBER.match(folder[1]) and int(folder[1]) < MOST_PARTS:
            layout.sources.setdefault(int(folder[1]), []).append(own)
        else:
            layout.named_sources.setdefault(folder[1], []).append(own)
        return
    if len(folder) >= 2 and folder[0] == "state" and _NUMBER.match(folder[1]):
        _place_state(layout, file, folder[2:], int(folder[1]))
        return
    layout.others.append(file)


def _place_state(layout: Layout, file: FileEntry, below: list[str], operator: int) -> None:
    if "_metadata" in below or "_stateSchema" in below:
        layout.schemas.append(file)
        return
    if not below or not _NUMBER.match(below[0]):
        layout.others.append(file)
        return
    shared = below[-1] in ("SSTs", "logs")
    stores = below[1:-1] if shared else below[1:]
    key = StoreKey(operator, int(below[0]), "/".join(stores) or "default")
    if shared:
        layout.shared.setdefault(key, []).append(file)
        return
    match = _STATE_NAME.match(file.path.rsplit("/", 1)[-1])
    if match is None:
        layout.others.append(file)
        return
    kind: StateKind = match[3]  # type: ignore[assignment]
    layout.state.setdefault(key, []).append(
        StateFile(
            path=file.path,
            operator=operator,
            partition=key.partition,
            store=key.store,
            version=int(match[1]),
            kind=kind,
            unique_id=match[2],
            size=file.size,
            modified=file.modified,
        )
    )


def _log_file(file: FileEntry, match: re.Match[str]) -> LogFile:
    return LogFile(
        path=file.path,
        batch_id=int(match[1]),
        compact=match[2] is not None,
        size=file.size,
        modified=file.modified,
    )


def schema_batch(path: str) -> int | None:
    """The batch that wrote an operator's metadata or schema; None where the name has none."""
    parts = path.split("/")
    if "_stateSchema" not in parts and parts[-2:-1] != ["v2"]:
        return None
    match = _SCHEMA_NAME.match(parts[-1])
    return int(match[1]) if match else None


def read_checkpoint(
    folder: Folder, on_count: Callable[[int], None] | None = None, *, history: int = 200
) -> Checkpoint:
    """Lists a checkpoint and reads its logs, the newest ``history`` entries of them.

    Raises CheckpointError where the folder is empty, is no checkpoint, or cannot be listed.
    """
    with reported(folder.name):
        layout = classify(folder.files(on_count))
    if layout.count == 0:
        raise CheckpointError(f"{folder.name}: the folder is empty")
    if not (layout.metadata or layout.offsets or layout.commits or layout.state):
        raise CheckpointError(
            f"{folder.name}: not a checkpoint of Spark Structured Streaming"
            " (no metadata, offsets, commits or state in it)"
        )
    unreadable: dict[str, str] = {}

    def take(path: str) -> str | None:
        try:
            return folder.read(path, MOST_ENTRY_BYTES).decode("utf-8")
        except FileNotFoundError:
            unreadable[path] = "vanished while it was read: the checkpoint is being written"
        except OSError as error:
            unreadable[path] = error.strerror or type(error).__name__
        except UnicodeDecodeError:
            unreadable[path] = "not text: truncated, damaged or foreign"
        return None

    def parse(path: str, parser: Callable[[int, str], Any], number: int) -> Any:
        text = take(path)
        if text is None:
            return None
        try:
            return parser(number, text)
        except (ValueError, msgspec.MsgspecError) as error:
            unreadable[path] = f"{error}"
            return None

    query_id = None
    if layout.metadata is not None:
        query_id = parse(layout.metadata.path, lambda _, text: _query_id(text), 0)
    offsets: dict[int, Offsets] = {}
    for batch_id in _history(layout, history):
        entry = parse(layout.offsets[batch_id].path, parse_offset_log, batch_id)
        if entry is not None:
            offsets[batch_id] = entry
    _once_each(layout, offsets)
    names = _named_alike(layout, offsets, folder)
    commits: dict[int, Commit] = {}
    for batch_id in sorted(layout.commits)[-2:]:
        committed = parse(layout.commits[batch_id].path, parse_commit, batch_id)
        if committed is not None:
            commits[batch_id] = committed
    operators: dict[int, OperatorInfo] = {}
    for schema in sorted(layout.schemas, key=lambda file: _metadata_order(file.path)):
        if re.match(r"state/\d+/_metadata/(metadata|v2/\d+)\Z", schema.path):
            info = parse(schema.path, lambda _, text: _operator(text), 0)
            if info is not None:
                operators[info.operator] = msgspec.structs.replace(info, path=schema.path)
    keyed: dict[int, bool] = {}
    for schema in layout.schemas:
        if _SCHEMA_PATH.match(schema.path):
            has_keys = _has_keys(folder, schema.path)
            if has_keys is not None:
                keyed.setdefault(int(schema.path.split("/")[1]), has_keys)
    keyed |= {info.operator: False for info in operators.values() if info.name in _ONE_PARTITION}
    return Checkpoint(
        name=folder.name,
        layout=layout,
        query_id=query_id,
        offsets=offsets,
        commits=commits,
        operators=operators,
        sources=_sources(layout, offsets, names, folder),
        unreadable=unreadable,
        keyed=keyed,
    )


def _has_keys(folder: Folder, path: str) -> bool | None:
    """Whether the state of this schema has keys; None where it does not say."""
    try:
        with folder.open(path) as file:
            found = _KEY_SCHEMA.search(file.read(_LINE_BYTES))
    except OSError:
        return None
    return None if found is None else found[1] is None


def _history(layout: Layout, most: int) -> list[int]:
    """Batches whose offsets are read, oldest first: the newest ones, and what they begin from."""
    read: list[int] = []
    room = MOST_HISTORY_BYTES
    last = {layout.latest_offset, layout.latest_offset - 1}
    last |= {layout.latest_finished, layout.latest_finished - 1}
    for batch_id in sorted(layout.offsets, reverse=True)[:most]:
        room -= layout.offsets[batch_id].size
        if room >= 0 or batch_id in last:
            read.append(batch_id)
    return read[::-1]


def parse_offset_log(batch_id: int, text: str) -> Offsets:
    """Decodes ``offsets/N``. Raises ValueError where it is truncated or of unknown form."""
    version, lines = _versioned(text, _OFFSET_VERSIONS)
    if not lines:
        raise ValueError("truncated: it ends before the metadata")
    if len(lines) - 1 > MOST_PARTS:
        raise ValueError(f"{len(lines) - 1:,} offsets: no query has so many sources")
    metadata = _object(lines[0]) if lines[0].strip() else {}
    names: list[str]
    sources: list[Any]
    if version == "v1":
        sources = [_offset(line) for line in lines[1:]]
        names = [str(index) for index in range(len(sources))]
    else:
        if len(lines) < 2:
            raise ValueError("truncated: it ends before the offsets")
        named = dict(_named_offset(line) for line in lines[1:])
        names = sorted(named, key=_source_order)
        sources = [named[name] for name in names]
    if not sources:
        raise ValueError("truncated: it ends before the offsets")
    conf = metadata.get("conf")
    return Offsets(
        batch_id=batch_id,
        log_version=version,
        sources=sources,
        names=names,
        watermark_ms=_integer(metadata.get("batchWatermarkMs")),
        timestamp_ms=_integer(metadata.get("batchTimestampMs")),
        conf={str(k): str(v) for k, v in conf.items()} if isinstance(conf, dict) else {},
    )


def parse_commit(batch_id: int, text: str) -> Commit:
    """Decodes ``commits/N``. Raises ValueError where it is truncated or of unknown form."""
    version, lines = _versioned(text, _COMMIT_VERSIONS)
    metadata = _object(lines[0]) if lines and lines[0].strip() else {}
    ids = metadata.get("stateUniqueIds")
    state_ids: dict[int, list[list[str]]] | None = None
    if isinstance(ids, dict) and ids:
        state_ids = msgspec.convert(
            {int(operator): partitions for operator, partitions in ids.items()},
            dict[int, list[list[str]]],
        )
    return Commit(
        batch_id=batch_id,
        log_version=version,
        next_watermark_ms=_integer(metadata.get("nextBatchWatermarkMs")),
        state_ids=state_ids,
    )


#: Sources that keep numbered entries of their own below ``sources/``.
_KEEPING_LOGS: Final = ("file", "kafka")


def source_kind(offset: Any) -> SourceKind:
    """The kind of a source, by the form of its offsets."""
    if offset is None:
        return "unknown"
    if isinstance(offset, int):
        return "numbered"
    if isinstance(offset, dict):
        if set(offset) == {"logOffset"}:
            return "file"
        if "reservoirId" in offset:
            return "delta"
        if {"snapshot_id", "position", "scan_all_files"} <= offset.keys():
            return "iceberg"
        if parse_offsets(offset) is not None:
            return "kafka"
        if all(key.isdigit() and isinstance(value, dict) for key, value in offset.items()):
            return "numbered"  # rate source: {"0": {"value": …, "runTimeMs": …}}
    return "other"


def gaps(numbers: Iterable[int], first: int, last: int) -> list[range]:
    """From ``first`` to ``last`` where none of the numbers are, in order.

    What is there bounds them: what is missing is as much as the name of one file says.
    """
    there = sorted({number for number in numbers if first <= number <= last})
    return [range(a + 1, b) for a, b in pairwise((first - 1, *there, last + 1)) if b - a > 1]


def how_many(numbers: Iterable[range]) -> int:
    """How many numbers are in all of them; more than ``len`` can tell, too."""
    return sum(run.stop - run.start for run in numbers)


def chain_of(entries: Iterable[LogFile], end: int) -> tuple[list[LogFile], list[range]]:
    """The entries of a source log that give it as of ``end``, and the numbers that are missing.

    The newest compacted entry at or below the end stands for all before it.
    """
    known = [entry for entry in entries if entry.batch_id <= end]
    compacted = [entry for entry in known if entry.compact]
    base = max(compacted, key=lambda entry: entry.batch_id) if compacted else None
    first = base.batch_id + 1 if base else 0
    later = {entry.batch_id: entry for entry in known if entry.batch_id >= first}
    chain = ([base] if base else []) + [later[number] for number in sorted(later)]
    return chain, gaps(later, first, end)


def earlier_compacted(entries: Iterable[LogFile], end: int) -> list[LogFile]:
    """The compacted entry before the newest up to ``end``: the two tell Spark their interval."""
    compacted = [entry for entry in entries if entry.compact and entry.batch_id <= end]
    return sorted(compacted, key=lambda entry: entry.batch_id)[-2:-1]


class Passed(msgspec.Struct, frozen=True):
    """Why a start looks for entries of a compacted log that are not there."""

    evidence: str
    sure: bool  # else a guess: the job's own setting, which no file tells, may find them


def passed_by(entries: Iterable[tuple[int, bool]]) -> Passed | None:
    """Why a start looks for entries of a compacted log that are not there; None if it finds all.

    ``entries`` are numbers, each with whether it is compacted. Spark takes the interval of
    compaction from the two newest compacted entries, or guesses it from a single one, and looks for
    the compacted entry that should then be the newest, and all after it.
    """
    known = set(entries)
    compacted = sorted(number for number, compact in known if compact)
    if not compacted:
        return None
    if len(compacted) > 1:
        interval, remedy = compacted[-1] - compacted[-2], ""
    else:
        interval = _guessed_interval(compacted[0] + 1)
        remedy = (
            " (unless its compactInterval is set otherwise: with one of"
            f" {compacted[0] + 1} or more it finds all)"
        )
    newest = max(number for number, _ in known)
    first = max(0, (newest + 1) // interval * interval - 1)
    for number in range(first, newest + 1):
        compact = (number + 1) % interval == 0
        if (number, compact) not in known:
            name = f"{number}.compact" if compact else f"{number}"
            return Passed(
                f"Spark takes its compaction interval for {interval}, since {compacted[-1]}.compact"
                + (f" comes after {compacted[-2]}.compact" if len(compacted) > 1 else " is alone")
                + f", and looks for {name}, which is not there{remedy}",
                sure=len(compacted) > 1,
            )
    return None


def _guessed_interval(count: int) -> int:
    """Spark's guess from a compacted entry that stands for ``count`` entries, where it is alone."""
    if count // 2 <= COMPACT_INTERVAL or count > _MOST_INT:
        return count
    # The least divisor from the default on: one up to the root, else what a small one leaves.
    up_to_root = range(COMPACT_INTERVAL, math.isqrt(count) + 1)
    if (found := next((n for n in up_to_root if count % n == 0), None)) is not None:
        return found
    left = (count // n for n in range(COMPACT_INTERVAL - 1, 0, -1) if count % n == 0)
    return next(n for n in left if n >= COMPACT_INTERVAL)


def log_offset(offset: Any) -> int:
    """Where a file source's log stands at an offset; -1 before its first entry."""
    if isinstance(offset, dict) and isinstance(offset.get("logOffset"), int):
        return int(offset["logOffset"])
    return -1


def _named_alike(layout: Layout, offsets: dict[int, Offsets], folder: Folder) -> list[str]:
    """Puts every batch's offsets in the newest one's order of sources, and the logs; their folders.

    Sources with names of their own may come, go, and stand in another order from batch to batch.
    """
    if not offsets:
        return []
    names = offsets[max(offsets)].names
    for batch_id, one in offsets.items():
        if one.log_version != "v1" and one.names != names:
            own = dict(zip(one.names, one.sources, strict=True))
            offsets[batch_id] = msgspec.structs.replace(
                one, names=names, sources=[own.get(name) for name in names]
            )
    logs = {str(index): log for index, log in layout.sources.items()} | layout.named_sources
    keeping = [
        at
        for at, end in enumerate(offsets[max(offsets)].sources)
        if source_kind(end) in _KEEPING_LOGS
    ]
    numbered = all(name.isdigit() for name in names)  # a name of its own is its folder's
    if numbered and any(names[at] not in logs for at in keeping):
        names = _folders_by_kind(offsets[max(offsets)].sources, names, logs, folder)
    if names != [str(at) for at in range(len(names))]:
        layout.sources = {at: logs[name] for at, name in enumerate(names) if name in logs}
    return names


def _folders_by_kind(
    newest: list[Any], names: list[str], logs: dict[str, list[LogFile]], folder: Folder
) -> list[str]:
    """The names of the sources' folders, where what the offsets call them tells of none.

    Spark numbers the folders of sources, and the offsets of version 2 by their places in the plan:
    a stream read twice has one folder, and its offset at its last place. With source evolution the
    folders have names of their own, and offsets of version 1 have none. Sure where there is one
    source of a kind.
    """
    found: dict[str, list[str]] = {kind: [] for kind in _KEEPING_LOGS}
    for name, log in logs.items():
        found["file" if _is_file_log(folder, log[0].path) else "kafka"].append(name)
    free = (str(number) for number in range(len(names) + len(logs)) if str(number) not in logs)
    mended = [next(free) if name in logs else name for name in names]
    for kind, own in found.items():
        lines = [at for at, end in enumerate(newest) if source_kind(end) == kind]
        if len(lines) != len(own) or len(own) > 1:
            return names
        for at, name in zip(lines, own, strict=True):
            mended[at] = name
    return mended


def _once_each(layout: Layout, offsets: dict[int, Offsets]) -> None:
    """Leaves out the further lines of a source that the query reads more than once (a self-union).

    Spark writes its offset for each place in the plan, but makes it once, with one folder
    (``MicroBatchExecution``: ``sources`` and ``toExecutionRelationMap``). So the last source that
    keeps a folder has a higher line than folder: by as many lines that equal an earlier one.
    """
    newest = offsets[max(offsets)] if offsets else None
    if newest is None or not all(name.isdigit() for name in newest.names):
        return
    kinds = list(map(source_kind, newest.sources))
    keeping = [at for at, kind in enumerate(kinds) if kind in ("file", "kafka", "iceberg")]
    matches = (_SOURCE_FOLDER.match(file.path) for file in layout.others)
    folders = [*layout.sources, *(int(match[1]) for match in matches if match)]
    spare = max(keeping, default=-1) - max(folders, default=-1)
    if spare <= 0:
        return
    ends = list(zip_longest(*(one.sources for one in offsets.values())))[: max(keeping) + 1]
    equal = [at for at, own in enumerate(ends) if own in ends[:at]]
    # Of what has found nothing yet all lines are equal: those that tell apart come first.
    twice = sorted(equal, key=lambda at: ends[at][-1] is None)[:spare]
    for batch_id, one in offsets.items():
        kept = [end for at, end in enumerate(one.sources) if at not in twice]
        numbers = [str(at) for at in range(len(kept))]
        offsets[batch_id] = msgspec.structs.replace(one, sources=kept, names=numbers)


def _sources(
    layout: Layout, offsets: dict[int, Offsets], names: list[str], folder: Folder
) -> list[SourceInfo]:
    newest = offsets[max(offsets)].sources if offsets else []
    count = max(len(newest), max(layout.sources, default=-1) + 1)
    found = []
    for index in range(count):
        offset = newest[index] if index < len(newest) else None
        log = layout.sources.get(index, [])
        kind = source_kind(offset)
        if kind == "unknown" and log and _is_file_log(folder, log[0].path):
            kind = "file"
        end = max((entry.batch_id for entry in log), default=None)
        name = names[index] if index < len(names) else str(index)
        began = {"logOffset": -1} if kind == "file" else None
        if kind == "kafka" and log and log[0].batch_id == 0:
            began = _first_offset(folder, log[0].path)
        found.append(SourceInfo(index, kind, end, offset, name, began))
    return found


def _first_offset(folder: Folder, path: str) -> Any:
    """Where a Kafka source began; None where its note of it cannot be read.

    Spark writes a zero byte, a line of its version, and the offset
    (KafkaSourceInitialOffsetWriter).
    """
    try:
        text = folder.read(path, MOST_ENTRY_BYTES).decode("utf-8")
        offset = _offset(text.rstrip("\n").rpartition("\n")[2].lstrip("\0"))
    except (OSError, ValueError):
        return None
    return offset if source_kind(offset) == "kafka" else None


def _is_file_log(folder: Folder, path: str) -> bool:
    try:
        first = next(file_log_entries(folder, path), {})
    except (OSError, ValueError, msgspec.MsgspecError):
        return False
    return {"path", "timestamp", "batchId"} <= first.keys()


def file_log_entries(folder: Folder, path: str) -> Iterator[dict[str, Any]]:
    """The files that an entry of a file source's or sink's log names, one after the other.

    A compacted entry names all files ever seen, so it is never in memory as a whole. Raises
    OSError, and ValueError where it is no such log.
    """
    with folder.open(path) as file:
        version = file.readline(_LINE_BYTES)
        if version.rstrip(b"\n") != b"v1":
            raise ValueError(
                f"its first line is {version[:20].decode('utf-8', 'replace')!r}, not v1"
            )
        while line := file.readline(_LINE_BYTES):
            if len(line) == _LINE_BYTES:
                raise ValueError(f"a line is longer than {_LINE_BYTES} bytes")
            if line.strip():
                yield _object(line.decode("utf-8"))


def _metadata_order(path: str) -> tuple[int, int]:
    name = path.rsplit("/", 1)[-1]
    return (0, 0) if not name.isdigit() else (1, int(name))


def _operator(text: str) -> OperatorInfo:
    _, lines = _versioned(text, _OPERATOR_VERSIONS)
    body = _object(lines[0] if lines else "")
    info, stores = body.get("operatorInfo"), body.get("stateStoreInfo")
    if not isinstance(info, dict) or not isinstance(stores, list):
        raise ValueError("operatorInfo or stateStoreInfo is missing")
    return OperatorInfo(
        operator=int(info["operatorId"]),
        name=str(info.get("operatorName", "")),
        stores={str(store["storeName"]): int(store["numPartitions"]) for store in stores},
        schemas=[str(one) for store in stores for one in store.get("stateSchemaFilePaths") or ()],
    )


def _query_id(text: str) -> str:
    value = _object(text).get("id")
    if not isinstance(value, str):
        raise ValueError("it names no id")
    return value


def _versioned(text: str, known: tuple[str, ...]) -> tuple[str, list[str]]:
    version, newline, rest = text.partition("\n")
    if not text:
        raise ValueError("empty: truncated or still being written")
    if not re.fullmatch(r"v\d+", version):
        raise ValueError(f"its first line is {version[:20]!r}, not a version such as v1")
    if version not in known:
        raise ValueError(f"log version {version} is newer than Weir knows: update Weir")
    lines = rest.split("\n") if newline else []
    while lines and not lines[-1]:
        lines.pop()
    return version, lines


def _offset(line: str) -> Any:
    if line == "-":
        return None
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError(f"an offset is no JSON: {line[:40]!r}") from None
    if _integer(log_offset(value)) is None:
        raise ValueError(f"an offset that Spark cannot hold: {line[:40]!r}")
    return value


def _named_offset(line: str) -> tuple[str, Any]:
    """A line of log version 2: ``source:offset``, in no order."""
    name, colon, offset = line.partition(":")
    if not colon:
        raise ValueError(f"truncated: an offset without its source: {line[:40]!r}")
    return name, _offset(offset)


def _object(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError(f"not JSON: truncated or damaged: {text[:40]!r}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _source_order(name: str) -> tuple[bool, int, str]:
    """Numbered sources by their numbers, then those with names of their own."""
    numbered = name.isascii() and name.isdigit() and len(name) <= 9
    return not numbered, int(name) if numbered else 0, name


def _integer(value: Any) -> int | None:
    """A whole number, of those that Spark can hold."""
    known = isinstance(value, int) and not isinstance(value, bool)
    return value if known and -_MOST_LONG <= value <= _MOST_LONG else None
