"""Provokes real faults on a real Spark and records how each query ended.

``python -m tests.faults.provoke`` provokes all of them and rewrites ``fixtures/``; with names, only
those. Each fault runs in a child with a session of its own, so that one that takes the JVM down
takes nothing else with it. What is recorded is what a listener sees (exception, error class) or,
where the query does not even start, what ``start()`` raised; paths of the machine are struck out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil

from tests.faults.kafka_faults import KAFKA_FAULTS, committed
from tests.kafka.broker import Broker, connector

FIXTURES: Final = Path(__file__).resolve().parent / "fixtures"
ROOT: Final = Path(__file__).resolve().parents[2]
LONGEST: Final = 16 * 1024
#: Where the child finds the broker: its port and process.
BROKER: Final = "WEIR_FAULT_BROKER"

Fault = Callable[..., Any]  # of a session and a folder, and a broker where it needs one


class Provocation:
    """A fault: what does it, which cause it must get, and what its session needs."""

    def __init__(
        self,
        cause: str,
        act: Fault,
        conf: dict[str, str] | None = None,
        *,
        master: str = "local[2]",
        small_disk: bool = False,
        kafka: bool = False,
    ) -> None:
        self.cause = cause
        self.act = act
        self.conf = conf or {}
        self.master = master
        self.small_disk = small_disk
        self.kafka = kafka  # its act is given a broker too


def rate(spark: Any, rows: int = 20) -> Any:
    return spark.readStream.format("rate").option("rowsPerSecond", rows).load()


def start(stream: Any, work: Path, **options: str) -> Any:
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(work / "ck"))
    for key, value in options.items():
        writer = writer.option(key, value)
    return writer.start()


def grouped(stream: Any) -> Any:
    from pyspark.sql import functions as f

    return stream.groupBy((f.col("value") % 7).alias("key")).count()


# -- the faults ---------------------------------------------------------------------------------


def user_exception(spark: Any, work: Path) -> Any:
    from pyspark.sql.functions import udf

    def parse(value: int) -> int:
        if value > 3:
            raise ValueError(f"bad price token=hunter2 in row {value}")
        return value

    return start(rate(spark).select(udf(parse, "long")("value").alias("v")), work)


def user_exception_in_foreach_batch(spark: Any, work: Path) -> Any:
    def write(frame: Any, batch_id: int) -> None:
        counts = {"a": frame.count()}
        counts["b"] += 1

    return (
        rate(spark)
        .writeStream.option("checkpointLocation", str(work / "ck"))
        .foreachBatch(write)
        .start()
    )


def arithmetic(spark: Any, work: Path) -> Any:
    return start(rate(spark).selectExpr("100 / (value - 5) as v"), work)


def python_memory_limit(spark: Any, work: Path) -> Any:
    from pyspark.sql.functions import udf

    @udf("long")
    def hoard(value: int) -> int:
        return len([bytes(200_000_000) for _ in range(50)]) + value

    return start(rate(spark).select(hoard("value").alias("v")), work)


def python_worker_killed(spark: Any, work: Path) -> Any:
    from pyspark.sql.functions import udf

    @udf("long")
    def fall(value: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does to who takes too much memory
        return value

    return start(rate(spark).select(fall("value").alias("v")), work)


def java_heap(spark: Any, work: Path) -> Any:
    return start(
        rate(spark).selectExpr("size(array_repeat(value, 250000000 + int(value))) as v"), work
    )


def executors() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                found.append(child)
    return found


def _slowly(spark: Any, work: Path) -> Any:
    from pyspark.sql.functions import udf

    @udf("long")
    def rest(value: int) -> int:
        time.sleep(1.0)
        return value

    return start(rate(spark).select(rest("value").alias("v")), work)


def executor_killed(spark: Any, work: Path) -> Any:
    query = _slowly(spark, work)
    time.sleep(8)
    for process in executors():
        process.kill()
    return query


def slow_host(spark: Any, work: Path) -> Any:
    query = _slowly(spark, work)
    time.sleep(8)
    stopped = executors()
    for process in stopped:
        process.suspend()
    return query


def fill(disk: Path) -> None:
    ballast = os.open(disk / "ballast", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(ballast, b"x" * 1024)
    os.close(ballast)


def disk_full_under_checkpoint(spark: Any, work: Path) -> Any:
    disk = work / "disk"
    query = (
        grouped(rate(spark))
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(disk / "ck"))
        .start()
    )
    committed(query)
    fill(disk)
    return query


def disk_full_for_offsets(spark: Any, work: Path) -> Any:
    disk = work / "disk"
    query = start(rate(spark), disk)
    committed(query)
    fill(disk)
    return query


def _state_job(spark: Any, work: Path, stream: Any = None) -> Any:
    return (
        (grouped(rate(spark)) if stream is None else stream)
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(work / "ck"))
        .start()
    )


def state_file_deleted(spark: Any, work: Path) -> Any:
    query = _state_job(spark, work)
    committed(query)
    time.sleep(2)
    query.stop()
    for path in (work / "ck" / "state").rglob("*"):
        if path.suffix in {".delta", ".snapshot", ".zip", ".changelog"}:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return _state_job(spark, work)


def state_file_deleted_rocksdb(spark: Any, work: Path) -> Any:
    return state_file_deleted(spark, work)


def state_schema_changed(spark: Any, work: Path) -> Any:
    from pyspark.sql import functions as f

    query = _state_job(spark, work)
    committed(query)
    query.stop()
    other = rate(spark).groupBy(f.col("value").cast("string").alias("key")).agg(f.avg("value"))
    return _state_job(spark, work, other)


def two_queries_one_checkpoint(spark: Any, work: Path) -> Any:
    first = rate(spark).writeStream.format("noop").option("checkpointLocation", str(work / "ck"))
    query = first.start()
    committed(query)
    other = spark.newSession()
    other.conf.set("spark.sql.streaming.stopActiveRunOnRestart", "false")
    return start(rate(other), work)


def two_applications_one_checkpoint(spark: Any, work: Path) -> Any:
    query = start(rate(spark), work)
    committed(query)
    offsets = work / "ck" / "offsets"
    # Another application cannot be seen but by what it writes: it plans batches ahead of us.
    newest = max(int(path.name) for path in offsets.iterdir() if path.name.isdigit())
    text = (offsets / str(newest)).read_text()
    for number in range(newest + 1, newest + 200):
        if not (offsets / str(number)).exists():
            (offsets / str(number)).write_text(text)
    return query


def source_file_deleted(spark: Any, work: Path) -> Any:
    source = work / "in"
    source.mkdir()
    for number in range(40):
        (source / f"{number:03d}.json").write_text('{"value": 1}\n' * 10)

    def write(frame: Any, batch_id: int) -> None:
        if batch_id == 1:
            for path in source.iterdir():
                path.unlink()
        frame.count()

    stream = spark.readStream.schema("value long").option("maxFilesPerTrigger", 5).json(str(source))
    return (
        stream.writeStream.option("checkpointLocation", str(work / "ck"))
        .foreachBatch(write)
        .start()
    )


def _listener(*, answer: bool) -> int:
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    port = server.getsockname()[1]
    if answer:
        server.listen()
        globals()["_kept"] = server  # nobody accepts: who connects waits
    else:
        server.close()
    return int(port)


def sink_refuses(spark: Any, work: Path) -> Any:
    port = _listener(answer=False)

    def write(frame: Any, batch_id: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sink:
            sink.sendall(str(frame.count()).encode())

    return (
        rate(spark)
        .writeStream.option("checkpointLocation", str(work / "ck"))
        .foreachBatch(write)
        .start()
    )


def sink_times_out(spark: Any, work: Path) -> Any:
    port = _listener(answer=True)

    def write(frame: Any, batch_id: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sink:
            sink.sendall(str(frame.count()).encode())
            sink.recv(1)

    return (
        rate(spark)
        .writeStream.option("checkpointLocation", str(work / "ck"))
        .foreachBatch(write)
        .start()
    )


def sink_refuses_row_by_row(spark: Any, work: Path) -> Any:
    port = _listener(answer=False)

    class Writer:
        def open(self, partition_id: int, epoch_id: int) -> bool:
            self.sink = socket.create_connection(("127.0.0.1", port), timeout=2)
            return True

        def process(self, row: Any) -> None:
            self.sink.sendall(b"x")

        def close(self, error: Any) -> None:
            pass

    return (
        rate(spark)
        .writeStream.option("checkpointLocation", str(work / "ck"))
        .foreach(Writer())
        .start()
    )


def sink_refuses_jdbc(spark: Any, work: Path) -> Any:
    def write(frame: Any, batch_id: int) -> None:
        properties = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
        url = "jdbc:derby:memory:orders;user=a;password=hunter2"  # which was never created
        frame.write.jdbc(url, "prices", properties=properties)

    return (
        rate(spark)
        .writeStream.option("checkpointLocation", str(work / "ck"))
        .foreachBatch(write)
        .start()
    )


def sink_directory_read_only(spark: Any, work: Path) -> Any:
    sink = work / "out"
    sink.write_text("a file stands where the sink wants its directory")
    return (
        rate(spark)
        .writeStream.format("parquet")
        .option("path", str(sink / "data"))
        .option("checkpointLocation", str(work / "ck"))
        .start()
    )


def bad_option(spark: Any, work: Path) -> Any:
    source = work / "in"
    source.mkdir()
    stream = spark.readStream.schema("value long").option("maxFilesPerTrigger", "many")
    return start(stream.json(str(source)), work)


def bad_option_while_running(spark: Any, work: Path) -> Any:
    return start(
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "-5").load(), work
    )


def unsupported_output_mode(spark: Any, work: Path) -> Any:
    return (
        grouped(rate(spark))
        .writeStream.outputMode("append")
        .format("noop")
        .option("checkpointLocation", str(work / "ck"))
        .start()
    )


def missing_path(spark: Any, work: Path) -> Any:
    return start(spark.readStream.schema("value long").json(str(work / "nowhere")), work)


def missing_data_source(spark: Any, work: Path) -> Any:
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    return start(stream.option("subscribe", "orders").load(), work)


def malformed_record(spark: Any, work: Path) -> Any:
    from pyspark.sql import functions as f

    text = rate(spark).select(f.lit("{broken").alias("text"))
    return start(
        text.select(f.from_json("text", "a int", {"mode": "FAILFAST"}).alias("parsed")), work
    )


def cast_invalid(spark: Any, work: Path) -> Any:
    return start(rate(spark).selectExpr("cast(concat('x', value) as int) as v"), work)


def checkpoint_not_writable(spark: Any, work: Path) -> Any:
    (work / "ck").write_text("a file stands where the checkpoint wants its directory")
    return start(rate(spark), work)


def offset_log_corrupt(spark: Any, work: Path) -> Any:
    query = start(rate(spark), work)
    committed(query)
    query.stop()
    for path in (work / "ck" / "offsets").iterdir():
        path.unlink()
    (work / "ck" / "offsets" / "0").write_text("not an offset log")
    for path in (work / "ck" / "commits").iterdir():
        path.unlink()
    return start(rate(spark), work)


def commit_log_gone(spark: Any, work: Path) -> Any:
    query = start(rate(spark), work)
    committed(query)
    shutil.rmtree(work / "ck")
    (work / "ck").write_text("")
    return query


FAULTS: Final[dict[str, Provocation]] = {
    "user_exception": Provocation("user_code", user_exception),
    "user_exception_in_foreach_batch": Provocation("user_code", user_exception_in_foreach_batch),
    "arithmetic": Provocation("user_code", arithmetic),
    "cast_invalid": Provocation("user_code", cast_invalid),
    "malformed_record": Provocation("user_code", malformed_record),
    "python_memory_limit": Provocation(
        "memory",
        python_memory_limit,
        {"spark.executor.pyspark.memory": "1g", "spark.python.worker.reuse": "false"},
    ),
    "python_worker_killed": Provocation("memory", python_worker_killed),
    "java_heap": Provocation(
        "memory",
        java_heap,
        {"spark.task.maxFailures": "1", "spark.executor.memory": "600m"},
        master="local-cluster[1,1,1024]",
    ),
    "executor_killed": Provocation(
        "machine",
        executor_killed,
        {"spark.task.maxFailures": "1", "spark.executor.memory": "600m"},
        master="local-cluster[1,1,1024]",
    ),
    "slow_host": Provocation(
        "machine",
        slow_host,
        {
            "spark.task.maxFailures": "1",
            "spark.executor.memory": "600m",
            "spark.network.timeout": "12s",
            "spark.storage.blockManagerHeartbeatTimeoutMs": "8000",
            "spark.executor.heartbeatInterval": "2s",
            "spark.network.timeoutInterval": "2s",
        },
        master="local-cluster[1,1,1024]",
    ),
    "disk_full_under_checkpoint": Provocation(
        "checkpoint_storage", disk_full_under_checkpoint, small_disk=True
    ),
    "disk_full_for_offsets": Provocation(
        "checkpoint_storage", disk_full_for_offsets, small_disk=True
    ),
    "checkpoint_not_writable": Provocation("checkpoint_storage", checkpoint_not_writable),
    "offset_log_corrupt": Provocation("checkpoint_storage", offset_log_corrupt),
    "commit_log_gone": Provocation("checkpoint_storage", commit_log_gone),
    "state_file_deleted": Provocation("state_store", state_file_deleted),
    "state_file_deleted_rocksdb": Provocation(
        "state_store",
        state_file_deleted_rocksdb,
        {
            "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution."
            "streaming.state.RocksDBStateStoreProvider"
        },
    ),
    "state_schema_changed": Provocation("state_store", state_schema_changed),
    "two_queries_one_checkpoint": Provocation("configuration", two_queries_one_checkpoint),
    "two_applications_one_checkpoint": Provocation(
        "configuration", two_applications_one_checkpoint
    ),
    "source_file_deleted": Provocation("source_data_loss", source_file_deleted),
    "sink_refuses": Provocation("external_sink", sink_refuses),
    "sink_times_out": Provocation("external_sink", sink_times_out),
    "sink_refuses_row_by_row": Provocation("external_sink", sink_refuses_row_by_row),
    "sink_refuses_jdbc": Provocation("external_sink", sink_refuses_jdbc),
    "sink_directory_read_only": Provocation("external_sink", sink_directory_read_only),
    "bad_option": Provocation("configuration", bad_option),
    "bad_option_while_running": Provocation("configuration", bad_option_while_running),
    "unsupported_output_mode": Provocation("configuration", unsupported_output_mode),
    "missing_path": Provocation("configuration", missing_path),
    "missing_data_source": Provocation("configuration", missing_data_source),
    **{act.__name__: Provocation(cause, act, kafka=True) for act, cause in KAFKA_FAULTS},
}


# -- running and recording ----------------------------------------------------------------------


def provoke(name: str) -> dict[str, Any]:
    """Provokes one fault in a child; returns its record. Raises RuntimeError where none comes."""
    fault = FAULTS[name]
    with tempfile.TemporaryDirectory(prefix="weir-fault-") as directory:
        work = Path(directory)
        out = work / "record.json"
        command = [sys.executable, "-m", "tests.faults.provoke", "--child", name, str(work)]
        if fault.small_disk:
            (work / "disk").mkdir()
            inner = f'mount -t tmpfs -o size=3m none "{work / "disk"}" && exec "$@"'
            command = ["unshare", "-rm", "sh", "-c", inner, "sh", *command]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_WORKER_DIR": str(work / "worker")}
        with contextlib.ExitStack() as beside, (work / "log").open("wb") as log:
            if fault.kafka:  # this process's own, so that it ends whatever becomes of the child
                broker = beside.enter_context(Broker(work / "kafka"))
                environment[BROKER] = f"{broker.port}:{broker.pid}"
            # A session of its own, so that all it leaves behind can be ended with it.
            child = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                child.wait(timeout=240)
            except subprocess.TimeoutExpired:
                pass
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if not out.exists():
            tail = (work / "log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{name}: no record; the end of its log:\n{tail}")
        record: dict[str, Any] = json.loads(clean(out.read_text(), work))
        return record


def clean(text: str, work: Path) -> str:
    """Without paths, ports and host names of this machine."""
    text = text.replace(str(work), "/job")
    for place in (sys.prefix, str(ROOT), str(Path(sys.base_prefix))):
        text = text.replace(place, "/opt/spark")
    text = text.replace(socket.gethostname(), "host")
    return re.sub(r"127\.0\.0\.1:\d{4,5}(?=\D)", "127.0.0.1:5432", text)


class _BrokerOfParent(Broker):
    """The broker that the parent started: used as one's own, and ended by its process's id."""

    def __init__(self, folder: Path, port: int, pid: int) -> None:
        super().__init__(folder)
        self.port, self._pid = port, pid

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)


def _broker_of_parent(work: Path) -> Broker:
    port, pid = os.environ[BROKER].split(":")
    return _BrokerOfParent(work / "kafka", int(port), int(pid))


def run_child(name: str, work: Path) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQueryListener

    fault = FAULTS[name]
    builder = (
        SparkSession.builder.master(fault.master)
        .appName(f"fault-{name}")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", str(ROOT))
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
    )
    for key, value in fault.conf.items():
        builder = builder.config(key, value)
    if fault.kafka:
        from pyspark import __version__

        builder = builder.config("spark.jars", connector(__version__))
    spark = builder.getOrCreate()
    ended: list[tuple[str, Any, Any]] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...
        def onQueryProgress(self, event: Any) -> None: ...
        def onQueryIdle(self, event: Any) -> None: ...
        def onQueryTerminated(self, event: Any) -> None:
            ended.append((str(event.runId), event.exception, event.errorClassOnException))

    spark.streams.addListener(Listener())
    began = time.monotonic()
    record: dict[str, Any] = {
        "fault": name,
        "cause": fault.cause,
        "spark_version": spark.version,
    }
    try:
        query = fault.act(spark, work, *([_broker_of_parent(work)] if fault.kafka else []))
    except Exception as error:  # this is what is to be recorded
        error_class = None
        for reader in ("getCondition", "getErrorClass"):
            if hasattr(error, reader):
                error_class = getattr(error, reader)()
                break
        text = f"{type(error).__name__}: {error}"
        record |= {"when": "start", "exception": text[:LONGEST], "error_class": error_class}
    else:
        run_id = str(query.runId)
        while time.monotonic() - began < 200:
            found = [one for one in ended if one[0] == run_id and one[1] is not None]
            if found:
                _, exception, error_class = found[0]
                record |= {"when": "running", "exception": exception, "error_class": error_class}
                record["committed"] = any(one["numInputRows"] for one in query.recentProgress)
                break
            time.sleep(0.2)
        else:
            print("the query went on", query.status, query.lastProgress)
            return
    (work / "record.json").write_text(json.dumps(record))
    os._exit(0)  # the JVM may be beyond an orderly end; its process group is ended with it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="faults to provoke; all where none is named")
    parser.add_argument("--child", nargs=2, metavar=("NAME", "WORK"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        # Not as __main__: what Python workers unpickle must have an importable home.
        module = importlib.import_module("tests.faults.provoke")
        module.run_child(arguments.child[0], Path(arguments.child[1]))
        return 1
    failed = 0
    for name in arguments.names or FAULTS:
        try:
            record = provoke(name)
        except RuntimeError as error:
            failed += 1
            print(error)
            continue
        path = FIXTURES / f"{name}.json"
        path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {record['error_class']}: {record['exception'][:120]!r}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
