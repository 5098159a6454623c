"""Tables that we alter: other clients read them, alter them further, and allow the same changes."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeComment,
    ChangeNullability,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    GateRules,
    MoveColumn,
    Position,
    RenameColumn,
    Rule,
    SetOption,
    Side,
    Table,
)
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_difference import differences
from tests.interop.test_they_read_ours import as_read_by
from tests.interop.test_we_read_theirs import create_theirs
from tests.oracles.client import JavaOracle, Oracle, OracleError
from tests.support.tables.builders import compact, content, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.values.evolution import CAST_TYPES

COLUMNS = {
    "k": "INT",
    "n": "INT",
    "s": "STRING",
    "d": "DECIMAL(6, 2)",
    "gone": "DOUBLE",
    "r": "ROW<a INT, b STRING>",
    "l": "ARRAY<ROW<x INT>>",
}


def first_rows(table: Table) -> Any:
    return rows(
        table,
        [
            {
                "k": number,
                "n": number * 1000,
                "s": f"s{number}",
                "d": number,
                "gone": 0.5,
                "r": {"a": number, "b": "y"},
                "l": [{"x": number}, None],
            }
            for number in range(3)
        ],
    )


CHANGES: tuple[SchemaChange, ...] = (
    RenameColumn("n", "amount"),
    ChangeType("amount", "BIGINT"),
    ChangeType("d", "DECIMAL(10, 2)"),
    DropColumn("gone"),
    AddColumn("gone", "STRING", comment="anew", position=Position(Side.AFTER, "k")),
    MoveColumn("s", Position(Side.LAST)),
    ChangeComment("s", "a text"),
    ChangeTableComment("altered"),
    SetOption("snapshot.num-retained.min", "5"),
)


def later_rows(table: Table) -> Any:
    given = [
        {"k": number, "gone": "here", "amount": 2**40, "d": 12345678, "s": "later"}
        for number in (2, 3)
    ]
    return rows(table, given)


# Java 0.9 reads no table whose members inside of columns changed.
NESTED = (RenameColumn("r.b", "name"), AddColumn("r.c", "INT"), ChangeType("l.element.x", "BIGINT"))
READERS: dict[str, tuple[SchemaChange, ...]] = {"java": CHANGES, "java_latest": (*CHANGES, *NESTED)}


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.mission("SE2", "SE3", "SE4", "SE5", "SE14", "SE25")
@pytest.mark.sampled(2)
def test_java_reads_what_we_altered_before_and_after_a_compaction(
    catalog: Catalog, request: pytest.FixtureRequest, reader: str, file_format: str, keyed: bool
) -> None:
    java: JavaOracle = request.getfixturevalue(reader)
    options = {"file.format": file_format, **({"bucket": "1"} if keyed else {})}
    table = new_table(catalog, COLUMNS, keys=["k"] if keyed else [], options=options)
    table.write(first_rows(table))
    before = content(table)
    table = table.alter(*READERS[reader])
    table.write(later_rows(table))
    due = content(table)
    assert as_read_by(java, catalog, table) == due
    assert as_read_by(java, catalog, table, snapshot=1) == before
    compact(table, full=True, min_files=2)
    assert content(table) == due
    assert as_read_by(java, catalog, table) == due
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.mission("SE2", "SE5", "SE23")
def test_pypaimon_and_rust_read_columns_that_we_added_renamed_and_moved(
    catalog: Catalog, released_pypaimon: Oracle, rust: Oracle, keyed: bool
) -> None:
    settings: dict[str, Any] = {"keys": ["k"], "options": {"bucket": "1"}} if keyed else {}
    table = new_table(catalog, {"k": "INT", "n": "INT", "s": "STRING"}, **settings)
    table.write(rows(table, [{"k": 1, "n": 2, "s": "x"}]))
    table = table.alter(
        RenameColumn("n", "amount"),
        AddColumn("t", "STRING", position=Position(Side.FIRST)),
        MoveColumn("amount", Position(Side.LAST)),
    )
    table.write(rows(table, [{"k": 2, "t": "new", "s": "y", "amount": 3}]))
    for reader in (released_pypaimon, rust):
        assert as_read_by(reader, catalog, table) == content(table), reader.name


@pytest.mark.mission("SE22", "SE23", "SE25")
def test_java_and_we_alter_one_table_by_turns(catalog: Catalog, java_latest: JavaOracle) -> None:
    table = create_theirs(catalog, java_latest, {"k": "INT", "a": "INT", "b": "STRING"})
    java_latest.write(catalog.root, table.name, [{"k": 1, "a": 1, "b": "x"}])
    table = table.alter(RenameColumn("a", "c"), AddColumn("a", "STRING"))
    table.write(rows(table, [{"k": 2, "a": "y", "c": 2}]))
    java_latest.alter(
        catalog.root,
        table.name,
        {"drop_column": ["b"]},
        {"add_column": ["b"], "type": "INT"},
        {"update_type": ["c"], "type": "BIGINT"},
    )
    java_latest.write(catalog.root, table.name, [{"k": 3, "c": 2**40, "a": "z", "b": 5}])
    table = catalog.table(table.name).alter(DropColumn("a"), RenameColumn("b", "a"))
    assert [(field.id, field.name) for field in table.schema.fields] == [
        (0, "k"),
        (1, "c"),
        (4, "a"),
    ]
    assert content(table) == as_read_by(java_latest, catalog, table)
    assert sorted(table.read().to_pylist(), key=lambda row: row["k"]) == [
        {"k": 1, "c": 1, "a": None},
        {"k": 2, "c": 2, "a": None},
        {"k": 3, "c": 2**40, "a": 5},
    ]


@pytest.mark.parametrize("explicit", [True, False], ids=["explicit", "implicit"])
@pytest.mark.mission("SE38")
@pytest.mark.sampled(1)
def test_java_allows_the_casts_that_our_table_of_casts_allows(
    catalog: Catalog, java_latest: JavaOracle, explicit: bool
) -> None:
    options = {} if explicit else {"disable-explicit-type-casting": "true"}
    allowed = {Cast.IMPLICIT, *([Cast.EXPLICIT] if explicit else [])}
    differs = {}
    for old in CAST_TYPES:
        # Java writes each column anew with each change, so a table has those of one type.
        others = {f"c{at}": new for at, new in enumerate(CAST_TYPES) if new != old}
        columns = {"k": "INT", **dict.fromkeys(others, old)}
        table = create_theirs(catalog, java_latest, columns, options=options)
        for column, new in others.items():
            ours = cast_rule(parse_data_type(old), parse_data_type(new)).cast in allowed
            try:
                java_latest.alter(catalog.root, table.name, {"update_type": [column], "type": new})
                theirs = True
            except OracleError:
                theirs = False
            if ours is not theirs:
                differs[old, new] = theirs
        catalog.drop_table(table.name)
    assert differs == {}


# What we and Java are asked alike, in Java's words and in ours.
ASKED: dict[str, tuple[dict[str, Any], SchemaChange]] = {
    "drop a key": ({"drop_column": ["k"]}, DropColumn("k")),
    "retype a key": ({"update_type": ["k"], "type": "BIGINT"}, ChangeType("k", "BIGINT")),
    "drop a partition key": ({"drop_column": ["p"]}, DropColumn("p")),
    "rename a partition key": ({"rename_column": ["p"], "to": "q"}, RenameColumn("p", "q")),
    "retype a partition key": ({"update_type": ["p"], "type": "BIGINT"}, ChangeType("p", "BIGINT")),
    "add what is there": ({"add_column": ["v"], "type": "INT"}, AddColumn("v", "INT")),
    "add a required one": (
        {"add_column": ["x"], "type": "INT NOT NULL"},
        AddColumn("x", "INT NOT NULL"),
    ),
    "drop what is not there": ({"drop_column": ["x"]}, DropColumn("x")),
    "rename to what is there": ({"rename_column": ["v"], "to": "s"}, RenameColumn("v", "s")),
    "cast what is not cast": ({"update_type": ["v"], "type": "DATE"}, ChangeType("v", "DATE")),
    "drop the order": ({"drop_column": ["s"]}, DropColumn("s")),
    "another engine": (
        {"set_option": "merge-engine", "value": "first-row"},
        SetOption("merge-engine", "first-row"),
    ),
    "no buckets": ({"set_option": "bucket", "value": "-1"}, SetOption("bucket", "-1")),
    "vectors": (
        {"set_option": "deletion-vectors.enabled", "value": "true"},
        SetOption("deletion-vectors.enabled", "true"),
    ),
    "widen": ({"update_type": ["v"], "type": "BIGINT"}, ChangeType("v", "BIGINT")),
    "rename the order": ({"rename_column": ["s"], "to": "t"}, RenameColumn("s", "t")),
    "more buckets": ({"set_option": "bucket", "value": "3"}, SetOption("bucket", "3")),
}


@pytest.mark.parametrize("case", list(ASKED))
@pytest.mark.mission("SE1", "SE17", "SE18", "SE19", "SE20")
def test_java_refuses_what_we_refuse(catalog: Catalog, java_latest: JavaOracle, case: str) -> None:
    theirs, ours = ASKED[case]
    columns = {"k": "INT", "p": "INT", "v": "INT", "s": "INT"}
    options = {"bucket": "2", "sequence.field": "s"}
    table = create_theirs(
        catalog, java_latest, columns, keys=("k", "p"), partitions=("p",), options=options
    )
    table.write(rows(table, [{"k": 1, "p": 1, "v": 1, "s": 1}]))
    planned = table.plan_alter(ours)
    refused = [each for each in planned.findings if each.rule is Rule.REFUSED]
    try:
        java_latest.alter(catalog.root, table.name, theirs)
    except OracleError:
        assert refused
    else:
        assert not refused
        by_java = differences(table.schema, catalog.table(table.name).schema)
        assert planned.differences == tuple(map(str, by_java))


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_clients_read_past_rows_that_delete_others_and_hold_null_in_a_column_without(
    catalog: Catalog, java: JavaOracle, java_latest: JavaOracle, file_format: str, vectors: str
) -> None:
    options = {
        "bucket": "1",
        "file.format": file_format,
        "deletion-vectors.enabled": vectors,
        "alter-column-null-to-not-null.disabled": "false",
    }
    table = new_table(catalog, {"k": "INT", "s": "STRING"}, keys=["k"], options=options)
    table.write(rows(table, [{"k": n, "s": "x"} for n in range(3)]))
    compact(table, full=True)
    table.write([{"k": 0, "s": None, "_rowkind": "-D"}, {"k": 9, "s": "y", "_rowkind": "+I"}])
    rules = GateRules(is_scanned=True)
    table = table.alter(ChangeNullability("s", nullable=False), rules=rules)
    for _ in range(2):
        for reader in (java, java_latest):
            assert as_read_by(reader, catalog, table) == content(table)
        compact(table, full=True)
        table = catalog.table("db.t")
    assert sorted(table.read().column("k").to_pylist()) == [1, 2, 9]
