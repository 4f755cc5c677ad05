"""Checkpoint format 2: which changelogs a version needs, whatever codec they were written with."""

import json
import zipfile

import pytest
import zstandard

from agent.checkpoint.closure import state_closure
from agent.checkpoint.folder import CheckpointError, LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.savepoint import take_savepoint
from agent.checkpoint.soundness import judge
from tests.checkpoint.build import OLD, offsets, write
from tests.checkpoint.test_inspect import SINCE_4_2
from tests.event_log.test_bombs import lz4, snappy

#: Of each version its id; the last one is committed.
IDS = {1: "a", 2: "b", 3: "c", 4: "d"}
CODECS = {
    "zstd": lambda plain: zstandard.ZstdCompressor(level=1).compress(plain),
    "lz4": lz4,
    "snappy": snappy,
    "lzf": lambda plain: b"ZV\x01\x00\x09" + plain[:9],
}


def header(version):
    """As StateStoreChangelogWriterV4 begins a file: its own version, then the lineage."""
    pairs = [f'{{"version":{v},"checkpointUniqueId":"{IDS[v]}"}}' for v in range(1, version)]
    return b"v4\n" + f"[{','.join(pairs)}]".encode() + b"\n" + b"changes" * 20_000


def closure(root, codec, *, there, others=()):
    """The state after batch 3, of which the changelogs of some versions are there."""
    for batch in range(4):
        write(root, f"offsets/{batch}", offsets(batch, partitions=1))
        ids = f'{{"0":[["{IDS[batch + 1]}"]]}}'
        write(root, f"commits/{batch}", f'v2\n{{"nextBatchWatermarkMs":0,"stateUniqueIds":{ids}}}')
    for version in there:
        data = CODECS[codec](header(version))
        write(root, f"state/0/0/{version}_{IDS[version]}.changelog", data, checksum=False)
    for name in others:
        write(root, f"state/0/0/{name}.changelog", CODECS[codec](b"of a task that was killed"))
    folder = LocalFolder(root)
    (store,) = state_closure(read_checkpoint(folder), folder, 4).stores
    return store


@pytest.mark.parametrize("codec", CODECS)
def test_a_changelog_that_is_gone_is_missing_under_each_codec(tmp_path, codec):
    assert closure(tmp_path / "whole", codec, there=(1, 2, 3, 4)).missing == []
    found = closure(tmp_path / "gap", codec, there=(1, 4))
    assert len(found.missing) == (1 if codec == "lzf" else 2), "lzf is not read: by versions"
    assert " 2 to 3" in found.missing[0] or "2_b" in found.missing[0]


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy"])
def test_what_is_not_on_the_lineage_is_not_needed(tmp_path, codec):
    found = closure(tmp_path, codec, there=(1, 2, 3, 4), others=("2_z", "3_y"))
    assert found.missing == []
    assert [path.rpartition("/")[2] for path in found.files if "." in path[10:]] == [
        f"{version}_{IDS[version]}.changelog" for version in IDS
    ]


def with_snapshots(root, versions, bad, *, kept=1, of=SINCE_4_2):
    """Format 2: ``bad`` snapshots, at each of which the lineage of what follows begins."""
    for batch in range(versions):
        head = json.loads(offsets(batch, partitions=1).split("\n")[1])
        head["conf"] |= of
        write(root, f"offsets/{batch}", f"v1\n{json.dumps(head)}\n{batch}", age=OLD + batch)
        ids = f'{{"0":[["i{batch + 1}"]]}}'
        text = f'v2\n{{"nextBatchWatermarkMs":0,"stateUniqueIds":{ids}}}'
        write(root, f"commits/{batch}", text, age=OLD + batch + 0.5)
    write(root, "metadata", '{"id":"9efb0370-ef1d-44dc-b650-de9f432e20e7"}')
    for version in range(kept, versions + 1):
        begins = max((one for one in bad if one < version), default=1)
        pairs = [f'{{"version":{v},"checkpointUniqueId":"i{v}"}}' for v in range(begins, version)]
        data = CODECS["zstd"](f"v4\n[{','.join(pairs)}]\n".encode() + b"changes")
        write(root, f"state/0/0/{version}_i{version}.changelog", data, checksum=False)
    for version in bad:
        write(root, f"state/0/0/{version}_i{version}.zip", b"PK", checksum=False)
    return root


def judged(root):
    folder = LocalFolder(root)
    found = judge(read_checkpoint(folder), folder, deep=True)
    return [(one.severity, one.evidence) for one in found.findings if one.check != "snapshot_lag"]


@pytest.mark.parametrize("bad", [[3], [6], [3, 5], [2, 6]])
@pytest.mark.parametrize("of", [SINCE_4_2, {}], ids=["4.2", "before"])
def test_a_bad_snapshot_of_format_2_is_passed_over_as_one_of_format_1(tmp_path, bad, of):
    root = with_snapshots(tmp_path / "ck", 6, bad, of=of)
    found = judged(root)
    assert [severity for severity, _ in found] == ["warning" if of else "error"] * len(bad)
    assert all("4.2 and later start from the first change instead" in said for _, said in found)
    if bad == [6]:  # else no snapshot is left, which Spark would have had to fail on first
        take_savepoint(LocalFolder(root), tmp_path / "to", now=lambda: 1e9, sleep=lambda _: None)
        assert judged(tmp_path / "to") == []
    else:
        with pytest.raises(CheckpointError, match=r"not a whole|no snapshot along the lineage"):
            take_savepoint(
                LocalFolder(root), tmp_path / "to", now=lambda: 1e9, sleep=lambda _: None
            )
        assert not (tmp_path / "to").exists()


def test_the_older_snapshot_serves_and_what_tells_of_the_lineage_is_kept(tmp_path):
    root = with_snapshots(tmp_path / "ck", 6, [2, 5])
    with zipfile.ZipFile(root / "state/0/0/2_i2.zip", "w") as archive:
        archive.writestr("metadata", 'v1\n{"sstFiles":[]}')
    [(severity, said)] = judged(root)
    assert (severity, "start from snapshot 2 instead" in said) == ("warning", True)
    folder = LocalFolder(root)
    [store] = state_closure(read_checkpoint(folder), folder, 6).stores
    assert store.changes == 4
    assert [path for path in store.files if "/1_i1." in path]


@pytest.mark.parametrize(("versions", "kept"), [(6, 2), (6, 5), (501, 1), (502, 2)])
def test_a_bad_snapshot_without_what_spark_reads_of_the_lineage(tmp_path, versions, kept):
    """Older versions are deleted: then no snapshot before it tells where it belongs."""
    root = with_snapshots(tmp_path / "ck", versions, [versions - 1], kept=kept)
    assert {severity for severity, _ in judged(root)} == {"error"}
    assert "not a whole RocksDB snapshot" in judged(root)[0][1]


def test_spark_replays_500_changes_of_format_2_too(tmp_path):
    root = with_snapshots(tmp_path / "ck", 500, [499])
    assert [severity for severity, _ in judged(root)] == ["warning"]
