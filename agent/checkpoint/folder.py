"""Where a checkpoint's files are: a local folder, or any file system that fsspec opens.

Reading works on both. Whatever changes a checkpoint wants a local folder, because only there a
file moves in one step and the move is on the disk when fsync returns.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol
from urllib.parse import unquote

import msgspec

from agent.files import open_regular, read_at_most, read_regular
from spark_listener.redact import redact_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_REPORT_EVERY = 500
#: What is read whole of one file, where nothing smaller is said: a RocksDB snapshot's list of files
#: takes some 200 bytes a file, so this is of 300,000 of them, and of checksums of 8 GiB.
MOST_BYTES: Final = 64 << 20
_BUFFER_BYTES: Final = 1 << 20
#: In which order a checkpoint's folders are listed. A batch is committed last, so whatever the
#: newest commit that is seen needs was written before, and is seen in the folders listed after.
_ORDER: Final = ("commits", "offsets", "sources")
_MISSING = (FileNotFoundError, NotADirectoryError)
#: An address of this machine, of any number of slashes, and its path with one.
_LOCAL: Final = re.compile(r"file:(?://(?:localhost)?(?=/)|(?!//))(?:/*(?=/))?(.*)", re.DOTALL)
#: How the address of a file system begins; Hadoop writes one slash where it has no authority.
_OTHER: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


class CheckpointError(Exception):
    """The folder cannot be used as asked. One line: what, where, what to do."""


class FileEntry(msgspec.Struct, frozen=True):
    """One file below the folder: its path with slashes, bytes, and epoch seconds of change."""

    path: str
    size: int
    modified: float


class Folder(Protocol):
    """What reading a checkpoint needs of its file system."""

    @property
    def name(self) -> str:
        """The folder as the user named it."""

    def files(self, on_count: Callable[[int], None] | None = None) -> Iterator[FileEntry]:
        """Every file below, commits first, then what they need; ``.weir-`` names are passed over.

        Each call lists anew.
        """

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes:
        """A file's bytes. Raises OSError, also where it has more than ``most_bytes``."""

    def open(self, path: str) -> BinaryIO:
        """A file to read from. Raises OSError, also where it is no regular one."""


class LocalFolder:
    """A folder of this machine's file systems."""

    def __init__(self, root: Path, *, follow_links: bool = True) -> None:
        """``follow_links`` False: where there is a link in the folder, it cannot be listed."""
        self.root = root
        self._follow_links = follow_links

    @property
    def name(self) -> str:
        """The folder's path."""
        return str(self.root)

    def files(self, on_count: Callable[[int], None] | None = None) -> Iterator[FileEntry]:
        """Every file below, each folder once; what vanishes meanwhile is passed over."""
        found = 0
        seen: set[tuple[int, int]] = set()
        linked: list[tuple[str, str]] = []  # come last, so that a folder stands under its own name
        pending = [("", str(self.root))]
        while pending or linked:
            prefix, folder = pending.pop() if pending else linked.pop()
            try:
                status = os.stat(folder)  # noqa: PTH116 - a path of many
                if (status.st_dev, status.st_ino) in seen:
                    continue  # a link to a folder above it would have no end
                seen.add((status.st_dev, status.st_ino))
                entries = os.scandir(folder)
            except _MISSING:
                if not prefix:
                    raise
                continue
            if on_count is not None:
                on_count(found)
            with entries:
                for entry in entries:
                    if entry.name.startswith(".weir-"):
                        continue
                    path = prefix + entry.name
                    try:
                        if not self._follow_links and entry.is_symlink():
                            raise CheckpointError(f"{entry.path}: a link, which is not followed")
                        if entry.is_dir(follow_symlinks=False):
                            pending.append((path + "/", entry.path))
                            continue
                        status = entry.stat()
                    except OSError as error:
                        if isinstance(error, _MISSING) or error.errno == errno.ELOOP:
                            continue
                        raise
                    if stat.S_ISDIR(status.st_mode):
                        linked.append((path + "/", entry.path))
                        continue
                    found += 1
                    if on_count is not None and found % _REPORT_EVERY == 0:
                        on_count(found)
                    yield FileEntry(path, status.st_size, status.st_mtime)
            if not prefix:  # the last one is listed next
                pending.sort(key=lambda found: _turn(found[0].rstrip("/")), reverse=True)
        if on_count is not None:
            on_count(found)

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes:
        """A file's bytes."""
        try:
            return read_regular(self.root / path, most_bytes)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            # On NFS, of what another machine has deleted meanwhile.
            raise FileNotFoundError(errno.ENOENT, error.strerror, path) from None

    def open(self, path: str) -> BinaryIO:
        """A file to read from."""
        return open_regular(self.root / path)


class RemoteFolder:
    """A folder of another file system, through fsspec."""

    def __init__(self, url: str) -> None:
        """Raises CheckpointError where fsspec, or its driver for this address, is missing."""
        try:
            import fsspec
        except ImportError:
            raise CheckpointError(
                f"{url}: only local folders can be read; for others install fsspec"
                " and its driver for this kind of address"
            ) from None
        self._name = redact_addresses(url)
        try:
            # It wants an authority, be it empty: dbfs:///ck for dbfs:/ck.
            url = re.sub(rf"\A{_OTHER.pattern}(?!/)", r"\1:///", url)
            self._system, self._root = fsspec.core.url_to_fs(url)
        except Exception as error:  # noqa: BLE001 - each driver has errors of its own
            raise CheckpointError(f"{self._name}: {redact_addresses(str(error))}") from None

    @property
    def name(self) -> str:
        """The address as given, without a password in it."""
        return self._name

    def files(self, on_count: Callable[[int], None] | None = None) -> Iterator[FileEntry]:
        """Every file below."""
        base = self._root.rstrip("/") + "/"
        with self._as_os_error():
            self._system.invalidate_cache()  # or a driver tells again what it listed before
            if not self._system.exists(self._root):
                raise FileNotFoundError(2, "there is no such folder", self._name)
        found = 0
        pending = [self._root]
        while pending:
            if (listed := self._list(pending.pop())) is None:
                continue
            folder, folders, files = listed
            pending += [
                str(folders[name]["name"]).rstrip("/")
                for name in sorted(folders, key=_turn, reverse=True)
                if not name.startswith(".weir-")
            ]
            for name, status in files.items():
                if not name and not status["size"]:
                    continue  # a folder's marker, as S3A keeps since Hadoop 3.4: an empty object
                path = f"{folder.rstrip('/')}/{name}"
                found += 1
                if on_count is not None and found % _REPORT_EVERY == 0:
                    on_count(found)
                yield FileEntry(path.removeprefix(base), int(status["size"]), _modified(status))
        if on_count is not None:
            on_count(found)

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes:
        """A file's bytes."""
        with self._as_os_error(), self.open(path) as file:
            return read_at_most(file, most_bytes, path)

    def open(self, path: str) -> BinaryIO:
        """A file to read from."""
        where = f"{self._root.rstrip('/')}/{path}"
        with self._as_os_error():
            try:
                file = self._system.open(where, "rb")
            except FileNotFoundError:  # perhaps in what the driver listed before
                self._system.invalidate_cache()
                file = self._system.open(where, "rb")
        return guarded(file, self._as_os_error)

    def _list(self, folder: str) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """One folder; None where it vanished. A walk of many passes over what it cannot list."""
        try:
            with self._as_os_error():
                walk = self._system.walk(folder, maxdepth=1, detail=True, on_error="raise")
                return next(iter(walk), None)
        except _MISSING:
            return None

    @contextmanager
    def _as_os_error(self) -> Iterator[None]:
        """Drivers raise errors of their own libraries; here all are the system's refusal."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the driver's libraries raise
            text = redact_addresses(" ".join(str(error).split()))[:300]
            raise OSError(5, f"{type(error).__name__}: {text}", self._name) from None


def guarded(file: BinaryIO, guard: Callable[[], AbstractContextManager[None]]) -> BinaryIO:
    """The file with each of its reads and seeks inside ``guard()``."""
    return io.BufferedReader(_Guarded(file, guard), _BUFFER_BYTES)


class _Guarded(io.RawIOBase):
    def __init__(self, file: BinaryIO, guard: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self._file = file
        self._guard = guard

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._guard():
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        with self._guard():
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def open_folder(address: str) -> Folder:
    """The folder at a path or address. Raises CheckpointError where it cannot be one."""
    local = local_path(address)
    if local is None:
        return RemoteFolder(address)
    with reported(address):  # a folder above it may be closed
        unquoted = Path(unquote(str(local)))
        if address.startswith("file:") and unquoted != local and unquoted.exists():
            raise CheckpointError(
                f"{address}: means {local}, since nothing in an address is quoted, but {unquoted}"
                f" is there{' too' if local.exists() else ''}: give the path, without file:"
            )
        if not local.exists():
            raise CheckpointError(f"{address}: there is no such folder")
        if not local.is_dir():
            raise CheckpointError(f"{address}: not a folder")
    effective = os.access in os.supports_effective_ids
    if not os.access(local, os.R_OK | os.X_OK, effective_ids=effective):
        raise CheckpointError(f"{address}: this user may not read it")
    return LocalFolder(local)


def local_path(address: str) -> Path | None:
    """The local path that an address means; None where it is another file system's.

    As Hadoop writes it (org.apache.hadoop.fs.Path): nothing is quoted, and ``#`` and ``?`` are of
    the path. Asks no file system.
    """
    if address.startswith("file:"):
        match = _LOCAL.fullmatch(address)
        return None if match is None else Path(match[1])
    other = "://" in address or _OTHER.match(address)
    if other:
        return None
    try:
        return Path(address).expanduser()
    except RuntimeError:  # nobody is called so: a folder may be
        return Path(address)


def same_place(one: str, other: str) -> bool:
    """Whether two addresses of folders mean the same, as far as the addresses tell."""
    here, there = local_path(one), local_path(other)
    if here is None or there is None:
        return here is there and _plain(one) == _plain(other)
    return os.path.realpath(here) == os.path.realpath(there)


def _turn(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _plain(address: str) -> str:
    """Spark and fsspec name the same store by different schemes."""
    scheme, _, rest = address.partition(":")
    same = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "gcs": "gs"}
    rest = rest.removeprefix("//") if rest.startswith("///") else rest
    return f"{same.get(scheme, scheme)}:{rest.rstrip('/')}"


@contextmanager
def reported(address: str) -> Iterator[None]:
    """What the system refuses inside becomes a CheckpointError that names the folder."""
    try:
        yield
    except OSError as error:
        where = error.filename or address
        raise CheckpointError(f"{where}: {error.strerror or error}") from None


def refuse_later_form(data: bytes, key: str) -> None:
    """Raises CheckpointError where a file of Weir's is of a form that this version does not know.

    Raises msgspec.MsgspecError where that is no number. One that tells none is of the first form.
    """
    told = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get(key, msgspec.Raw(b"0"))
    if (form := msgspec.json.decode(told, type=int)) > 1:
        raise CheckpointError(f"of a later version of Weir (form {form})")


def _modified(status: dict[str, object]) -> float:
    for key in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        value = status.get(key)
        if isinstance(value, int | float):
            return float(value)
        if value is not None and hasattr(value, "timestamp"):
            return float(value.timestamp())
    return 0.0
