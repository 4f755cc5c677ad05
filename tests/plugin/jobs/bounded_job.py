"""Jobs that more executors do not help, each for a reason of its own. They know no Weir.

A row takes 20 ms of waiting (60 at the lock, beside which nothing else counts), whatever else the
machine does, and where it waits is the last argument: ``tasks`` (in one partition),
``critical_path`` (nearly all in one of six), ``driver`` (after its batch, where no task runs),
``contention`` (for one lock that all executors share), ``maximum`` (in six partitions alike,
which nothing bounds), or ``scan`` (where its files are read, in as many tasks as there are cores:
which nothing bounds either).
"""

import fcntl
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program names it

source, sink, checkpoint, _, _, kind = sys.argv[1:7]
ROW_SECONDS = 0.02
lock = str(Path(source).parent / "lock")


def one_at_a_time(value: str) -> str:
    with Path(lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(3 * ROW_SECONDS)
    return value


def keep(batch: DataFrame, _: int) -> None:
    rows = batch.collect()
    time.sleep(ROW_SECONDS * len(rows))


spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.option("maxFilesPerTrigger", 1000).text(source)
# Of ten rows of a file eight have the same key.
row = F.substring_index("value", " ", -1).cast("int") % 10
key = F.when(row < 8, 0).otherwise(F.xxhash64("value"))
spread = {
    "tasks": lines.coalesce(1),
    "critical_path": lines.repartition(6, key),
    "driver": lines,
    "contention": lines.repartition(6),
    "maximum": lines.repartition(6),
    "scan": lines,
}[kind]
if kind == "driver":
    writer = spread.writeStream.foreachBatch(keep)
else:
    slept = F.expr("reflect('java.lang.Thread', 'sleep', cast(20 as bigint))")
    one = (
        F.udf(one_at_a_time, "string")("value")
        if kind == "contention"
        else F.concat("value", slept)
    )
    writer = spread.select(one.alias("value")).writeStream.format("text").option("path", sink)
query = writer.queryName(kind).option("checkpointLocation", checkpoint).start()
while not (Path(source).parent / "stop").exists():
    assert query.isActive, query.exception()
    time.sleep(0.2)
query.stop()
spark.stop()
