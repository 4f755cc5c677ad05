"""Takes a verified copy of a checkpoint at its newest commit, while the query runs.

The order makes the copy whole whatever the query does meanwhile: the state of the committed batch
first, since the query removes old state soonest; then the sources' logs, the offsets, the commit,
and the query's id last. A file that vanishes meanwhile means that the query has moved on: the copy
begins again at the newer commit. It takes its name only when it is whole, verified and on the disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from agent.checkpoint.closure import state_closure
from agent.checkpoint.folder import (
    MOST_BYTES,
    CheckpointError,
    Folder,
    LocalFolder,
    refuse_later_form,
    reported,
)
from agent.checkpoint.layout import (
    MANIFEST,
    Checkpoint,
    chain_of,
    earlier_compacted,
    log_offset,
    read_checkpoint,
)
from agent.checkpoint.lock import locked_by
from agent.checkpoint.soundness import CHANGED, checksums_match, damage, judge, sums_of
from agent.files import read_regular, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ATTEMPTS: Final = 10
#: A query that moves on changes its folder; where nothing changes over so many, nothing will.
ATTEMPTS_UNCHANGED: Final = 3
#: What connectors keep of their sources' schemas, below the checkpoint where the job says so:
#: Delta's schemaTrackingLocation, Auto Loader's cloudFiles.schemaLocation.
_SCHEMA_LOG: Final = re.compile(r"(.+/)?(_schema_log_[^/]+|_schemas)/[^/]+")
_BLOCK: Final = 1 << 20


class CopiedFile(msgspec.Struct, frozen=True):
    """One file of a savepoint."""

    path: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a savepoint holds; a start from it plans batch ``batch_id + 1``."""

    weir_savepoint: int  # version of this form
    created: str
    source: str
    query_id: str | None
    batch_id: int
    state_version: int
    conf: dict[str, str]
    files: list[CopiedFile]
    #: The only address at which it starts, where a schema is tied to it: of its state, or of a
    #: source (Delta).
    starts_at: str | None = None

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class Moved(Exception):  # noqa: N818
    """The query has moved on while its checkpoint was copied."""


def take_savepoint(
    folder: Folder,
    destination: Path,
    *,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    on_step: Callable[[str], None] | None = None,
) -> Manifest:
    """Copies, verifies and names a savepoint. Raises CheckpointError; then nothing is left of it.

    But where all is done and its name alone cannot be flushed to the disk: then it says so.
    ``on_step`` is told of each step before it is taken.
    """
    say = on_step or (lambda _: None)
    _refuse_existing(destination)
    first = read_checkpoint(folder)
    _refuse_unready(first)
    with _workspace(destination) as work:
        manifest = _copy_until_whole(folder, work, first, now=now, sleep=sleep, say=say)
        say("verify")
        _verify(work, manifest)
        say("manifest")
        with reported(str(work)):
            _write(work / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
            _sync_tree(work)
        say("name")
        _refuse_existing(destination)
        with reported(str(destination)):
            work.rename(destination)
        try:
            sync_folder(destination.parent)
        except OSError as error:
            raise CheckpointError(
                f"{destination.parent}: {error.strerror}; the savepoint is there and whole, but its"
                " name may not outlast a machine that dies now"
            ) from None
    say("done")
    return manifest


def _copy_until_whole(
    folder: Folder,
    work: Path,
    first: Checkpoint,
    *,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    say: Callable[[str], None],
) -> Manifest:
    reason = ""
    seen: list[tuple[str, int, float, int]] = []
    for attempt in range(ATTEMPTS):
        if len(seen) >= ATTEMPTS_UNCHANGED and len(set(seen[-ATTEMPTS_UNCHANGED:])) == 1:
            break
        if attempt:
            sleep(min(0.1 * 2**attempt, 2.0))
        _empty(work)
        say(f"attempt {attempt}")
        checkpoint = read_checkpoint(folder) if attempt else first
        try:
            wanted = files_of(checkpoint, folder)
            copied = []
            for path in wanted:
                say(f"copy {path}")
                copied.append(_copy(folder, path, work))
            _check_sums(work, copied, partial(damage, checkpoint, folder))
        except Moved as error:
            reason = str(error)
        except OSError as error:
            # What another machine deletes while it is read has a stale handle, on NFS.
            if not isinstance(error, FileNotFoundError) and error.errno != errno.ESTALE:
                named = f"{error.filename or work}: {error.strerror or error}"
                raise CheckpointError(named) from None
            reason = str(error)
        else:
            batch_id = checkpoint.layout.latest_commit
            moment = datetime.fromtimestamp(now(), timezone.utc)
            return Manifest(
                weir_savepoint=1,
                created=moment.isoformat(timespec="seconds").replace("+00:00", "Z"),
                source=folder.name,
                query_id=checkpoint.query_id,
                batch_id=batch_id,
                state_version=batch_id + 1,
                conf=checkpoint.offsets[batch_id].conf,
                files=copied,
                starts_at=_starts_at(checkpoint, work, wanted),
            )
        layout = checkpoint.layout
        seen.append((reason, layout.latest_commit, layout.newest, layout.count))
    raise CheckpointError(
        f"{folder.name}: no whole copy in {len(seen)} attempts; the last one: {reason}"
    )


def _starts_at(checkpoint: Checkpoint, work: Path, copied: list[str]) -> str | None:
    """The address that the state's schema is named by, or that a Delta source's schema log notes.

    Delta notes the address of the source's folder, and starts at no other.
    """
    for info in checkpoint.operators.values():
        for root, _ in info.schema_places:
            return root
    for path in copied:
        if "_schema_log_" not in path or path.endswith(".crc"):
            continue
        try:
            lines = read_regular(work / path, MOST_BYTES).splitlines()
            noted = msgspec.json.decode(lines[-1])["sourceMetadataPath"]
            root, found, _ = noted.rpartition("/sources/")
        except (IndexError, KeyError, TypeError, AttributeError, msgspec.MsgspecError):
            continue  # of a form that is not known: copied as it is
        if found:
            return str(root)
    return None


def read_manifest(savepoint: Path) -> Manifest:
    """What a savepoint says of itself. Raises CheckpointError."""
    path = savepoint / MANIFEST
    try:
        data = read_regular(path, MOST_BYTES)
        refuse_later_form(data, "weir_savepoint")
        return msgspec.json.decode(data, type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(f"{savepoint}: not a savepoint: it has no {MANIFEST}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, CheckpointError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def files_of(checkpoint: Checkpoint, folder: Folder) -> list[str]:
    """What a savepoint at the newest commit needs, in the order of copying.

    Raises Moved where something is missing that the query may have replaced meanwhile, and
    CheckpointError where no savepoint can be taken.
    """
    layout = checkpoint.layout
    batch_id = layout.latest_commit
    _refuse_unready(checkpoint)
    needed = [batch_id - 1, batch_id] if batch_id > 0 else [batch_id]
    for number in needed:
        if number not in checkpoint.offsets:
            raise Moved(f"offsets/{number} is missing or unreadable")
    if batch_id not in checkpoint.commits:
        raise Moved(f"commits/{batch_id} is unreadable")
    assert layout.metadata is not None
    for path in (layout.metadata.path, *(file.path for file in layout.schemas)):
        if path in checkpoint.unreadable:
            raise Moved(f"{path}: {checkpoint.unreadable[path]}")
    here = {file.path for file in layout.schemas}
    for info in checkpoint.operators.values():
        for root, below in info.schema_places:
            if below not in here:
                raise Moved(f"{info.path} names {below or root}, which is not in this folder")
    closure = state_closure(checkpoint, folder, batch_id + 1)
    if closure.missing:
        raise Moved(closure.missing[0])
    paths = [*closure.files, *(file.path for file in layout.schemas)]
    paths += _source_files(checkpoint, batch_id)
    paths += [layout.offsets[number].path for number in needed]
    paths += [layout.commits[batch_id].path, layout.metadata.path]
    return _with_checksums(checkpoint, paths)


def _refuse_unready(checkpoint: Checkpoint) -> None:
    if not checkpoint.layout.commits and checkpoint.layout.latest_finished >= 0:
        raise CheckpointError(
            f"{checkpoint.name}: no commits: Spark before 2.2 wrote none, or they were removed; let"
            " a newer Spark finish one batch on it first"
        )
    if checkpoint.layout.latest_commit < 0:
        raise CheckpointError(
            f"{checkpoint.name}: no batch is committed yet; there is nothing to keep"
        )
    if checkpoint.layout.metadata is None:
        raise CheckpointError(f"{checkpoint.name}: the file metadata is missing")


def _source_files(checkpoint: Checkpoint, batch_id: int) -> list[str]:
    layout = checkpoint.layout
    offsets = checkpoint.offsets[batch_id].sources
    paths = [
        file.path
        for file in layout.others
        if file.path.startswith("sources/") or _SCHEMA_LOG.fullmatch(file.path)
    ]
    for source in checkpoint.sources:
        entries = layout.sources.get(source.index, [])
        if source.kind != "file":
            paths += [entry.path for entry in entries]
            continue
        end = log_offset(offsets[source.index] if source.index < len(offsets) else None)
        chain, missing = chain_of(entries, end)
        if missing:
            raise Moved(f"{source.folder}/{missing[0].start} is missing")
        if empty := [entry.path for entry in chain if entry.size == 0]:
            raise Moved(f"{empty[0]} is empty")
        paths += [entry.path for entry in (*earlier_compacted(entries, end), *chain)]
    return paths


def _with_checksums(checkpoint: Checkpoint, paths: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for path in paths:
        found.update(dict.fromkeys(file.path for file in checkpoint.layout.companions(path)))
        found[path] = None
    return list(found)


def _copy(folder: Folder, path: str, work: Path) -> CopiedFile:
    target = work / path
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with folder.open(path) as source, target.open("xb") as copy:
        while block := source.read(_BLOCK):
            digest.update(block)
            size += len(block)
            copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())
    return CopiedFile(path=path, size=size, sha256=digest.hexdigest())


def _check_sums(
    work: Path, copied: list[CopiedFile], damage_of: Callable[[str], str | None]
) -> None:
    """Compares each copy with its Hadoop checksums, where it has them.

    Offsets that do not match them where they were copied from are saved as they are: Spark starts
    on them.
    """
    known = {file.path for file in copied}
    for file in copied:
        sums = sums_of(file.path)
        if sums not in known:
            continue
        with (work / file.path).open("rb") as copy:
            whole = checksums_match(copy, read_regular(work / sums, MOST_BYTES))
        as_it_is = file.path.startswith("offsets/") and damage_of(file.path) == CHANGED
        if not (whole or as_it_is):
            raise Moved(f"{file.path} does not match its checksums")


def _verify(work: Path, manifest: Manifest) -> None:
    copy = LocalFolder(work)
    checkpoint = read_checkpoint(copy)
    soundness = judge(checkpoint, copy, deep=True)
    if not soundness.sound:
        raise CheckpointError(f"the copy is not sound: {soundness.errors[0].evidence}")
    if soundness.restart.batch_id != manifest.batch_id + 1:
        raise CheckpointError(f"the copy would restart otherwise: {soundness.restart.detail}")


def _refuse_existing(destination: Path) -> None:
    with reported(str(destination)):
        if not os.path.lexists(destination):
            return
        if destination.is_dir() and not destination.is_symlink() and not any(destination.iterdir()):
            return
    raise CheckpointError(f"{destination}: exists already; a savepoint never overwrites")


@contextmanager
def _workspace(destination: Path) -> Iterator[Path]:
    """A folder beside the destination, of one savepoint at a time; removed unless renamed."""
    work = destination.parent / f".weir-savepoint-{destination.name}"
    with reported(str(destination)):
        above = [folder for folder in destination.parents if not folder.exists()]
        destination.parent.mkdir(parents=True, exist_ok=True)
        for folder in above:
            sync_folder(folder.parent)
    lock = destination.parent / f".weir-lock-{destination.name}"
    with locked_by(lock, str(destination), "savepoint"):
        with reported(str(destination)):
            work.mkdir(exist_ok=True)
            status = work.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise CheckpointError(f"{work}: not a folder of weir savepoint's")
        if status.st_uid != os.geteuid():
            raise CheckpointError(f"{work}: another user's; it would be emptied")
        try:
            yield work
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise


def _empty(work: Path) -> None:
    """Removes what an earlier attempt, or a run that was killed, left behind."""
    with reported(str(work)):
        for entry in work.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _sync_tree(folder: Path) -> None:
    for current, _, _ in os.walk(folder, topdown=False):
        sync_folder(current)
