"""The demo's Spark job: spending per customer, kept in RocksDB, from files as they arrive.

It is what a job of yours could be; of Weir it has one line, `attach(spark)`. Around it stands a
small loop that does what the demo asks for, one JSON object a line: start the query, wait until it
has caught up, tell its progress, stop it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program names it

from spark_listener import attach

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

APPLICATION = "weir-demo"
#: A row costs this many rounds of SHA-256, as a row of yours costs a look-up or a parse.
FINGERPRINT_ROUNDS = 30
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session() -> SparkSession:
    """Spark on two cores, with the RocksDB state store and its changelog."""
    return (
        SparkSession.builder.master("local[2]")
        .appName(APPLICATION)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        .getOrCreate()
    )


def start(spark: SparkSession, name: str, folder: str, checkpoint: str) -> StreamingQuery:
    """Spending per customer. No limit is configured: Spark takes all that is there, its default."""
    orders = spark.readStream.schema("customer STRING, amount DOUBLE").csv(folder)
    fingerprint = F.aggregate(
        F.sequence(F.lit(1), F.lit(FINGERPRINT_ROUNDS)),
        F.col("customer"),
        lambda text, _: F.sha2(text, 256),
    )
    spending = (
        orders.withColumn("fingerprint", F.crc32(fingerprint))
        .groupBy("customer")
        .agg(
            F.count("*").alias("orders"),
            F.sum("amount").alias("spent"),
            F.max("fingerprint").alias("fingerprint"),
        )
    )
    return (
        spending.writeStream.queryName(name)
        .outputMode("update")
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
    )


def progress_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """Every progress that Spark keeps of the query, as Spark writes it."""
    return [json.loads(item.json()) for item in query._jsq.recentProgress()]  # noqa: SLF001


def obey(spark: SparkSession, query: StreamingQuery | None, order: dict[str, Any]) -> Any:
    """Do one thing; the answer is what it gave."""
    what = order["do"]
    if what == "attach":
        attach(spark)
        return None
    if what == "start":
        return start(spark, order["name"], order["folder"], order["checkpoint"])
    if query is None:
        raise ValueError(f"{what}: no query runs")
    if what == "catch up":
        query.processAllAvailable()
    elif what == "stop":
        query.stop()
    elif what != "progress":
        raise ValueError(f"no such order: {what}")
    return progress_of(query)


def main() -> None:
    """Orders come on standard input; its end ends the job."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what Spark and Java print belongs to the log
    spark = session()
    print(json.dumps({"ok": True, "version": spark.version}), file=answers)
    query: StreamingQuery | None = None
    for line in sys.stdin:
        try:
            result = obey(spark, query, json.loads(line))
            if result is not None and not isinstance(result, list):
                query, result = result, None
            answer: dict[str, Any] = {"ok": True, "result": result}
        except Exception as error:  # noqa: BLE001 - the demo tells it
            answer = {"ok": False, "error": " ".join(str(error).split())[:500]}
        print(json.dumps(answer), file=answers)
    if query is not None and query.isActive:
        threading.Timer(10, os._exit, [0]).start()  # a hanging batch must not keep the job here
        query.stop()
    spark.stop()
    os._exit(0)


if __name__ == "__main__":
    main()
