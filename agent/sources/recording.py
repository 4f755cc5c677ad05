"""Recorded events: files of JSON lines, plain or compressed, as typed events in constant memory.

A line is an event as a driver sends it, a bare StreamingQueryProgress, or a line of a Spark event
log, whose other lines are passed over. A file that breaks off gives all that stands before the
break, and what follows a line that does; one that cannot be used is named by file, line and field.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

import msgspec

from agent.core.decode.events import Application, Event, decode_event
from agent.sources import spark_events, spark_stages
from agent.spark_codecs import LZF_MAGIC, NO_LZF, ZSTD_MAGIC, Damaged, Decoder, decoder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK_BYTES: Final = 64 * 1024
#: Decompressed at once: what a damaged step would have given is lost.
STEP_BYTES: Final = 1024
MOST_LINE_BYTES: Final = 64 * 1024 * 1024
GZIP: Final = b"\x1f\x8b"
#: Bare progress and events name no application.
RECORDED: Final = Application(id="recorded", name="recorded")
#: Spark writes this for a number it does not know.
UNKNOWN: Final = -1

_decode = msgspec.json.Decoder().decode


class RecordingError(ValueError):
    """A line that cannot be used; the message says file, line and field."""


class RecordingBroken(ValueError):  # noqa: N818
    """The file breaks off here; the message says where. All before it was given."""


class Recorded(msgspec.Struct, frozen=True):
    """An event and whose it is."""

    application: Application
    event: Event


class _Decompressor(Protocol):
    """What zlib and zstandard have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class Lines:
    """A text that comes in pieces, as lines; one that is too long is passed over to its end."""

    def __init__(self, most_bytes: int, wanted: Callable[[bytes], bool]) -> None:
        """``wanted``: whether one that is longer than ``most_bytes`` may tell anything."""
        self._most_bytes = most_bytes
        self._wanted = wanted
        self._parts: list[bytes] = []  # of the line that has not ended
        self._bytes = 0
        self._passing_over = False
        self.too_long = 0  # wanted ones that were passed over

    @property
    def rest(self) -> bytes:
        """The line that has not ended; of one that is passed over, its beginning."""
        return b"".join(self._parts)

    def cut(self, piece: bytes) -> list[bytes]:
        """The lines that end in the next piece; in place of one passed over, an empty one."""
        *ended, rest = piece.split(b"\n")
        if ended:
            ended[0] = b"" if self._passing_over else b"".join((*self._parts, ended[0]))
            self._parts, self._bytes, self._passing_over = [], 0, False
        if rest and not self._passing_over:
            self._parts.append(rest)
            self._bytes += len(rest)
        if self._bytes > self._most_bytes:
            line = self.rest
            self.too_long += self._wanted(line)
            self._parts, self._bytes, self._passing_over = [line[:1]], 0, True
        return ended


def read_lines(raw: BinaryIO, file: str) -> Iterator[tuple[int, bytes]]:
    """Numbered lines of a file, decompressed. Raises RecordingBroken where it breaks off.

    One of an event log that tells nothing here, as a plan, may be as long as it likes.
    """
    number, lines = 0, Lines(MOST_LINE_BYTES, spark_events.wanted)
    try:
        for chunk in _decompressed(raw, file):
            for line in lines.cut(chunk):
                number += 1
                yield number, line
            if lines.too_long:
                limit = f"longer than {MOST_LINE_BYTES} bytes"
                raise RecordingError(f"{file}:{number + 1}: a line {limit}: is this JSON lines?")
    except _Broken as broken:
        raise RecordingBroken(f"{file}: breaks off after line {number}: {broken}") from None
    pending = lines.rest
    if pending.strip():
        try:
            _decode(pending)
        except (ValueError, RecursionError):
            where = f"{file}: breaks off in line {number + 1}"
            raise RecordingBroken(f"{where}: the last line is not whole") from None
        yield number + 1, pending


class _Broken(Exception):  # noqa: N818
    """The compressed stream is cut or damaged."""


def _decompressed(raw: BinaryIO, file: str) -> Iterator[bytes]:
    head = raw.read(CHUNK_BYTES)
    if head.startswith(GZIP):
        yield from _inflate(raw, head, _gzip)
    elif head.startswith(ZSTD_MAGIC):
        yield from _inflate(raw, head, _zstd)
    elif (unpack := decoder_of(head)) is not None:
        yield from _of_spark(raw, head, unpack)
    elif head.startswith(LZF_MAGIC):
        raise RecordingError(f"{file}: {NO_LZF}")
    else:
        while head:
            yield head
            head = raw.read(CHUNK_BYTES)


def _of_spark(raw: BinaryIO, data: bytes, unpack: Decoder) -> Iterator[bytes]:
    """As Spark's own codecs frame an event log."""
    try:
        while data:
            yield from unpack.pieces(data)
            data = raw.read(CHUNK_BYTES)
    except Damaged as error:
        raise _Broken(str(error)) from None
    if not unpack.whole:
        raise _Broken("the compressed file is not whole")


def _gzip() -> _Decompressor:
    return zlib.decompressobj(wbits=31)


def _zstd() -> _Decompressor:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


def _inflate(raw: BinaryIO, data: bytes, begin: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """All members or frames of a compressed stream, one after the other."""
    current = begin()
    begun = False
    while True:
        if not data:
            data = raw.read(CHUNK_BYTES)
            if not data:
                break
        if current.eof:
            current = begin()
        step, data = data[:STEP_BYTES], data[STEP_BYTES:]
        try:
            yield current.decompress(step)
        except Exception as error:  # zlib.error or zstandard.ZstdError
            if isinstance(error, (zlib.error, ValueError)) or "Zstd" in type(error).__name__:
                raise _Broken(f"damaged compression: {error}") from None
            raise
        begun = True
        if current.eof:
            data = current.unused_data + data
    if begun and not current.eof:
        raise _Broken("the compressed file is not whole")


def read_events(raw: BinaryIO, file: str, reader: EventReader) -> Iterator[Recorded]:
    """The events of a file in order.

    Raises RecordingError on a line that cannot be used, RecordingBroken where the file breaks off,
    or at its end where a line in it did: who wrote it was killed meanwhile, and wrote on later.
    """
    torn: list[int] = []
    try:
        for number, line in read_lines(raw, file):
            if not line.strip():
                continue
            try:
                recorded = reader.read(line)
            except RecursionError:
                raise RecordingError(f"{file}:{number}: nested too deeply") from None
            except ValueError as error:  # of msgspec too
                if not _torn(line, error):
                    raise RecordingError(f"{file}:{number}: {error}") from None
                torn.append(number)
                continue
            if recorded is not None:
                yield recorded
    except RecordingBroken as broken:
        raise RecordingBroken("; ".join([str(broken), *_told(file, torn)])) from None
    if torn:
        raise RecordingBroken(*_told(file, torn))


def _torn(line: bytes, error: ValueError) -> bool:
    """Whether a line breaks off; of a machine that died a file may have zeros in place of text."""
    return isinstance(error, msgspec.DecodeError) and (
        b"\0" in line or str(error).startswith("Input data was truncated")
    )


def _told(file: str, torn: list[int]) -> list[str]:
    if not torn:
        return []
    more = f", and {len(torn) - 1} more" if len(torn) > 1 else ""
    return [f"{file}: line {torn[0]} breaks off and was passed over{more}"]


class EventReader:
    """Lines to events; remembers the time and whose file it is."""

    def __init__(self, application: Application, last_time: float | None = None) -> None:
        """``application`` is whose they are until a line says.

        ``last_time``: of the newest that stands before the first line, epoch seconds.
        """
        self._application = application
        self._sequence = 0
        self._before = last_time
        self._time: float | None = None
        self._begun_time: float | None = None  # of its application

    @property
    def application(self) -> Application:
        """Whose they are, as far as the lines have said."""
        return self._application

    @property
    def last_time(self) -> float | None:
        """Of the newest that the lines told, else of what stands before them."""
        return self._before if self._time is None else self._time

    def hear_time(self, time: float | None) -> None:
        """Something else was told between two lines, as a batch's job; epoch seconds."""
        if time is not None:
            self._time = max(self._time or 0.0, time)

    def read(self, line: bytes) -> Recorded | None:
        """One line; None for what is passed over. Raises ValueError."""
        if line.startswith((spark_stages.JOB_START, spark_stages.STAGE_COMPLETED)):
            with suppress(ValueError):  # of msgspec too: it tells the time alone
                self.hear_time(spark_stages.time_of(spark_stages.read(line)))
            return None
        if line.startswith(b'{"Event":"') and not (
            b"StreamingQueryListener$" in line or b"SparkListenerApplicationStart" in line
        ):
            return None  # most of an event log
        data = _decode(line)
        if not isinstance(data, dict):
            raise ValueError("an object is needed on each line")
        if "Event" in data:
            shaped = self._of_event_log(data)
        elif "type" in data:
            self._hear_application(data.get("application"))
            shaped = data
        elif "runId" in data and "timestamp" in data:
            _check_progress(data, None)
            shaped = spark_events.progress(data)
        else:
            raise ValueError(
                "type: neither an event (type, time, body), nor a StreamingQueryProgress "
                "(id, runId, timestamp), nor a line of a Spark event log (Event)"
            )
        if shaped is None:
            return None
        self._sequence += 1
        if shaped.get("type") == "progress" and isinstance(shaped.get("body"), dict):
            _check_progress(shaped["body"], shaped.get("limits"))
        event = decode_event(shaped, self._sequence)
        if shaped.get("type") != "terminated" or self._time is not None:
            self._time = max(self._time or 0.0, event.time)
        return Recorded(self._application, event)

    def _hear_application(self, said: object) -> None:
        """An event that the agent recorded says whose it is."""
        if said is None:
            return
        if not isinstance(said, dict):
            raise ValueError("application: an object is needed")
        known = self._application
        if said.get("id") == known.id and said.get("name") == known.name:
            return
        for key in ("id", "name"):
            if not isinstance(said.get(key), str) or not said[key]:
                raise ValueError(f"application.{key}: a text is needed")
        version = said.get("spark_version")
        self._application = Application(
            id=said["id"],
            name=said["name"],
            spark_version=version if isinstance(version, str) else "",
        )

    def _of_event_log(self, data: dict[str, Any]) -> dict[str, Any] | None:
        application = spark_events.application_of(data, self._application)
        if application is not None:
            self._application = application
            self._begun_time = spark_events.begun_time(data) or self._begun_time
            return None
        if isinstance(data.get("progress"), dict):
            _check_progress(data["progress"], None)
        return spark_events.shape(data, self.last_time, self._begun_time)


def _check_progress(body: dict[str, Any], limits: object) -> None:
    """A live query outlives a bad number; a recording with one is not what was recorded."""
    _check_number(body, "batchId", "body.batchId")
    _check_number(body, "numInputRows", "body.numInputRows")
    # By the wall clock: where it was set back meanwhile it is negative, and tells nothing.
    _check_number(body, "batchDuration", "body.batchDuration", signed=True)
    durations = body.get("durationMs")
    if durations is not None and not isinstance(durations, dict):
        raise ValueError("body.durationMs: an object is needed")
    for phase in durations or {}:
        _check_number(durations or {}, phase, f"body.durationMs.{phase}")
    for name, field in (("sources", "numInputRows"), ("stateOperators", "numRowsTotal")):
        items = body.get(name)
        if items is not None and not isinstance(items, list):
            raise ValueError(f"body.{name}: a list is needed")
        for index, item in enumerate(items or ()):
            if not isinstance(item, dict):
                raise ValueError(f"body.{name}[{index}]: an object is needed")
            _check_number(item, field, f"body.{name}[{index}].{field}")
    if isinstance(limits, list):
        for index, item in enumerate(limits):
            if isinstance(item, dict):
                for field in ("limit", "next_limit", "configured", "backlog", "admitted"):
                    _check_number(item, field, f"limits[{index}].{field}", unknown=None)


def _check_number(
    holder: dict[str, Any],
    key: str,
    where: str,
    *,
    unknown: int | None = UNKNOWN,
    signed: bool = False,
) -> None:
    value = holder.get(key)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{where}: a number is needed, not {str(value)[:40]!r}")
    if value < 0 and value != unknown and not signed:
        raise ValueError(f"{where}: a number from 0 is needed, not {value}")
