"""Decodes the LZ4 block stream that Spark writes state changes in (lz4-java's ``LZ4Block``).

Only for the headers of changelog files, so plain Python is quick enough. A frame is the magic,
a token (method in its upper half), the compressed and the original length, a checksum, the data.
"""

from __future__ import annotations

from typing import BinaryIO, Final

_MAGIC: Final = b"LZ4Block"
_HEADER: Final = len(_MAGIC) + 13
_RAW: Final = 0x10
_COMPRESSED: Final = 0x20


def decode_frames(data: bytes, limit: int) -> bytes | None:
    """The first ``limit`` bytes or so of what the frames hold; None where it is not such a stream.

    Stops at the end of the data: a stream cut short gives its whole frames.
    """
    if not data.startswith(_MAGIC):
        return None
    out = bytearray()
    at = 0
    while len(out) < limit and data[at : at + len(_MAGIC)] == _MAGIC:
        if at + _HEADER > len(data):
            break
        method = data[at + len(_MAGIC)] & 0xF0
        sizes = at + len(_MAGIC) + 1
        packed = int.from_bytes(data[sizes : sizes + 4], "little")
        block = data[at + _HEADER : at + _HEADER + packed]
        if len(block) < packed:
            break
        if method == _RAW:
            out += block
        elif method == _COMPRESSED:
            decoded = _block(block)
            if decoded is None:
                return None
            out += decoded
        else:
            return None
        at += _HEADER + packed
    return bytes(out)


def is_whole(file: BinaryIO) -> bool | None:
    """Whether the stream ends with its closing frame; None where it is no such stream."""
    if file.read(len(_MAGIC)) != _MAGIC:
        return None
    file.seek(max(file.seek(0, 2) - _HEADER, 0))
    tail = file.read(_HEADER)
    return tail.startswith(_MAGIC) and tail[len(_MAGIC) + 1 :] == bytes(12)


def _block(block: bytes) -> bytes | None:
    """One LZ4 block; None where it is damaged."""
    out = bytearray()
    at, end = 0, len(block)
    try:
        while at < end:
            token = block[at]
            at += 1
            count = token >> 4
            if count == 15:
                count, at = _length(block, at, count)
            out += block[at : at + count]
            at += count
            if at >= end:
                break
            distance = block[at] | block[at + 1] << 8
            at += 2
            if distance == 0 or distance > len(out):
                return None
            count = token & 15
            if count == 15:
                count, at = _length(block, at, count)
            start = len(out) - distance
            for offset in range(count + 4):
                out.append(out[start + offset])
    except IndexError:
        return None
    return bytes(out)


def _length(block: bytes, at: int, count: int) -> tuple[int, int]:
    while True:
        step = block[at]
        at += 1
        count += step
        if step != 255:
            return count, at
