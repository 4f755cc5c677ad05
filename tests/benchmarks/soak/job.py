"""The job of the soak, a driver of its own, so that it can be killed: python -m …soak.job FOLDER.

It reads what it shall do from ``wanted.json`` in the folder, again and again, and tells how it is
in ``status.json``. A query that ended is started again from its checkpoint, as a supervisor would.
Every row has a number; a sink holds the numbers that it was given, one file for a batch id, which
a batch that comes again replaces. The one of ``nightly`` is Spark's own Parquet sink.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.spark.conftest import in_force

if TYPE_CHECKING:
    from collections.abc import Callable

APPLICATION: Final = "soak"
ORDERS_PER_BATCH: Final = 400
FILES_PER_BATCH: Final = 5
#: Rows of ``windows`` come out of order within this delay, and none later: none may be dropped.
DELAY_SECONDS: Final = 30
WINDOW_SECONDS: Final = 10
FILE_SCHEMA: Final = "id long"
CLICK_SCHEMA: Final = "id long, t timestamp"
#: What a row costs, as a call to a service would, so that limits have something to hold back.
ROW_SECONDS: Final = 0.001
HEAP_EVERY_SECONDS: Final = 20.0
#: From the end of a run of ``nightly`` to its next one.
NIGHT_SECONDS: Final = 10.0
MEBIBYTE: Final = 1024 * 1024
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: The heap is all there from the start, so that resident memory beyond it is what grows, and each
#: collection leaves no garbage as filling; Spark keeps few finished jobs in it, so that it is full
#: of them within minutes and not within hours.
SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "640m",
    "spark.driver.extraJavaOptions": (
        "-Xms640m -XX:+AlwaysPreTouch -XX:+UseSerialGC -XX:MarkSweepAlwaysCompactCount=1"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "30",
    "spark.ui.retainedStages": "30",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "20",
    # Spark's own cache of listed files, filled by each start of a file source, up to 250 MB.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.session.timeZone": "UTC",
}


def write(path: Path, value: Any) -> None:
    """All of it or nothing: whoever writes may be killed."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(value))
    part.replace(path)


def read(path: Path) -> dict[str, Any]:
    """What was written; nothing where nothing was yet."""
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}


def callbacks() -> int:
    """Connections by which the JVM calls Python, each a thread and a descriptor here.

    PySpark leaves one behind for each start of a query with ``foreachBatch``, with Weir or without;
    Weir itself is never called.
    """
    from py4j.clientserver import ClientServerConnection

    targets = [getattr(thread, "_target", None) for thread in threading.enumerate()]
    owners = [getattr(target, "__self__", None) for target in targets]
    return sum(isinstance(owner, ClientServerConnection) for owner in owners)


def session() -> Any:
    import pyspark
    from pyspark.sql import SparkSession

    from tests.kafka.broker import connector

    builder = SparkSession.builder.master("local[2]").appName(APPLICATION)
    for key, value in {**SETTINGS, "spark.jars": connector(pyspark.__version__)}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


class Job:
    """The queries, and which of them run."""

    def __init__(self, folder: Path, agent_url: str, bootstrap: str) -> None:
        self._folder = folder
        self._bootstrap = bootstrap
        self._spark = session()
        self._gateway = self._spark.sparkContext._gateway
        if agent_url:  # else as if Weir did not exist: not even imported
            import spark_listener

            made = spark_listener.attach(self._spark, agent_url=agent_url)
            assert made.active, made.reason
        self._queries: dict[str, Any] = {}
        self._failed: dict[str, int] = {}
        self._heap_mib: float | None = None
        self._heap_due = self._night_due = 0.0
        starts = (self._orders, self._files, self._windows, self._nightly)
        self._starts: dict[str, Callable[[], Any]] = {
            one.__name__.strip("_"): one for one in starts
        }

    def run(self) -> None:
        """Until it is told to finish, and has."""
        while True:
            wanted = read(self._folder / "wanted.json")
            if wanted.get("finish"):
                break
            for name in self._starts:
                self._tend(name, wanted=name in wanted["queries"])
            self._tell()
            time.sleep(0.5)
        for query in self._queries.values():
            query.stop()
        self._nightly().awaitTermination()  # what came since its last run
        rows = self._spark.read.parquet(str(self._folder / "table")).select("id").collect()
        write(self._sink("nightly") / "all.json", [row.id for row in rows])
        write(self._folder / "finished.json", {"finished": True})

    def _tend(self, name: str, *, wanted: bool) -> None:
        query = self._queries.get(name)
        if query is not None and not query.isActive:
            if query._jsq.exception().isDefined():
                self._failed[name] = self._failed.get(name, 0) + 1
                print(name, query._jsq.exception().get().toString()[:3000], flush=True)
            query = None
            del self._queries[name]
            if name == "nightly":
                self._night_due = time.monotonic() + NIGHT_SECONDS
        if query is not None and not wanted:
            self._queries.pop(name).stop()
        if name == "nightly" and time.monotonic() < self._night_due:
            return
        if query is None and wanted:
            try:
                self._queries[name] = self._starts[name]()
            except Exception as error:
                # As where the broker is down: the next round tries again.
                self._failed[name] = self._failed.get(name, 0) + 1
                print(name, "does not start:", str(error)[:3000], flush=True)

    def _tell(self) -> None:
        jvm = self._gateway.jvm
        beans = jvm.java.lang.management.ManagementFactory
        if time.monotonic() >= self._heap_due:
            # Collected first: what is left is what is held.
            jvm.java.lang.System.gc()
            used = beans.getMemoryMXBean().getHeapMemoryUsage().getUsed()
            self._heap_mib = used / MEBIBYTE
            self._heap_due = time.monotonic() + HEAP_EVERY_SECONDS
        limits = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        configured = {
            "orders": limits.maxRows(ORDERS_PER_BATCH),
            "files": limits.maxFiles(FILES_PER_BATCH),
            "windows": limits.allAvailable(),
        }
        queries = {}
        for name, limit in configured.items():
            query = self._queries.get(name)
            if query is not None and query.isActive:
                queries[name] = {"in_force": in_force(query), "configured": [limit.toString()]}
        status = {
            "python": os.getpid(),
            "jvm": int(jvm.java.lang.ProcessHandle.current().pid()),
            "heap_mib": self._heap_mib,
            "callbacks": callbacks(),
            "queries": queries,
            "failed": self._failed,
        }
        write(self._folder / "status.json", status)

    # Sources and sinks

    def _kafka(self, topic: str, **options: int) -> Any:
        reader = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
        )
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load().selectExpr("CAST(value AS STRING) AS value")

    def _sink(self, name: str) -> Path:
        place = self._folder / "out" / name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _start(self, frame: Any, name: str) -> Any:
        place = self._sink(name)

        def keep(batch: Any, batch_id: int) -> None:
            rows = [row.id for row in batch.collect()]
            time.sleep(ROW_SECONDS * len(rows))
            write(place / f"{batch_id:09d}.json", rows)

        writer = frame.writeStream.queryName(name).foreachBatch(keep)
        return writer.option("checkpointLocation", str(self._folder / "checkpoint" / name)).start()

    def _orders(self) -> Any:
        """Kafka, stateless, through a worker of Python's, with a configured limit."""
        from pyspark.sql.functions import udf

        number = udf(lambda value: int(value), "long")  # noqa: PLW0108 - int has no signature
        rows = self._kafka("orders", maxOffsetsPerTrigger=ORDERS_PER_BATCH)
        return self._start(rows.select(number("value").alias("id")), "orders")

    def _files(self) -> Any:
        """Files, stateless, with a configured limit."""
        reader = self._spark.readStream.schema(FILE_SCHEMA)
        frame = reader.option("maxFilesPerTrigger", str(FILES_PER_BATCH))
        return self._start(frame.json(str(self._folder / "in" / "files")), "files")

    def _windows(self) -> Any:
        """Kafka, windows with a watermark, no configured limit. Each window tells all its rows."""
        from pyspark.sql import functions as f

        frame = self._kafka("clicks").select(f.from_json("value", CLICK_SCHEMA).alias("v"))
        grouped = (
            frame.select("v.*")
            .withWatermark("t", f"{DELAY_SECONDS} seconds")
            .groupBy(f.window("t", f"{WINDOW_SECONDS} seconds"))
            .agg(f.collect_list("id").alias("ids"))
        )
        return self._start(grouped.select(f.explode("ids").alias("id")), "windows")

    def _nightly(self) -> Any:
        """Files into Parquet under AvailableNow: again and again, each run a query of its own."""
        frame = self._spark.readStream.schema(FILE_SCHEMA).option("maxFilesPerTrigger", "3")
        writer = frame.json(str(self._folder / "in" / "nightly")).writeStream.queryName("nightly")
        checkpoint = str(self._folder / "checkpoint" / "nightly")
        writer = writer.format("parquet").option("checkpointLocation", checkpoint)
        return writer.trigger(availableNow=True).start(str(self._folder / "table"))


def main() -> None:
    folder, agent_url, bootstrap = sys.argv[1:]
    job = Job(Path(folder), agent_url, bootstrap)
    job.run()
    with contextlib.suppress(Exception):
        job._spark.stop()
    os._exit(0)


if __name__ == "__main__":
    main()
