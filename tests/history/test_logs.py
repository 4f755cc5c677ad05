"""Which files are logs, and which of them are read again."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from msgspec.structs import replace

from agent.history import extract
from agent.history.job import _spread
from agent.history.logs import MOST_WHOLE_BYTES, Found, LogFile, Read, log_files, plan
from agent.history.places import missing_here
from tests.event_log import lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROLLING = "hdfs://n/logs/eventlog_v2_app-1"


def found(*paths: str, size: int = 10, modified: int = 1) -> list[LogFile]:
    return log_files(Found(path, size, modified) for path in paths)


def read(files: list[LogFile], run: int = 1) -> dict[str, Read]:
    return {file.key: Read(run, file.size, file.modified) for file in files}


def test_what_is_a_log_and_what_is_not() -> None:
    files = found(
        f"{ROLLING}/events_2_app-1.zstd",
        f"{ROLLING}/events_10_app-1.zstd",
        f"{ROLLING}/appstatus_app-1.inprogress",
        f"{ROLLING}/.events_2_app-1.zstd.crc",
        "hdfs://n/logs/app-2.lz4",
        "hdfs://n/logs/app-3.inprogress",
        "hdfs://n/logs/_SUCCESS",
        "hdfs://n/logs/app-4.tmp",
    )
    told = [(one.log.rpartition("/")[2], one.index, one.codec, one.in_progress) for one in files]
    assert told == [
        ("app-2", 0, "lz4", False),
        ("app-3", 0, "", True),
        ("eventlog_v2_app-1", 2, "zstd", False),
        ("eventlog_v2_app-1", 10, "zstd", True),
    ]


def test_of_a_log_that_rolls_the_newest_file_is_written_to_until_its_application_ends() -> None:
    parts = [f"{ROLLING}/events_{name}_app-1" for name in ("1", "2")] + [
        f"{ROLLING}/events_2_app-1.compact"
    ]
    told = {
        status: [(one.index, one.compact) for one in found(*parts, status) if one.in_progress]
        for status in (f"{ROLLING}/appstatus_app-1.inprogress", f"{ROLLING}/appstatus_app-1")
    }
    assert list(told.values()) == [[(2, False)], []]
    # Another log's end says nothing of it.
    other = ROLLING.replace("app-1", "app-2")
    beside = found(*parts, f"{other}/appstatus_app-2.inprogress", f"{other}/events_1_app-2")
    assert [one.log for one in beside if one.in_progress] == [other]


def test_only_what_is_new_or_grew_is_read() -> None:
    files = found("f:/l/a", "f:/l/b.inprogress")
    assert plan(files, {}).to_read == files
    assert plan(files, read(files)).to_read == []
    renamed = found("f:/l/a", "f:/l/b")
    assert plan(renamed, read(files)).to_read == []
    grown = found("f:/l/a") + found("f:/l/b.inprogress", size=11)
    assert plan(grown, read(files)).to_read == grown[1:]
    rewritten = found("f:/l/a", modified=2)
    assert plan(rewritten, read(files)).to_read == rewritten


def test_a_file_that_was_cleaned_away_stays_counted() -> None:
    files = found("f:/l/a", "f:/l/b")
    assert plan(files[:1], read(files)).valid == {file.key for file in files}


def test_a_compact_file_that_is_being_written_is_none() -> None:
    parts = [f"{ROLLING}/events_{name}_app-1" for name in ("1", "2")]
    assert found(*parts, f"{ROLLING}/events_2_app-1.compact.inprogress") == found(*parts)


def test_a_compact_file_is_read_only_where_what_it_stands_for_was_not() -> None:
    first = found(f"{ROLLING}/events_1_app-1", f"{ROLLING}/events_2_app-1")
    later = found(f"{ROLLING}/events_2_app-1.compact", f"{ROLLING}/events_3_app-1")
    seen_all = plan(later, read(first))
    assert [one.index for one in seen_all.to_read] == [3]
    assert seen_all.valid == {file.key for file in [*first, later[1]]}
    seen_some = plan(later, read(first[:1]))
    assert [one.key for one in seen_some.to_read] == [one.key for one in later]
    assert seen_some.valid == {one.key for one in later}
    seen_none = plan(later, {})
    assert seen_none.valid == {one.key for one in later}
    again = plan(later, read(later))
    assert again.to_read == []
    assert again.valid == {one.key for one in later}
    newer = found(f"{ROLLING}/events_3_app-1.compact", f"{ROLLING}/events_4_app-1")
    assert plan(newer, read(later)).valid == {one.key for one in newer}


def test_what_cannot_be_read_is_refused_with_a_reason() -> None:
    big = found("f:/l/c.zstd", size=2 << 30)
    chosen = plan([*found("f:/l/a.lzf"), *big], {})
    assert chosen.to_read == []
    assert [reason.split(":")[0] for _, reason in chosen.refused] == [
        "compressed with lzf, which cannot be read here; zstd, lz4, snappy and gzip can",
        f"{2 << 30} bytes compressed in one file",
    ]


def test_what_a_listing_leaves_out_is_read_by_one_task_while_that_is_little() -> None:
    (file,) = found("hdfs://n/l/a.inprogress", size=MOST_WHOLE_BYTES)
    assert not file.whole
    assert replace(file, unlisted=1).whole
    assert not replace(file, unlisted=1, size=MOST_WHOLE_BYTES + 1).whole


def bad_of(kept: Any) -> list[tuple[int, str]]:
    told = [extract.decode_bad(one.data) for one in kept if one.kind == extract.BAD]
    return [(one.lines, one.reason) for one in told]


def events_of(kept: Any) -> int:
    return sum(one.kind == extract.EVENT for one in kept)


#: Without the tasks, which are shortened there to what no Spark writes.
CONTENT = [line for line in lines.whole(6) if b"TaskEnd" not in line]
PROGRESS = lines.progress(3)


@pytest.mark.parametrize(
    ("damage", "count", "reason"),
    [
        (PROGRESS[:90] + b"\n", 1, "a line is not whole"),
        (b"\x00\xff\xfe garbage\n", 1, "not a line of a Spark event log"),
        (b'{"Event":"SparkListenerTaskEnd","Stage ID":"x"}\n', 1, "Expected `int`"),
        (PROGRESS.replace(b'"runId":"', b'"runOf":"'), 1, "body.runId"),
        (PROGRESS.replace(b'"batchId":', b'"batchId":-'), 1, "body.batchId"),
        (b"\n \n", 0, ""),
        (b"[" * 100_000 + b"\n", 1, "not a line of a Spark event log"),
        (b'{"Event":"SparkListenerJobStart","Properties":' + b"[" * 100_000 + b"}\n", 1, ""),
    ],
)
def test_bad_lines_are_counted_and_the_rest_is_used(damage: bytes, count: int, reason: str) -> None:
    plain = [line.strip(b"\n") for line in [*CONTENT[:9], *damage.splitlines(True), *CONTENT[9:]]]
    kept = list(extract.of_lines(plain, 0, in_progress=False))
    assert events_of(kept) >= events_of(extract.of_lines(
        [line.strip() for line in CONTENT], 0, in_progress=False
    ))  # fmt: skip
    bad = bad_of(kept)
    assert sum(lines for lines, _ in bad) == count
    if count:
        assert reason in bad[0][1]


def test_a_batch_in_which_the_clock_was_set_back_is_kept() -> None:
    lived = PROGRESS.replace(b'"batchDuration":', b'"batchDuration":-').strip()
    kept = list(extract.of_lines([lived], 0, in_progress=False))
    assert (events_of(kept), bad_of(kept)) == (1, [])


def test_a_last_line_that_is_not_whole_is_bad_only_in_a_log_that_has_ended() -> None:
    cut = [line.strip() for line in CONTENT[:8]] + [PROGRESS.strip()[:-30]]
    assert bad_of(extract.of_lines(cut, 0, in_progress=True)) == []
    assert len(bad_of(extract.of_lines(cut, 0, in_progress=False))) == 1


def test_compressed_files_give_what_stands_before_their_damage() -> None:
    plain = b"".join(CONTENT)
    packed = zstandard.ZstdCompressor().compress(plain)
    whole = list(extract.of_compressed(packed, "a.zstd", in_progress=False))
    assert (events_of(whole), bad_of(whole)) == (8, [])
    frames = b"".join(zstandard.ZstdCompressor().compress(line) for line in CONTENT)
    cut = list(extract.of_compressed(frames[:-20], "a.zstd", in_progress=False))
    assert bad_of(cut) == [(1, "the file breaks off; what stands before it is used")]
    assert events_of(cut) >= 7
    assert bad_of(extract.of_compressed(frames[:-20], "a.zstd", in_progress=True)) == []
    middle = len(frames) // 2
    broken = frames[:middle] + b"\x00" * 40 + frames[middle + 40 :]
    damaged = list(extract.of_compressed(broken, "a.zstd", in_progress=False))
    assert "damaged zstd" in bad_of(damaged)[0][1]
    assert 0 < events_of(damaged) < 8


@pytest.mark.parametrize("packed", [zstandard.compress, gzip.compress])
def test_of_a_line_that_is_too_long_the_rest_of_a_compressed_file_is_read(
    packed: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a plain one, whose too long lines Spark passes over."""
    monkeypatch.setattr(extract, "MOST_LINE_BYTES", 1 << 20)
    name = "a.gz" if packed is gzip.compress else "a.zstd"
    long = lines.plan(2 << 20)

    def of_compressed(*content: bytes) -> list[extract.Kept]:
        return list(extract.of_compressed(packed(b"".join(content)), name, in_progress=False))

    plain = list(extract.of_whole(b"".join(CONTENT), in_progress=False))
    assert of_compressed(*CONTENT[:6], long, *CONTENT[6:]) == plain
    # One that would tell something is said to be lost.
    named = PROGRESS.replace(b"enrich", lines.long_text(2 << 20).encode())
    kept = of_compressed(*CONTENT[:6], named, *CONTENT[6:])
    assert events_of(kept) == events_of(plain)
    assert bad_of(kept) == [(1, "a line longer than 1048576 bytes")]
    # A file that ends within one breaks off.
    (broken,) = bad_of(of_compressed(*CONTENT[:6], long[:-100]))
    assert broken == (1, "the file breaks off; what stands before it is used")


def test_that_a_file_breaks_off_is_told_before_its_bad_lines() -> None:
    content = [*CONTENT[:6], b"garbage\n", *CONTENT[6:]]
    frames = b"".join(map(zstandard.compress, content))
    damaged = frames[:-200] + b"\0" * 200
    for packed, reason in (
        (frames[:-20], "the file breaks off; what stands before it is used"),
        (damaged, "damaged zstd: "),
    ):
        ((count, told),) = bad_of(extract.of_compressed(packed, "a.zstd", in_progress=False))
        assert count == 2
        assert told.startswith(reason)
    assert told.endswith("from here on nothing was read, what stands before it is used")


def test_what_is_missing_here_is_only_what_is_for_certain_here(tmp_path: Path) -> None:
    there, gone = str(tmp_path), str(tmp_path / "gone")
    assert not missing_here(there, {}, {})
    assert not missing_here(f"file:{there}", {}, {})
    assert not missing_here(f"file://{there}", {}, {})
    assert missing_here(gone, {}, {})
    assert missing_here(f"file:{gone}", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"})
    assert not missing_here("hdfs://n/gone", {}, {})
    assert not missing_here("s3a://b/gone", {}, {})
    assert not missing_here(gone, {"spark.hadoop.fs.defaultFS": "hdfs://n"}, {})
    assert not missing_here(gone, {}, {"HADOOP_CONF_DIR": "/etc/hadoop"})


def test_applications_are_spread_by_their_size() -> None:
    sizes = {"a": 100, "b": 60, "c": 50, "d": 1, "e": 0}
    spread = _spread(sizes, 2)
    assert spread["b"] == spread["c"] != spread["a"]
    assert set(spread) == set(sizes)
    assert set(_spread(sizes, 9).values()) == set(range(5))
