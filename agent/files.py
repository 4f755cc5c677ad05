"""Opens files that somebody else may have put there: regular ones only, and no more than expected.

A FIFO waits for a writer, a device may never end, and a file of some gigabytes fills the memory.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import IO, TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from pathlib import Path

_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def write_json(text: bytes) -> None:
    """JSON and a line's end on standard output: in UTF-8, whatever the locale has signs for."""
    output = sys.stdout
    output.flush()
    binary = getattr(output, "buffer", None)  # none where a caller collects it as text
    if binary is None:
        output.write(text.decode() + "\n")
    else:
        binary.write(text + b"\n")
    output.flush()


def open_regular(path: Path | str) -> BinaryIO:
    """A regular file to read from; a link to one counts as one. Never waits for a writer.

    Raises OSError, with a word on what it is, for anything else.
    """
    _refuse(os.stat(path), path)  # noqa: PTH116 - opening some devices does something already
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _refuse(os.fstat(descriptor), path)  # it may be another one by now
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_at_most(file: IO[bytes], most_bytes: int, name: str) -> bytes:
    """All bytes of a file. Raises OSError where it holds more than ``most_bytes``."""
    data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise _too_large(most_bytes, name)
    return data


def read_regular(path: Path | str, most_bytes: int) -> bytes:
    """All bytes of a regular file of at most ``most_bytes``. Raises OSError."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most_bytes:  # before any memory is taken for it
            raise _too_large(most_bytes, str(path))
        return read_at_most(file, most_bytes, str(path))


def sync_folder(folder: Path | str | int) -> None:
    """Has what was named, or renamed, in a folder on the disk; an open one by its handle.

    Raises OSError, but not where the file system can do so for files alone, as CIFS and some of
    FUSE: it has no other way to be sure.
    """
    handle = folder if isinstance(folder, int) else os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    finally:
        if handle != folder:
            os.close(handle)


def _too_large(most_bytes: int, name: str) -> OSError:
    return OSError(errno.EFBIG, f"larger than the {most_bytes:,} bytes that are read of it", name)


def _refuse(status: os.stat_result, path: Path | str) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "of an unknown kind")
        raise OSError(errno.EINVAL, f"{what}, not a regular file: it is not read", str(path))
