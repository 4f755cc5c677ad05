"""Event time on a real Spark: how far the watermark is behind, and what came too late."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions

from tests.service.agents import AgentProcess
from tests.spark.conftest import progresses
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
LATE_ROWS = 7


def test_lag_and_late_rows_are_spark_s_own(
    attached: Any, start: Any, spark: Any, tmp_path: Path
) -> None:
    place = tmp_path / "in"
    place.mkdir()
    newest = datetime.now(timezone.utc) - timedelta(hours=2)

    def arrive(name: str, moment: datetime, rows: int) -> None:
        lines = [json.dumps({"t": moment.isoformat(), "k": number}) for number in range(rows)]
        hidden = tmp_path / name
        hidden.write_text("\n".join(lines))
        hidden.rename(place / name)

    with AgentProcess(tmp_path) as agent:
        attached(agent.address)
        frame = spark.readStream.schema("t timestamp, k int").json(str(place))
        query = start(
            frame.withWatermark("t", "10 seconds").dropDuplicates(["t", "k"]), name="timed"
        )
        arrive("first.json", newest, 5)
        mark = (newest - timedelta(seconds=10)).isoformat()[:19]
        until(
            lambda: any(marks(p) == mark for p in query.recentProgress),
            "the watermark in a progress",
            seconds=120,
        )
        arrive("late.json", newest - timedelta(minutes=5), LATE_ROWS)
        labels = '{application="weir tests",query="timed"}'
        dropped = f"weir_watermark_dropped_rows_total{labels}"
        until(
            lambda: agent.metrics().get(dropped) == LATE_ROWS,
            "the late rows among the metrics",
            seconds=120,
        )
        lag = agent.metrics()[f"weir_watermark_lag_seconds{labels}"]
        assert 7200 + 10 <= lag < 7200 + 10 + 300
        assert query.isActive


@pytest.mark.parametrize(
    ("kind", "shared"), [("one over both", True), ("one each", False), ("the greater", True)]
)
def test_whether_one_watermark_stands_over_several_sources_is_told(
    kind: str, shared: bool, agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    attached(agent)
    # The policy is the session's when a query starts, and its checkpoint's from then on.
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    frames = [
        folder(files=2).read(spark, None).withColumn("t", functions.current_timestamp())
        for _ in range(2)
    ]
    if kind == "one over both":
        frame = frames[0].union(frames[1]).withWatermark("t", "5 seconds")
    else:
        one = frames[0].withWatermark("t", "1 month 10 seconds")
        other = frames[1].withWatermark("t", "5 seconds")
        frame = one.union(other)
    spark.conf.set(policy, "max" if kind == "the greater" else "min")
    try:
        query = start(frame.dropDuplicates(["k", "v", "t"]), name=kind)
        done = agent.wait(lambda a: progresses(a, query), 120.0)
    finally:
        spark.conf.unset(policy)
    assert [one["shares_watermark"] for one in done[0]["limits"]] == [shared, shared]
    assert [one["watermark_delay_seconds"] for one in done[0]["limits"]] == [5.0, 5.0]


def test_of_rows_of_one_time_spark_drops_those_in_the_next_batch_where_the_delay_is_zero(
    agent: Any, attached: Any, folder: Any, start: Any, spark: Any
) -> None:
    """Which is why nothing is cut there; a delay of a millisecond keeps them."""
    attached(agent)
    dropped = {}
    for delay in ("0 seconds", "1 millisecond"):
        for limit in (None, 1):
            rows = folder(f"{delay} {limit}", files=3).read(spark, limit)
            timed = rows.withColumn("t", functions.lit("2026-01-01").cast("timestamp"))
            query = start(timed.withWatermark("t", delay).dropDuplicates(["k", "v", "t"]))
            query.processAllAvailable()
            query.stop()
            dropped[delay, limit] = sum(
                operator["numRowsDroppedByWatermark"]
                for progress in query.recentProgress
                for operator in progress["stateOperators"]
            )
            (told,) = [
                event["body"]["watermarkDelaySeconds"]
                for event in agent.wait(lambda a: a.of("started"))
                if event["body"]["runId"] == str(query.runId)
            ]
            assert told == (0.0 if delay == "0 seconds" else 0.001)
    assert dropped.pop(("0 seconds", 1)) > 0
    assert set(dropped.values()) == {0}


def marks(progress: Any) -> str:
    """The watermark to the second; empty where there is none."""
    return str(progress["eventTime"].get("watermark", ""))[:19]
