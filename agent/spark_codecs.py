"""Spark's compression of event logs and state, undone piece by piece while the file still grows.

Spark frames lz4 and snappy in ways of its own libraries (lz4-java's ``LZ4BlockOutputStream``,
snappy-java's ``SnappyOutputStream``), not as the formats' own tools do; zstd it writes as one frame
per flush. A decoder takes whatever bytes there are and gives what they already tell. Gzip is none
of Spark's: so are the files packed that nobody writes to any more.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The largest block that lz4-java writes, and more than anybody sets; more is a damaged length.
MOST_BLOCK_BYTES: Final = 32 * 1024 * 1024
#: What zstd may keep of a frame: what its format asks of every reader, enough up to level 19.
MOST_WINDOW_BYTES: Final = 8 * 1024 * 1024
#: Fed to zstd or gzip at once: to zstd each four bytes may be a block of 128 KiB, so these give 16
#: MiB at most, and of gzip half a MiB.
_STEP_BYTES: Final = 512
#: Given at once.
PIECE_BYTES: Final = 1024 * 1024
LZ4_MAGIC: Final = b"LZ4Block"
_LZ4_HEADER: Final = struct.Struct("<8sBIII")  # magic, token, compressed, plain, checksum
_LZ4_RAW: Final = 0x10
LZF_MAGIC: Final = b"ZV"
NO_LZF: Final = "compressed with lzf, which cannot be read here; zstd, lz4 and snappy can"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_BYTES: Final = 16  # magic, version, the oldest version that can read it


class Damaged(ValueError):  # noqa: N818 - what it is, not that it is an error
    """The compressed bytes are not what their codec writes; the message says where and how."""


class Decoder:
    """Compressed bytes in, as they come; plain bytes out, as far as those in tell them."""

    #: Whether nothing that was fed waits for more.
    whole = True
    #: What is kept until more comes.
    held_bytes = 0
    #: So many bytes of zero in a row are none of such a stream: lz4's closing block has twelve.
    hole_bytes = 16

    def feed(self, data: bytes) -> bytes:
        """Raises Damaged."""
        return b"".join(self.pieces(data))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The same in pieces of bounded size, unpacked as they are taken: however much it is."""
        for plain in self._unpack(data):
            for begin in range(0, len(plain), PIECE_BYTES):
                yield plain[begin : begin + PIECE_BYTES]

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        raise NotImplementedError


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
        raise ValueError(NO_LZF)
    if ending == "gz":
        raise ValueError("compressed with gzip, as Spark writes no log: weir history reads it")
    return _Plain()


def decoder_of(head: bytes) -> Decoder | None:
    """The decoder that a file's first bytes ask for; None where they are of none that is known."""
    for magic, found in ((LZ4_MAGIC, _Lz4), (ZSTD_MAGIC, _Zstd), (SNAPPY_MAGIC, _Snappy)):
        if head.startswith(magic):
            return found()
    return None


def ends_whole(file: BinaryIO) -> bool | None:
    """Whether a file ends with lz4's closing block; None where it is no such stream."""
    if file.read(len(LZ4_MAGIC)) != LZ4_MAGIC:
        return None
    file.seek(max(file.seek(0, 2) - _LZ4_HEADER.size, 0))
    tail = file.read(_LZ4_HEADER.size)
    return tail.startswith(LZ4_MAGIC) and tail[len(LZ4_MAGIC) + 1 :] == bytes(12)


class _Plain(Decoder):
    hole_bytes = 1  # JSON has none

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Zstd(Decoder):
    """Frame after frame; Spark closes one at each flush."""

    def __init__(self) -> None:
        import zstandard

        self._library = zstandard
        self._frame: Any = None

    @property
    def whole(self) -> bool:  # type: ignore[override]
        return self._frame is None

    @property
    def held_bytes(self) -> int:  # type: ignore[override]
        return 0 if self._frame is None else self._window_bytes

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        frames = self._library.ZstdDecompressor(max_window_size=MOST_WINDOW_BYTES)
        at = 0  # cut for each frame, what follows would be copied as often as there are frames
        while at < len(data):
            step = data[at : at + _STEP_BYTES]
            at += len(step)
            if self._frame is None:
                self._frame = frames.decompressobj()
                self._window_bytes = self._window_of(step)
            try:
                yield self._frame.decompress(step)
            except self._library.ZstdError as error:
                raise Damaged(f"damaged zstd: {error}") from None
            if self._frame.eof:
                at -= len(self._frame.unused_data)
                self._frame = None

    def _window_of(self, head: bytes) -> int:
        try:
            window: int = self._library.get_frame_parameters(head).window_size
        except self._library.ZstdError:  # its header is not whole yet
            return MOST_WINDOW_BYTES
        return min(window, MOST_WINDOW_BYTES)


class Gzip(Decoder):
    """Member after member."""

    def __init__(self) -> None:
        self._member: Any = None

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """Whether no member waits for more."""
        return self._member is None

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            if self._member is None:
                self._member = zlib.decompressobj(wbits=31)
            step = data[at : at + _STEP_BYTES]
            at += len(step)
            try:
                yield self._member.decompress(step)
            except zlib.error as error:
                raise Damaged(f"damaged gzip: {error}") from None
            if self._member.eof:
                at -= len(self._member.unused_data)
                self._member = None


class _Blocks(Decoder):
    """A stream of blocks, of which the last one may not be whole yet."""

    def __init__(self) -> None:
        self._pending = b""

    @property
    def whole(self) -> bool:  # type: ignore[override]
        return not self._pending

    @property
    def held_bytes(self) -> int:  # type: ignore[override]
        return len(self._pending)


class _Lz4(_Blocks):
    """lz4-java's blocks: a header with both lengths and a checksum, then the block."""

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        import cramjam

        data, self._pending = self._pending + data, b""
        at, size = 0, _LZ4_HEADER.size
        while len(data) >= at + size:
            magic, token, length, plain_length, _ = _LZ4_HEADER.unpack_from(data, at)
            if magic != LZ4_MAGIC:
                raise Damaged("damaged lz4: a block without its magic number")
            if max(length, plain_length) > MOST_BLOCK_BYTES:
                raise Damaged(f"damaged lz4: a block of {max(length, plain_length)} bytes")
            if len(data) < at + size + length:
                break
            at += size + length
            if not plain_length:
                continue  # the mark at a stream's end
            block = data[at - length : at]
            if token & 0xF0 == _LZ4_RAW:
                yield block
                continue
            try:
                part = bytes(cramjam.lz4.decompress_block(block, output_len=plain_length))
            except cramjam.DecompressionError as error:
                raise Damaged(f"damaged lz4: {error}") from None
            if len(part) != plain_length:
                raise Damaged("damaged lz4: a block is not as long as its header says")
            yield part
        self._pending = data[at:]


class _Snappy(_Blocks):
    """snappy-java's stream: a header, then blocks behind their lengths."""

    def _unpack(self, data: bytes) -> Iterator[bytes]:
        import cramjam

        data, self._pending = self._pending + data, b""
        at = 0
        while len(data) >= at + 4:
            if data[at] == SNAPPY_MAGIC[0]:
                # Streams may follow each other in one file, each with its own header.
                if len(data) < at + _SNAPPY_HEADER_BYTES:
                    break
                if not data.startswith(SNAPPY_MAGIC, at):
                    raise Damaged("damaged snappy: a header without its magic number")
                at += _SNAPPY_HEADER_BYTES
                continue
            (length,) = struct.unpack_from(">I", data, at)
            if length > MOST_BLOCK_BYTES:
                raise Damaged(f"damaged snappy: a block of {length} bytes")
            if len(data) < at + 4 + length:
                break
            at += 4 + length
            block = data[at - length : at]
            if _snappy_plain_bytes(block) > MOST_BLOCK_BYTES:
                raise Damaged(f"damaged snappy: a block of {_snappy_plain_bytes(block)} bytes")
            try:
                yield bytes(cramjam.snappy.decompress_raw(block))
            except cramjam.DecompressionError as error:
                raise Damaged(f"damaged snappy: {error}") from None
        self._pending = data[at:]


def _snappy_plain_bytes(block: bytes) -> int:
    """What a block says that it holds: seven bits a byte, the lowest first."""
    length = 0
    for position, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            break
    return length
