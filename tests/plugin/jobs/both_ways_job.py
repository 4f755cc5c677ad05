"""A query over files, watched from within where an agent is named, else by a door.

Arguments: the directory of files, of the output, of the checkpoint; its address, or "".
"""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import substring

files, output, checkpoint, agent = sys.argv[1:5]
spark = SparkSession.builder.getOrCreate()
if agent:
    import spark_listener

    spark_listener.attach(spark, agent_url=agent)
time.sleep(5)  # whoever comes through the door is there by then
lines = spark.readStream.option("maxFilesPerTrigger", "3").text(files)
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
query.awaitTermination()
time.sleep(2)  # its end is told
spark.stop()
