"""The document and the tables say the same."""

from __future__ import annotations

import pytest

from agent.history import tables
from agent.history.job import _JUDGED


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


def test_every_table_is_judged_or_made_of_batches() -> None:
    judged = {table.name for table, _, _ in _JUDGED}
    assert {table.name for table in tables.TABLES} - judged == {"phases", "sources"}
