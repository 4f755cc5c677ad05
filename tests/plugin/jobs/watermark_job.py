"""A PySpark job that counts rows by the time in them: IN OUT CHECKPOINT LIMIT SECONDS ENDING.

Of two sources with a watermark each, the files of IN and a row a second; no limit is configured.
"""

import sys

from pyspark.sql import SparkSession

folder, _, checkpoint, _, seconds, _ = sys.argv[1:]
spark = SparkSession.builder.appName("watermark job").getOrCreate()
lines = (
    spark.readStream.text(folder)
    .selectExpr("timestamp_micros(cast(substring_index(value, '-', 1) as bigint) div 1000) as time")
    .withWatermark("time", "10 minutes")
)
ticks = (
    spark.readStream.format("rate")
    .load()
    .selectExpr("timestamp as time")
    .withWatermark("time", "10 minutes")
)
query = (
    lines.union(ticks)
    .groupBy("time")
    .count()
    .writeStream.queryName("lines")
    .format("noop")
    .option("checkpointLocation", checkpoint)
    .start()
)
query.awaitTermination(int(float(seconds)))
