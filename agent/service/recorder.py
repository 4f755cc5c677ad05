"""Keeps every accepted event as a line of JSON, for ``weir replay``, in files of bounded size."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.service.owned import only_ours
from spark_listener.redact import redact_event

if TYPE_CHECKING:
    from pathlib import Path

#: Left free on the record's file system where the state is there too, without which nothing is
#: regulated: that of 2000 queries takes 36 MiB, its journal 4, and it may all be still to come.
RESERVE_BYTES: Final = 64 * 1024 * 1024
#: What a disk says that is full, beyond a quota or a limit, or fails; no wrong path does.
_OF_THE_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


class Recorder:
    """Appends to one file; at its size it becomes ``.1``, and what was ``.1`` becomes ``.2``.

    A line is the event as it came, with the application's and the listener's fields beside it. An
    event that was sent again may stand twice after a restart: ``(listener.instance, sequence)``
    tells them apart.
    """

    def __init__(
        self, path: Path, *, max_bytes: int, keep: int, state_dir: Path | None = None
    ) -> None:
        """Raises OSError where the file cannot be opened; a full or failing disk may be well again.

        ``trouble``: such a disk's error; the file is opened with the next events then.
        """
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._written: dict[str, int] = {}  # newest sequence by listener instance
        self.recorded_total = 0
        self._state_device = None if state_dir is None else state_dir.stat().st_dev
        self._file: io.FileIO | None = None
        self.trouble: OSError | None = None
        try:
            self._file = self._open()
        except OSError as error:
            if error.errno not in _OF_THE_DISK:
                raise
            self.trouble = error

    def record(self, body: bytes, refused: set[int]) -> None:
        """Appends a request's events, but for those refused by index. Raises OSError.

        ``body`` was decoded once already, so it is a sound request.
        """
        data = _any.decode(body)
        application = data["application"]
        listener = data["listener"]
        instance = str(listener["instance"])
        newest = self._written.get(instance, 0)
        lines: list[bytes] = []
        for index, event in enumerate(data["events"]):
            if index in refused or event["sequence"] <= newest:
                continue
            newest = event["sequence"]
            line: dict[str, Any] = {
                **redact_event(event),
                "application": application,
                "listener": {"instance": instance},
            }
            lines.append(_encode(line))
        if not lines:
            return
        text = b"\n".join(lines) + b"\n"
        try:
            self._append(text)
        except OSError:
            # Opened anew next time, at its true end: whatever is the matter may be mended by then.
            self.close()
            raise
        if len(self._written) >= 10_000:  # listeners long gone: their tails will not come again
            self._written.clear()
        self._written[instance] = newest
        self.recorded_total += len(lines)

    def close(self) -> None:
        """Closes the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _append(self, text: bytes) -> None:
        file = self._file = self._file or self._open()
        self._leave_reserve(file, len(text))
        size = os.fstat(file.fileno()).st_size
        if size and size + len(text) > self._max_bytes:
            self._rotate()
            file = self._file = self._open()
            size = 0
        written = file.write(text)
        if written != len(text):
            file.truncate(size)
            raise OSError(errno.ENOSPC, "the record is cut short: no space left", str(self._path))

    def _leave_reserve(self, file: io.FileIO, more_bytes: int) -> None:
        """Deletes the oldest records where what is left would be too little, if that helps."""
        if os.fstat(file.fileno()).st_dev != self._state_device:
            return
        disk = os.fstatvfs(file.fileno())
        missing = RESERVE_BYTES + more_bytes - disk.f_bavail * disk.f_frsize
        if not disk.f_blocks or missing <= 0:  # of no blocks at all is one that does not tell
            return
        oldest: list[Path] = []
        for number in range(self._keep, 0, -1):
            path = self._aside(number)
            if path.is_file():
                oldest.append(path)
                missing -= path.stat().st_size
                if missing <= 0:
                    break
        else:
            raise OSError(
                errno.ENOSPC, "too little space is left beside the record", str(self._path)
            )
        for path in oldest:
            path.unlink()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep, 0, -1):
            newer = self._aside(number - 1)
            if newer.exists():
                newer.replace(self._aside(number))

    def _aside(self, number: int) -> Path:
        """The record before so many others; 0: the one that is written."""
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _open(self) -> io.FileIO:
        """Its owner's alone: it holds what exceptions say."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = io.FileIO(
            os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab"
        )
        try:
            only_ours(file.fileno())  # one from before
            self._end_torn_line(file)
        except BaseException:
            file.close()
            raise
        return file

    def _end_torn_line(self, file: io.FileIO) -> None:
        """A kill while writing leaves half a line; what follows must not join it."""
        size = file.seek(0, os.SEEK_END)
        if not size:
            return
        with self._path.open("rb") as written:
            written.seek(size - 1)
            if written.read(1) != b"\n":
                file.write(b"\n")
