"""What the tables say in short: read back for the summary and the report, bounded in size."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.history import tables

if TYPE_CHECKING:
    from agent.history.job import Outcome

#: Queries told in full, the worst first; incidents of all of them; points of a plot.
MOST_QUERIES: Final = 40
MOST_INCIDENTS: Final = 200
MOST_INCIDENTS_READ: Final = 20_000
MOST_POINTS: Final = 240
WORST_HOURS: Final = 3
MOST_HOURS: Final = 24 * 14
MOST_DECISIONS: Final = 8

Record = dict[str, Any]


class QueryFindings(msgspec.Struct):
    """One query; records are rows of the tables, times as epoch seconds."""

    application: str
    query: str
    advised: Record
    hours: list[Record] = []  # in order of time, at most the last two weeks
    incidents: list[Record] = []
    decisions: list[Record] = []  # the last
    points: list[Record] = []  # of its batches, gathered to intervals of equal length
    stages: list[Record] = []  # the longest waits

    @property
    def worst_hours(self) -> list[Record]:
        """The worst first."""
        return sorted(self.hours, key=lambda hour: hour["rank"])[:WORST_HOURS]


class Findings(msgspec.Struct):
    """All that people read of the output folder."""

    queries: list[QueryFindings] = []
    queries_known: int = 0
    incidents: list[Record] = []  # the newest first
    incidents_known: dict[str, int] = {}  # by kind and detail
    batches: int = 0
    begin: float | None = None
    end: float | None = None


def gather(spark: Any, outcome: Outcome) -> Findings:
    """Reads the tables back, with as few jobs as can be: each has its price, however little."""
    from pyspark.sql import functions as f

    frames = {table.name: _frame(spark, outcome.out, table) for table in tables.TABLES}
    found = Findings()
    if frames["recommendations"] is None or frames["batches"] is None:
        return found
    advised = _records(frames["recommendations"])
    incidents = _records(_newest(frames["incidents"], "begin_time", MOST_INCIDENTS_READ))
    found.queries_known = len(advised)
    found.batches = sum(one["batches"] for one in advised)
    found.begin = min((one["from_time"] for one in advised), default=None)
    found.end = max((one["to_time"] for one in advised), default=None)
    found.incidents = incidents[:MOST_INCIDENTS]
    by_kind = Counter(f"{one['kind']} {one['detail']}" for one in incidents)
    found.incidents_known = dict(by_kind)
    bad = Counter((one["application"], one["query"]) for one in incidents)

    def badness(one: Record) -> tuple[int, float]:
        slow = (one["over_target_share"] or 0.0) * (one["batch_seconds_p95"] or 0.0)
        return bad[one["application"], one["query"]], slow

    advised.sort(key=lambda one: (one["application"], one["query"]))
    advised.sort(key=badness, reverse=True)
    found.queries = [
        QueryFindings(one["application"], one["query"], one) for one in advised[:MOST_QUERIES]
    ]
    by_key = {(one.application, one.query): one for one in found.queries}
    if not by_key:
        return found
    chosen = f.concat_ws("\t", "application", "query").isin(["\t".join(key) for key in by_key])
    since = (found.end or 0.0) - MOST_HOURS * 3600.0

    def attach(name: str, records: list[Record], most: int) -> None:
        for record in records:
            one = by_key.get((record["application"], record["query"]))
            if one is not None and len(kept := getattr(one, name)) < most:
                kept.append(record)

    attach("incidents", incidents, MOST_INCIDENTS // 4)
    recent = frames["capacity"].where(chosen & (f.unix_millis("hour_time") >= int(since * 1000)))
    attach("hours", _records(recent), MOST_HOURS)
    many = MOST_DECISIONS * MOST_QUERIES
    attach("decisions", _records(_newest(_where(frames["decisions"], chosen), "time", many)), 8)
    waits = _where(frames["stages"], chosen & (f.col("why") != "even"))
    attach("stages", _records(_newest(waits, "wait_seconds", many)), 3)
    attach("points", _records(_points(frames["batches"].where(chosen), found.queries)), 1 << 20)
    for one in found.queries:
        one.hours.sort(key=lambda hour: hour["hour_time"])
        one.points.sort(key=lambda point: point["time"])
    return found


def _where(frame: Any, condition: Any) -> Any:
    return None if frame is None else frame.where(condition)


def _newest(frame: Any, by: str, most: int) -> Any:
    from pyspark.sql import functions as f

    return None if frame is None else frame.orderBy(f.desc(by)).limit(most)


def _points(batches: Any, queries: list[QueryFindings]) -> Any:
    """Each query's batches, gathered to intervals of equal length."""
    from pyspark.sql import functions as f

    width, begin = f.lit(1.0), f.lit(0.0)
    for one in queries:
        told = one.advised
        this = (f.col("application") == one.application) & (f.col("query") == one.query)
        span = max(told["to_time"] - told["from_time"], 1.0)
        width = f.when(this, span / MOST_POINTS).otherwise(width)
        begin = f.when(this, told["from_time"]).otherwise(begin)
    at = f.unix_millis("time") / 1000.0
    return (
        batches.where("event = 'progress' and rows > 0")
        .withColumn("at", at)
        .groupBy("application", "query", f.floor((f.col("at") - begin) / width).alias("place"))
        .agg(
            f.min("at").alias("time"),
            f.count("*").alias("batches"),
            f.max("seconds").alias("seconds_max"),
            f.avg("seconds").alias("seconds"),
            f.max("rows").alias("rows_max"),
            f.avg("rows").alias("rows"),
            f.max("backlog_rows").alias("backlog_rows"),
            f.max_by("would_limit_rows", "at").alias("would_limit_rows"),
        )
        .drop("place")
    )


def _frame(spark: Any, out: str, table: tables.Table) -> Any:
    """A table as it lies in the folder; None where it is not there."""
    columns = [f"`{one.name}` {one.kind}" for one in table.columns if one.name != "application"]
    dated = ["`date` date"] if table.dated_by else []
    schema = ", ".join([*columns, "`application` string", *dated])
    try:
        return spark.read.schema(schema).parquet(f"{out}/{table.name}")
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error) or "Path does not exist" in str(error):
            return None
        raise


def _records(frame: Any) -> list[Record]:
    from pyspark.sql import functions as f

    if frame is None:
        return []
    columns = [
        (f.unix_millis(name) / 1000.0).alias(name) if kind == "timestamp" else f.col(f"`{name}`")
        for name, kind in frame.dtypes
        if kind != "date"
    ]
    return [row.asDict() for row in frame.select(*columns).collect()]
