"""Rows of the tables to Parquet files, in memory: written by the workers, put in place by the job.

One small file for each table, application and date: what Spark itself would take a plan, a job and
a commit for each table, whose price does not depend on how little there is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.history import rows, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agent.history.rows import Row, Values
    from agent.history.tables import Table

#: So many rows are held, of all tables together; then they are written out.
MOST_ROWS: Final = 50_000
#: How Hive, and Spark after it, names the part whose value is null.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_WHOSE: Final = len(tables.WHOSE)
_LOG: Final = [column.name for column in tables.WHOSE].index("log")
_TABLES: Final = {table.name: table for table in tables.TABLES}
_PLACES: Final = {
    table.name: [column.name for column in table.columns].index(table.dated_by)
    for table in tables.TABLES
    if table.dated_by is not None
}
_BATCH: Final = [column.name for column in tables.BATCH_COLUMNS]
_BATCH_ID: Final = _BATCH.index("batch_id")
_TIME: Final = _BATCH.index("time")


class File(msgspec.Struct, frozen=True, array_like=True):
    """A file of a table, for one application and, where the table is dated, one date."""

    table: str
    application: str
    date: str | None
    content: bytes


class Files:
    """Rows in, files out; holds a bounded number of rows."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str | None], list[Values]] = defaultdict(list)
        self._held = 0

    def add(self, row: Row) -> Iterator[File]:
        """Takes a row as it is judged; gives files where too much is held."""
        name, values = row
        if name == rows.BATCHES:
            *plain, phases, sources = values
            self._add(tables.BATCHES.name, tuple(plain))
            of_batch = (*values[:_WHOSE], values[_BATCH_ID], values[_TIME])
            for phase in phases.items():
                self._add(tables.PHASES.name, of_batch + phase)
            for source in sources:
                self._add(tables.SOURCES.name, of_batch + source)
        else:
            self._add(name, values)
        if self._held >= MOST_ROWS:
            yield from self.end()

    def end(self) -> Iterator[File]:
        """All that is held, as files."""
        held, self._rows, self._held = self._rows, defaultdict(list), 0
        for (name, application, date), own in held.items():
            table = _TABLES[name]
            try:
                content = parquet(table, own)
            except Exception as error:
                raise _whose(table, own) from error
            yield File(name, application, date, content)

    def _add(self, name: str, values: Values) -> None:
        date: str | None = None
        if name in _PLACES:
            time = values[_PLACES[name]]
            date = NO_VALUE if time is None else _date(time)
        self._rows[name, values[0], date].append(values)
        self._held += 1


class Unusable(ValueError):  # noqa: N818
    """A log that cannot be judged, and why; ``log`` is None where it is not known which it is."""

    def __init__(self, log: str | None, reason: str) -> None:
        super().__init__(log, reason)
        self.log = log
        self.reason = reason


def _whose(table: Table, own: Sequence[Values]) -> Unusable:
    """Which log told what no table can hold, such as a number beyond 64 bits."""
    for values in own:
        if refusal := _refusal(table, values):
            told = f"the table {table.name} cannot hold what it tells: {refusal}"
            return Unusable(values[_LOG], told[:300])
    return Unusable(None, f"its part of the table {table.name} cannot be written")


def _refusal(table: Table, values: Values) -> str:
    try:
        parquet(table, [values])
    except Exception as error:  # noqa: BLE001 - whatever a library raises
        return f"{type(error).__name__}: {error}"
    return ""


def parquet(table: Table, own: Sequence[Values]) -> bytes:
    """Rows of a table as a Parquet file, without the columns that its folders' names say."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[str, Any] = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
    }
    arrays, names = [], []
    for column, values in zip(table.columns, zip(*own, strict=True), strict=True):
        if column.name == "application":
            continue
        told = _milliseconds(values) if column.kind == "timestamp" else values
        arrays.append(pa.array(told, type=kinds[column.kind], from_pandas=False))
        names.append(column.name)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, names=names), sink, compression="zstd")
    return bytes(sink.getvalue())


def _milliseconds(times: Iterable[float | None]) -> list[int | None]:
    return [None if time is None else math.floor(time * 1000.0 + 0.5) for time in times]


def _date(time: float) -> str:
    return (
        f"{datetime.fromtimestamp(math.floor(time * 1000.0 + 0.5) / 1000.0, timezone.utc):%Y-%m-%d}"
    )
