"""The same query in one new session after another: IN OUT CHECKPOINT LIMIT SECONDS ENDING."""

import sys
import time

from pyspark.sql import SparkSession

folder, out, checkpoint, limit, seconds, ending = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
for _ in range(6):
    lines = spark.newSession().readStream.format("text").option("maxFilesPerTrigger", limit)
    query = (
        lines.load(folder)
        .writeStream.queryName("lines")
        .format("text")
        .option("path", out)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    print("run", query.runId, flush=True)
    time.sleep(float(seconds))
    query.stop()
spark.stop()
