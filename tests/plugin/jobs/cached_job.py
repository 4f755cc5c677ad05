"""A job that keeps a frame on executors: what is left of them when fewer are asked for, by step."""

import time

from pyspark.sql import SparkSession

from spark_listener.executors import Executors
from spark_listener.lease import Lease

spark = SparkSession.builder.appName("keeps").getOrCreate()
context = spark.sparkContext._jsc.sc()
executors = Executors(spark.sparkContext._gateway, context, Lease())


def until(present: int, seconds: float = 60.0) -> int:
    """So many executors, or as many as there are when the time is over."""
    over = time.monotonic() + seconds
    while executors.present() != present and time.monotonic() < over:
        executors.ask(present)
        time.sleep(0.2)
    return executors.present()


print("came", until(3))
frame = spark.range(0, 1000, 1, 1).cache()
print("kept", frame.count())
newest = executors._ids()[-1]
while newest not in executors._holding():  # the one that goes first has to have something
    frame.unpersist(blocking=True)
    frame = spark.range(0, 1000, 1, 1).cache()
    frame.count()
print("asked for one", until(1, seconds=10.0))
print("still", frame.count(), newest in executors._ids())
frame.unpersist(blocking=True)
print("let go", until(1))
spark.stop()
