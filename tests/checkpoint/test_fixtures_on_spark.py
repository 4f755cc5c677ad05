"""A checkpoint that Spark 2.3 wrote, started by today's Spark: as it is, and as its savepoint."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from agent.checkpoint.folder import LocalFolder
from agent.checkpoint.savepoint import take_savepoint
from tests.checkpoint.spark_fixtures import unpack
from tests.spark.conftest import spark as spark_of_tests

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
REST = pytest.mark.slow("a query each; from its savepoint Spark goes on every time")
spark = spark_of_tests
#: Of StreamingAggregationSuite: counts by value, after the batches [3] and [3, 2].
NAME = "checkpoint-version-2.3.1-streaming-aggregate-state-format-1"
BEFORE, THEN = ([3], [3, 2]), [3, 2, 1]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("fixtures")) / NAME


def last_batch(spark: Any, checkpoint: Path) -> dict[int, int]:
    """What the batch of THEN tells, from a source in memory that has had the rows before."""
    from pyspark.sql import DataFrame, functions

    jvm = spark._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming.runtime  # since 4.1
    source = streaming.MemoryStream(
        0, spark._jsparkSession, jvm.scala.Option.empty(), jvm.org.apache.spark.sql.Encoders.INT()
    )
    for rows in BEFORE:
        source.addData(jvm.PythonUtils.toSeq(rows))
    counts = DataFrame(source.toDF(), spark).groupBy("value").agg(functions.count("*").alias("n"))
    told: list[dict[int, int]] = []
    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(lambda batch, _: told.append({row.value: row.n for row in batch.collect()}))
        .start()
    )
    try:
        query.processAllAvailable()
        assert not any(told), "what the checkpoint holds already was read again"
        source.addData(jvm.PythonUtils.toSeq(THEN))
        query.processAllAvailable()
        return told[-1]
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("copy", "log"),
    [
        ("its savepoint", "as written"),
        pytest.param("itself", "as written", marks=REST),
        pytest.param("itself", "changed by hand", marks=REST),
        pytest.param("its savepoint", "changed by hand", marks=REST),
    ],
)
def test_spark_goes_on_where_it_was(
    spark: Any, written: Path, tmp_path: Path, log: str, copy: str
) -> None:
    root = shutil.copytree(written, tmp_path / "ck")
    if log == "changed by hand":  # its checksum is that of the file before
        offsets = root / "offsets" / "1"
        offsets.write_text(
            offsets.read_text().replace('"batchWatermarkMs":0', '"batchWatermarkMs": 0')
        )
    if copy == "its savepoint":
        folder = LocalFolder(root)
        take_savepoint(folder, tmp_path / "to", now=lambda: 0.0, sleep=lambda _: None)
        shutil.rmtree(root)
        root = tmp_path / "to"
    assert last_batch(spark, root) == {3: 3, 2: 2, 1: 1}
