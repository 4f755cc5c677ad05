"""A job whose tasks wait: each row takes 20 ms, whatever else the machine does. Knows no Weir.

Arguments: where to read, to write, the checkpoint. Ends once there is a file ``stop`` beside the
first, and everything is read. With ``spark.waiting.state`` it remembers every row, and so has state
that moves with its executors. With ``spark.waiting.queries`` so many read the same, each by itself.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

source, sink, checkpoint = sys.argv[1:4]
spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.option("maxFilesPerTrigger", 1000).text(source)
if spark.conf.get("spark.waiting.state", "false") == "true":
    lines = lines.dropDuplicates(["value"])
else:
    lines = lines.repartition(6)
queries = [
    lines.selectExpr("value", "reflect('java.lang.Thread', 'sleep', cast(20 as bigint)) as slept")
    .selectExpr("replace(concat(value, slept), 'null', '') as value")
    .writeStream.format("text")
    .queryName(f"waiting{number or ''}")
    .option("path", f"{sink}{number or ''}")
    .option("checkpointLocation", f"{checkpoint}{number or ''}")
    .start()
    for number in range(int(spark.conf.get("spark.waiting.queries", "1")))
]
while not (Path(source).parent / "stop").exists():
    for query in queries:
        assert query.isActive, query.exception()
    time.sleep(0.2)
for query in queries:
    query.processAllAvailable()
    query.stop()
spark.stop()
