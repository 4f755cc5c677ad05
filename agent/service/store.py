"""The saved state on disk: named parts in one SQLite file, each request's in one transaction."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import sqlite3
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agent.core.fleet import Change
from agent.service.owned import only_ours

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Raised whenever an agent of the version before would lose something of what is saved now: it
#: keeps a copy of such a file and takes over of it what was ordered, as far as it can read that.
#: Files of versions before are taken over.
SCHEMA_VERSION: Final = 2
#: "WEIR" in ASCII: tells our file from any other SQLite file.
APPLICATION_ID: Final = 0x57454952
FILE_NAME: Final = "state.sqlite"
LOCK_NAME: Final = "agent.lock"
NO_MARKS: Final[Mapping[str, bytes]] = MappingProxyType({})
#: What locking a file answers where its file system knows no locks, or its server does not.
_NO_LOCKS: Final = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
_WITHOUT_LOCKS: Final = (
    ": another program has it open, or its file system has not the locks that an agent and SQLite "
    "need, as many network file systems: put state_dir on a local disk or on a block volume"
)
#: What `PRAGMA quick_check` says of a page that the disk did not give, as if that were damage.
_UNREAD: Final = ("unable to get the page", "failed to get page")
_SET_MARK: Final = (
    "INSERT INTO marks (name, value) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


class StoreInUse(Exception):  # noqa: N818
    """Another agent holds this state directory."""


class StoreUnusable(Exception):  # noqa: N818
    """The directory cannot be used: one line with the cause."""


class StoreFailed(Exception):  # noqa: N818
    """A write or read failed: nothing of it was kept."""


class StoreDamaged(StoreFailed):
    """What is saved was read, and is of no use: it will be of none the next time either."""


class Store:
    """One state directory, held alone; or a store in memory, which forgets with the process."""

    def __init__(self, directory: Path | None, *, durability: str = "normal") -> None:
        """Raises StoreInUse, StoreUnusable.

        ``set_aside`` says where a file is now that was unreadable, or a copy of a later version's;
        ``later_schema``: such a one is open, and nothing may be written before ``begin_anew``.
        """
        self._directory = directory
        self._durability = durability
        self._lock: int | None = None
        self._opened: tuple[int, int] | None = None  # the file, whatever is at its path by now
        self.set_aside: tuple[Path, str] | None = None
        self.later_schema: int | None = None
        if directory is None:
            self.path: Path | None = None
            self._database = self._open()
            return
        self.path = directory / FILE_NAME
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(directory / LOCK_NAME)
        except OSError as error:
            said = f"{error.filename or directory}: {error.strerror}"
            said += _WITHOUT_LOCKS if error.errno in _NO_LOCKS else ""
            raise StoreUnusable(_said_of_a_full_disk(directory) or said) from None
        try:
            self._database = self._open_or_set_aside(self.path)
        except (sqlite3.Error, OSError) as error:
            self._unlock()
            said = f"{self.path}: {error}"
            if isinstance(error, sqlite3.OperationalError) and "lock" in str(error):
                said += _WITHOUT_LOCKS
            raise StoreUnusable(_said_of_a_full_disk(directory) or said) from None

    def load(self) -> list[Change]:
        """Every part as last committed. Raises StoreFailed, and StoreDamaged."""
        self._expect_columns("parts", "part", "data")
        try:
            rows = self._database.execute("SELECT part, data FROM parts ORDER BY part").fetchall()
        except sqlite3.Error as error:
            raise (StoreDamaged if _is_damage(error) else StoreFailed)(str(error)) from None
        return [Change(str(part), bytes(data)) for part, data in rows]

    def write(self, changes: Iterable[Change], marks: Mapping[str, bytes] = NO_MARKS) -> None:
        """Commits all changes and marks, or none of them and raises StoreFailed."""
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            # With the first part in the form of this version, not before: until then an agent of
            # the version before can have it back.
            if database.execute("PRAGMA user_version").fetchone() < (SCHEMA_VERSION,):
                database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            for change in changes:
                if change.data is None:
                    database.execute("DELETE FROM parts WHERE part = ?", (change.part,))
                else:
                    database.execute(
                        "INSERT INTO parts (part, data) VALUES (?, ?)"
                        " ON CONFLICT (part) DO UPDATE SET data = excluded.data",
                        (change.part, change.data),
                    )
            for name, value in marks.items():
                database.execute(_SET_MARK, (name, value))
            database.execute("COMMIT")
            self._check_file()
        except (sqlite3.Error, OSError) as error:
            with contextlib.suppress(sqlite3.Error):
                if database.in_transaction:
                    database.execute("ROLLBACK")
            raise StoreFailed(str(error)) from None

    def _check_file(self) -> None:
        """SQLite writes on into a file that was removed. Raises OSError where it was."""
        if self.path is not None and _which(self.path) != self._opened:
            raise OSError(f"{self.path} is another file than the one that is written")

    def mark(self, name: str) -> bytes | None:
        """What the service itself keeps beside the fleet's parts. As ``load`` raises."""
        self._expect_columns("marks", "name", "value")
        try:
            row = self._database.execute(
                "SELECT value FROM marks WHERE name = ?", (name,)
            ).fetchone()
        except sqlite3.Error as error:
            raise (StoreDamaged if _is_damage(error) else StoreFailed)(str(error)) from None
        return None if row is None else bytes(row[0])

    def _expect_columns(self, table: str, *columns: str) -> None:
        """A later version may have others. Raises StoreFailed, and StoreDamaged."""
        if self.later_schema is None:
            return
        try:
            rows = self._database.execute(f"PRAGMA table_info({table})").fetchall()
        except sqlite3.Error as error:
            raise StoreFailed(str(error)) from None
        if not {*columns} <= {row[1] for row in rows}:
            raise StoreDamaged(f"it has no {table} as this version writes them")

    def begin_anew(self, changes: Iterable[Change], marks: Mapping[str, bytes]) -> None:
        """Makes a later version's file one of this, with these parts, or leaves it as it is.

        In one transaction, as it holds the orders: none is lost where the agent is killed here.
        Raises StoreFailed.
        """
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            for (name,) in tables:
                database.execute(f'DROP TABLE "{name}"')
            _make_tables(database)
            for change in changes:
                database.execute("INSERT INTO parts VALUES (?, ?)", (change.part, change.data))
            for name, value in marks.items():
                database.execute(_SET_MARK, (name, value))
            database.execute("COMMIT")
            database.close()
            self._database = self._open()
        except (sqlite3.Error, OSError, _Foreign) as error:
            raise StoreFailed(str(error)) from None

    def probe(self) -> None:
        """Writes one mark, to see whether writing works again. Raises StoreFailed.

        Into the file opened anew: a connection may fail for good where a new one does not, as after
        NFS has lost its handle. Nothing is set aside.
        """
        try:
            if self.path is not None:
                with contextlib.suppress(sqlite3.Error):
                    self._database.close()
                # While its disk is away an empty one in its place would stand for what is saved.
                if not self.path.is_file():
                    raise FileNotFoundError(f"{self.path} is gone")
                self._lock_anew(self.path.with_name(LOCK_NAME))
                self._database = self._open()
            if self.later_schema is None:
                self._database.execute(_SET_MARK, ("probe", str(time.time()).encode()))
        except (sqlite3.Error, OSError, StoreInUse, _Foreign) as error:
            raise StoreFailed(str(error)) from None
        if self.later_schema is not None:  # put there meanwhile
            raise StoreFailed(f"{self.path} is a later version's")

    def tidy(self) -> None:
        """Moves the write-ahead log into the main file and cuts it. Raises StoreFailed."""
        if self.path is None:
            return
        try:
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise StoreFailed(str(error)) from None

    def size_bytes(self) -> int | None:
        """On disk, with its log; None for a store in memory."""
        if self.path is None:
            return None
        total = 0
        for end in ("", "-wal"):
            with contextlib.suppress(OSError):
                total += Path(f"{self.path}{end}").stat().st_size
        return total

    def abandon_contents(self, why: str) -> None:
        """Sets the file aside and starts an empty one: its parts cannot be used."""
        if self.path is None:
            return
        self._database.close()
        self._set_aside(self.path, why)
        self._database = self._open()

    def close(self) -> None:
        """Tidies, closes, lets the directory go."""
        with contextlib.suppress(StoreFailed):
            self.tidy()
        self._database.close()
        self._unlock()

    def _open_or_set_aside(self, path: Path) -> sqlite3.Connection:
        try:
            database = self._open()
            if self.later_schema is None:
                return database
            database.close()  # so that its log is in the file
            self._copy_aside(path, self.later_schema)
            return self._open()
        except (sqlite3.DatabaseError, _Foreign) as error:
            if isinstance(error, sqlite3.Error) and not _is_damage(error):
                raise
            kind = "foreign" if isinstance(error, _Foreign) else "unreadable"
            self._set_aside(path, str(error), kind)
            return self._open()

    def _open(self) -> sqlite3.Connection:
        if self.path is not None:
            # Looked at by name before SQLite does: for a directory it only says "unable to open".
            if self.path.exists() and not self.path.is_file():
                raise OSError(f"{self.path} is not a file")
            # Before SQLite makes its log, which gets the rights that the file has then.
            os.close(os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    only_ours(Path(f"{self.path}{end}"))
        database = sqlite3.connect(
            ":memory:" if self.path is None else self.path,
            isolation_level=None,  # transactions are begun and ended by hand, above
            timeout=5.0,
            cached_statements=32,
            check_same_thread=False,
        )
        try:
            self.later_schema = _prepare(database, self._durability)
            self._opened = None if self.path is None else _which(self.path)
        except BaseException:
            database.close()
            raise
        return database

    @property
    def damage(self) -> str | None:
        """Of a store that holds nothing: a file of ours that was unreadable lies beside it.

        Whoever began this one may have been killed before it saved anything.
        """
        if self.path is None:
            return None
        found = sorted(self.path.parent.glob(f"{FILE_NAME}.unreadable-*"))
        return f"{found[-1]}: it was set aside, and nothing was saved since" if found else None

    def _set_aside(self, path: Path, why: str, kind: str = "unreadable") -> None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        target = path.with_name(f"{path.name}.{kind}-{stamp}")
        number = 1
        while target.exists():
            number += 1
            target = path.with_name(f"{path.name}.{kind}-{stamp}-{number}")
        path.rename(target)
        for end in ("-wal", "-shm"):
            side = Path(f"{path}{end}")
            if side.exists():
                side.rename(f"{target}{end}")
        self.set_aside = (target, why)

    def _copy_aside(self, path: Path, schema: int) -> None:
        """By a name that tells whose it is, and that is taken again after a start that failed."""
        target = path.with_name(f"{path.name}.schema-{schema}")
        partial = path.with_name(f"{target.name}.new")
        try:
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            shutil.copyfile(path, partial)
            partial.replace(target)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        why = f"written by a later version (schema {schema}, here {SCHEMA_VERSION})"
        self.set_aside = (target, why)

    def _lock_anew(self, path: Path) -> None:
        """Where what was locked is not at its path any more, another agent may hold what is."""
        with contextlib.suppress(OSError):
            mine = None if self._lock is None else os.fstat(self._lock)
            if mine is not None and (mine.st_dev, mine.st_ino) == _which(path):
                return
        self._unlock()  # first: the file at the path may be the same one, by another number
        self._lock = _lock(path)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)  # the lock goes with it
            self._lock = None


class _Foreign(Exception):  # noqa: N818
    """Some other program's file."""


def _prepare(database: sqlite3.Connection, durability: str) -> int | None:
    """The schema of a later version, whose file is left as it is."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        raise _Foreign("another program's file")
    if tables:
        (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            unread = any(words in found for words in _UNREAD)
            said = found.splitlines()[-1]
            raise (sqlite3.OperationalError if unread else sqlite3.DatabaseError)(said)
    if version > SCHEMA_VERSION:
        return int(version)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
    database.execute("PRAGMA cache_size = -512")  # kB; parts are written, and read once
    database.execute("PRAGMA journal_size_limit = 16777216")
    database.execute("BEGIN IMMEDIATE")
    _make_tables(database, anew=not tables)
    database.execute("COMMIT")
    return None


def _make_tables(database: sqlite3.Connection, *, anew: bool = True) -> None:
    database.execute("CREATE TABLE IF NOT EXISTS parts (part TEXT PRIMARY KEY, data BLOB NOT NULL)")
    database.execute("CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value BLOB)")
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    if anew:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _which(path: Path) -> tuple[int, int]:
    """What tells a file from another one that has its path later."""
    found = path.stat()
    return found.st_dev, found.st_ino


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter on SMB, where it keeps off readers too
        holder = ""
        with contextlib.suppress(OSError):
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        who = f" (process {holder})" if holder.isdigit() else ""
        raise StoreInUse(
            f"{path.parent} is in use by another agent{who}; give each agent its own state_dir"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _said_of_a_full_disk(directory: Path) -> str | None:
    """SQLite tells of a full disk in many words ("disk I/O error"); the file system knows."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return None
    if disk.f_bavail or disk.f_flag & os.ST_RDONLY or not disk.f_blocks:
        return None
    return (
        f"{directory}: no space is left on its disk, and what is saved there is whole: free some, "
        "or give the agent another state_dir, and start it again"
    )


def _is_damage(error: sqlite3.Error) -> bool:
    """Of the file: SQLITE_CORRUPT and SQLITE_NOTADB have no class of their own.

    All else (locked, a page that was not read, read-only, no memory) may have passed the next time.
    """
    return type(error) is sqlite3.DatabaseError
