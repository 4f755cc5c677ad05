"""A job that attaches Weir itself, as docs/driver.md says; ends as ``waiting_job.py`` does."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spark_listener import attach

source, sink, checkpoint, most = sys.argv[1:5]
spark = SparkSession.builder.getOrCreate()
attach(spark)
query = (
    spark.readStream.option("maxFilesPerTrigger", int(most))
    .text(source)
    .writeStream.format("text")
    .queryName("lines")
    .option("path", sink)
    .option("checkpointLocation", checkpoint)
    .start()
)
while not (Path(sink).parent / "stop").exists():
    assert query.isActive, query.exception()
    time.sleep(0.2)
query.processAllAvailable()
query.stop()
spark.stop()
