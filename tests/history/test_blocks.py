"""Blocks of kept lines: everything comes back, in pieces that are bounded, and is told once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.history import blocks, extract
from agent.history.blocks import Told, lines_of, opened, packed
from agent.history.logs import Found, log_files
from tests.event_log import lines as made

if TYPE_CHECKING:
    import pytest

FILE = log_files([Found("hdfs://n/logs/eventlog_v2_app-1/events_2_app-1", 10, 0)])[0]


def test_lines_come_back_as_they_were(real_log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    kept = list(extract.of_lines([*real_log.splitlines(), b"no json"], 64, in_progress=False))
    told: list[Told] = []
    made = list(packed(FILE, 3, 64, kept, told.append))
    assert all(b"\n" not in text for text in made)
    heads = [opened(text)[0] for text in made]
    assert [head.number for head in heads] == list(range(len(made)))
    assert {(head.file, head.run, head.log, head.part, head.block) for head in heads} == {
        ("hdfs://n/logs/eventlog_v2_app-1#2", 3, "hdfs://n/logs/eventlog_v2_app-1", 2, 64)
    }
    back = [line for text in made for line in lines_of(opened(text)[1])]
    assert back == [one for one in kept if one.kind not in (extract.BAD, extract.READ)]
    (one,) = told
    assert (one.name, one.bad_lines, one.reason) == ("orders", 1, "not a line of a Spark event log")
    assert one.events > len(back)
    assert one.begin is not None
    assert one.end is not None
    assert one.begin < one.end


def test_of_a_file_without_a_line_that_counts_there_is_no_block() -> None:
    told: list[Told] = []
    kept = extract.of_lines([b"remember the milk"], 0, in_progress=False)
    assert list(packed(FILE, 1, 0, kept, told.append)) == []
    assert (told[0].events, told[0].bad_lines, told[0].begin) == (0, 1, None)


def test_an_end_that_comes_first_tells_no_time() -> None:
    """Spark writes none beside it, and which was before it another piece tells."""
    told: list[Told] = []
    kept = list(extract.of_lines([made.terminated()], 0, in_progress=False))
    (text,) = packed(FILE, 1, 0, kept, told.append)
    (line,) = lines_of(opened(text)[1])
    assert (line.kind, line.time) == (extract.EVENT, None)
    assert (told[0].events, told[0].begin, told[0].end) == (1, None, None)
