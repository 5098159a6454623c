"""Members of rows inside columns that changed after files were written: paired by field id."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.arrow_cast import cast_column
from lakewright.storage.codec.arrow_mapping import LeafCast
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import VerificationFailed
from lakewright.storage.operations.read import file_rows
from lakewright.storage.spec.predicate import Leaf, Operator
from lakewright.storage.spec.schema_mapping import TypeMapping
from tests.support.tables.builders import compact, new_table, rows
from tests.support.values.evolution import CHANGES, CONTAINERS, altered, by_id, with_changed_members

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
@pytest.mark.sampled(3)
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
    compact(changed, full=True, min_files=2)
    assert schemas_of_files(changed) == {1}
    assert listed(changed) == due + later


def schemas_of_files(table: Table) -> set[int]:
    return {file.schema_id for split in table.scan().plan.splits for file in split.files}


# --- every rewrite ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Rewrite:
    """A verb that writes files anew, and the table it is for."""

    run: Callable[[Table], object]
    options: dict[str, str] = field(default_factory=dict)
    keyed: bool = True


REWRITES = {
    "compact append": Rewrite(lambda table: compact(table, full=True, min_files=2), keyed=False),
    "compact keyed": Rewrite(lambda table: compact(table, full=True), {"bucket": "1"}),
    "deletion vectors": Rewrite(
        lambda table: compact(table, full=True), {"bucket": "1", "deletion-vectors.enabled": "true"}
    ),
    "changelogs": Rewrite(
        lambda table: compact(table, full=True),
        {"bucket": "1", "changelog-producer": "full-compaction"},
    ),
    "sort compact": Rewrite(
        lambda table: table.upkeep.run(table.upkeep.plan_sort_compact(["k"])), keyed=False
    ),
    "rescale keyed": Rewrite(
        lambda table: table.upkeep.run(table.upkeep.plan_rescale(3)), {"bucket": "1"}
    ),
    "rescale append": Rewrite(
        lambda table: table.upkeep.run(table.upkeep.plan_rescale(3)),
        {"bucket": "1", "bucket-key": "k"},
        keyed=False,
    ),
    "postpone": Rewrite(
        lambda table: table.upkeep.run(table.upkeep.plan_postpone_compact()), {"bucket": "-2"}
    ),
}


def evolved(catalog: Catalog, rewrite: Rewrite) -> tuple[Table, list[dict[str, Any]]]:
    """A table whose files all are of an older schema, and the rows that are due of it."""
    type_name, _ = CONTAINERS["array"]
    columns = {"k": "INT", **dict.fromkeys(CHANGES, type_name)}
    keys = ["k"] if rewrite.keyed else []
    table = new_table(catalog, columns, keys=keys, options=rewrite.options)
    written = values_for("array", 0)
    for row in written:
        table.write(rows(table, [row]))
    changed = altered(catalog, table, lambda schema: with_changed_members(schema, CHANGES))
    return changed, expected(written, table, changed)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("verb", REWRITES)
def test_no_rewrite_changes_members(catalog: Catalog, verb: str) -> None:
    changed, due = evolved(catalog, REWRITES[verb])
    REWRITES[verb].run(changed)
    now = catalog.table(changed.name)
    assert 0 not in schemas_of_files(now)
    assert listed(now) == due


@pytest.mark.sampled(4)
@pytest.mark.parametrize("verb", REWRITES)
def test_a_rewrite_of_members_that_are_paired_wrongly_is_never_published(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    changed, due = evolved(catalog, REWRITES[verb])
    before = changed.history.snapshots()[-1].id

    def by_name(column: pa.ChunkedArray, values: TypeMapping, _: LeafCast) -> pa.ChunkedArray:
        return cast_column(column, to_arrow_type(values.read))

    with monkeypatch.context() as patched:
        patched.setattr(file_rows, "map_column", by_name)
        with pytest.raises(VerificationFailed, match="would change its values") as caught:
            REWRITES[verb].run(changed)
    assert caught.value.details["column"] == "rename"
    assert catalog.table(changed.name).history.snapshots()[-1].id == before
    REWRITES[verb].run(catalog.table(changed.name))
    assert listed(catalog.table(changed.name)) == due


# --- what else asks for columns of older files ------------------------------------------------


@settings
def test_filters_on_columns_whose_members_changed_find_what_a_scan_finds(
    catalog: Catalog, kind: str
) -> None:
    table = table_of(catalog, "row", kind, "parquet")
    table.write(rows(table, values_for("row", 0)))
    changed = altered(catalog, table, lambda schema: with_changed_members(schema, CHANGES))
    table.write(rows(table, [{"k": 20}, {"k": 21}]))
    every = listed(changed)
    assert len(every) == 6
    for name in CHANGES:
        for operator, is_null in ((Operator.IS_NULL, True), (Operator.IS_NOT_NULL, False)):
            due = [row for row in every if (row[name] is None) is is_null]
            assert listed(changed, where=Leaf(name, operator)) == due
        plan = changed.scan(Leaf(name, Operator.IS_NOT_NULL)).plan
        # Of the second file the statistics say that every row is null, by whatever name.
        assert (plan.files_read, plan.files_live) == (1, 2)


def test_keys_are_looked_up_in_files_of_an_older_schema(catalog: Catalog) -> None:
    table = table_of(catalog, "map_value", "keyed", "parquet")
    written = values_for("map_value", 0)
    table.write(rows(table, written))
    changed = altered(catalog, table, lambda schema: with_changed_members(schema, CHANGES))
    found = changed.lookup(pa.table({"k": pa.array([1], pa.int32())}))
    assert found.to_pylist() == expected(written, table, changed)[1:2]


def test_rows_of_two_schemas_are_compared_by_id(catalog: Catalog) -> None:
    table = table_of(catalog, "array", "append", "parquet")
    written = values_for("array", 0)
    table.write(rows(table, written))
    changed = altered(catalog, table, lambda schema: with_changed_members(schema, CHANGES))
    due = expected(written, table, changed)
    changed.write(rows(changed, due[1:]), mode="overwrite")
    (told,) = changed.read_changes(1, 2, mode="diff").to_pylist()
    assert told == {"_rowkind": "-D", **due[0]}


def test_another_client_of_the_old_schema_reads_what_is_written_with_the_new_one(
    catalog: Catalog,
) -> None:
    """A handle that was opened before the change goes on with the columns it knows."""
    table = table_of(catalog, "map_of_arrays_in_row", "append", "orc")
    changed = altered(catalog, table, lambda schema: with_changed_members(schema, CHANGES))
    written = expected(values_for("map_of_arrays_in_row", 0), table, changed)
    changed.write(rows(changed, written))
    assert listed(table) == expected(written, changed, table)
