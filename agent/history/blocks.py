"""What is kept of the logs between runs: lines that matter, in blocks, each a line of plain text.

A block holds consecutive kept lines of one piece of one file, packed; before it stands its head,
which says whose they are. Text is what every file system, and every version of Spark, gives back
as it was; and blocks are few, so that sorting them costs nothing.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final

import msgspec

from agent.history import extract
from agent.history.extract import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agent.history.logs import LogFile

#: A block is closed from so many bytes on, before it is packed.
BLOCK_BYTES: Final = 256 << 10
#: Packs these lines to a sixth; more effort would win little.
_EFFORT: Final = 1

_encode_head = msgspec.json.Encoder().encode
_encode_lines = msgspec.msgpack.Encoder().encode
_decode_lines = msgspec.msgpack.Decoder(list[Kept]).decode
_decode_start = msgspec.json.Decoder().decode


class Head(msgspec.Struct, frozen=True, array_like=True):
    """Whose lines a block holds; (part, block, number) is its place in the log."""

    file: str  # the key of the file
    run: int  # that read it
    log: str
    part: int
    block: int
    number: int


class Told(msgspec.Struct, frozen=True):
    """What a piece of a file says of itself. Times in epoch seconds, None: it has none."""

    events: int
    begin: float | None
    end: float | None
    bad_lines: int = 0
    reason: str = ""  # why the first of them cannot be used
    name: str = ""  # of the application, where it is said here
    application_id: str = ""
    start: str = ""  # of which of its starts, by time and attempt


_decode_head = msgspec.json.Decoder(Head).decode


def packed(
    file: LogFile, run: int, block: int, lines: Iterable[Kept], note: Callable[[Told], None]
) -> Iterator[bytes]:
    """The lines of a piece as blocks; ``note`` hears at its end what it said of itself."""
    held: list[Kept] = []
    size = number = 0
    told: dict[str, object] = {}
    for one in lines:
        if one.kind == extract.BAD:
            bad = extract.decode_bad(one.data)
            told |= {"bad_lines": bad.lines, "reason": bad.reason}
            continue
        if one.kind == extract.READ:
            counted = extract.decode_counted(one.data)
            told |= {"events": counted.events, "begin": counted.begin, "end": counted.end}
            continue
        if one.kind == extract.APPLICATION:
            data = _decode_start(one.data)
            if data.get("Event") == "SparkListenerApplicationStart" and data.get("App Name"):
                name = str(data["App Name"])
                told |= {"name": name, "application_id": str(data.get("App ID") or name)}
                told["start"] = f"{data.get('Timestamp')}/{data.get('App Attempt ID') or ''}"
        held.append(one)
        size += len(one.data)
        if size >= BLOCK_BYTES:
            yield _packed(Head(file.key, run, file.log, file.index, block, number), held)
            held, size, number = [], 0, number + 1
    if held:
        yield _packed(Head(file.key, run, file.log, file.index, block, number), held)
    note(msgspec.convert(told, Told))


def _packed(head: Head, lines: list[Kept]) -> bytes:
    return _encode_head(head) + b"\t" + b64encode(zlib.compress(_encode_lines(lines), _EFFORT))


def opened(text: bytes) -> tuple[Head, bytes]:
    """A block's head, and its lines still packed."""
    head, _, lines = text.partition(b"\t")
    return _decode_head(head), lines


def lines_of(block: bytes) -> list[Kept]:
    """The lines of a block."""
    return _decode_lines(zlib.decompress(b64decode(block)))
