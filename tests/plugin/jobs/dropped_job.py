"""A job of which Spark's status store drops the end: how many executors stay when one is wanted."""

import tempfile
import time
from pathlib import Path
from threading import Thread

from pyspark.sql import SparkSession

from spark_listener.executors import Executors
from spark_listener.lease import Lease

spark = SparkSession.builder.appName("drops").getOrCreate()
context = spark.sparkContext._jsc.sc()
executors = Executors(spark.sparkContext._gateway, context, Lease())


def until(present: int, seconds: float = 60.0) -> int:
    """So many executors, or as many as there are when the time is over."""
    over = time.monotonic() + seconds
    while executors.present() != present and time.monotonic() < over:
        executors.ask(present)
        time.sleep(0.2)
    return executors.present()


def runs() -> bool:
    """For the status store, once it has heard all that it will."""
    context.listenerBus().waitUntilEmpty(60_000)
    return bool(len(context.statusTracker().getActiveJobIds()))


print("came", until(3))
over = time.monotonic() + 120.0
rows = spark.range(0, 10, 1, 1)._jdf.rdd()
while not runs() and time.monotonic() < over:
    rows.count()
print("runs, says the status store", runs())
over_now = Path(tempfile.mkdtemp()) / "over"


def lasts(_: int) -> None:
    """A task of as long as it is to be."""
    while not over_now.exists():
        time.sleep(0.1)


job = Thread(target=lambda: spark.sparkContext.parallelize([0], 1).foreach(lasts))
job.start()
tasks = context.taskScheduler()
while not any(map(tasks.isExecutorBusy, executors._ids())):
    time.sleep(0.1)
print("one runs", until(1, seconds=5.0))
over_now.touch()
job.join()
print("let go", until(1))
print("runs still, says the status store", runs())
spark.stop()
