"""Altering a table: one schema file, nothing else; what is read before and after."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    ResetOption,
    SetOption,
    Side,
    Table,
)
from lakewright.storage.errors import (
    ColumnInUse,
    InvalidOption,
    InvalidRequestError,
    InvalidSchema,
    SchemaMoved,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.operations.schema.alter import AlterPlan
from lakewright.storage.spec.schema_change import SchemaChange
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import compact, content, events, new_table, rows, values_of
from tests.support.tables.invariants import assert_only_reachable_files

KEYED: dict[str, Any] = {"keys": ["k"], "options": {"bucket": "1"}}
kinds = pytest.mark.parametrize("settings", [{}, KEYED], ids=["append", "keyed"])


def listed(table: Table, **read: Any) -> list[dict[str, Any]]:
    return sorted(table.read(**read).to_pylist(), key=lambda row: row["k"])


@kinds
@pytest.mark.parametrize("compacted", [False, True], ids=["as written", "compacted"])
@pytest.mark.mission("SE2", "SE4", "SE14", "SE22", "SE25", "SE33")
def test_the_worked_example_drops_a_column_and_adds_it_again(
    any_catalog: Catalog, settings: dict[str, Any], compacted: bool
) -> None:
    columns = {"k": "INT", "a": "STRING", "b": "STRING", "c": "STRING"}
    table = new_table(any_catalog, columns, **settings)
    table.write(rows(table, [{"k": 1, "a": "a1", "b": "b1", "c": "c1"}]))
    altered = table.alter(DropColumn("c")).alter(AddColumn("c", "STRING"))
    altered.write(rows(altered, [{"k": 2, "a": "a2", "b": "b2", "c": "c2"}]))
    if compacted:
        compact(altered, full=True)
    assert listed(altered) == [
        {"k": 1, "a": "a1", "b": "b1", "c": None},
        {"k": 2, "a": "a2", "b": "b2", "c": "c2"},
    ]
    assert values_of(altered, "k", where="c = 'c1'") == []
    assert altered.at(snapshot=1).read().to_pylist() == [{"k": 1, "a": "a1", "b": "b1", "c": "c1"}]
    assert any_catalog.table("db.t").schema == altered.schema
    assert_only_reachable_files(altered)


@kinds
@pytest.mark.mission("SE3", "SE5", "SE8", "SE11", "SE23")
def test_rows_of_before_are_read_as_the_changed_columns(
    catalog: Catalog, settings: dict[str, Any]
) -> None:
    columns = {"k": "INT", "n": "INT", "r": "ROW<a INT, b STRING>", "l": "ARRAY<ROW<x INT>>"}
    table = new_table(catalog, columns, **settings)
    table.write(
        rows(table, [{"k": 1, "n": 2**31 - 1, "r": {"a": 1, "b": "y"}, "l": [{"x": 3}, None]}])
    )
    table = table.alter(
        RenameColumn("n", "amount"),
        ChangeType("amount", "BIGINT"),
        RenameColumn("r.b", "name"),
        ChangeType("l.element.x", "BIGINT"),
        AddColumn("l.element.y", "STRING"),
        MoveColumn("r.name", Position(Side.FIRST)),
        MoveColumn("l", Position(Side.AFTER, "k")),
    )
    table.write(
        rows(
            table,
            [{"k": 2, "l": [{"x": 2**40, "y": "z"}], "amount": 2**40, "r": {"name": "w", "a": 2}}],
        )
    )
    expected = [
        {"k": 1, "l": [{"x": 3, "y": None}, None], "amount": 2**31 - 1, "r": {"name": "y", "a": 1}},
        {"k": 2, "l": [{"x": 2**40, "y": "z"}], "amount": 2**40, "r": {"name": "w", "a": 2}},
    ]
    assert listed(table) == expected
    assert list(listed(table)[0]) == ["k", "l", "amount", "r"]
    assert values_of(table, "k", where="amount > 2147483647") == [2]
    compact(table, full=True)
    assert listed(table) == expected
    assert_only_reachable_files(table)


@pytest.mark.mission("SE7", "SE31")
def test_only_a_schema_file_is_written_and_no_data_is_read(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    watching, fs = watched(table)
    altered = watching.alter(AddColumn("w", "ARRAY<INT>"), RenameColumn("v", "value"))
    written = {call.path.rpartition("/")[2] for call in fs.changes}
    assert written == {"schema-1"}
    touched = {call.path for call in fs.calls}
    assert not [path for path in touched if "/bucket-" in path or "/manifest" in path]
    # A table that is open goes on with the schema that it knows.
    table.write(rows(table, events(3, 4)))
    assert values_of(altered, "value") == ["v0", "v1", "v2", "v3"]
    assert values_of(table, "v") == ["v0", "v1", "v2", "v3"]


def test_a_plan_writes_nothing_and_is_carried_out_later(catalog: Catalog) -> None:
    table = new_table(catalog)
    watching, fs = watched(table)
    plan = watching.plan_alter(
        AddColumn("w", "DECIMAL(10, 2)", position=Position(Side.BEFORE, "v")),
        SetOption("owner", "me"),
    )
    assert fs.changes == []
    assert plan.differences == ("+ column w: DECIMAL(10, 2)", "+ option owner: me")
    text = plan.to_json()
    result = table.run_alter(AlterPlan.from_json(text))
    assert result.schema.field_names == ("id", "day", "w", "v")
    assert (result.previous_schema_id, result.schema.id) == (0, 1)
    with pytest.raises(SchemaMoved, match=r"column w: DECIMAL\(10, 2\)"):
        table.run_alter(AlterPlan.from_json(text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"change": "DropTable"}, "the changes are AddColumn"),
        ({"change": "AddColumn", "column": "x"}, "type is missing"),
        ({"change": "AddColumn", "column": "x", "type": 5}, "is not of type str"),
        ({"change": "MoveColumn", "column": "v", "position": {"side": "up"}}, "is not a valid"),
        ({"change": "DropColumn", "column": "nowhere"}, "no column 'nowhere'"),
    ],
)
def test_an_edited_plan_is_checked(catalog: Catalog, change: dict[str, Any], message: str) -> None:
    table = new_table(catalog)
    data = json.loads(table.plan_alter(AddColumn("w", "INT")).to_json())
    with pytest.raises(InvalidRequestError, match=message):
        table.run_alter(AlterPlan.from_json(json.dumps({**data, "changes": [change]})))
    assert table.table_files.schemas.ids() == [0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP v", "'DROP v' is no change of a schema: the changes are AddColumn, DropColumn"),
        ([DropColumn("v")], "is no change of a schema: the changes are"),
        (DropColumn(5), "is no change of a schema: 5 is not of type str"),  # type: ignore[arg-type]
        (AddColumn("x", "INT", position="FIRST"), "'FIRST' is not an object"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_change_is_told_before_anything_is_judged(
    catalog: Catalog, change: Any, message: str
) -> None:
    table = new_table(catalog)
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        table.plan_alter(change)


def test_of_two_alters_one_wins_and_the_other_is_told(catalog: Catalog) -> None:
    first = new_table(catalog)
    second = catalog.table("db.t")
    plan = second.plan_alter(AddColumn("w", "INT"))
    first.alter(RenameColumn("v", "value"), AddColumn("w", "STRING"))
    for attempt in (lambda: second.run_alter(plan), lambda: second.alter(DropColumn("v"))):
        with pytest.raises(SchemaMoved, match=r"v -> value; .*column w: STRING"):
            attempt()
    again = catalog.table("db.t").alter(DropColumn("w"))
    assert again.schema.field_names == ("id", "day", "value")
    assert again.schema.id == 2


REFUSED: dict[str, tuple[SchemaChange, type[StorageError], str]] = {
    "key": (DropColumn("id"), ColumnInUse, "primary key"),
    "unknown": (DropColumn("x"), InvalidSchema, "no column 'x'"),
    "default": (ChangeDefault("n", "seven"), InvalidSchema, "seven"),
    "default of a new one": (AddColumn("x", "DATE", default="soon"), InvalidSchema, "soon"),
    "default of a row": (AddColumn("x", "ROW<a INT>", default="1"), InvalidSchema, "parts"),
    "engine": (SetOption("merge-engine", "first-row"), InvalidOption, "cannot change"),
    "unknown option": (SetOption("bucket-of-tomorrow", "1"), UnsupportedError, "later version"),
    "value": (SetOption("changelog-producer", "lokup"), InvalidOption, "lokup"),
    "order by nothing": (SetOption("sequence.field", "zz"), InvalidOption, "zz"),
    "aggregate of a text": (ChangeType("n", "STRING"), InvalidSchema, "explicit cast"),
    "null": (ChangeNullability("n", nullable=False), InvalidSchema, "may hold null"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_refused_change_leaves_everything_as_it_was(catalog: Catalog, case: str) -> None:
    change, error, message = REFUSED[case]
    columns = {"id": "BIGINT", "n": "INT"}
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    table = new_table(catalog, columns, keys=["id"], options=options)
    table.write(rows(table, [{"id": 1, "n": 2}]))
    before = content(table)
    with pytest.raises(error, match=message):
        table.alter(AddColumn("other", "INT"), change)
    assert table.table_files.schemas.ids() == [0]
    assert catalog.table("db.t").schema == table.schema
    assert content(catalog.table("db.t")) == before
    assert_only_reachable_files(table)


def test_no_change_makes_no_version_and_is_no_request(catalog: Catalog) -> None:
    table = new_table(catalog)
    same = table.alter(ChangeType("id", "BIGINT"))
    assert same.schema == table.schema
    assert table.table_files.schemas.ids() == [0]
    with pytest.raises(InvalidRequestError, match=r"no change of db\.t is given"):
        table.alter()


def test_a_default_fills_later_writes_only(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT", "v": "STRING"})
    table.write(rows(table, [{"k": 1, "v": None}]))
    table = table.alter(AddColumn("n", "INT", default="7"), ChangeDefault("v", "none"))
    table.write(rows(table, [{"k": 2}, {"k": 3, "v": "x", "n": 1}]))
    assert listed(table) == [
        {"k": 1, "v": None, "n": None},
        {"k": 2, "v": "none", "n": 7},
        {"k": 3, "v": "x", "n": 1},
    ]


def test_branches_have_schemas_of_their_own(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    table.history.create_tag("t")
    table.history.create_branch("b", tag="t")
    branch = catalog.table("db.t$branch_b").alter(AddColumn("w", "INT"))
    branch.write(rows(branch, [{"id": 9, "w": 1}]))
    assert catalog.table("db.t").schema.field_names == ("id", "day", "v")
    assert catalog.table("db.t$branch_b").schema.field_names == ("id", "day", "v", "w")
    assert values_of(catalog.table("db.t$branch_b"), "w") == [1, None, None]
    assert values_of(table, "id") == [0, 1]


def test_a_table_with_an_option_that_forbids_writing_is_cured_by_its_reset(
    catalog: Catalog,
) -> None:
    table = new_table(catalog)
    schema = table.schema
    broken = replace(schema, id=1, options={**schema.options, "bucket-fu": "1"})
    assert table.table_files.schemas.put_schema(broken)
    table = catalog.table("db.t")
    with pytest.raises(UnsupportedError, match="bucket-fu"):
        table.alter(AddColumn("w", "INT"))
    cured = table.alter(ResetOption("bucket-fu"), AddColumn("w", "INT"))
    cured.write(rows(cured, [{"id": 1, "w": 2}]))
    assert values_of(cured, "w") == [2]
