"""Sources written in Python, which from Spark 4.2 on take limits: of their own kind, else none.

Run by tests.matrix, whose venvs have the Arrow that such sources need.
"""

from __future__ import annotations

from typing import Any

import pytest

from spark_listener.actuator import DISOBEYS
from tests.spark.conftest import agent, attached, in_force, own_logger, progresses, spark, start

__all__ = ["agent", "attached", "own_logger", "spark", "start"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def python_source(limit_of: str) -> type:
    """A Python data source of endless numbers, made here so that Spark's workers get it whole."""
    from pyspark.sql import datasource
    from pyspark.sql.streaming import datasource as limits

    class Reader(datasource.DataSourceStreamReader):
        def initialOffset(self) -> dict:
            return {"at": 0}

        def getDefaultReadLimit(self) -> Any:
            return {
                "rows": limits.ReadMaxRows(20),
                "deaf": limits.ReadMaxRows(150),
                "files": limits.ReadMaxFiles(2),
                "all": limits.ReadAllAvailable(),
                "minimum": limits.ReadMinRows(5),
            }[limit_of]

        def latestOffset(self, start: dict, limit: Any) -> dict:
            rows = {
                "ReadMaxRows": lambda: limit.max_rows,
                "ReadMaxFiles": lambda: limit.max_files * 10,
                "Deaf": lambda: 150,
            }.get("Deaf" if limit_of == "deaf" else type(limit).__name__, lambda: 30)()
            return {"at": start["at"] + rows}

        def partitions(self, start: dict, end: dict) -> list:
            return [datasource.InputPartition((start["at"], end["at"]))]

        def read(self, partition: Any) -> Any:
            begin, end = partition.value
            yield from ((number,) for number in range(begin, end))

    class Numbers(datasource.DataSource):
        @classmethod
        def name(cls) -> str:
            return f"numbers_{limit_of}"

        def schema(self) -> str:
            return "n bigint"

        def streamReader(self, schema: Any) -> Any:
            return Reader()

    return Numbers


@pytest.mark.parametrize(
    ("limit", "unit", "configured", "rows"), [("rows", "rows", 20, 7), ("files", "files", 2, 70)]
)
def test_a_python_source_takes_a_limit_of_its_own_kind(
    agent: Any,
    attached: Any,
    start: Any,
    spark: Any,
    limit: str,
    unit: str,
    configured: int,
    rows: int,
) -> None:
    spark.dataSource.register(python_source(limit))
    attached(agent)
    query = start(spark.readStream.format(f"numbers_{limit}").load())
    run_id = str(query.runId)
    [entry] = agent.wait(lambda a: progresses(a, query))[0]["limits"]
    assert (entry["unit"], entry["control"], entry["configured"]) == (unit, "live", configured)
    agent.grant(run_id, 7, unit=unit)
    agent.wait(lambda a: progresses(a, query)[-1]["body"]["numInputRows"] == rows)
    agent.grant(run_id, None, unit=unit)
    agent.wait(lambda a: progresses(a, query)[-1]["body"]["numInputRows"] == 20)
    assert query.isActive
    assert query.exception() is None


@pytest.mark.parametrize("limit", ["all", "minimum"])
def test_a_python_source_without_a_maximum_is_left_alone(
    agent: Any, attached: Any, start: Any, spark: Any, limit: str
) -> None:
    """Any limit of another class would end its query."""
    spark.dataSource.register(python_source(limit))
    attached(agent)
    query = start(spark.readStream.format(f"numbers_{limit}").load())
    for unit in ("rows", "files", "bytes"):
        agent.grant(str(query.runId), 3, unit=unit)
    seen = agent.wait(lambda a: len(told := progresses(a, query)) >= 3 and told)
    assert {(event["limits"][0]["control"]) for event in seen} == {"advice"}
    assert all(event["limits"][0]["note"] for event in seen)
    assert query.isActive


def test_one_that_does_not_look_at_its_limit_is_found_out(
    agent: Any, attached: Any, start: Any, spark: Any
) -> None:
    spark.dataSource.register(python_source("deaf"))
    attached(agent)
    query = start(spark.readStream.format("numbers_deaf").load())
    before = agent.wait(lambda _: in_force(query))
    [entry] = agent.wait(lambda a: progresses(a, query))[0]["limits"]
    assert entry["control"] == "live"
    assert "obeyed" not in entry
    agent.grant(str(query.runId), 40, unit="rows")
    [entry] = agent.wait(
        lambda a: (last := progresses(a, query)[-1]["limits"])[0]["control"] == "advice" and last
    )
    assert (entry["note"], entry["obeyed"]) == (DISOBEYS, False)
    agent.wait(lambda _: in_force(query) == before)
    agent.grant(str(query.runId), 40, unit="rows")
    seen = len(progresses(agent, query))
    agent.wait(lambda a: len(progresses(a, query)) > seen + 2)
    assert in_force(query) == before
    assert query.isActive
