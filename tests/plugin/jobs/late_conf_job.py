"""A PySpark job: IN OUT CHECKPOINT LIMIT SECONDS, and WHICH FILE.

Once there is such a file it says what stands in the Hadoop configuration, as who names a metastore
late does, and only then reads: in its session, or with WHICH ``another`` in a new one.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

folder, _, checkpoint, _, _, ending = sys.argv[1:]
which, _, go = ending.partition(" ")
spark = SparkSession.builder.appName("late").getOrCreate()
print("made", flush=True)
over = time.monotonic() + 120
while not Path(go).exists() and time.monotonic() < over:
    time.sleep(0.1)
spark._jsc.hadoopConfiguration().set("weir.test", "said late")
used = spark.newSession() if which == "another" else spark
used.range(1).count()
print(used._jsparkSession.sharedState().hadoopConf().get("weir.test"), flush=True)
query = (
    used.readStream.format("text")
    .load(folder)
    .writeStream.queryName("lines")
    .format("noop")
    .option("checkpointLocation", checkpoint)
    .start()
)
query.processAllAvailable()
time.sleep(2)  # a session that is not the first is found within a second
query.stop()
spark.stop()
