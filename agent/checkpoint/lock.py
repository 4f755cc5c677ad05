"""Keeps two commands on one machine, or on two that share a file system, from one folder.

By a file: of a folder on NFS, SMB or FUSE, Linux tells no other machine that it is locked.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from agent.checkpoint.folder import CheckpointError, reported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def locked_by(path: Path, named: str, what: str) -> Iterator[None]:
    """Holds the lock on this file, and removes it at the end; freed even if this process is killed.

    ``what`` is at work ("rescue") on what is ``named``. Raises CheckpointError where another is.
    """
    with reported(named):
        handle = _lock(path, named, what)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def _lock(path: Path, named: str, what: str) -> int:
    """The file's handle, once it is locked: NFS locks only what is open for writing."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        try:
            handle, made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666), True
            with suppress(OSError):
                os.fchmod(handle, 0o666)  # where this one is killed, another user may have it
        except FileExistsError:
            try:
                handle, made = _opened(path, flags), False
            except FileNotFoundError:
                continue  # its owner is through
            except PermissionError:
                raise CheckpointError(_of_another(path, what)) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), path.lstat()):
                return handle
        except FileNotFoundError:
            pass  # its owner was through before it was locked
        except (BlockingIOError, PermissionError):  # the latter on SMB
            os.close(handle)
            raise CheckpointError(f"{named}: another {what} is at work on it") from None
        except OSError as error:
            if error.errno == errno.ESTALE:  # on a network file system, the same
                os.close(handle)
                continue
            # Some network file systems have no locks: there the file itself is one.
            if made:
                return handle
            os.close(handle)
            if error.errno == errno.EBADF:  # NFS, of a file that is open for reading alone
                raise CheckpointError(_of_another(path, what)) from None
            raise CheckpointError(
                f"{path}: there already, and this file system has no locks to tell whether a"
                f" {what} is at work; remove it if none is"
            ) from None
        os.close(handle)


def _opened(path: Path, flags: int) -> int:
    """One that is there already: for reading where another user's lets write nobody else."""
    try:
        return os.open(path, flags)
    except PermissionError:
        return os.open(path, flags & ~os.O_RDWR | os.O_RDONLY)


def _of_another(path: Path, what: str) -> str:
    return (
        f"{path}: there already, and another user's, so that nobody can tell whether a {what} is"
        " at work; remove it if none is"
    )
