"""What the tables say in short: read back for the summary and the report, bounded in size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.history import tables

if TYPE_CHECKING:
    from agent.history.job import Outcome

#: Queries told in full, the worst first; incidents of all of them; points of a plot.
MOST_QUERIES: Final = 40
MOST_INCIDENTS: Final = 200
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
    """Reads the tables back."""
    from pyspark.sql import functions as f

    frames = {table.name: _frame(spark, outcome.out, table) for table in tables.TABLES}
    found = Findings()
    advised_frame = frames["recommendations"]
    if advised_frame is None:
        return found
    found.queries_known = advised_frame.count()
    order = (f.col("over_target_share") * f.col("batch_seconds_p95")).desc_nulls_last()
    incidents = frames["incidents"]
    assert incidents is not None
    kinds = incidents.groupBy("kind", "detail").count().collect()
    found.incidents_known = {f"{row['kind']} {row['detail']}": row["count"] for row in kinds}
    bad = (
        incidents.groupBy("application", "query")
        .count()
        .withColumnRenamed("count", "incident_count")
    )
    advised = _records(
        advised_frame.join(bad, ["application", "query"], "left").orderBy(
            f.col("incident_count").desc_nulls_last(), order, "application", "query"
        ),
        MOST_QUERIES,
    )
    found.queries = [QueryFindings(one["application"], one["query"], one) for one in advised]
    by_key = {(one.application, one.query): one for one in found.queries}
    found.incidents = _records(incidents.orderBy(f.desc("begin_time")), MOST_INCIDENTS)
    keys = spark.createDataFrame(list(by_key), "application string, query string")
    batches = frames["batches"]
    assert batches is not None
    total = batches.agg(
        f.sum(f.when(f.col("event") == "progress", 1)).alias("batches"),
        f.unix_millis(f.min("time")).alias("begin"),
        f.unix_millis(f.max("time")).alias("end"),
    ).first()
    found.batches = total["batches"] or 0
    found.begin = None if total["begin"] is None else total["begin"] / 1000.0
    found.end = None if total["end"] is None else total["end"] / 1000.0

    def attach(name: str, frame: Any, most: int) -> None:
        from pyspark.sql import Window

        window = Window.partitionBy("application", "query").orderBy(*frame[1])
        chosen = (
            frame[0]
            .join(f.broadcast(keys), ["application", "query"])
            .withColumn("_place", f.row_number().over(window))
            .where(f.col("_place") <= most)
            .drop("_place")
        )
        for record in _records(chosen, most * len(by_key)):
            getattr(by_key[record["application"], record["query"]], name).append(record)

    newest = f.desc
    attach("hours", (frames["capacity"], [newest("hour_time")]), MOST_HOURS)
    attach("incidents", (incidents, [newest("begin_time")]), MOST_INCIDENTS // 4)
    attach("decisions", (frames["decisions"], [newest("time")]), MOST_DECISIONS)
    waits = frames["stages"].where("why != 'even'")
    attach("stages", (waits, [newest("wait_seconds")]), 3)
    attach("points", (_points(batches), ["time"]), MOST_POINTS + 1)
    for one in found.queries:
        one.hours.sort(key=lambda hour: hour["hour_time"])
        one.points.sort(key=lambda point: point["time"])
        one.incidents.sort(key=lambda incident: -incident["begin_time"])
        one.decisions.sort(key=lambda decision: -decision["time"])
        one.stages.sort(key=lambda stage: -stage["wait_seconds"])
    return found


def _points(batches: Any) -> Any:
    """Each query's batches, gathered to intervals of equal length."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    whole = Window.partitionBy("application", "query")
    at = f.unix_millis("time") / 1000.0
    told = batches.where("event = 'progress' and rows > 0").select(
        "application",
        "query",
        at.alias("at"),
        "seconds",
        "rows",
        "backlog_rows",
        "would_limit_rows",
        "spiral_phase",
        f.min(at).over(whole).alias("first"),
        f.max(at).over(whole).alias("last"),
    )
    width = f.greatest((f.col("last") - f.col("first")) / MOST_POINTS, f.lit(0.001))
    return (
        told.withColumn("place", f.floor((f.col("at") - f.col("first")) / width))
        .groupBy("application", "query", "place")
        .agg(
            f.min("at").alias("time"),
            f.count("*").alias("batches"),
            f.max("seconds").alias("seconds_max"),
            f.avg("seconds").alias("seconds"),
            f.max("rows").alias("rows_max"),
            f.avg("rows").alias("rows"),
            f.max("backlog_rows").alias("backlog_rows"),
            f.last("would_limit_rows", ignorenulls=True).alias("would_limit_rows"),
            f.sum((f.col("spiral_phase") != "none").cast("int")).alias("spiral"),
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


def _records(frame: Any, most: int) -> list[Record]:
    from pyspark.sql import functions as f

    columns = [
        (f.unix_millis(name) / 1000.0).alias(name) if kind == "timestamp" else f.col(f"`{name}`")
        for name, kind in frame.dtypes
        if kind != "date"
    ]
    return [row.asDict() for row in frame.select(*columns).limit(most).collect()]
