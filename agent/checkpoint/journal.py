"""Moves files aside and back, so that being killed at any step does no harm.

The whole list of moves is on the disk before the first one, in ``.weir-rescue-<time>/journal``
inside the checkpoint; files go to ``files/`` beside it under their own paths. Whether a move was
made is seen from where the file is, so nothing needs writing in between.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

import msgspec

from agent.checkpoint.folder import CheckpointError, refuse_later_form
from agent.checkpoint.lock import locked_by
from agent.checkpoint.rescue import GROUPS, Move, Plan
from agent.files import read_regular, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

_PREFIX: Final = ".weir-rescue-"
_CLOCK: Final = ".weir-clock-"
_LOCK: Final = ".weir-lock"
_JOURNAL: Final = "journal"
_FILES: Final = "files"
#: What a rescue moves, and nothing else.
_MOVED: Final = ("state", "offsets", "commits", "sources")
#: A journal takes some 150 bytes a file: of 400,000 files that the open batch has left.
MOST_JOURNAL_BYTES: Final = 64 << 20
#: Bytes compared at a time: a snapshot of the state may be larger than the memory.
_COMPARED_BYTES: Final = 1 << 20


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


def locked(root: Path) -> AbstractContextManager[None]:
    """Keeps a second rescue of the same checkpoint out. Raises CheckpointError."""
    return locked_by(root / _LOCK, str(root), "rescue")


def storage_time(root: Path) -> float:
    """Now, in epoch seconds, by the clock that dates the checkpoint's files: a server's, perhaps.

    By this machine's where no file can be made there.
    """
    try:
        with tempfile.NamedTemporaryFile(prefix=_CLOCK, dir=root) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def find_rescues(root: Path) -> list[Rescue]:
    """Rescues whose journal is in the checkpoint, oldest first. Raises CheckpointError."""
    found = []
    for folder in left_by_rescues(root):
        journal = _read(root, folder)
        if journal is None:
            continue  # killed before its journal was whole: nothing was moved
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
    for move in plan.moves:
        _check_place(root, move)
    folder = _new_folder(root, now)
    try:
        say("journal")
        _write_journal(folder, plan, now)
        for move in plan.moves:
            (folder / _FILES / move.path).parent.mkdir(parents=True, exist_ok=True)
        _sync_tree(folder)
        sync_folder(root)
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
    try:
        for group in reversed(GROUPS):
            for move in reversed(rescue.moved):
                if move.group == group:
                    say(f"back {move.path}")
                    aside = f"{rescue.folder}/{_FILES}/{move.path}"
                    _rename(root, aside, move.path, sync=group != "state")
            _sync_parents(root, [move for move in rescue.moved if move.group == group])
        say("remove")
        sweep(root)
    except OSError as error:
        raise CheckpointError(
            f"{error.filename or root}: {error.strerror}; some files are still aside:"
            " run --undo again"
        ) from None


def sweep(root: Path) -> None:
    """Removes copies of unfinished moves, and folders that have nothing aside. Raises OSError."""
    for folder in left_by_rescues(root):
        _remove_copies(root, folder)
        _remove_empty(root, folder)


def _remove_copies(root: Path, folder: Path) -> None:
    """Removes aside what is all in place: a mount of a store moves by copy and delete."""
    journal = _read(root, folder)
    for move in journal.moves if journal else []:
        aside = folder / _FILES / move.path
        if _begins(aside, root / move.path):
            aside.unlink()


def torn(root: Path, rescue: Rescue) -> list[str]:
    """What is in place only up to some byte and whole aside: an undo was killed as it copied it.

    Paths of moves; a folder is one if any file in it is. Raises OSError.
    """
    aside = root / rescue.folder / _FILES
    found = []
    for path in rescue.conflicts:
        place = aside / path
        files = place.rglob("*") if _mode(place, stat.S_ISDIR) else [place]
        if any(_begins(root / file.relative_to(aside), file, less=True) for file in files):
            found.append(path)
    return found


def _begins(path: Path, other: Path, *, less: bool = False) -> bool:
    """Whether all that is in a file is how another begins; with ``less`` not all of that one."""
    if not (_mode(path, stat.S_ISREG) and _mode(other, stat.S_ISREG)):
        return False
    size, others = path.stat().st_size, other.stat().st_size
    if size > others or (less and size == others):
        return False
    with path.open("rb") as one, other.open("rb") as two:
        while part := one.read(_COMPARED_BYTES):
            if part != two.read(len(part)):
                return False
    return True


def _mode(path: Path, is_so: Callable[[int], bool]) -> bool:
    try:
        return is_so(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _remove_empty(root: Path, folder: Path) -> None:
    """Removes a rescue's folder unless it has something aside. Raises OSError."""
    aside = folder / _FILES
    journal = _read(root, folder)
    moves = journal.moves if journal else []
    kept = any(os.path.lexists(aside / move.path) for move in moves)
    if not kept and all(path.is_dir() and not path.is_symlink() for path in aside.rglob("*")):
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(folder)
        sync_folder(root)


def left_by_rescues(root: Path) -> list[Path]:
    """The folders of rescues, oldest first. Raises CheckpointError where one is none."""
    found = sorted(root.glob(_PREFIX + "*"))
    for folder in found:
        if folder.is_symlink() or not folder.is_dir():
            raise CheckpointError(f"{folder}: not a folder, so no rescue made it: remove it")
    return found


def _read(root: Path, folder: Path) -> Journal | None:
    """A rescue's journal; None where it has none. Raises CheckpointError.

    Whoever may write to the checkpoint may have written the journal, and whoever runs this may
    write elsewhere too: it may name nothing that a rescue would not move.
    """
    path = folder / _JOURNAL
    try:
        data = read_regular(path, MOST_JOURNAL_BYTES)
        refuse_later_form(data, "weir_rescue")
        journal = msgspec.json.decode(data, type=Journal)
        for move in journal.moves:
            _check_place(root, move)
            _check_place(folder, move, _FILES)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, OSError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(f"{path}: not a journal of this version: {said}") from None
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}; nothing was moved") from None
    return journal


def _check_place(root: Path, move: Move, *below: str) -> None:
    """Raises CheckpointError where a move leads out of the folder, be it by a link."""
    parts = move.path.split("/")
    if parts[0] not in _MOVED or not all(parts) or {".", ".."} & set(parts) or "\0" in move.path:
        raise CheckpointError(f"names {move.path!r}, which no rescue moves")
    place = root
    for part in (*below, *parts[:-1]):
        place /= part
        if place.is_symlink():
            raise CheckpointError(f"{place} is a link: a rescue moves nothing through it")


def _move_all(root: Path, folder: Path, moves: list[Move], say: Callable[[str], None]) -> None:
    made: list[Move] = []
    try:
        for group in GROUPS:
            chosen = [move for move in moves if move.group == group]
            for move in chosen:
                say(f"move {move.path}")
                _check_unchanged(root / move.path, move)
                (folder / _JOURNAL).lstat()  # nothing moves without: it may have been removed
                aside = f"{folder.name}/{_FILES}/{move.path}"
                made.append(move)  # first: it may fail once the file is aside
                _rename(root, move.path, aside, sync=group != "state")
            _sync_parents(root, chosen)
        say("done")
    except (OSError, CheckpointError) as error:
        said = str(error)
        if isinstance(error, OSError):
            said = f"{error.filename or root}: {error.strerror}"
        try:
            _take_back(root, folder, made)
        except (OSError, CheckpointError):
            left = True  # the journal says what to move back
        else:
            left = os.path.lexists(folder)
        gone = [
            move.path
            for move in made
            if not os.path.lexists(root / move.path)
            and not os.path.lexists(folder / _FILES / move.path)
        ]
        after = (
            "some files are still aside: --undo moves them back" if left else "nothing was moved"
        )
        if gone:
            after = (
                f"gone meanwhile, from {root} and from {folder}: {', '.join(gone)}; restore them"
            )
        raise CheckpointError(f"{said}; {after}") from None


def _check_unchanged(path: Path, move: Move) -> None:
    status = path.lstat()
    if not move.folder and (status.st_size, status.st_mtime) != (move.size, move.modified):
        raise CheckpointError(f"{path}: changed since it was looked at: a query writes here")


def _take_back(root: Path, folder: Path, made: list[Move]) -> None:
    """Moves back what is aside of these; the folder goes unless an earlier try left more in it."""
    for move in reversed(made):
        if _is_there(folder / _FILES / move.path):
            _rename(root, f"{folder.name}/{_FILES}/{move.path}", move.path, sync=False)
    _sync_parents(root, made)
    if folder.exists():
        _remove_empty(root, folder)


def _is_there(path: Path) -> bool:
    """Raises OSError where that is not known: os.path.lexists takes that for no."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


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
    sync_folder(folder)


def _rename(root: Path, source: str, target: str, *, sync: bool) -> None:
    """Moves a file within a folder; never through a link, whoever puts one there meanwhile."""
    with _opened(root, source) as (here, name), _opened(root, target, make=True) as (there, new):
        try:
            os.stat(new, dir_fd=there, follow_symlinks=False)
        except FileNotFoundError:
            pass
        else:
            raise FileExistsError(17, "exists already", str(root / target))
        try:
            os.rename(name, new, src_dir_fd=here, dst_dir_fd=there)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(root / source)) from None
        if sync:
            sync_folder(here)
            sync_folder(there)


@contextmanager
def _opened(root: Path, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """A file's folder, opened without following any link below ``root``, and the file's name."""
    *folders, name = path.split("/")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(root, flags)
    try:
        for folder in folders:
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=handle)
                inner = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=handle)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(root / path)) from None
            os.close(handle)
            handle = inner
        yield handle, name
    finally:
        os.close(handle)


def _sync_parents(root: Path, moves: list[Move]) -> None:
    for parent in {(root / move.path).parent for move in moves}:
        sync_folder(parent)


def _sync_tree(folder: Path) -> None:
    for current, _, _ in os.walk(folder, topdown=False):
        sync_folder(current)
