"""A PySpark job: IN OUT CHECKPOINT LIMIT SECONDS ENDING; with "attach" it attaches itself."""

import sys

from pyspark.sql import SparkSession

folder, out, checkpoint, limit, seconds, ending = sys.argv[1:]
spark = SparkSession.builder.appName("python job").getOrCreate()
if ending == "attach":
    from spark_listener import attach

    print("attached" if attach(spark).active else "not attached")
lines = spark.readStream.format("text").option("maxFilesPerTrigger", limit).load(folder)
query = (
    lines.writeStream.queryName("lines")
    .format("text")
    .option("path", out)
    .option("checkpointLocation", checkpoint)
    .start()
)
query.awaitTermination(int(float(seconds)))
query.stop()
spark.stop()
print("over")
