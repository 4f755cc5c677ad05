"""A query as a job of its own; of Weir it knows nothing: spark-submit job.py SETTINGS.

Its folder holds what it is told: a file ``restart`` has it stop its query, whatever the batch, and
start it again from its checkpoint, as a rollout or an operator does; ``stop`` ends it. A query that
fails is started again, too. What happened stands in ``told.jsonl``.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program names it

from tests.benchmarks.evidence import dspbench
from tests.benchmarks.evidence.query import WATERMARK
from tests.benchmarks.evidence.workloads import QUERIES, TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming import StreamingQuery

    from tests.benchmarks.evidence.query import Query

#: A query that fails this often in a run ends its job: the run tells no more by going on.
MOST_FAILURES = 20


def newest(folder: Path) -> int:
    """The number of the newest entry of a log of Spark's; -1 where there is none."""
    return max((int(one.name) for one in folder.glob("[0-9]*") if one.name.isdigit()), default=-1)


def of_sql(
    spark: SparkSession, query: Query, given: dict[str, Any]
) -> Callable[[], StreamingQuery]:
    """What starts a query that is told in SQL, from Kafka to Kafka."""
    for topic in query.topics:
        reader = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", given["bootstrap"])
            .option("subscribe", given["topics"][topic])
            .option("startingOffsets", "earliest")
        )
        if topic in given["limits"]:
            reader = reader.option("maxOffsetsPerTrigger", given["limits"][topic])
        (
            reader.load()
            .select(F.from_json(F.col("value").cast("string"), TOPICS[topic].schema).alias("row"))
            .select("row.*")
            .withWatermark(TOPICS[topic].event_time, WATERMARK)
            .createOrReplaceTempView(topic)
        )
    for name, table in query.tables.items():
        spark.sql(table).createOrReplaceTempView(name)
    return (
        spark.sql(query.sql)
        .select(F.to_json(F.struct("*")).alias("value"))
        .writeStream.queryName(given["query"])
        .format("kafka")
        .option("kafka.bootstrap.servers", given["bootstrap"])
        .option("topic", given["sink"])
        .option("checkpointLocation", given["checkpoint"])
        .outputMode("append")
        .start
    )


def main() -> None:
    folder = Path(sys.argv[1])
    checkpoint = folder / "checkpoint"
    given = json.loads((folder / "job.json").read_text())
    given |= {"checkpoint": str(checkpoint), "metrics": str(folder / "metrics")}
    query = QUERIES[given["query"]]
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    if isinstance(query, dspbench.Application):
        start = functools.partial(dspbench.start, spark, query, given)
    else:
        start = of_sql(spark, query, given)
    told = (folder / "told.jsonl").open("a", buffering=1)

    def tell(**what: Any) -> None:
        planned, committed = newest(checkpoint / "offsets"), newest(checkpoint / "commits")
        told.write(
            json.dumps({**what, "time": time.time(), "planned": planned, "committed": committed})
            + "\n"
        )

    running = start()
    failures = 0
    while not (folder / "stop").exists():
        if (folder / "restart").exists():
            (folder / "restart").unlink()
            running.stop()
            tell(event="restart")
            running = start()
        if not running.isActive:
            failures += 1
            if failures > MOST_FAILURES:
                raise SystemExit(f"failed {MOST_FAILURES} times: {running.exception()}")
            tell(event="failed", error=str(running.exception())[:500])
            running = start()
        time.sleep(0.05)
    running.stop()
    tell(event="stop")
    spark.stop()


if __name__ == "__main__":
    main()
