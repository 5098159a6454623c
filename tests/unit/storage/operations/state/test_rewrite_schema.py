"""Rewrites with a schema that the table has left behind: refused, or values would be lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import SchemaMoved
from tests.support.stores.watched_files import overtaken
from tests.support.tables.builders import compact, content, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"id": "BIGINT", "v": "STRING"}
VERBS: dict[str, tuple[dict[str, Any], Callable[[Table], object]]] = {
    "append": ({}, lambda table: compact(table, full=True)),
    "keyed": (
        {"keys": ["id"], "options": {"bucket": "1"}},
        lambda table: compact(table, full=True),
    ),
    "postpone": (
        {"keys": ["id"], "options": {"bucket": "-2"}},
        lambda table: table.upkeep.run(table.upkeep.plan_postpone_compact()),
    ),
    "sort": ({}, lambda table: table.upkeep.run(table.upkeep.plan_sort_compact(by=["id"]))),
    "rescale": (
        {"keys": ["id"], "options": {"bucket": "1"}},
        lambda table: table.upkeep.run(table.upkeep.plan_rescale(2, partitions=[{}])),
    ),
}


def with_new_column(catalog: Catalog, table: Table) -> Table:
    """Somebody adds a column and writes it."""
    schema = table.schema
    field = replace(schema.fields[-1], id=schema.highest_field_id + 1, name="x")
    table.table_files.schemas.put_schema(
        replace(
            schema,
            id=schema.id + 1,
            fields=(*schema.fields, field),
            highest_field_id=schema.highest_field_id + 1,
        )
    )
    later = catalog.table(table.name)
    for number in (2, 3):
        later.write(rows(later, [{"id": number, "v": "b", "x": f"x{number}"}]))
    return later


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.mission("FS7", "SE14")
def test_a_table_opened_before_a_column_was_added_rewrites_nothing(
    catalog: Catalog, verb: str
) -> None:
    settings, rewrite = VERBS[verb]
    old = new_table(catalog, COLUMNS, **settings)
    old.write(rows(old, [{"id": 1, "v": "a"}]))
    later = with_new_column(catalog, old)
    before, names = content(later), {each.file.file_name for each in later.at().files()}
    with pytest.raises(SchemaMoved, match="open the table and plan again"):
        rewrite(old)
    assert {each.file.file_name for each in later.at().files()} == names
    assert_only_reachable_files(later)
    rewrite(later)
    seen = later.read().column("x").to_pylist()
    assert sorted(seen, key=str) == [None, "x2", "x3"]
    assert verb == "postpone" or content(later) == before


def test_a_column_added_just_after_the_schema_was_looked_at_is_noticed_by_its_files(
    catalog: Catalog,
) -> None:
    settings, rewrite = VERBS["keyed"]
    old = new_table(catalog, COLUMNS, **settings)
    for _ in range(2):
        old.write(rows(old, [{"id": 1, "v": "a"}]))
    slow = overtaken(
        old,
        lambda call: call.name == "list_dir" and call.path.endswith("/schema"),
        lambda: with_new_column(catalog, old),
    )
    with pytest.raises(SchemaMoved, match="was written with schema 1"):
        rewrite(slow)
    found = catalog.table(old.name).read().to_pylist()
    assert {row["id"]: row["x"] for row in found} == {1: None, 2: "x2", 3: "x3"}
    assert_only_reachable_files(old)
