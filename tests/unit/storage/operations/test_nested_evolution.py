"""Members of rows inside columns that changed after files were written: paired by field id."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.support.builders import compact, new_table, rows
from tests.support.evolution import (
    CHANGES,
    CONTAINERS,
    altered,
    by_id,
    with_changed_members,
)

FORMATS = ("parquet", "orc", "avro")
SETTINGS: dict[str, dict[str, Any]] = {
    "append": {"options": {}},
    "keyed": {"keys": ["k"], "options": {"bucket": "1"}},
}
settings = pytest.mark.parametrize("kind", SETTINGS)
formats = pytest.mark.parametrize("file_format", FORMATS)
containers = pytest.mark.parametrize("container", CONTAINERS)


def held(number: int) -> dict[str, Any]:
    return {"a": number, "b": -number, "t": dt.datetime(2024, 1, 1 + number)}


def table_of(catalog: Catalog, container: str, kind: str, file_format: str) -> Table:
    """A table with a column for each change that members go through."""
    type_name, _ = CONTAINERS[container]
    chosen = SETTINGS[kind]
    options = {**chosen["options"], "file.format": file_format}
    columns = {"k": "INT", **dict.fromkeys(CHANGES, type_name)}
    return new_table(catalog, columns, keys=chosen.get("keys", ()), options=options)


def values_for(container: str, first: int) -> list[dict[str, Any]]:
    """Rows whose nested values are full, hold null, are empty, or are null themselves."""
    _, wrap = CONTAINERS[container]
    some = [
        wrap([held(1), held(2)]),
        wrap([{"a": None, "b": 7, "t": None}, held(3)]),
        None,
        wrap([None, held(4)]),
    ]
    return [
        {"k": first + number, **dict.fromkeys(CHANGES, value)} for number, value in enumerate(some)
    ]


def listed(table: Table, **read: Any) -> list[dict[str, Any]]:
    return sorted(table.read(**read).to_pylist(), key=lambda row: row["k"])


def expected(before: list[dict[str, Any]], old: Table, new: Table) -> list[dict[str, Any]]:
    """Rows that were read under one schema, as they are under a later one."""
    types = {field.id: field for field in old.schema.fields}
    return [
        {
            field.name: by_id(row[types[field.id].name], types[field.id].type, field.type)
            for field in new.schema.fields
        }
        for row in before
    ]


@containers
@formats
@settings
def test_members_are_paired_by_id_before_and_after_a_compaction(
    catalog: Catalog, container: str, file_format: str, kind: str
) -> None:
    table = table_of(catalog, container, kind, file_format)
    table.write(rows(table, values_for(container, 0)))
    before = listed(table)
    changed = altered(catalog, table, lambda schema: with_changed_members(schema, CHANGES))
    due = expected(before, table, changed)
    assert listed(changed) == due
    later = expected(values_for(container, 10), table, changed)
    changed.write(rows(changed, later))
    assert listed(changed) == due + later
    compact(changed, full=True, min_file_num=2)
    assert schemas_of_files(changed) == {1}
    assert listed(changed) == due + later


def schemas_of_files(table: Table) -> set[int]:
    return {file.schema_id for split in table.plan_scan().splits for file in split.files}
