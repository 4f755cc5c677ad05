"""A PySpark job: IN OUT CHECKPOINT LIMIT SECONDS ENDING.

With ENDING ``attach`` it attaches itself at once; with ``attach FILE`` when there is such a file,
and then detaches. With ``elsewhere FILE`` it does that with a session in which no query runs, and
detaches at once. With ``refuse NAME FILE`` it then says ``attach(spark, NAME=False)``.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

folder, out, checkpoint, limit, seconds, ending = sys.argv[1:]
word, *named, later = ending.split(" ") if " " in ending else (ending, "")
spark = SparkSession.builder.appName("python job").getOrCreate()
if word in ("attach", "elsewhere", "refuse"):
    from spark_listener import attach

    if not later:
        print("attached" if attach(spark).active else "not attached")
lines = spark.readStream.format("text")
if limit != "none":
    lines = lines.option("maxFilesPerTrigger", limit)
query = (
    lines.load(folder)
    .writeStream.queryName("lines")
    .format("text")
    .option("path", out)
    .option("checkpointLocation", checkpoint)
    .start()
)
if later:
    over = time.monotonic() + 120
    while not Path(later).exists() and time.monotonic() < over:
        time.sleep(0.1)
    if word == "elsewhere":
        from spark_listener import lease

        lease.ALONE_SECONDS = 3.0  # until a limit of a session that is not attached goes
    asked = spark.newSession() if word == "elsewhere" else spark
    attached = attach(asked, **dict.fromkeys(named, False))
    print("attached" if attached.active else "not attached", flush=True)
    if word == "attach":
        time.sleep(2)  # its sources are looked up
    attached.detach()
    print("detached", flush=True)
query.awaitTermination(int(float(seconds)))
query.stop()
spark.stop()
print("over")
