"""A Kafka job to try Weir on: what each customer spends a minute. Nothing of Weir is in it.

spark-submit … examples/kafka/job.py [BOOTSTRAP [CHECKPOINT]]
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program names it


def main(bootstrap: str = "127.0.0.1:9092", checkpoint: str = ".make/broker/checkpoint") -> None:
    spark = (
        SparkSession.builder.appName("shop")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
        .select(
            "timestamp",
            F.get_json_object(F.col("value").cast("string"), "$.customer").alias("customer"),
            F.get_json_object(F.col("value").cast("string"), "$.cents").cast("long").alias("cents"),
        )
    )
    spent = (
        orders.withWatermark("timestamp", "2 minutes")
        .groupBy(F.window("timestamp", "1 minute"), "customer")
        .agg(F.sum("cents").alias("cents"))
    )
    query = (
        spent.writeStream.queryName("spending")
        .outputMode("update")
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:3])
