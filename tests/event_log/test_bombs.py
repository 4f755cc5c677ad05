"""Logs that unpack to much, or hold lines without end: what is kept of them is bounded."""

from __future__ import annotations

import asyncio
import gzip
import struct
import time
import tracemalloc
from typing import TYPE_CHECKING

import cramjam
import pytest
import zstandard

from agent.core.policy import Policy
from agent.service import event_logs
from agent.service.event_logs import EventLogs
from agent.service.keeper import Keeper
from agent.service.store import Store
from agent.sources.event_log import MOST_LINE_BYTES, MOST_STEPS, find_logs
from agent.spark_codecs import MOST_WINDOW_BYTES, Damaged, Gzip, decoder
from tests.event_log import lines
from tests.event_log.test_follow import KINDS, drain, follow, single

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 2**20
FILLER = b'{"Event":"SparkListenerTaskEnd","' + b"x" * 8000 + b'":1}\n'


def zstd(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(plain)


def lz4(plain: bytes) -> bytes:
    packed = b""
    for begin in range(0, len(plain), MIB):
        piece = plain[begin : begin + MIB]
        block = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        packed += struct.pack("<8sBIII", b"LZ4Block", 0x2A, len(block), len(piece), 0) + block
    return packed


def snappy(plain: bytes) -> bytes:
    packed = b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1)
    for begin in range(0, len(plain), MIB):
        block = bytes(cramjam.snappy.compress_raw(plain[begin : begin + MIB]))
        packed += struct.pack(">I", len(block)) + block
    return packed


PACKED = {"zstd": zstd, "lz4": lz4, "snappy": snappy}


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("filler", [b"\n", b"a", FILLER])
def test_what_unpacks_to_much_costs_little_and_hides_nothing(
    tmp_path: Path, codec: str, filler: bytes
) -> None:
    pack: Callable[[bytes], bytes] = PACKED[codec]
    bomb = (filler * (64 * MIB // len(filler) + 1))[: 64 * MIB]
    content = lines.whole()
    packed = pack(b"".join(content[:8])) + pack(bomb + b"\n") + pack(b"".join(content[8:]))
    del bomb
    follower = follow(single(tmp_path, packed, f"app-1.{codec}"))
    tracemalloc.start()
    try:
        events = drain(follower)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [event.kind for event in events] == KINDS
    assert peak < 40 * MIB
    assert follower.held_bytes == 0


def test_a_frame_that_asks_for_more_memory_than_spark_does_is_passed_over() -> None:
    large = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=large).compressobj()
    packed = packer.compress(b"x" * 1000) + packer.flush()
    with pytest.raises(Damaged, match="zstd"):
        decoder("app-1.zstd").feed(packed)
    fits = zstandard.ZstdCompressionParameters(window_log=MOST_WINDOW_BYTES.bit_length() - 1)
    packer = zstandard.ZstdCompressor(compression_params=fits).compressobj()
    assert decoder("a.zstd").feed(packer.compress(b"x" * 9) + packer.flush()) == b"x" * 9


@pytest.mark.parametrize("claimed", [2**25 + 1, 2**32 - 1])
def test_a_block_that_claims_to_be_huge_is_damaged(claimed: int) -> None:
    length, varint = claimed, b""
    while length >= 0x80:
        varint += bytes([length & 0x7F | 0x80])
        length >>= 7
    block = varint + bytes([length]) + b"\x00a"
    packed = b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1) + struct.pack(">I", len(block)) + block
    with pytest.raises(Damaged, match=f"a block of {claimed} bytes"):
        decoder("app-1.snappy").feed(packed)
    packed = struct.pack("<8sBIII", b"LZ4Block", 0x2A, 9, claimed, 0)
    with pytest.raises(Damaged, match=f"a block of {claimed} bytes"):
        decoder("app-1.lz4").feed(packed)


EMPTY = {
    "zstd": zstandard.ZstdCompressor(level=3).compress(b""),
    "lz4": struct.pack("<8sBIII", b"LZ4Block", 0x10, 0, 0, 0),
    "snappy": b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1),
    "gz": gzip.compress(b""),
}


@pytest.mark.parametrize("codec", EMPTY)
def test_what_is_packed_in_the_smallest_parts_costs_what_its_bytes_do(codec: str) -> None:
    """However many there are: eight times the bytes take eight times as long, and not 64."""

    def seconds(size: int) -> float:
        unpacker = Gzip() if codec == "gz" else decoder(f"app-1.{codec}")
        begun = time.process_time()
        assert unpacker.feed(EMPTY[codec] * (size // len(EMPTY[codec]))) == b""
        return time.process_time() - begun

    short = min(seconds(MIB // 4) for _ in range(3))
    assert min(seconds(2 * MIB) for _ in range(3)) < 8 * 2.5 * short


@pytest.mark.parametrize("what", ["Listener$QueryProgressEvent", "SQLExecutionStart"])
def test_a_line_without_end_is_passed_over_to_its_end_and_the_next_one_counts(
    tmp_path: Path, what: str
) -> None:
    """One that is wanted with a word, another one as any that is not."""
    beginning = f'{{"Event":"org.apache.spark.sql.streaming.StreamingQuery{what}","a":"'.encode()
    endless = beginning + b"x" * (MOST_LINE_BYTES + 3 * MIB) + b'"}\n'
    content = lines.whole()
    log = single(tmp_path, b"".join([*content[:8], endless, *content[8:]]))
    follower = follow(log)
    events = drain(follower)
    assert [event.kind for event in events] == KINDS
    assert follower.skipped == ("Progress" in what)
    # Numbers are places in the file still: one that starts in the middle reads the rest.
    assert [e.sequence for e in drain(follow(log, events[4].sequence))] == [
        e.sequence for e in events[5:]
    ]


def test_a_log_that_tells_nothing_gives_others_their_turn(tmp_path: Path) -> None:
    follower = follow(single(tmp_path, FILLER * (2 * MOST_STEPS * MIB // len(FILLER))))
    request = follower.next_request()
    assert request is not None
    assert request.events == []


def test_all_logs_together_keep_no_more_than_so_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has begun a line that is allowed; together they are too much."""
    most = 12 * MIB
    monkeypatch.setattr(event_logs, "MOST_HELD_BYTES", most)
    begun = b'{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent","'
    names = [f"app-{number}" for number in range(40)]
    for name in names:
        (tmp_path / f"{name}.inprogress").write_bytes(begun + b"x" * MIB)
    assert len(find_logs(tmp_path)) == len(names)
    now = (tmp_path / "app-1.inprogress").stat().st_mtime
    keeper = Keeper(Policy(), Store(None), started_time=now)
    logs = EventLogs([tmp_path], keeper, lambda: now)
    asyncio.run(logs.poll())
    followers = logs.directories[0].followers
    assert len(followers) == len(names)
    held = sum(one.held_bytes for one in followers.values())
    assert most - 2 * MIB < held <= most
    assert sum(one.skipped for one in followers.values()) == len(names) - held // MIB
    # Who had to let go goes on with the next line.
    for name in names:
        with (tmp_path / f"{name}.inprogress").open("ab") as file:
            file.write(b'":1}\n' + b"".join(lines.whole(1)))
    asyncio.run(logs.poll())
    assert sum(one.held_bytes for one in followers.values()) == 0
    assert keeper.fleet.totals.events["progress"] == len(names)
