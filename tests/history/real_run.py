"""A real run whose log is judged: two queries on one Spark, bursts, a failure and a new start.

    python -m tests.history.real_run FOLDER [SECONDS [SHUFFLE_PARTITIONS]]

leaves Spark's own log, plain and in one file, in FOLDER.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any


def record(folder: Path, seconds: float, shuffle_partitions: int = 4) -> Path:
    """Runs it in this process, which must have no Spark yet; gives the log's path."""
    from pyspark.errors.exceptions.base import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    logs = folder / "logs"
    logs.mkdir(parents=True)
    spark: Any = (
        SparkSession.builder.master("local[2]")
        .appName("orders")
        .config("spark.ui.enabled", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", logs.as_uri())
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.eventLog.compress", "false")
        .config("spark.sql.shuffle.partitions", str(shuffle_partitions))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    fails: list[bool] = []

    def rows(per_second: int) -> Any:
        return (
            spark.readStream.format("rate")
            .option("rowsPerSecond", per_second)
            .option("numPartitions", 3)
            .load()
        )

    def start(name: str, frame: Any) -> Any:
        return (
            frame.writeStream.queryName(name)
            .option("checkpointLocation", str(folder / name))
            .trigger(processingTime="1 second")
        )

    counted = (
        rows(3000)
        .withWatermark("timestamp", "10 seconds")
        .groupBy(f.window("timestamp", "5 seconds"), (f.col("value") % 50).alias("key"))
        .count()
    )

    def batch(frame: Any, number: int) -> None:
        # Every tenth batch waits as a slow sink would; one fails.
        time.sleep(1.5 if number % 10 == 7 else 0.1)
        if number == 12 and not fails:
            fails.append(True)
            raise RuntimeError("the sink is out of reach")
        frame.write.format("noop").mode("append").save()

    until = time.monotonic() + seconds
    enrich = start("enrich", counted).outputMode("update").format("noop").start()
    totals = start("totals", rows(500)).foreachBatch(batch).start()
    while time.monotonic() < until:
        with contextlib.suppress(PySparkException):
            totals.awaitTermination(0.5)
        if not totals.isActive:
            totals = start("totals", rows(500)).foreachBatch(batch).start()
    for query in (enrich, totals):
        query.stop()
    spark.stop()
    return next(logs.iterdir())


if __name__ == "__main__":
    place = record(
        Path(sys.argv[1]),
        float(sys.argv[2]) if len(sys.argv) > 2 else 60.0,
        int(sys.argv[3]) if len(sys.argv) > 3 else 4,
    )
    sys.stdout.write(f"{place}\n")
