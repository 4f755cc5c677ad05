"""Rows in each partition of the state, counted by Spark 4's own reader of state.

Files tell bytes; only Spark can tell rows. This starts a Spark of its own, with nothing but a local
master, and reads: the checkpoint stays as it is. Where a store cannot be read, that is said.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from agent.checkpoint.closure import MOST_STORES
from agent.checkpoint.folder import CheckpointError
from agent.core.names import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The first version with a reader of state.
LEAST_VERSION: Final = (4, 0)
JOIN: Final = "symmetricHashJoin"
TRANSFORM: Final = "transformWithState"
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    # Spark tells a task's failure and then all of its retries': once is enough.
    "spark.task.maxFailures": "1",
}
#: What is worth words: a partition with so many times the mean, and at least so much in it.
SKEWED: Final = 2.0
LEAST_ROWS: Final = 1000
LEAST_BYTES: Final = 1024 * 1024


class StoreRows(msgspec.Struct, frozen=True):
    """Rows of one operator's store, or of one side or variable of it.

    ``missing`` says why there are none; the counts are then None. ``by_partition`` is in the order
    of the partitions.
    """

    operator: int
    operator_name: str
    part: str  # "default", "left", "right", or the name of a state variable
    rows: int | None = None
    largest_partition: int | None = None
    largest_rows: int | None = None
    skew: float | None = None  # largest over mean; None where it is all empty
    empty_partitions: int | None = None
    by_partition: list[int] = []
    missing: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """One thing to be read: of an operator, with the reader's own options."""

    operator: int
    operator_name: str
    part: str
    partitions: int
    options: dict[str, str]


def count_rows(address: str) -> list[StoreRows]:
    """Rows per partition of every store of the newest committed batch.

    Raises CheckpointError where Spark is missing or too old, or cannot read the checkpoint at all.
    """
    with _session() as spark:
        try:
            listed = spark.read.format("state-metadata").load(_path(address)).collect()
        except Exception as error:
            raise CheckpointError(
                f"{address}: Spark cannot read its state: {first_line(str(error), 200)}"
            ) from error
        return [_count(spark, address, one) for one in wanted(row.asDict() for row in listed)]


def wanted(listed: Iterator[dict[str, Any]]) -> list[Wanted]:
    """What to read, from the rows of Spark's reader of state metadata, each thing once.

    Raises CheckpointError where it tells of more partitions than there can be.
    """
    found: dict[tuple[int, str], Wanted] = {}
    for row in listed:
        operator, name = int(row["operatorId"]), str(row["operatorName"])
        store, partitions = str(row["stateStoreName"]), int(row["numPartitions"])
        if partitions > MOST_STORES:
            raise CheckpointError(
                f"state/{operator}: {partitions:,} partitions: no state has so many"
            )
        if name == JOIN:  # its stores are two for each side: an index, and the rows
            side = store.partition("-")[0]
            parts = {side: {"joinSide": side}}
        elif name.startswith(TRANSFORM):
            variables = _variables(row.get("operatorProperties"))
            parts = {variable: {"stateVarName": variable} for variable in variables}
        else:
            parts = {store: {} if store == "default" else {"storeName": store}}
        for part, own in parts.items():
            options = {"operatorId": str(operator), **own}
            found.setdefault((operator, part), Wanted(operator, name, part, partitions, options))
    return list(found.values())


def counted(one: Wanted, counts: dict[int, int]) -> StoreRows:
    """The counts of a store by partition as a report; partitions without rows have none."""
    by_partition = [counts.get(partition, 0) for partition in range(one.partitions)]
    rows = sum(by_partition)
    largest = max(range(one.partitions), key=by_partition.__getitem__, default=None)
    return StoreRows(
        operator=one.operator,
        operator_name=one.operator_name,
        part=one.part,
        rows=rows,
        largest_partition=largest,
        largest_rows=None if largest is None else by_partition[largest],
        skew=max(by_partition) * one.partitions / rows if rows else None,
        empty_partitions=by_partition.count(0),
        by_partition=by_partition,
    )


def skewed(
    operator: str, part: str, unit: str, by_partition: Sequence[int], *, least: int
) -> str | None:
    """One sentence on a partition that holds far more than the others; None where none does."""
    total, count = sum(by_partition), len(by_partition)
    if count < 2 or total <= 0:
        return None
    largest = max(range(count), key=by_partition.__getitem__)
    held = by_partition[largest]
    ratio = held * count / total
    if ratio < SKEWED or held < least:
        return None
    place = operator if part == "default" else f"{operator}, {part}"
    return (
        f"{place}: partition {largest} of {count} holds {held:,} of {total:,} {unit}, "
        f"{ratio:.1f} times the mean: one key or a few are most of it"
    )


def _count(spark: Any, address: str, one: Wanted) -> StoreRows:
    try:
        frame = spark.read.format("statestore").options(**one.options).load(_path(address))
        rows = frame.groupBy("partition_id").count().collect()
    except Exception as error:  # noqa: BLE001 - one store that cannot be read hides no other
        said = first_line(str(error), 200)
        return StoreRows(one.operator, one.operator_name, one.part, missing=said)
    return counted(one, {int(row[0]): int(row[1]) for row in rows})


def _variables(properties: object) -> list[str]:
    """Names of the state variables of transformWithState, from the operator's own metadata."""
    try:
        told = msgspec.json.decode(str(properties))
        listed = told["stateVariables"]
        if isinstance(listed, str):  # Spark writes JSON in JSON there
            listed = msgspec.json.decode(listed)
        return [str(variable["stateName"]) for variable in listed]
    except (msgspec.DecodeError, LookupError, TypeError):
        return []


def _path(address: str) -> str:
    """As Spark names it: a path of this machine is said to be one."""
    if urlsplit(address).scheme:
        return address
    return f"file://{os.path.abspath(address)}"  # noqa: PTH100 - no link is followed


@contextmanager
def _session() -> Iterator[Any]:
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError:
        raise CheckpointError(
            "counting rows of the state needs PySpark 4.0 or newer: pip install 'pyspark>=4'"
        ) from None
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < LEAST_VERSION:
        raise CheckpointError(
            f"counting rows of the state needs PySpark 4.0 or newer; this is {pyspark.__version__}"
        )
    builder = SparkSession.builder.master("local[*]").appName("weir checkpoint inspect")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # the JVM does not start
        raise CheckpointError(f"Spark does not start: {first_line(str(error), 200)}") from error
    try:
        spark.sparkContext.setLogLevel("OFF")
        _ = spark.streams.active  # starts what the reader looks for
        yield spark
    finally:
        spark.stop()
