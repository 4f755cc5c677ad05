"""Checkpoint format 2: which changelogs a version needs, whatever codec they were written with."""

import pytest
import zstandard

from agent.checkpoint.closure import state_closure
from agent.checkpoint.folder import LocalFolder
from agent.checkpoint.layout import read_checkpoint
from tests.checkpoint.build import offsets, write
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
