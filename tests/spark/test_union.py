"""Files and Kafka in one query, each source in its own unit."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.spark.conftest import ROWS_PER_FILE, in_force, progresses
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def test_files_and_kafka_in_one_query_each_in_its_own_unit(
    agent: Any, broker: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    broker.create_topic("beside-files", partitions=2)
    attached(agent, files_pause_seconds=0.2)
    topic = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", "beside-files")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "10")
        .load()
        .selectExpr("0 as k", "cast(cast(value as string) as int) as v")
    )
    files = folder(files=9)
    broker.produce("beside-files", [str(number) for number in range(100)])
    hang = threading.Event()

    def batch(frame: Any, batch_id: int) -> None:
        frame.count()
        if batch_id == 0:
            hang.wait(120)

    query = start(files.read(spark, 2).union(topic), batch=batch)
    run_id = str(query.runId)
    agent.grant(run_id, 3, source=0, unit="files")
    agent.grant(run_id, 30, source=1, unit="rows")
    until(
        lambda: in_force(query) == ["MaxFiles: 3", "MaxRows: 30"],
        "both limits in force",
        seconds=120.0,
    )
    hang.set()
    done = agent.wait(lambda a: len(told := progresses(a, query)) >= 2 and told, 180.0)
    first, second = done[0]["limits"], done[1]["limits"]
    assert [(one["unit"], one["configured"]) for one in first] == [("files", 2), ("rows", 10)]
    assert [(one["unit"], one["limit"]) for one in second] == [("files", 3), ("rows", 30)]
    taken = [[s["numInputRows"] for s in event["body"]["sources"]] for event in done[:2]]
    assert [row[0] for row in taken] == [first[0]["limit"] * ROWS_PER_FILE, 3 * ROWS_PER_FILE]
    assert second[0]["admitted"] in {3, None}
    assert second[1]["admitted"] == taken[1][1]
    assert abs(taken[1][1] - 30) <= 2  # by partition, rounded
    assert second[1]["backlog"] == 100 - taken[0][1] - taken[1][1]
    assert query.isActive
