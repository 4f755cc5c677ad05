"""Spark's compression of event logs, undone piece by piece while the file still grows.

Spark frames lz4 and snappy in ways of its own libraries (lz4-java's ``LZ4BlockOutputStream``,
snappy-java's ``SnappyOutputStream``), not as the formats' own tools do; zstd it writes as one frame
per flush. A decoder takes whatever bytes there are and gives what they already tell.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

#: Nothing that Spark writes has larger blocks; more is a damaged length.
MOST_BLOCK_BYTES: Final = 64 * 1024 * 1024
_LZ4_MAGIC: Final = b"LZ4Block"
_LZ4_HEADER: Final = struct.Struct("<8sBIII")  # magic, token, compressed, plain, checksum
_LZ4_RAW: Final = 0x10
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_BYTES: Final = 16  # magic, version, the oldest version that can read it


class Damaged(ValueError):  # noqa: N818 - what it is, not that it is an error
    """The compressed bytes are not what their codec writes; the message says where and how."""


class Decoder(Protocol):
    """Compressed bytes in, as they come; plain bytes out, as far as those in tell them."""

    def feed(self, data: bytes) -> bytes:
        """Raises Damaged."""
        ...

    @property
    def whole(self) -> bool:
        """Whether nothing that was fed waits for more."""
        ...


def decoder(file_name: str) -> Decoder:
    """The decoder that the name's ending asks for. Raises ValueError for one that is not known."""
    stem = file_name.removesuffix(".inprogress").removesuffix(".compact")
    ending = stem.rpartition(".")[2] if "." in stem else ""
    if ending == "zstd":
        return _Zstd()
    if ending == "lz4":
        return _Lz4()
    if ending == "snappy":
        return _Snappy()
    if ending == "lzf":
        raise ValueError("compressed with lzf, which cannot be read here; zstd, lz4 and snappy can")
    if ending == "gz":
        raise ValueError("compressed with gzip, as Spark writes no log: unpacked, it can be read")
    return _Plain()


class _Plain:
    whole = True

    def feed(self, data: bytes) -> bytes:
        return data


class _Zstd:
    """Frame after frame; Spark closes one at each flush."""

    def __init__(self) -> None:
        import zstandard

        self._library = zstandard
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False

    @property
    def whole(self) -> bool:
        return self._frame.eof or not self._begun

    def feed(self, data: bytes) -> bytes:
        plain: list[bytes] = []
        while data:
            self._begun = True
            if self._frame.eof:
                self._frame = self._library.ZstdDecompressor().decompressobj()
            try:
                plain.append(self._frame.decompress(data))
            except self._library.ZstdError as error:
                raise Damaged(f"damaged zstd: {error}") from None
            data = self._frame.unused_data if self._frame.eof else b""
        return b"".join(plain)


class _Lz4:
    """lz4-java's blocks: a header with both lengths and a checksum, then the block."""

    def __init__(self) -> None:
        self._pending = b""

    @property
    def whole(self) -> bool:
        return not self._pending

    def feed(self, data: bytes) -> bytes:
        import cramjam

        self._pending += data
        plain: list[bytes] = []
        size = _LZ4_HEADER.size
        while len(self._pending) >= size:
            magic, token, length, plain_length, _ = _LZ4_HEADER.unpack_from(self._pending)
            if magic != _LZ4_MAGIC:
                raise Damaged("damaged lz4: a block without its magic number")
            if max(length, plain_length) > MOST_BLOCK_BYTES:
                raise Damaged(f"damaged lz4: a block of {max(length, plain_length)} bytes")
            if len(self._pending) < size + length:
                break
            block = self._pending[size : size + length]
            self._pending = self._pending[size + length :]
            if not plain_length:
                continue  # the mark at a stream's end
            if token & 0xF0 == _LZ4_RAW:
                plain.append(block)
                continue
            try:
                part = bytes(cramjam.lz4.decompress_block(block, output_len=plain_length))
            except cramjam.DecompressionError as error:
                raise Damaged(f"damaged lz4: {error}") from None
            if len(part) != plain_length:
                raise Damaged("damaged lz4: a block is not as long as its header says")
            plain.append(part)
        return b"".join(plain)


class _Snappy:
    """snappy-java's stream: a header, then blocks behind their lengths."""

    def __init__(self) -> None:
        self._pending = b""

    @property
    def whole(self) -> bool:
        return not self._pending

    def feed(self, data: bytes) -> bytes:
        import cramjam

        self._pending += data
        plain: list[bytes] = []
        while len(self._pending) >= 4:
            if self._pending[:1] == _SNAPPY_MAGIC[:1]:
                # Streams may follow each other in one file, each with its own header.
                if len(self._pending) < _SNAPPY_HEADER_BYTES:
                    break
                if not self._pending.startswith(_SNAPPY_MAGIC):
                    raise Damaged("damaged snappy: a header without its magic number")
                self._pending = self._pending[_SNAPPY_HEADER_BYTES:]
                continue
            (length,) = struct.unpack_from(">I", self._pending)
            if length > MOST_BLOCK_BYTES:
                raise Damaged(f"damaged snappy: a block of {length} bytes")
            if len(self._pending) < 4 + length:
                break
            block = self._pending[4 : 4 + length]
            self._pending = self._pending[4 + length :]
            try:
                plain.append(bytes(cramjam.snappy.decompress_raw(block)))
            except cramjam.DecompressionError as error:
                raise Damaged(f"damaged snappy: {error}") from None
        return b"".join(plain)
