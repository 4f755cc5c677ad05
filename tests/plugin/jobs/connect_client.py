"""A Connect client: ADDRESS IN FOLDER LIMIT NAME…, a query of each, until its input ends."""

import sys

from pyspark.sql import SparkSession

from spark_listener import attach

address, source, folder, limit, *names = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
if names[0].startswith("watched"):
    spark.conf.set("spark.weir.control", "false")
print(attach(spark).reason, flush=True)
queries = [
    spark.readStream.format("text")
    .option("maxFilesPerTrigger", limit)
    .load(source)
    .writeStream.queryName(name)
    .format("text")
    .option("path", f"{folder}/{name}/out")
    .option("checkpointLocation", f"{folder}/{name}/ck")
    .start()
    for name in names
]
print("started", flush=True)
sys.stdin.read()
for query in queries:
    query.stop()
spark.stop()
print("over")
