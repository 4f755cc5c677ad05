"""Moves files aside and back, so that being killed at any step does no harm.

The whole list of moves is on the disk before the first one, in ``.weir-rescue-<time>/journal``
inside the checkpoint; files go to ``files/`` beside it under their own paths. Whether a move was
made is seen from where the file is, so nothing needs writing in between.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

import msgspec

from agent.checkpoint.folder import CheckpointError, reported
from agent.checkpoint.rescue import GROUPS, Move, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PREFIX: Final = ".weir-rescue-"
_JOURNAL: Final = "journal"
_FILES: Final = "files"


class Journal(msgspec.Struct, frozen=True):
    """What a rescue set out to move."""

    weir_rescue: int  # version of this form
    created: str
    query_id: str | None
    base_batch: int
    open_batch: int | None
    moves: list[Move]


class Rescue(msgspec.Struct, frozen=True):
    """A journal found in a checkpoint, and how far it got."""

    folder: str  # its name below the checkpoint
    journal: Journal
    waiting: list[Move]  # still in place
    moved: list[Move]  # aside
    conflicts: list[str]  # in both places, or in neither


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Keeps a second rescue of the same checkpoint out; freed even if this process is killed."""
    with reported(str(root)):
        handle = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(f"{root}: another rescue is at work on it") from None
        except OSError:
            # Some network file systems have no locks; the journal alone must do there.
            pass
        yield
    finally:
        os.close(handle)


def find_rescues(root: Path) -> list[Rescue]:
    """Rescues whose journal is in the checkpoint, oldest first. Raises CheckpointError."""
    found = []
    for folder in sorted(root.glob(_PREFIX + "*")):
        path = folder / _JOURNAL
        try:
            journal = msgspec.json.decode(path.read_bytes(), type=Journal)
        except FileNotFoundError:
            continue  # killed before its journal was whole: nothing was moved
        except (msgspec.MsgspecError, OSError) as error:
            raise CheckpointError(f"{path}: not a journal of this version: {error}") from None
        waiting, moved, conflicts = [], [], []
        for move in journal.moves:
            here = os.path.lexists(root / move.path)
            aside = os.path.lexists(folder / _FILES / move.path)
            if here == aside:
                conflicts.append(move.path)
            elif here:
                waiting.append(move)
            else:
                moved.append(move)
        found.append(Rescue(folder.name, journal, waiting, moved, conflicts))
    return found


def apply_plan(
    root: Path, plan: Plan, *, now: float, on_step: Callable[[str], None] | None = None
) -> str:
    """Makes the plan's moves; the journal's folder. All are undone where one cannot be made.

    ``on_step`` is told of each step before it is taken. Raises CheckpointError.
    """
    say = on_step or (lambda _: None)
    say("begin")
    folder = _new_folder(root, now)
    try:
        say("journal")
        _write_journal(folder, plan, now)
        for move in plan.moves:
            (folder / _FILES / move.path).parent.mkdir(parents=True, exist_ok=True)
        _sync_tree(folder)
        _sync(root)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CheckpointError(
            f"{folder}: the journal cannot be written: {error.strerror}; nothing was moved"
        ) from None
    _move_all(root, folder, plan.moves, say)
    return folder.name


def resume(root: Path, rescue: Rescue, on_step: Callable[[str], None] | None = None) -> None:
    """Makes the moves that a killed rescue left out. Raises CheckpointError."""
    _move_all(root, root / rescue.folder, rescue.waiting, on_step or (lambda _: None))


def undo(root: Path, rescue: Rescue, on_step: Callable[[str], None] | None = None) -> None:
    """Moves everything back, in the opposite order, then removes the journal.

    Raises CheckpointError where a file cannot be moved back; what was moved so far stays, and the
    rest can be tried again.
    """
    say = on_step or (lambda _: None)
    folder = root / rescue.folder
    try:
        for group in reversed(GROUPS):
            for move in reversed(rescue.moved):
                if move.group == group:
                    say(f"back {move.path}")
                    _rename(folder / _FILES / move.path, root / move.path, sync=group != "state")
            _sync_parents(root, [move for move in rescue.moved if move.group == group])
        say("remove")
        sweep(root)
    except OSError as error:
        raise CheckpointError(
            f"{error.filename or root}: {error.strerror}; some files are still aside:"
            " run --undo again"
        ) from None


def sweep(root: Path) -> None:
    """Removes the folders of rescues that have nothing aside. Raises OSError."""
    for folder in root.glob(_PREFIX + "*"):
        aside = folder / _FILES
        kept = any(os.path.lexists(aside / move.path) for move in _listed(folder))
        if not kept and not any(path.is_file() for path in aside.rglob("*")):
            shutil.rmtree(aside, ignore_errors=True)
            shutil.rmtree(folder)
            _sync(root)


def _listed(folder: Path) -> list[Move]:
    try:
        return msgspec.json.decode((folder / _JOURNAL).read_bytes(), type=Journal).moves
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"{folder}: its journal cannot be read: {error}") from None


def _move_all(root: Path, folder: Path, moves: list[Move], say: Callable[[str], None]) -> None:
    made: list[Move] = []
    try:
        for group in GROUPS:
            chosen = [move for move in moves if move.group == group]
            for move in chosen:
                say(f"move {move.path}")
                _check_unchanged(root / move.path, move)
                _rename(root / move.path, folder / _FILES / move.path, sync=group != "state")
                made.append(move)
            _sync_parents(root, chosen)
        say("done")
    except (OSError, CheckpointError) as error:
        _take_back(root, folder, made)
        if isinstance(error, CheckpointError):
            raise CheckpointError(f"{error}; nothing was moved") from None
        raise CheckpointError(
            f"{error.filename or root}: {error.strerror}; nothing was moved"
        ) from None


def _check_unchanged(path: Path, move: Move) -> None:
    status = path.stat()
    if not move.folder and (status.st_size, status.st_mtime) != (move.size, move.modified):
        raise CheckpointError(f"{path}: changed since it was looked at: a query writes here")


def _take_back(root: Path, folder: Path, made: list[Move]) -> None:
    for move in reversed(made):
        _rename(folder / _FILES / move.path, root / move.path, sync=False)
    _sync_parents(root, made)
    shutil.rmtree(folder / _FILES, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _new_folder(root: Path, now: float) -> Path:
    stamp = datetime.fromtimestamp(now, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        folder = root / f"{_PREFIX}{stamp}{suffix}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise CheckpointError(
                f"{root}: cannot be written to: {error.strerror}; nothing was moved"
            ) from None
        return folder
    raise CheckpointError(f"{root}: too many rescues at the same second")


def _write_journal(folder: Path, plan: Plan, now: float) -> None:
    journal = Journal(
        weir_rescue=1,
        created=datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="seconds"),
        query_id=plan.query_id,
        base_batch=plan.base_batch,
        open_batch=plan.open_batch,
        moves=plan.moves,
    )
    partial = folder / (_JOURNAL + ".part")
    with partial.open("xb") as file:
        file.write(msgspec.json.encode(journal) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    partial.rename(folder / _JOURNAL)
    _sync(folder)


def _rename(source: Path, target: Path, *, sync: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target):
        raise FileExistsError(17, "exists already", str(target))
    source.rename(target)
    if sync:
        _sync(source.parent)
        _sync(target.parent)


def _sync_parents(root: Path, moves: list[Move]) -> None:
    for parent in {(root / move.path).parent for move in moves}:
        _sync(parent)


def _sync_tree(folder: Path) -> None:
    for current, _, _ in os.walk(folder, topdown=False):
        _sync(current)


def _sync(folder: Path | str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
