"""A state that is given other partitions offline (Spark 4.2), broken off before it is committed."""

import json

import pytest

from agent.checkpoint.folder import LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.soundness import judge
from tests.checkpoint.build import checkpoint, offsets, tree, write
from tests.checkpoint.kills import rescue_quietly

CHECK = "repartition_unfinished"


def broken_off(root, *, partitions, written, committed=3):
    """The batch without input of a repartitioning, of whose partitions so many are written."""
    root = checkpoint(root, committed=committed, opened=False)
    write(root, f"offsets/{committed}", offsets(committed - 1, partitions=partitions))
    for partition in range(written):
        write(root, f"state/0/{partition}/{committed + 1}.snapshot", b"snapshot")
    return root


def seen(root):
    folder = LocalFolder(root)
    return judge(read_checkpoint(folder), folder)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("written", [0, 1])
@pytest.mark.parametrize("committed", [1, 3])
def test_a_start_on_one_fails_until_it_is_finished(tmp_path, partitions, written, committed):
    """As OfflineStateRepartitionUtils.isRepartitionBatch tells it."""
    root = broken_off(tmp_path, partitions=partitions, written=written, committed=committed)
    found = seen(root)
    [error] = found.errors
    assert error.check == CHECK
    assert f"batch {committed} " in error.evidence
    assert f"to {partitions} partitions" in error.remedy
    assert found.restart.action == "fail"
    write(root, f"commits/{committed}", 'v1\n{"nextBatchWatermarkMs":0}')
    for partition in range(partitions):
        write(root, f"state/0/{partition}/{committed + 1}.snapshot", b"snapshot")
    assert seen(root).sound


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_an_open_batch_of_as_many_partitions_is_a_batch(tmp_path, partitions):
    root = checkpoint(tmp_path, partitions=partitions)
    assert seen(root).sound
    assert seen(root).restart.action == "replay"


def test_the_first_batch_and_settings_that_are_not_told_are_no_repartitioning(tmp_path):
    first = checkpoint(tmp_path / "first", committed=0, partitions=3)
    assert seen(first).sound
    root = broken_off(tmp_path / "untold", partitions=3, written=0)
    text = (root / "offsets/2").read_text().replace('"spark.sql.shuffle.partitions": "2"', "")
    write(root, "offsets/2", text)
    assert seen(root).sound


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_rescue_takes_it_back(tmp_path, partitions):
    root = broken_off(tmp_path, partitions=partitions, written=1)
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, sink="upsert")
    assert (code, report["plan"]["refusals"]) == (0, [])
    assert not (root / "offsets/3").exists()
    assert not (root / "state/0/0/4.snapshot").exists()
    after = seen(root)
    assert (after.sound, after.restart.action, after.restart.batch_id) == (True, "plan", 3)
    assert rescue_quietly(root, undo=True)[0] == 0
    assert tree(root) == before


def of_version_2(root, batch, partitions=None):
    """As Spark 4.2.0 writes offsets with sources' names; 4.3 writes the number, too."""
    conf = {"spark.sql.streaming.stateStore.rowChecksum.enabled": "false"}
    if partitions is not None:
        conf["spark.sql.shuffle.partitions"] = str(partitions)
    head = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf, "sourceMetadataInfo": {}}
    write(root, f"offsets/{batch}", f'v2\n{json.dumps(head)}\n0:{{"logOffset":{batch}}}')


@pytest.mark.parametrize(
    ("untold", "fails"),
    [
        ({0, 1, 2, 3}, True),
        ({3}, True),
        ({0, 1, 2}, False),  # 4.3 went on with it, planned the open batch, and starts on it
        (set(), False),
    ],
)
def test_offsets_of_4_2_0_that_do_not_tell_the_number_fail_each_start(tmp_path, untold, fails):
    root = checkpoint(tmp_path / "ck")
    for batch in range(4):
        of_version_2(root, batch, None if batch in untold else 2)
    found = seen(root)
    assert found.sound is not fails
    if fails:
        [error] = found.errors
        assert error.check == "partitions_untold"
        assert "checkUnfinishedRepartitionOnRestart=false" in error.remedy
        # With its batch finished, a start has nothing to look for.
        write(root, "commits/3", 'v1\n{"nextBatchWatermarkMs":0}')
        assert seen(root).sound


def test_a_rescue_mends_it_and_a_restart_is_told_its_setting(tmp_path):
    root = checkpoint(tmp_path / "ck")
    for batch in range(4):
        of_version_2(root, batch)
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, sink="append")
    assert code != 0
    assert tree(root) == before
    assert "restart the query instead, with spark.sql.streaming.checkUnf" in str(report)
    code, report = rescue_quietly(root, apply=True, sink="upsert")
    assert code == 0, report
    assert seen(root).sound
