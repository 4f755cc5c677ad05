"""Files as Spark's driver sees them, wherever they are: Hadoop's file systems, through its JVM."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from agent.files import open_regular
from agent.history.complaints import failures, line_of
from agent.history.logs import Found
from spark_listener.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agent.history.logs import LogFile

_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?(?=/)")
_NO_HOST: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:)//(?=/)")
#: What may be written in several ways: S3's scheme, and a port that is the usual one.
_ALIKE: Final = re.compile(r"^(s3)[an]?(://)|^(\w+://[^/:]+):\d+(?=/|$)")
_ANY_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_DEFAULT: Final = "spark.hadoop.fs.defaultFS"
_CONFIGURED_BY: Final = (
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "PYSPARK_GATEWAY_PORT",  # spark-submit has started already
)
#: Of this machine's own file system, as Hadoop writes an address in full.
_LOCAL: Final = "file:/"


class NoSuchPlace(OSError):  # noqa: N818
    """An address that is not there or cannot be read; the message says which and why."""


def bare(address: str) -> str:
    """An address without scheme and host: the same however it was written."""
    return _SCHEME.sub("", address)


def within(address: str, folder: str) -> bool:
    """Whether an address is a folder or in it; both in full: one bucket is not another.

    A port may be left out of one of them, and S3 has three schemes.
    """
    address, folder = _place(address), _place(folder).rstrip("/")
    return address == folder or address.startswith(f"{folder}/")


def _place(address: str) -> str:
    return _ALIKE.sub(r"\1\2\3", address)


class Named:
    """Log files by how Spark calls them."""

    def __init__(self, files: Iterable[LogFile]) -> None:
        files = list(files)
        self._whole = {_one_form(file.path): file for file in files}
        self._bare = {bare(file.path): file for file in files}

    def of(self, address: str) -> LogFile | None:
        """By all of the address, as two buckets may hold the same path; else by its path."""
        return self._whole.get(_one_form(address)) or self._bare.get(bare(address))

    def of_url(self, url: str) -> LogFile:
        """The same of one whose special characters are escaped, as Spark's metadata has it."""
        file = self.of(unquote(url))
        if file is None:
            raise KeyError(url)
        return file


def _one_form(address: str) -> str:
    """Of a host that is none, Hadoop writes the slashes or leaves them out."""
    return _NO_HOST.sub(r"\1", address)


def missing_here(address: str, conf: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether an address is for certain of this machine, and not there.

    One without a scheme is Hadoop's to explain wherever something may configure it.
    """
    if not address.startswith(_LOCAL):
        explained = _DEFAULT in conf or any(environ.get(name) for name in _CONFIGURED_BY)
        if explained or _ANY_SCHEME.match(address):
            return False
    return not Path(bare(address)).exists()


#: Of a file that was listed. An application that ends gives its log another name.
GONE: Final = "it is gone, or has another name by now: the next run takes what is there then"


def not_to_be_read(address: str) -> str:
    """Why a file of this machine cannot be read: a FIFO would be waited for; empty where it can."""
    if not address.startswith(_LOCAL):
        return ""
    try:
        open_regular(bare(address)).close()
    except FileNotFoundError:
        return GONE
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def _found(status: Any) -> Found:
    """Of Hadoop's FileStatus."""
    return Found(
        str(status.getPath().toString()), int(status.getLen()), int(status.getModificationTime())
    )


class Places:
    """Hadoop's file systems. Every failure is a NoSuchPlace."""

    def __init__(self, spark: Any) -> None:
        # Spark's Java side is reached by private names only.
        self._jvm = spark.sparkContext._jvm  # noqa: SLF001
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001

    def whole(self, address: str) -> str:
        """The address in full, as listings have it."""
        with _named(address):
            path = self._path(address)
            return str(self._system(path).makeQualified(path).toString())

    def files(self, address: str, refused: dict[str, str]) -> list[Found]:
        """All files below an address, or the one that it is.

        ``refused``: takes each folder in it that is not to be listed, and why; Spark makes those of
        logs that roll their owners' alone.
        """
        try:
            # One answer tells all that an object store has below an address.
            return self._below(address)
        except NoSuchPlace:
            found, folders = self._level(address)
        while folders:
            folder = folders.pop()
            try:
                files, more = self._level(folder)
            except NoSuchPlace as error:
                refused[folder] = str(error).removeprefix(f"{folder}: ")
                continue
            found += files
            folders += more
        return found

    def _level(self, address: str) -> tuple[list[Found], list[str]]:
        """The files and the folders directly in a folder."""
        with _named(address):
            path = self._path(address)
            listed = list(self._system(path).listStatus(path))
            folders = [str(one.getPath().toString()) for one in listed if one.isDirectory()]
            return [_found(one) for one in listed if not one.isDirectory()], folders

    def _below(self, address: str) -> list[Found]:
        """All files in a folder, however deep."""
        files = []
        with _named(address):
            path = self._path(address)
            statuses = self._system(path).listFiles(path, True)
            while statuses.hasNext():
                files.append(_found(statuses.next()))
        return files

    def not_to_be_read(self, address: str) -> str:
        """As the function of this name, of other machines' files; their file system says it."""
        if address.startswith(_LOCAL):
            return ""
        try:
            with _named(address):
                path = self._path(address)
                read = self._jvm.org.apache.hadoop.fs.permission.FsAction.READ
                self._system(path).access(path, read)
        except NoSuchPlace as error:
            said = str(error).removeprefix(f"{address}: ")
            return GONE if said.startswith("FileNotFoundException") else said
        return ""

    def is_there(self, address: str) -> bool:
        """Whether a file that was listed is there still."""
        if address.startswith(_LOCAL):
            return Path(bare(address)).exists()
        with _named(address):
            path = self._path(address)
            return bool(self._system(path).exists(path))

    def unclosed_bytes(self, address: str, listed_bytes: int) -> int:
        """How many bytes a file holds that its listing does not tell; 0: none, or nobody says.

        HDFS tells the length of a file that is written to as it was when its last block began; the
        stream that reads it knows better (Spark's history server asks that as well).
        """
        if not address.startswith("hdfs:"):
            return 0
        with _named(address):
            path = self._path(address)
            stream = self._system(path).open(path)
            try:
                if str(stream.getClass().getSimpleName()) != "HdfsDataInputStream":
                    return 0
                return max(0, int(stream.getVisibleLength()) - listed_bytes)
            finally:
                stream.close()

    def folders(self, address: str) -> list[str]:
        """Names of the folders directly in one; none where it is not there."""
        return [name for name, is_folder in self._listed(address) if is_folder]

    def _listed(self, address: str) -> list[tuple[str, bool]]:
        with _named(address):
            path = self._path(address)
            system = self._system(path)
            if not system.exists(path):
                return []
            return [
                (str(status.getPath().getName()), bool(status.isDirectory()))
                for status in system.listStatus(path)
            ]

    def read(self, address: str) -> bytes | None:
        """A small file's content; None where it is not there."""
        with _named(address):
            path = self._path(address)
            system = self._system(path)
            if not system.exists(path):
                return None
            stream = system.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, address: str, content: bytes) -> None:
        """Writes a small file that is not there yet; it is there whole or not at all."""
        if address.startswith(_LOCAL):
            _write_here(address, content)
            return
        with _named(address):
            path, beside = self._path(address), self._path(address + ".new")
            system = self._system(path)
            stream = system.create(beside, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
            if not system.rename(beside, path):
                raise NoSuchPlace(f"{address}: could not be put in its place")

    def replace(self, address: str, content: bytes) -> None:
        """Writes a small file in place of one that may be there."""
        self.delete(address)
        self.write(address, content)

    def names(self, address: str) -> list[str]:
        """Names of the files directly in a folder; none where it is not there."""
        return [name for name, is_folder in self._listed(address) if not is_folder]

    def delete(self, address: str) -> None:
        """A folder and all in it; nothing where it is not there."""
        with _named(address):
            path = self._path(address)
            self._system(path).delete(path, True)

    def _path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(address)

    def _system(self, path: Any) -> Any:
        return path.getFileSystem(self._conf)


def _write_here(address: str, content: bytes) -> None:
    """The same on this machine's disk, where Hadoop would start a process for each file's mode."""
    path = Path(bare(address))
    beside = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise NoSuchPlace(f"{address}: {error.strerror or error}") from None


class _named:  # noqa: N801 - used as a statement
    """Java's complaints, as one line that names the place."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None:
            return
        from py4j.protocol import Py4JJavaError

        if isinstance(error, Py4JJavaError):
            java = error.java_exception
            name = str(java.getClass().getSimpleName())
            said = redact(str(java.getMessage() or "").split("\n")[0])[:300]
            raise NoSuchPlace(f"{self._address}: {name}: {said}") from None
        if isinstance(error, failures()):
            raise NoSuchPlace(f"{self._address}: {line_of(error)}") from None
