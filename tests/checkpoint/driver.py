"""A Spark driver that is told over standard input what to run; standard library and PySpark only.

Runs under any version of Spark. Each line in is a JSON object, each line out the answer to one:
{"run": {...}} runs a query until its input is used up and answers with its batches, or its error.
The sink is an SQLite file with two tables: ``upserted`` by row key, ``appended`` by batch.
"""

import json
import os
import sqlite3
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(settings):
    builder = SparkSession.builder.master("local[2]").appName("checkpoints")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "768m",
        "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        "spark.sql.streaming.fileSource.log.compactInterval": "3",
        "spark.sql.session.timeZone": "UTC",
        **settings,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def set_store(spark, store):
    provider = "spark.sql.streaming.stateStore.providerClass"
    changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    version = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    for key in (provider, changelog, version):
        spark.conf.unset(key)
    if store != "hdfs":
        spark.conf.set(provider, ROCKSDB)
        spark.conf.set(changelog, "false" if store == "rocksdb" else "true")
    if store == "changelog-v2":
        spark.conf.set(version, "2")


def read(spark, order, name):
    if order.get("kafka"):
        frame = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", order["kafka"])
            .option("subscribe", f"{order['topic']}-{name}")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(order["limit"] * order.get("unit_rows", 1)))
            .load()
        )
        body = fn.from_json(fn.col("value").cast("string"), "id int, k int, v int, t timestamp")
        return frame.select(body.alias("r")).select("r.*")
    return (
        spark.readStream.schema("id int, k int, v int, t timestamp")
        .option("maxFilesPerTrigger", str(order["limit"]))
        .json(f"{order['input']}/{name}")
    )


def plan(spark, order):
    operator = order["operator"]
    left = read(spark, order, "left").withWatermark("t", "30 minutes")
    if operator == "aggregation":
        frame = left.groupBy("k").agg(fn.count("*").alias("n"), fn.sum("v").alias("s"))
        return keyed(frame, fn.col("k").cast("string"), "n", "s"), "update"
    if operator == "window":
        frame = left.groupBy(fn.window("t", "5 minutes"), "k").agg(
            fn.count("*").alias("n"), fn.sum("v").alias("s")
        )
        key = fn.concat_ws("/", fn.col("window.start").cast("string"), fn.col("k").cast("string"))
        return keyed(frame, key, "n", "s"), "append"
    if operator == "join":
        right = read(spark, order, "right").withWatermark("t", "30 minutes").alias("r")
        both = left.alias("l").join(right, fn.expr("l.id = r.id and l.t = r.t"))
        both = both.select("l.id", "l.v", fn.col("r.v").alias("w"))
        return keyed(both, fn.col("id").cast("string"), "v", "w"), "append"
    if operator == "transform":
        return transform(left), "update"
    raise ValueError(operator)


def keyed(frame, key, *values):
    return frame.select(key.alias("key"), fn.struct(*values).alias("value"))


def transform(frame):
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle):
            self.total = handle.getValueState("total", "n long, s long")

        def handleInputRows(self, key, rows, timerValues):  # noqa: N803
            import pandas as pd

            n, s = self.total.get() if self.total.exists() else (0, 0)
            for part in rows:
                n, s = n + len(part), s + int(part["v"].sum())
            self.total.update((n, s))
            yield pd.DataFrame({"key": [str(key[0])], "n": [n], "s": [s]})

        def close(self):
            pass

    out = frame.groupBy("k").transformWithStateInPandas(
        statefulProcessor=Counter(),
        outputStructType="key string, n long, s long",
        outputMode="Update",
        timeMode="None",
    )
    return out.select("key", fn.struct("n", "s").alias("value"))


def writer(order):
    slow = order.get("sink_seconds", 0.0)

    def write(frame, batch_id):
        rows = [(row["key"], json.dumps(row["value"].asDict())) for row in frame.collect()]
        database = sqlite3.connect(order["sink"])
        with database:
            database.execute("create table if not exists upserted (key primary key, value)")
            database.execute("create table if not exists appended (batch, key, value)")
            database.executemany("insert or replace into upserted values (?, ?)", rows)
            database.execute("delete from appended where batch = ?", (batch_id,))
            batch = [(batch_id, *row) for row in rows]
            database.executemany("insert into appended values (?, ?, ?)", batch)
        database.close()
        if slow:
            time.sleep(slow)

    return write


def run(spark, order):
    set_store(spark, order["store"])
    for key, value in order.get("conf", {}).items():
        spark.conf.set(key, value)
    if order.get("parquet"):
        frame, mode = read(spark, order, "left"), "append"
        sink = frame.writeStream.format("parquet").option("path", order["parquet"])
    else:
        frame, mode = plan(spark, order)
        sink = frame.writeStream.foreachBatch(writer(order))
    query = (
        sink.outputMode(mode)
        .option("checkpointLocation", order["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    try:
        done = query.awaitTermination(order.get("seconds", 120))
    except Exception as error:
        return {"error": str(error).splitlines()[0][:300]}
    finally:
        for key in order.get("conf", {}):
            spark.conf.unset(key)
    if not done:
        query.stop()
        return {"error": "did not end in time"}
    return {"batches": len(query.recentProgress)}


def describe(spark, order):
    """What a query tells of itself: runs it for so many batches, one where no number is given."""
    if order["source"] == "files":
        frame = read(spark, order, "left")
    else:
        frame = spark.readStream.format(order["source"]).options(**order["options"]).load()
    if order["sink"] == "kafka":
        frame = frame.selectExpr("to_json(struct(*)) as value")
    writing = frame.writeStream.options(**order.get("sink_options", {}))
    if order.get("checkpoint"):
        writing = writing.option("checkpointLocation", order["checkpoint"])
    if order["sink"] == "foreachBatch":
        writing = writing.foreachBatch(lambda rows, _: rows.count())
    elif order["sink"] == "foreach":
        writing = writing.foreach(lambda row: None)
    else:
        writing = writing.format(order["sink"]).queryName("described")
        if order["sink"] == "parquet":
            writing = writing.option("path", order["parquet"])
    query = writing.start()
    until = time.monotonic() + 60
    while query.exception() is None and time.monotonic() < until:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] + 1 >= order.get("batches", 1):
            break
        time.sleep(0.05)
    execution = query._jsq.streamingQuery()
    told = {
        "location": str(execution.resolvedCheckpointRoot()),
        "master": spark.sparkContext.master,
        "class": str(execution.getClass().getName()),
    }
    query.stop()
    progress = query.lastProgress
    if progress is None:  # it ended before its first batch did
        return told | {"sink": "", "sources": [], "error_text": str(query.exception())[:300]}
    progress = progress if isinstance(progress, dict) else json.loads(progress.json)
    return told | {
        "sink": progress["sink"]["description"],
        "sources": [source["description"] for source in progress["sources"]],
    }


def table_rows(spark, order):
    """How many rows a file sink's readers see, and how many of them differ."""
    frame = spark.read.parquet(order["parquet"])
    return {"rows": frame.count(), "distinct": frame.distinct().count()}


def state_rows(spark, order):
    """Rows of one state store, by Spark's own state reader."""
    frame = spark.read.format("statestore").load(order["checkpoint"])
    return {"rows": frame.count()}


def places(spark, order):
    """The state partition of each key from 0 on, as Spark hashes the ints that ``read`` gives."""
    frame = spark.range(order["keys"]).selectExpr(f"pmod(hash(int(id)), {order['of']}) as place")
    return {"partitions": [row.place for row in frame.collect()]}


def main():
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    out, settings = sys.stdout, json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    spark = session(settings)
    print(json.dumps({"version": spark.version}), file=out)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "state" in order:
                answer = state_rows(spark, order["state"])
            elif "describe" in order:
                answer = describe(spark, order["describe"])
            elif "partitions" in order:
                answer = places(spark, order["partitions"])
            elif "table" in order:
                answer = table_rows(spark, order["table"])
            else:
                answer = run(spark, order["run"])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"}
        print(json.dumps(answer), file=out)
    spark.stop()


if __name__ == "__main__":
    main()
