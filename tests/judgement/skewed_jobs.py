"""A job with one hot key and one with one slow task, and what Spark's REST API tells of them.

Run as ``python -m tests.judgement.skewed_jobs skew|slow_task FOLDER [AGENT]``, in a process of its
own because it needs a Spark with a web interface; the last line it prints is JSON: the worst
alignment that was found, what was missing, and the partition that should be named. With an agent's
address the job has the listener attached, and what is printed is what the agent found.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec

from agent.core.judge.alignment import worst
from agent.sources.spark_rest import Found, SparkRest
from spark_listener import attach

PARTITIONS = 4
SLOW_PARTITION = 3


def session() -> Any:
    from pyspark.sql import SparkSession

    made = (
        SparkSession.builder.master("local[2]")
        .appName("alignment")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.sql.adaptive.enabled", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


def run(why: str, place: Path, agent: str | None) -> dict[str, Any]:
    from pyspark.sql import functions as f

    spark = session()
    source = place / "in"
    source.mkdir()
    lines = [json.dumps({"key": "hot" if n % 10 else f"k{n}", "value": n}) for n in range(2000)]
    (source / "one.json").write_text("\n".join(lines))

    @f.udf("long")
    def per_row(value: int) -> int:
        time.sleep(0.008)
        return value

    @f.udf("long")
    def wait(value: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() == SLOW_PARTITION:
            time.sleep(0.03)
        return value

    rows = spark.readStream.schema("key string, value long").json(str(source))
    if why == "skew":
        frame = rows.repartition(PARTITIONS, f.col("key")).select(per_row("value").alias("v"))
        hash_of = f.expr(f"pmod(hash(key), {PARTITIONS})")
        hot = spark.createDataFrame([("hot",)], ["key"]).select(hash_of).first()
        assert hot is not None
        partition = int(hot[0])
    else:
        frame = rows.repartition(PARTITIONS).select(wait("value").alias("v"))
        partition = SLOW_PARTITION
    # Python workers start slowly on a busy machine, and all tasks alike: before, not meanwhile.
    spark.range(0, 8, 1, PARTITIONS).select(per_row("id")).collect()
    stream = frame.writeStream.format("noop").option("checkpointLocation", str(place / why))
    if agent is not None:
        attach(spark, agent_url=agent)
        query = stream.queryName("skewed").start()
        found = asked(agent)
        query.stop()
        spark.stop()
        return {**found, "partition": partition}
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination(120)
    found = asyncio.run(look_until(spark, str(query.runId)))
    spark.stop()
    one = worst(found.alignments)
    return {
        "found": None if one is None else msgspec.to_builtins(one),
        "missing": found.missing,
        "partition": partition,
    }


def asked(agent: str) -> dict[str, Any]:
    """What the agent says of the query, as soon as it has looked at its stages."""
    end = time.monotonic() + 150.0
    view: dict[str, Any] = {}
    with httpx.Client(base_url=agent, trust_env=False) as client:
        while time.monotonic() < end:
            time.sleep(1.0)
            answer = client.get("/v1/queries/alignment/skewed")
            view = answer.json()["query"] if answer.status_code == 200 else {}
            if view and view["alignment"]["stages"]:
                break
        metrics = client.get("/metrics").text
    alignment = view.get("alignment", {"stages": [], "missing": "the agent knows no such query"})
    return {
        "found": next(iter(alignment["stages"]), None),
        "missing": alignment["missing"],
        "advice": view.get("advice"),
        "metrics": [line for line in metrics.splitlines() if line.startswith("weir_alignment_s")],
    }


async def look_until(spark: Any, run_id: str) -> Found:
    context = spark.sparkContext
    async with httpx.AsyncClient() as client:
        for _ in range(40):
            rest = SparkRest(context.uiWebUrl, context.applicationId, client)
            found = await rest.look(run_id)
            if found.alignments:
                return found
            await asyncio.sleep(0.5)
        return found


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if sys.argv[3:] else None)))
