"""A query over files, watched from within where an agent is named, else by a door.

Arguments: the directory of files, of the output, of the checkpoint; its address, or ""; "fails",
where its batches are to.
"""

import contextlib
import sys
import time

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr, substring

files, output, checkpoint, agent, *fails = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
if agent:
    import spark_listener

    spark_listener.attach(spark, agent_url=agent)
time.sleep(5)  # whoever comes through the door is there by then
lines = spark.readStream.option("maxFilesPerTrigger", "3").text(files)
if fails:
    lines = lines.where(expr("raise_error('mine') is null"))
query = (
    lines.groupBy(substring("value", -1, 1).alias("last"))
    .count()
    .writeStream.queryName("lines")
    .outputMode("update")
    .format("noop")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
with contextlib.suppress(StreamingQueryException):
    query.awaitTermination()
spark.stop()
