"""CRC32C, by which Spark sums its state files: Python's own library has CRC32 alone.

A table takes a byte at a time, some 10 MB/s. So a long run of bytes is made short first, some
thousands at once, by adding multiples of the polynomial, which leave the remainder as it is. One
of four terms, found by search, costs a few shifts of a large integer: some 250 MB/s.
"""

from __future__ import annotations

from typing import Final

#: Castagnoli's polynomial, its terms from x^31 down to x^0 at the bits from 0 up.
_POLYNOMIAL: Final = 0x82F63B78
_ONES: Final = 0xFFFFFFFF
#: x^5685 + x^1362 + x^426 + 1 is a multiple of the polynomial, and so is each of its squares: the
#: bits that are 5685 or more from the end fall 4323 at once. Of its eighth power these are bytes.
_TERMS: Final = (5685, 1362, 426)


def _of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE: Final = tuple(map(_of_byte, range(256)))


def crc32c(data: bytes, value: int = 0) -> int:
    """The CRC32C of some bytes, of 32 bits unsigned; ``value``: that of the bytes before them."""
    state = value ^ _ONES
    if len(data) >= 2 * _TERMS[0]:
        data, state = _shortened(data, state), 0
    for byte in data:
        state = state >> 8 ^ _TABLE[(state ^ byte) & 0xFF]
    return state ^ _ONES


def _shortened(data: bytes, state: int) -> bytes:
    """Fewer bytes of the same remainder; the lowest bits are those of the highest powers."""
    length, rest = len(data), int.from_bytes(data, "little") ^ state
    scale = 1
    while 2 * scale * _TERMS[0] < length:
        scale *= 2
    while scale:
        first, second, third = (scale * term for term in _TERMS)
        gone = first - second
        while length >= first + gone:
            low = rest & ((1 << 8 * gone) - 1)
            rest = rest >> 8 * gone ^ low ^ low << 8 * (second - third) ^ low << 8 * second
            length -= gone
        scale //= 2
    return rest.to_bytes(length, "little")
