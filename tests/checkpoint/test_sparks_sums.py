"""The sums that Spark itself writes beside the files of its state (4.1 and later)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record.util import calc_crc32c

from agent.checkpoint.folder import CheckpointError, LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.savepoint import take_savepoint
from agent.checkpoint.soundness import judge
from tests.checkpoint.build import write
from tests.checkpoint.test_inspect import SINCE_4_2, with_changelogs
from tests.checkpoint.test_lineage import with_snapshots
from tests.spark.conftest import spark as spark_of_tests

if TYPE_CHECKING:
    from pathlib import Path

spark = spark_of_tests


def noted(root: Path, path: str, **instead: Any) -> None:
    """As ChecksumCheckpointFileManager writes it beside a file."""
    data = (root / path).read_bytes()
    value = int.from_bytes(calc_crc32c(data).to_bytes(4, "big"), "big", signed=True)
    said = {"algorithm": "CRC32C", "value": value, "mainFileSize": len(data), "timestampMs": 1}
    said |= {"creator": {"executorId": "driver", "taskInfo": ""}} | instead
    write(root, f"{path}.crc", json.dumps(said), checksum=False)


def damaged(root: Path, *, deep: bool = True) -> list[str]:
    folder = LocalFolder(root)
    found = judge(read_checkpoint(folder), folder, deep=deep).findings
    assert {one.check for one in found} <= {"file_damaged"}
    return [one.evidence.partition(":")[0] for one in found]


LOG = "state/0/0/2_i2.changelog"


def summed(root: Path) -> Path:
    with_snapshots(root, 3, [])
    for path in root.glob("state/0/0/*.changelog"):
        noted(root, str(path.relative_to(root)))
    return root


def flip(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_byte_that_changed_is_found_by_the_sums_of_spark(tmp_path: Path) -> None:
    root = summed(tmp_path / "ck")
    assert damaged(root) == []
    flip(root / LOG)
    assert damaged(root) == [LOG]
    assert damaged(root, deep=False) == []
    with pytest.raises(CheckpointError, match=LOG):
        take_savepoint(LocalFolder(root), tmp_path / "to", now=lambda: 1e9, sleep=lambda _: None)


@pytest.mark.parametrize(
    ("instead", "wrong"),
    [
        ({"mainFileSize": 5}, True),
        ({"value": 5}, True),
        ({"value": "five"}, True),
        ({"algorithm": "CRC32C"}, False),
        ({"algorithm": "XXH128", "value": 5}, False),
    ],
)
def test_what_spark_noted_of_a_file(tmp_path: Path, instead: dict[str, Any], wrong: bool) -> None:
    root = summed(tmp_path)
    noted(root, LOG, **instead)
    assert damaged(root) == ([LOG] if wrong else [])


@pytest.mark.parametrize("sums", [b"", b"\xff", b"{}"])
def test_sums_that_cannot_be_read_fail_a_start_as_wrong_ones_do(
    tmp_path: Path, sums: bytes
) -> None:
    root = summed(tmp_path)
    write(root, f"{LOG}.crc", sums, checksum=False)
    assert damaged(root) == [LOG]


@pytest.mark.parametrize(("of", "wrong"), [({}, True), (SINCE_4_2, False)])
def test_in_format_1_only_4_1_compares_them(
    tmp_path: Path, of: dict[str, str], wrong: bool
) -> None:
    """A later version writes such a file anew and leaves the sums as they were."""
    root = with_changelogs(tmp_path, 3, [], of=of)
    noted(root, "state/0/0/2.changelog", value=5)
    assert damaged(root) == (["state/0/0/2.changelog"] if wrong else [])


@pytest.mark.spark
def test_sums_that_spark_wrote(spark: Any, tmp_path: Path) -> None:
    state = "spark.sql.streaming.stateStore"
    settings = {
        f"{state}.providerClass": "org.apache.spark.sql.execution.streaming.state."
        "RocksDBStateStoreProvider",
        f"{state}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{state}.checkpointFormatVersion": "2",
    }
    for number in range(2):
        write(tmp_path, f"in/{number}", '{"k": 1}', checksum=False)
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        rows = spark.readStream.schema("k int").option("maxFilesPerTrigger", 1)
        query = (
            rows.json(str(tmp_path / "in")).groupBy("k").count()
            .writeStream.outputMode("update").format("noop")
            .option("checkpointLocation", str(tmp_path / "ck")).start()
        )  # fmt: skip
        query.processAllAvailable()
        query.stop()
    finally:
        for name in settings:
            spark.conf.unset(name)
    root = tmp_path / "ck"
    for sums in root.rglob(".*.crc"):  # Hadoop's, which a store such as S3 does not keep
        sums.unlink()
    assert damaged(root) == []
    changelog = next(iter(root.glob("state/0/0/2_*.changelog")))
    assert changelog.with_name(f"{changelog.name}.crc").exists()
    flip(changelog, -22)  # the last of lz4's blocks that holds anything: it ends with 21 bytes
    assert damaged(root) == [str(changelog.relative_to(root))]
