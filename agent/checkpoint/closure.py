"""Which files a version of the state needs, store by store: no more, and none missing.

A store at version V needs the newest snapshot at or below V and every change file after it (where
that snapshot cannot be read, an older one serves with the changes since, if they are all there); a
RocksDB snapshot (``V.zip``) needs the SST files and logs that its own list names. In checkpoint
format v2 the commit names the id of each store's version, and a changelog's header its lineage.
"""

from __future__ import annotations

import errno
import re
import zipfile
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.checkpoint.folder import MOST_BYTES, CheckpointError
from agent.checkpoint.layout import Checkpoint, StateFile, StoreKey, gaps, how_many
from agent.files import read_at_most
from agent.spark_codecs import Damaged, decoder_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.checkpoint.folder import Folder

    #: A snapshot, if any, and the changes after it; what of them is missing; its version.
    _Chain = tuple[list[StateFile], list[str], int | None]

_LINEAGE = re.compile(rb'\[(?:\{"version":\d{1,18},"checkpointUniqueId":"[^"]+"\},?)*\]')
_CHANGES: Final = ("delta", "changelog")
_SNAPSHOTS: Final = ("snapshot", "zip")
#: Stores that a start is told to load, of all operators and partitions together: each is a task of
#: every batch. What is told of them takes some 120 MB, whether or not a file of them is there.
MOST_STORES: Final = 100_000
#: Spark's default of spark.sql.streaming.stateStore.autoSnapshotRepair.maxChangeFileReplay: changes
#: that it replays where it passes over a snapshot that it cannot read.
MOST_REPLAYED: Final = 500
#: A changelog's header is at its very beginning.
_HEADER_BYTES: Final = 1 << 20


class Skipped(msgspec.Struct, frozen=True):
    """A snapshot that cannot be read, though an older one and the changes since are whole."""

    path: str
    why: str


class StoreClosure(msgspec.Struct, frozen=True):
    """What one store needs for one version; ``missing`` is empty where all of it is there."""

    key: StoreKey
    version: int
    files: list[str]
    bytes: int
    snapshot_version: int | None  # None: rebuilt from the first change on
    changes: int  # change files to replay at a start
    missing: list[str]
    skipped: list[Skipped] = []  # newer snapshots, without which the files are whole


class Closure(msgspec.Struct, frozen=True):
    """What all stores need for one version."""

    version: int
    stores: list[StoreClosure]

    @property
    def missing(self) -> list[str]:
        """What is missing, each with its store."""
        return [what for store in self.stores for what in store.missing]

    @property
    def files(self) -> list[str]:
        """All files, by path, each once."""
        return sorted({path for store in self.stores for path in store.files})


def state_closure(checkpoint: Checkpoint, folder: Folder, version: int) -> Closure:
    """What the state after batch ``version - 1`` needs. Reads the lists inside snapshots.

    Version 0 is the empty state: it needs nothing. Raises OSError only where a file that exists
    cannot be read for another reason than having vanished, and CheckpointError where more stores
    are told than there can be.
    """
    if version == 0:
        return Closure(version=0, stores=[])
    committed = checkpoint.commits.get(version - 1)
    stores = []
    for key in expected_stores(checkpoint, version):
        ids = None
        if committed is not None and committed.state_ids is not None:
            partitions = committed.state_ids.get(key.operator, [])
            ids = set(partitions[key.partition]) if key.partition < len(partitions) else set()
        stores.append(_store(checkpoint, folder, key, version, ids))
    return Closure(version=version, stores=stores)


def expected_stores(checkpoint: Checkpoint, version: int) -> list[StoreKey]:
    """Every store that a start loads by what the operators tell, and every one with files.

    Raises CheckpointError where more are told than there can be.
    """
    keys = {key for key in checkpoint.layout.state if checkpoint.layout.state[key]}
    seen = {(key.operator, key.store) for key in keys}
    told = {(op.operator, name): count for op in checkpoint.operators.values()
            for name, count in op.stores.items()}  # fmt: skip
    expected: set[StoreKey] = set()
    for operator, store in seen | set(told):
        own = {key for key in keys if (key.operator, key.store) == (operator, store)}
        count = _partitions(checkpoint, operator, told.get((operator, store)), keys, version)
        if count is None:
            expected |= own
        elif len(expected) + count > MOST_STORES:
            raise CheckpointError(
                f"{checkpoint.name}: state/{operator} has {count:,} partitions by its settings or"
                f" metadata, and no query loads more than {MOST_STORES:,} stores: changed by hand"
                " or damaged; start from a savepoint"
            )
        else:  # those beyond are of a time before it was given fewer (Spark 4.2, offline)
            expected |= {StoreKey(operator, partition, store) for partition in range(count)}
    return sorted(expected)


def _partitions(
    checkpoint: Checkpoint, operator: int, told: int | None, seen: set[StoreKey], version: int
) -> int | None:
    """How many partitions an operator's state has; None where nothing tells.

    The settings in the offsets come before the operator's metadata, whose version 1 keeps the
    number of the first start for good.
    """
    committed = checkpoint.commits.get(checkpoint.layout.latest_commit)
    if committed is not None and committed.state_ids and operator in committed.state_ids:
        return len(committed.state_ids[operator])
    keyed = checkpoint.keyed.get(operator)
    if keyed is False and any(
        file.version == version
        for key in seen
        if key.operator == operator and key.partition > 0
        for file in checkpoint.layout.state[key]
    ):
        keyed = True  # a batch writes its version in every partition, whatever a schema says
    if keyed is False:
        return 1
    if told is not None or keyed:
        return checkpoint.partitions or told
    # Before 3.1 there is no schema either: one partition alone may be all there is.
    several = any(key.operator == operator and key.partition > 0 for key in seen)
    return checkpoint.partitions if several else None


def _store(
    checkpoint: Checkpoint, folder: Folder, key: StoreKey, version: int, ids: set[str] | None
) -> StoreClosure:
    files = checkpoint.layout.state.get(key, [])
    if ids is not None:
        chain = _lineage_chain(folder, key, files, version, ids)
        store = _with_named(checkpoint, folder, key, version, chain)
        return _repaired(checkpoint, folder, store, files, ids) if store.missing else store
    chain = _plain_chain(key, files, version)
    newest = store = _with_named(checkpoint, folder, key, version, chain)
    skipped = []
    while store.missing and store.snapshot_version is not None:
        bad = chain[0][0]
        skipped.append(_passed_over(bad, store))
        files = [file for file in files if file is not bad]
        chain = _plain_chain(key, files, version)
        if chain[1]:  # an older snapshot needs these changes, too
            return newest
        store = _with_named(checkpoint, folder, key, version, chain)
    return newest if store.missing else msgspec.structs.replace(store, skipped=skipped)


def _repaired(
    checkpoint: Checkpoint,
    folder: Folder,
    newest: StoreClosure,
    files: list[StateFile],
    ids: set[str],
) -> StoreClosure:
    """Format v2: an older snapshot, or none, with all changes of the lineage, where they are there.

    As Spark does it (``AutoSnapshotLoader``, ``RocksDB.getFullLineage``): it fails without a
    changelog that tells of the lineage, be it of a version before the snapshot.
    """
    changes = {(file.version, file.unique_id): file for file in files if file.kind == "changelog"}
    snapshots = {(file.version, file.unique_id): file for file in files if file.kind == "zip"}
    lineage = _full_lineage(folder, changes, newest.version, ids)
    if not lineage or any(one not in changes for one in lineage):
        return newest
    along = [changes[one] for one in lineage]
    starts: list[StateFile | None] = [
        snapshots[one] for one in reversed(lineage) if one in snapshots
    ]
    # Spark tries version 0 again only where it began with a snapshot.
    if newest.version <= MOST_REPLAYED and newest.snapshot_version is not None:
        starts.append(None)
    skipped: list[Skipped] = []
    for start in starts:
        chain: _Chain
        chain = ([*along], [], None) if start is None else ([start, *along], [], start.version)
        store = _with_named(checkpoint, folder, newest.key, newest.version, chain)
        if not store.missing:
            skipped = skipped or [Skipped(newest.key.folder, newest.missing[0])]
            return msgspec.structs.replace(store, skipped=skipped)
        if start is not None:
            skipped.append(_passed_over(start, store))
    return newest


def _full_lineage(
    folder: Folder,
    changes: dict[tuple[int, str | None], StateFile],
    version: int,
    ids: set[str],
) -> list[tuple[int, str]]:
    """All versions that Spark replays at most, with their ids; empty where not all are told.

    A changelog tells those since the snapshot before it, so the oldest of them tells of more.
    """
    first = max(1, version - MOST_REPLAYED)
    chain = [(version, one) for one in ids if (version, one) in changes][:1]
    while chain and chain[0][0] > first:
        if chain[0] not in changes:
            return []
        try:
            with folder.open(changes[chain[0]].path) as changelog:
                told = read_lineage(changelog.read(_HEADER_BYTES)) or []
        except FileNotFoundError:
            return []
        more = sorted(one for one in told if first <= one[0] < chain[0][0])
        if not more:
            return []
        chain = [*more, *chain]
    whole = [number for number, _ in chain] == list(range(first, version + 1))
    return chain if whole else []


def _passed_over(snapshot: StateFile, store: StoreClosure) -> Skipped:
    more = f", and {len(store.missing) - 1} more" if len(store.missing) > 1 else ""
    return Skipped(snapshot.path, store.missing[0] + more)


def _with_named(
    checkpoint: Checkpoint, folder: Folder, key: StoreKey, version: int, chain: _Chain
) -> StoreClosure:
    """What a chain needs with all that its snapshot names."""
    chosen, missing, snapshot = chain
    missing = list(missing)
    shared = {file.path: file.size for file in checkpoint.layout.shared.get(key, [])}
    paths = [file.path for file in chosen]
    size = sum(file.size for file in chosen)
    for file in chosen:
        if file.kind == "snapshot" and file.size == 0:
            missing.append(f"{file.path}: empty")
        if file.kind != "zip":
            continue
        named, problem = snapshot_contents(folder, file)
        if problem:
            missing.append(problem)
        for path, expected in named:
            if path not in shared:
                missing.append(f"{path}, which {file.path} names")
            elif expected is not None and shared[path] != expected:
                missing.append(f"{path}: {shared[path]} bytes, {file.path} says {expected}")
            else:
                paths.append(path)
                size += shared[path]
    for path in list(paths):
        for companion in checkpoint.layout.companions(path):
            paths.append(companion.path)
            size += companion.size
    return StoreClosure(
        key=key,
        version=version,
        files=sorted(set(paths)),
        bytes=size,
        snapshot_version=snapshot,
        changes=sum(file.kind in _CHANGES and file.version > (snapshot or 0) for file in chosen),
        missing=missing,
    )


def _plain_chain(key: StoreKey, files: Iterable[StateFile], version: int) -> _Chain:
    """Format v1: the newest snapshot at or below the version, then every change after it."""
    by_kind = {
        kind: {f.version: f for f in files if f.kind in kind} for kind in (_SNAPSHOTS, _CHANGES)
    }
    snapshots, changes = by_kind[_SNAPSHOTS], by_kind[_CHANGES]
    base = max((v for v in snapshots if v <= version), default=None)
    first = (base or 0) + 1
    chosen = [snapshots[base]] if base is not None else []
    chosen += [changes[number] for number in sorted(changes) if first <= number <= version]
    missing = []
    if gone := gaps(changes, first, version):
        since = f"snapshot {base}" if base is not None else "the first version (no snapshot)"
        span, count = f"{gone[0].start}", how_many(gone)
        if count > 1:
            span += f" to {gone[-1].stop - 1} ({count} of them)"
        missing.append(
            f"{key.folder}: version {version} needs the changes since {since}; missing: {span}"
        )
    return chosen, missing, base


def _lineage_chain(
    folder: Folder, key: StoreKey, files: list[StateFile], version: int, ids: set[str]
) -> _Chain:
    """Format v2: from the version's own id back along its lineage to a snapshot."""
    table = {(f.version, f.unique_id, f.kind): f for f in files}
    own = next(
        (i for i in ids if any((version, i, k) in table for k in ("zip", "changelog"))), None
    )
    if own is None:
        named = ", ".join(sorted(ids)) or "none"
        return [], [f"{key.folder}: no file of version {version} under its id ({named})"], None
    if zipped := table.get((version, own, "zip")):
        return [zipped], [], version
    last = table[version, own, "changelog"]
    try:
        with folder.open(last.path) as changelog:
            lineage = read_lineage(changelog.read(_HEADER_BYTES))
    except FileNotFoundError:
        return [last], [f"{last.path} vanished while it was read"], None
    if lineage is None:
        # Of a compression that cannot be read, as lzf: every file up to the version may be of the
        # lineage, and of each version since the newest snapshot there is to be one.
        kept = [file for file in files if file.version <= version]
        _, missing, snapshot = _plain_chain(key, kept, version)
        return kept, missing, snapshot
    chain = [*lineage, (version, own)]
    start = max((i for i, (v, u) in enumerate(chain) if (v, u, "zip") in table), default=None)
    if start is None and chain[0][0] > 1:
        return [last], [f"{key.folder}: no snapshot along the lineage of version {version}"], None
    chosen, missing = [], []
    if start is not None:
        chosen.append(table[chain[start][0], chain[start][1], "zip"])
    for number, unique_id in chain[0 if start is None else start + 1 :]:
        file = table.get((number, unique_id, "changelog"))
        if file is None:
            missing.append(f"{key.folder}/{number}_{unique_id}.changelog")
        else:
            chosen.append(file)
    return chosen, missing, None if start is None else chain[start][0]


def read_lineage(head: bytes) -> list[tuple[int, str]] | None:
    """The (version, id) pairs in a changelog's header; None where it cannot be read."""
    decoder = decoder_of(head)
    if decoder is None:
        return None
    text = b""
    try:
        for piece in decoder.pieces(head):
            text += piece
            if len(text) >= _HEADER_BYTES:
                break
    except Damaged:
        return None
    match = _LINEAGE.search(text)
    if match is None:
        return None
    pairs = msgspec.json.decode(match[0])
    return [(int(pair["version"]), str(pair["checkpointUniqueId"])) for pair in pairs]


def snapshot_contents(
    folder: Folder, snapshot: StateFile
) -> tuple[list[tuple[str, int | None]], str | None]:
    """The shared files a RocksDB snapshot names, as (path, bytes); and what is wrong with it."""
    base = snapshot.path.rsplit("/", 1)[0]
    try:
        with (
            zipfile.ZipFile(BytesIO(folder.read(snapshot.path))) as archive,
            archive.open("metadata") as listing,
        ):
            text = read_at_most(listing, MOST_BYTES, f"{snapshot.path}: metadata").decode("utf-8")
    except FileNotFoundError:
        return [], f"{snapshot.path} vanished while it was read"
    except OSError as error:
        if error.errno not in (errno.EFBIG, errno.EINVAL):
            raise
        return [], f"{snapshot.path}: {error.strerror}"
    except (
        *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError),
        *(KeyError, ValueError, EOFError),
    ):
        return [], f"{snapshot.path}: not a whole RocksDB snapshot (truncated or damaged)"
    try:
        listed: Any = msgspec.json.decode(text.partition("\n")[2])
        named: list[tuple[str, int | None]] = [
            (f"{base}/SSTs/{file['dfsSstFileName']}", int(file["sizeBytes"]))
            for file in listed.get("sstFiles") or ()
        ]
        named += [
            (f"{base}/logs/{file['dfsLogFileName']}", int(file["sizeBytes"]))
            for file in listed.get("logFiles") or ()
        ]
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError):
        return [], f"{snapshot.path}: its list of files is of unknown form"
    return named, None
