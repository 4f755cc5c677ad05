"""A job of three stages, the last of which reads what the first left on executors without a task.

Fewer executors are asked for meanwhile: what each step finds is told.
"""

import threading
import time

from pyspark.sql import SparkSession

from spark_listener.executors import Executors
from spark_listener.lease import Lease

spark = SparkSession.builder.appName("reads").getOrCreate()
context = spark.sparkContext
jvm = context._jsc.sc()
# Hours of its time go by while the job runs.
executors = Executors(context._gateway, jvm, Lease(), clock=lambda: 600.0 * time.monotonic())
while executors.present() < 3:
    time.sleep(0.2)
made = context.accumulator(0)


def make(number: int) -> tuple[int, int]:
    """Of the wide stage, which is over when the narrow one has hardly begun."""
    made.add(1)
    time.sleep(1.0)
    return number, number


def wait(number: int) -> tuple[int, int]:
    """Of the narrow one."""
    time.sleep(12.0)
    return number, number


wide = context.parallelize(range(6), 6).map(make).partitionBy(2)
narrow = context.parallelize([0], 1).map(wait).partitionBy(2)
found: list[int] = []
job = threading.Thread(target=lambda: found.append(wide.cogroup(narrow).count()))
job.start()
while made.value < 6:
    time.sleep(0.1)
tasks, idle = jvm.taskScheduler(), False
while job.is_alive():
    executors.ask(1)
    busy = [tasks.isExecutorBusy(name) for name in executors._ids()]
    idle = idle or (True in busy and False in busy)
    time.sleep(0.2)
print("without a task", idle)
print("read", found, "made", made.value)
until = time.monotonic() + 60.0
while executors.present() > 1 and time.monotonic() < until:
    executors.ask(1)
    time.sleep(0.2)
print("left", executors.present())
executors.ask(None)
until = time.monotonic() + 120.0
while executors.present() < 3 and time.monotonic() < until:
    time.sleep(0.2)
print("back", executors.present(), executors.standing().get("asked"))
spark.stop()
