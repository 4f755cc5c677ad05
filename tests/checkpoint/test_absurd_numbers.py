"""Numbers that no checkpoint ever had, in names and in what files say: a clear word, and soon."""

import contextlib
import json
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.checkpoint import layout
from agent.checkpoint.closure import MOST_STORES, expected_stores
from agent.checkpoint.folder import CheckpointError, FileEntry, LocalFolder
from agent.checkpoint.layout import (
    classify,
    gaps,
    how_many,
    parse_offset_log,
    passed_by,
    read_checkpoint,
)
from agent.checkpoint.sink import advise_rollback
from agent.checkpoint.soundness import judge
from agent.checkpoint.state_rows import wanted
from agent.core.decode.events import MOST_PARTS
from tests.checkpoint.build import checkpoint, file_entry, offsets, write
from tests.checkpoint.test_bad_input import weir  # noqa: F401 - a fixture

pytestmark = pytest.mark.timeout(60)
DATE = 20261130120000  # as who copies a file by hand names it
HUGE = 10**17
#: A prime that leaves nothing to guess by, and no time to try all that might divide it.
ALONE = 10**18 - 11
ROOM_BYTES = 512 << 20


@contextlib.contextmanager
def little_room():
    """Fails where more memory is asked for than so much beyond what there is now."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before, enough = resource.getrlimit(resource.RLIMIT_AS), True
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM_BYTES, before[1]))
    try:
        yield
    except MemoryError:  # what it holds is let go of before it is told
        enough = False
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert enough


def planned(root):
    write(root, f"offsets/{DATE}", offsets(3))


def finished(root):
    planned(root)
    write(root, f"offsets/{DATE - 1}", offsets(2))
    write(root, f"commits/{DATE}", 'v1\n{"nextBatchWatermarkMs":0}')


def an_offset(root):
    write(root, "offsets/3", offsets(HUGE))


def no_long(root):
    write(root, "offsets/3", offsets(2**63))


def a_source(root):
    write(root, f"sources/{HUGE}/0", file_entry(0))


def partitions(root):
    for batch in (2, 3):
        write(root, f"offsets/{batch}", offsets(batch, partitions=HUGE))


def an_operator(root):
    for batch in (2, 3):
        text = offsets(batch).replace("spark.sql.shuffle.partitions", "spark.other")
        write(root, f"offsets/{batch}", text)
    path = root / "state/0/_metadata/metadata"
    write(root, "state/0/_metadata/metadata", path.read_text().replace(": 2}", f": {HUGE}}}"))


def compacted(root):
    write(root, f"sources/0/{ALONE - 1}.compact", file_entry(0))


SAID = {
    planned: "",
    finished: f"missing: 5 to {DATE + 1} ({DATE - 3} of them)",
    an_offset: f"missing: 4 to {HUGE} ({HUGE - 3} of them)",
    no_long: "an offset that Spark cannot hold",
    a_source: "",
    partitions: "has 100,000,000,000,000,000 partitions",
    an_operator: "has 100,000,000,000,000,000 partitions",
    compacted: "",
}


@pytest.mark.parametrize("make", SAID, ids=lambda make: make.__name__)
def test_a_number_in_a_name_takes_no_memory_and_no_time(weir, tmp_path, make):  # noqa: F811
    root = checkpoint(tmp_path / "ck")
    make(root)
    for words in (
        ("checkpoint", "inspect", root, "--json"),
        ("checkpoint", "audit", root),
        ("rescue", root, "--sink", "upsert"),
        ("savepoint", root, tmp_path / "to"),
    ):
        with little_room():
            code, out, err = weir(*words)
        assert code in (0, 1, 2), words
        assert out or err, words
        if "--json" in words:
            assert SAID[make] in out + err


def test_a_folder_of_a_number_that_no_source_has_is_passed_over_as_spark_does(tmp_path):
    root = checkpoint(tmp_path / "ck")
    a_source(root)
    seen = read_checkpoint(LocalFolder(root))
    assert len(seen.sources) == 1
    assert judge(seen, LocalFolder(root)).sound


def test_a_sources_own_name_may_be_any_number(tmp_path):
    """Spark 4.2 takes names of letters, digits and underscores."""
    root = checkpoint(tmp_path / "ck")
    for batch in range(4):
        head = offsets(batch).split("\n")[1]
        lines = f'7:{{"logOffset":{batch}}}\n20260101:{{"logOffset":{batch}}}'
        write(root, f"offsets/{batch}", f"v2\n{head}\n{lines}")
        write(root, f"sources/20260101/{batch}", file_entry(batch))
        write(root, f"sources/7/{batch}", file_entry(batch))
        (root / f"sources/0/{batch}").unlink()
    seen = read_checkpoint(LocalFolder(root))
    assert [(source.name, source.log_end) for source in seen.sources] == [("7", 3), ("20260101", 3)]
    assert judge(seen, LocalFolder(root)).sound
    (root / "sources/20260101/3").unlink()
    (error,) = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root)).errors
    assert error.evidence.startswith("sources/20260101: offsets/3 stands at entry 3; missing: 3")


def test_a_query_has_no_more_sources_than_are_looked_at():
    files = [FileEntry(f"sources/{index}/0", 1, 1.0) for index in (MOST_PARTS - 1, MOST_PARTS)]
    assert list(classify(files).sources) == [MOST_PARTS - 1]
    lines = ["v1", "{}", *(["-"] * MOST_PARTS)]
    assert len(parse_offset_log(0, "\n".join(lines)).sources) == MOST_PARTS
    with pytest.raises(ValueError, match="1,001 offsets: no query has so many sources"):
        parse_offset_log(0, "\n".join([*lines, "-"]))


def test_a_query_loads_no_more_stores_than_there_is_room_for(tmp_path):
    for count in (100_000, 100_001):
        root = checkpoint(tmp_path / f"{count}")
        for batch in (2, 3):
            write(root, f"offsets/{batch}", offsets(batch, partitions=count))
        seen = read_checkpoint(LocalFolder(root))
        if count <= MOST_STORES:
            assert len(expected_stores(seen, 3)) == count
        else:
            with pytest.raises(CheckpointError, match="no query loads more than 100,000 stores"):
                expected_stores(seen, 3)
    row = {"operatorId": 0, "operatorName": "dedupe", "stateStoreName": "default"}
    assert wanted(iter([row | {"numPartitions": 100_000}]))[0].partitions == 100_000
    with pytest.raises(CheckpointError, match="no state has so many"):
        wanted(iter([row | {"numPartitions": 100_001}]))


def test_a_sink_is_taken_back_to_a_batch_of_any_number(tmp_path):
    write(tmp_path, "_spark_metadata/0", "v1")
    write(tmp_path, f"_spark_metadata/{HUGE}", "v1")
    with little_room():
        advice = advise_rollback(tmp_path, HUGE - 1)
    assert not advice.possible
    assert "the entry of batch 1 is missing" in advice.detail
    assert len(advise_rollback(make(tmp_path / "empty"), HUGE).missing_entries) < 11


def make(folder):
    folder.mkdir()
    return folder


@given(st.sets(st.integers(-5, 40)), st.integers(-5, 40), st.integers(-5, 40))
def test_gaps_are_the_numbers_that_are_not_there(there, first, last):
    missing = [number for number in range(first, last + 1) if number not in there]
    found = gaps(there, first, last)
    assert [number for run in found for number in run] == missing
    assert how_many(found) == len(missing)
    assert how_many(gaps([], 0, 2**80)) == 2**80 + 1


def test_the_interval_of_a_single_compacted_entry_is_guessed_as_spark_guesses_it():
    """``CompactibleFileStreamLog.deriveCompactInterval``, which counts in 32 bits."""
    for count in range(1, 3000):
        tried = range(10, count // 2 + 1) if count // 2 > 10 else ()
        least = next((n for n in tried if count % n == 0), count)
        assert layout._guessed_interval(count) == least, count
    assert layout._guessed_interval(2**31 - 1) == 2**31 - 1  # a prime
    assert layout._guessed_interval(2**31 - 2) == 11
    assert passed_by([(ALONE - 1, True)]) is None


def test_times_of_no_clock_are_unknown():
    head = json.dumps({"batchWatermarkMs": 2**63, "batchTimestampMs": 10**400, "conf": {}})
    read = parse_offset_log(0, f"v1\n{head}\n-")
    assert (read.watermark_ms, read.timestamp_ms) == (None, None)
