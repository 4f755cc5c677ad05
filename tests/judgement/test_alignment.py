"""Alignment: a table of stages, a REST API that misbehaves, and two jobs on real Spark."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from agent.core.alignment import Task, align, worst
from agent.sources.spark_rest import Found, SparkRest, tasks


def stage(seconds: list[float], rows: list[int] | None = None, hosts: str = "") -> list[Task]:
    return [
        Task(index, "1", hosts[index] if hosts else "a", value, rows[index] if rows else None)
        for index, value in enumerate(seconds)
    ]


@pytest.mark.parametrize(
    ("seconds", "rows", "hosts", "why", "partition"),
    [
        ([1.0, 1.1, 0.9, 1.0], [10, 10, 10, 10], "", "even", 1),
        ([1.0, 1.1, 9.0, 1.0], [10, 10, 90, 10], "", "skew", 2),
        ([1.0, 1.1, 9.0, 1.0], [10, 10, 10, 10], "", "slow_task", 2),
        ([1.0, 1.1, 9.0, 1.0], None, "", "slow_task", 2),
        ([1.0, 1.0, 1.0, 4.0, 3.9, 1.1], [9] * 6, "aaabba", "slow_host", 3),
        ([0.01, 0.01, 0.09], [1, 1, 9], "", "even", 2),  # too short to be worth words
    ],
)
def test_what_a_stage_waited_for(
    seconds: list[float], rows: list[int] | None, hosts: str, why: str, partition: int
) -> None:
    found = align(7, "start at job.py:3", stage(seconds, rows, hosts))
    assert found is not None
    assert (found.why, found.partition) == (why, partition)
    assert bool(found.advice) == (why != "even")
    assert found.wait_seconds == pytest.approx(
        max(seconds) - sorted(seconds)[len(seconds) // 2], abs=0.2
    )


def test_state_partitions_are_fixed_and_the_advice_says_so() -> None:
    skewed = stage([1.0, 1.0, 9.0], [1, 1, 90])
    stateless, stateful = align(1, "", skewed), align(1, "", skewed, stateful=True)
    assert stateless is not None
    assert stateful is not None
    assert "fixed" in stateful.advice
    assert "fixed" not in stateless.advice


def test_too_few_tasks_tell_nothing_and_the_longest_wait_is_the_worst() -> None:
    assert align(1, "", stage([1.0, 9.0])) is None
    one, two = align(1, "", stage([1.0, 1.0, 2.0])), align(2, "", stage([1.0, 1.0, 5.0]))
    assert one is not None
    assert two is not None
    assert worst([one, two]) is two
    assert worst([]) is None


@pytest.mark.parametrize(
    "listed",
    [
        None,
        {},
        7,
        "x",
        [None, 3, {}],
        [{"partitionId": -1, "duration": 5, "status": "SUCCESS"}],
        [{"partitionId": 1, "duration": "long", "status": "SUCCESS"}],
        [{"partitionId": 1, "duration": 5, "status": "FAILED"}],
    ],
)
def test_malformed_tasks_are_left_out(listed: Any) -> None:
    assert tasks(listed) == []


def look(answer: Any) -> Found:
    async def go() -> Found:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            return await SparkRest("http://driver:4040", "app", client).look("run")

    return asyncio.run(go())


def _slow(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("slow", request=request)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: httpx.Response(404), "404"),
        (lambda _: httpx.Response(200, text="<html>"), "whole answer"),
        (lambda _: httpx.Response(200, text='[{"jobId": 1, "sta'), "whole answer"),
        (lambda _: httpx.Response(200, json={"jobs": 1}), "no finished job"),
        (lambda _: httpx.Response(200, content=b" " * (9 * 1024 * 1024)), "whole answer"),
        (_slow, "out of reach"),
    ],
)
def test_a_rest_api_that_misbehaves_gives_a_reason(answer: Any, said: str) -> None:
    found = look(answer)
    assert found.alignments == []
    assert said in found.missing


def test_stages_that_are_gone_are_counted() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/jobs"):
            job = {"jobId": 3, "jobGroup": "run", "status": "SUCCEEDED", "stageIds": [4, 5]}
            return httpx.Response(200, json=[job])
        return httpx.Response(404)

    assert "2 stages are gone" in look(answer).missing


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_skew_and_a_slow_task_are_named_on_a_real_spark(tmp_path: Any) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("alignment")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.adaptive.enabled", "false")
        .getOrCreate()
    )
    try:
        source = tmp_path / "in"
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
            if context is not None and context.partitionId() == 3:
                time.sleep(0.03)
            return value

        rows = spark.readStream.schema("key string, value long").json(str(source))
        jobs = {
            "skew": rows.repartition(4, f.col("key")).select(per_row("value").alias("v")),
            "slow_task": rows.repartition(4).select(wait("value").alias("v")),
        }
        # Python workers start slowly on a busy machine, and all tasks alike: before, not meanwhile.
        spark.range(0, 8, 1, 4).select(per_row("id")).collect()
        for why, frame in jobs.items():
            query = (
                frame.writeStream.format("noop")
                .trigger(availableNow=True)
                .option("checkpointLocation", str(tmp_path / why))
                .start()
            )
            run_id = str(query.runId)
            query.awaitTermination(120)
            found = _look_until(spark, run_id)
            one = worst(found.alignments)
            assert one is not None, found.missing
            assert one.why == why, one
            if why == "slow_task":
                assert one.partition == 3
            else:
                hot = (
                    spark.createDataFrame([("hot",)], ["key"])
                    .select(f.expr("pmod(hash(key), 4)"))
                    .first()
                )
                assert hot is not None
                assert one.partition == hot[0]
            assert one.advice
    finally:
        spark.stop()


def _look_until(spark: Any, run_id: str) -> Found:
    context = spark.sparkContext

    async def go() -> Found:
        async with httpx.AsyncClient() as client:
            rest = SparkRest(context.uiWebUrl, context.applicationId, client)
            for _ in range(40):
                found = await rest.look(run_id)
                if found.alignments:
                    return found
                await asyncio.sleep(0.5)
            return found

    return asyncio.run(go())
