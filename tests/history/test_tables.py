"""The document and the tables say the same."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.history import tables
from agent.history.files import Files
from tests.history.test_judge import judged


def test_the_document_has_every_column_as_it_is() -> None:
    text = tables.DOCUMENT.read_text(encoding="utf-8")
    said = text.partition(tables.BEGIN)[2].partition(tables.END)[0]
    assert said.strip() == tables.documented().strip(), "run python -m agent.history.tables"


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: table.name)
def test_columns_are_told_apart_and_dated(table: tables.Table) -> None:
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    assert all(column.says for column in table.columns)
    kinds = {column.name: column.kind for column in table.columns}
    assert table.dated_by is None or kinds[table.dated_by] == "timestamp"


def test_files_of_every_table_hold_its_columns_and_its_rows(real_log: bytes) -> None:
    told = judged([real_log.splitlines()])
    files = Files()
    made = [file for row in told for file in files.add(row)] + list(files.end())
    assert {file.table for file in made} == {table.name for table in tables.TABLES}
    for table in tables.TABLES:
        own = [file for file in made if file.table == table.name]
        read = [pq.read_table(pa.BufferReader(file.content)) for file in own]
        names = [column.name for column in table.columns if column.name != "application"]
        assert all(one.column_names == names for one in read)
        assert {file.application for file in own} == {"orders"}
        assert all((file.date is None) == (table.dated_by is None) for file in own)
        count = sum(name == table.name for name, _ in told)
        if count:
            assert sum(len(one) for one in read) == count


def test_no_more_rows_are_held_than_is_said(
    real_log: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.history.files.MOST_ROWS", 20)
    files = Files()
    made = []
    for row in judged([real_log.splitlines()]):
        some = list(files.add(row))
        made += some
        assert sum(len(pq.read_table(pa.BufferReader(one.content))) for one in some) < 60
    assert len([file for file in made if file.table == "batches"]) > 2
