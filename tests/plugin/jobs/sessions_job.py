"""The same query in one new session after another: IN OUT CHECKPOINT LIMIT SECONDS ENDING.

Each until somebody has seen it, and a file beside CHECKPOINT has its run's id as name.
"""

import sys
import time
from pathlib import Path

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
    end = time.monotonic() + float(seconds)
    while not (Path(checkpoint).parent / str(query.runId)).exists() and time.monotonic() < end:
        time.sleep(0.05)
    query.stop()
spark.stop()
