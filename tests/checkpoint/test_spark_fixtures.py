"""Spark's own checkpoints, of 2.1 to 4.0 and in every format: each judged, audited and saved.

What is odd about four of them stands in the table, as read from Spark's own tests.
"""

import json
import shutil
from pathlib import Path

import pytest

from agent.checkpoint.commands import inspect
from agent.checkpoint.folder import CheckpointError, LocalFolder
from agent.checkpoint.layout import (
    file_log_entries,
    parse_commit,
    parse_offset_log,
    read_checkpoint,
    source_kind,
)
from agent.checkpoint.limit import advise
from agent.checkpoint.savepoint import take_savepoint
from agent.checkpoint.sink import advise_rollback
from agent.checkpoint.soundness import judge
from agent.core.decode.kafka_offsets import parse_offsets
from tests.checkpoint.spark_fixtures import unpack
from tests.checkpoint.test_bad_input import weir  # noqa: F401 - a fixture

JOIN = dict.fromkeys(
    (
        *("left-keyToNumValues", "left-keyWithIndexToValue"),
        *("right-keyToNumValues", "right-keyWithIndexToValue"),
    ),
    5,
)
ONE, FIVE, NONE = {"default": 1}, {"default": 5}, {}
HDFS, ROCKSDB = ("HDFS", 1), ("RocksDB + changelog", 1)
V2, STATELESS = ("RocksDB + changelog", 2), ("none", None)

#: Name → what it is, store and format, partitions by store, newest batch planned and committed,
#: findings. Every one is sound, and saved at its newest commit but that of UNSAVED.
FIXTURES = {
    # AsyncProgressTrackingMicroBatchExecutionSuite, "test gaps in offset log": under asynchronous
    # progress tracking it starts at batch 4 with the rows after batch 2, though 3 was never noted.
    "checkpoint-test-offsetId-commitId-inconsistent": (
        *("asynchronous progress", STATELESS, NONE, 4, 2),
        ["asynchronous_progress"],
    ),
    # "recover from a Spark v2.1 checkpoint": that version kept no commits; later ones start on it.
    "checkpoint-version-2.1.0": (
        *("aggregation", HDFS, {"default": 10}, 1, -1),
        ["commits_missing", "state_ahead"],
    ),
    "checkpoint-version-2.3.1-flatMapGroupsWithState-state-format-1": (
        *("flatMapGroupsWithState", HDFS, FIVE, 1, 1),
        [],
    ),
    "checkpoint-version-2.3.1-for-multi-watermark-policy": ("union", STATELESS, NONE, 1, 1, []),
    "checkpoint-version-2.3.1-streaming-aggregate-state-format-1": (
        *("aggregation", HDFS, FIVE, 1, 1),
        [],
    ),
    # Its commits hold the empty object: no watermark, as 2.3 wrote them.
    "checkpoint-version-2.3.1-without-commit-log-metadata": ("aggregation", HDFS, FIVE, 1, 1, []),
    "checkpoint-version-2.4.0-streaming-join": ("join", HDFS, JOIN, 0, 0, []),
    **{
        f"checkpoint-version-2.4.5-for-compatibility-test-{of}": (of, HDFS, FIVE, 0, 0, [])
        for of in ("common-functions", "deduplicate", "statistical-functions", "sum-decimal")
    },
    "checkpoint-version-3.0.0-streaming-statestore-codec": ("no keys", HDFS, ONE, 0, 0, []),
    "checkpoint-version-3.1.0-flatmapgroupswithstate-repartition": ("", HDFS, FIVE, 0, 0, []),
    "checkpoint-version-3.2.0-deduplication-with-repartition": ("", HDFS, FIVE, 1, 1, []),
    "checkpoint-version-3.2.0-flatmapgroupswithstate1-repartition": ("", HDFS, FIVE, 0, 0, []),
    "checkpoint-version-3.2.0-flatmapgroupswithstate2-repartition": ("", HDFS, FIVE, 0, 0, []),
    "checkpoint-version-3.2.0-session-window-with-repartition": ("", HDFS, FIVE, 1, 1, []),
    "checkpoint-version-3.2.0-streaming-aggregate-with-repartition": ("", HDFS, FIVE, 1, 1, []),
    "checkpoint-version-3.3.0-streaming-deduplication": ("dedup", HDFS, FIVE, 1, 1, []),
    "checkpoint-version-3.5.1-streaming-deduplication": ("dedup", HDFS, FIVE, 1, 1, []),
    "checkpoint-version-3.5.1-streaming-join": ("join", HDFS, JOIN, 0, 0, []),
    "checkpoint-version-3.5.4": ("no state", STATELESS, NONE, 1, 1, []),
    **{
        f"checkpoint-version-4.0.0/{store}/{of}": (of, form, stores, last, last, [])
        for store, form in (("hdfs", HDFS), ("rocksdb", ROCKSDB))
        for of, stores, last in (
            *(("agg", FIVE, 3), ("dedup", FIVE, 3), ("limit", ONE, 3)),
            *(("join1", JOIN, 4), ("join2", JOIN, 4)),
        )
    },
    **{
        f"checkpoint-version-4.0.0-checkpoint-v2/rocksdb/{of}": (of, V2, stores, last, last, [])
        for of, stores, last in (
            *(("dedup", FIVE, 3), ("limit", ONE, 3)),
            *(("join1", JOIN, 4), ("join2", JOIN, 4)),
        )
    },
    # Their offsets do not match their checksums: changed after they were written, though whole.
    # Spark's own test starts on them: Hadoop's FileContext, by which it reads, compares none.
    **{
        f"checkpoint-version-4.0.0-tws-{form}": (
            *("transformWithState", ROCKSDB, FIVE, 1, 1),
            ["file_damaged", "file_damaged"],
        )
        for form in ("avro", "unsaferow")
    },
    "checkpoint-version-4.0.1-dedup-spark-53942": ("dedup", HDFS, FIVE, 0, 0, []),
    "escaped-path-2.4.0/chk%252520%252525@%252523chk": ("no state", STATELESS, NONE, 0, 0, []),
}
CHANGED = ("checkpoint-version-4.0.0-tws-avro", "checkpoint-version-4.0.0-tws-unsaferow")
UNSAVED = {"checkpoint-version-2.1.0": "no commits: Spark before 2.2 wrote none"}


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("fixtures"))


def save(root, to):
    return take_savepoint(LocalFolder(root), to, now=lambda: 0.0, sleep=lambda _: None)


def test_the_table_names_all_there_are(fixtures):
    found = {str(path.parent.relative_to(fixtures)) for path in fixtures.rglob("offsets")}
    assert found == set(FIXTURES)
    assert len(found) == 40


@pytest.mark.parametrize("name", FIXTURES)
def test_it_is_judged_audited_and_saved(fixtures, tmp_path, capsys, weir, name):  # noqa: F811
    _, form, stores, offset, commit, findings = FIXTURES[name]
    root = fixtures / name
    code = inspect(str(root), as_json=True, deep=True)
    report = json.loads(capsys.readouterr().out)
    assert (code, report["sound"]) == (0, True)
    assert report["latest_offset"] == offset
    assert report["latest_commit"] == (commit if commit >= 0 else None)
    assert (report["state"]["store"], report["state"]["format"]) == form
    assert {one["store"]: one["partitions"] for one in report["state"]["operators"]} == stores
    assert [one["check"] for one in report["findings"]] == findings
    opened = commit < offset
    assert report["restart"]["action"] == ("replay" if opened else "plan")
    assert report["restart"]["batch_id"] == (offset if opened else commit + 1)
    code, _, _ = weir("checkpoint", "audit", root)
    wrong = [one["check"] for one in report["findings"] if one["severity"] != "info"]
    # Whatever the findings on the folder, a checkpoint below /tmp is in no place to last.
    assert code == 1
    assert set(wrong) <= {"commits_missing", "file_damaged"}
    seen = read_checkpoint(LocalFolder(root))
    assert advise(seen, LocalFolder(root), open_batch=None, deadline_seconds=60.0) == []
    to = tmp_path / "savepoint"
    if name in UNSAVED:
        with pytest.raises(CheckpointError, match=UNSAVED[name]):
            save(root, to)
        assert not to.exists()
        return
    assert save(root, to).batch_id == commit
    saved = judge(read_checkpoint(LocalFolder(to)), LocalFolder(to), deep=True)
    assert saved.sound
    assert (saved.restart.action, saved.restart.batch_id) == ("plan", commit + 1)


@pytest.mark.parametrize("name", CHANGED)
def test_what_it_says_of_checksums_is_a_warning_with_a_way_out(fixtures, tmp_path, name):
    root = shutil.copytree(fixtures / name, tmp_path / "ck")
    said = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root), deep=True).findings
    assert {one.severity for one in said} == {"warning"}
    for one in said:
        sums = one.remedy.removeprefix("changed by hand on purpose: remove ").split(";")[0]
        (root / sums).unlink()
    assert judge(read_checkpoint(LocalFolder(root)), LocalFolder(root), deep=True).findings == []


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in FIXTURES if FIXTURES[name][2] in (FIVE, JOIN)),
        *(name for name in FIXTURES if "/limit" in name),
    ],
)
def test_a_partition_that_was_lost_is_missed(fixtures, tmp_path, name):
    """A folder that is gone, as when a copy breaks off; where only the first is left, too."""
    root = shutil.copytree(fixtures / name, tmp_path / "ck")
    if FIXTURES[name][2] == ONE:
        shutil.rmtree(root / "state/0/0")
        lost = [0]
    else:
        shutil.rmtree(root / "state/0/3")
        lost = [3]
    for partitions in (lost, [1, 2, 3, 4]):
        if partitions != lost and (FIXTURES[name][2] == ONE or not has_schema(fixtures / name)):
            continue  # a partition alone is then all that is known
        for partition in partitions:
            shutil.rmtree(root / f"state/0/{partition}", ignore_errors=True)
        judged = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root))
        assert not judged.sound
        for partition in partitions:
            assert any(
                f"state/0/{partition}" in one.evidence
                for one in judged.errors
                if one.check == "state_incomplete"
            )


def has_schema(root):
    """Since 3.1 the schema of a state is written beside it, since 4.0 its operator's metadata."""
    return any(Path(root).glob("state/0/0/**/_metadata/schema")) or any(
        Path(root).glob("state/0/_metadata/*")
    )


def test_one_without_commits_is_not_rescued(fixtures, tmp_path, weir):  # noqa: F811
    """Spark runs the newest planned batch again: with batch 1 moved aside that is batch 0."""
    root = shutil.copytree(fixtures / "checkpoint-version-2.1.0", tmp_path / "ck")
    code, out, err = weir("rescue", root, "--apply", "--sink", "upsert", "--unchanged-seconds", "0")
    assert code == 1, (out, err)
    assert (root / "offsets/1").exists()
    seen = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root))
    assert (seen.restart.action, seen.restart.batch_id) == ("replay", 1)


def test_logs_of_every_version(fixtures):
    """Single files of the logs, in the forms that Spark's own readers are tested with."""
    old = parse_offset_log(0, (fixtures / "offset-log-version-2.1.0/0").read_text())
    assert [source_kind(one) for one in old.sources] == ["file", "kafka"]
    assert parse_offsets(old.sources[1]) == {("topic-0", "0"): 1}
    for batch in range(4):
        text = (fixtures / f"offset-map/{batch}").read_text()
        newest = parse_offset_log(batch, text)
        assert (newest.log_version, newest.names, newest.sources) == ("v2", ["0"], [batch])
    commits = {
        name: parse_commit(0, (fixtures / name / "testCommitLog").read_text())
        for name in ("testCommitLogV1", "testCommitLogV2", "testCommitLogV2-empty-unique-id")
    }
    assert commits["testCommitLogV1"].next_watermark_ms == 1
    assert commits["testCommitLogV2-empty-unique-id"].state_ids is None
    assert commits["testCommitLogV2"].state_ids == {
        0: [["unique_id1", "unique_id2"], ["unique_id3", "unique_id4"]],
        1: [["unique_id5", "unique_id6"], ["unique_id7", "unique_id8"]],
    }
    log = LocalFolder(fixtures / "file-source-log-version-2.1.0")
    named = [
        one["batchId"] for name in ("2.compact", "3", "4") for one in file_log_entries(log, name)
    ]
    assert named == [0, 1, 2, 3, 4]


def test_a_file_sinks_log_of_2_1(fixtures, tmp_path):
    shutil.copytree(fixtures / "file-sink-log-version-2.1.0", tmp_path / "_spark_metadata")
    back = advise_rollback(tmp_path, 8)
    assert (back.possible, back.log_entries, back.data_files) == (True, ["9"], ["/a/b/9"])
