"""Tables that are altered while a writer of another client is at work, which opened them before."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeNullability,
    ChangeType,
    DropColumn,
    RenameColumn,
    Table,
)
from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.schema_change import SchemaChange
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import Oracle, WritingOracle
from tests.support.tables.builders import compact, content, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"k": "INT", "a": "INT", "b": "STRING"}
FIRST = [{"k": 1, "a": 10, "b": "one"}]
BEGUN = [{"k": 2, "a": 20, "b": "two"}]
FINISHED = [{"k": 3, "a": None, "b": None}]
# What is changed while they write, and what their rows and the first one are afterwards.
CHANGES: dict[str, tuple[tuple[SchemaChange, ...], list[dict[str, Any]]]] = {
    "add": (
        (AddColumn("c", "INT"),),
        [
            {"k": 1, "a": 10, "b": "one", "c": None},
            {"k": 2, "a": 20, "b": "two", "c": None},
            {"k": 3, "a": None, "b": None, "c": None},
        ],
    ),
    "rename": (
        (RenameColumn("a", "aa"), AddColumn("a", "STRING")),
        [
            {"k": 1, "aa": 10, "b": "one", "a": None},
            {"k": 2, "aa": 20, "b": "two", "a": None},
            {"k": 3, "aa": None, "b": None, "a": None},
        ],
    ),
    "drop": ((DropColumn("a"),), [{"k": 1, "b": "one"}, {"k": 2, "b": "two"}, {"k": 3, "b": None}]),
    "drop and add again": (
        (DropColumn("a"), AddColumn("a", "INT")),
        [
            {"k": 1, "b": "one", "a": None},
            {"k": 2, "b": "two", "a": None},
            {"k": 3, "b": None, "a": None},
        ],
    ),
    "widen": (
        (ChangeType("a", "BIGINT"),),
        [
            {"k": 1, "a": 10, "b": "one"},
            {"k": 2, "a": 20, "b": "two"},
            {"k": 3, "a": None, "b": None},
        ],
    ),
}
WRITERS = ("java", "java_latest", "released_pypaimon")


def table_of(catalog: Catalog, *, keyed: bool) -> Table:
    settings: dict[str, Any] = {"keys": ["k"], "options": {"bucket": "1"}} if keyed else {}
    table = new_table(catalog, COLUMNS, **settings)
    table.write(rows(table, FIRST))
    return table


def rows_of(table: Table) -> list[dict[str, Any]]:
    return sorted(table.read().to_pylist(), key=lambda row: int(row["k"]))


@pytest.mark.sampled(11)
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.parametrize("case", list(CHANGES))
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.mission("SE23", "SE25")
def test_what_other_clients_commit_over_an_alter_is_read_by_the_schema_that_they_wrote_with(
    catalog: Catalog,
    request: pytest.FixtureRequest,
    java_latest: Oracle,
    writer: str,
    case: str,
    keyed: bool,
) -> None:
    changes, due = CHANGES[case]
    client: WritingOracle = request.getfixturevalue(writer)
    table = table_of(catalog, keyed=keyed)
    client.begin_write(catalog.root, table.name, BEGUN)
    table = table.alter(*changes)
    client.finish_write(catalog.root, table.name, FINISHED)
    assert rows_of(table) == due
    assert as_read_by(java_latest, catalog, table) == content(table)
    table.write(rows(table, [{"k": 4}]))
    compact(table, full=True, min_files=2)
    assert rows_of(table)[:-1] == due
    assert as_read_by(java_latest, catalog, table) == content(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("writer", WRITERS)
def test_nulls_that_other_clients_commit_over_a_new_not_null_stay_nulls(
    catalog: Catalog, request: pytest.FixtureRequest, java_latest: Oracle, writer: str
) -> None:
    """No other client compares its schema with the latest one when it commits, as we do.

    Java does not look for nulls in a NOT NULL column: it shows a 0, or the value of another row.
    """
    client: WritingOracle = request.getfixturevalue(writer)
    table = new_table(catalog, COLUMNS)
    client.begin_write(catalog.root, table.name, BEGUN)
    table = table.alter(ChangeNullability("a", nullable=False))
    client.finish_write(catalog.root, table.name, FINISHED)
    due = [*BEGUN, *FINISHED]
    assert rows_of(table) == due
    assert table.read("a IS NULL").num_rows == 1
    misread = java_latest.read(catalog.root, table.name)
    assert {row["k"]: row["a"] for row in misread}[3] in (0, 20)
    table.write(rows(table, [{"k": 4, "a": 4}]))
    with pytest.raises(CorruptionError, match="1 nulls in column a, which is NOT NULL"):
        compact(table, full=True, min_files=2)
    table = table.alter(ChangeNullability("a", nullable=True))
    compact(table, full=True, min_files=2)
    assert rows_of(table)[:-1] == due
    assert as_read_by(java_latest, catalog, table) == content(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.parametrize("case", ["add", "rename", "drop", "drop and add again", "widen"])
@pytest.mark.mission("SE23")
def test_what_we_staged_before_java_altered_is_read_by_the_schema_that_we_wrote_with(
    catalog: Catalog, java_latest: WritingOracle, case: str, keyed: bool
) -> None:
    theirs: dict[str, list[dict[str, Any]]] = {
        "add": [{"add_column": ["c"], "type": "INT"}],
        "rename": [{"rename_column": ["a"], "to": "aa"}, {"add_column": ["a"], "type": "STRING"}],
        "drop": [{"drop_column": ["a"]}],
        "drop and add again": [{"drop_column": ["a"]}, {"add_column": ["a"], "type": "INT"}],
        "widen": [{"update_type": ["a"], "type": "BIGINT"}],
    }
    table = table_of(catalog, keyed=keyed)
    staged = table.stage(rows(table, BEGUN))
    pending = table.keep_pending(
        table.stage(rows(table, FINISHED), commit_user="later", commit_identifier=1)
    )
    for change in theirs[case]:
        java_latest.alter(catalog.root, table.name, change)
    table.commit(staged)
    assert pending.commit_user == "later"
    assert len(catalog.table(table.name).commit_pending("later")) == 1
    table = catalog.table(table.name)
    assert rows_of(table) == CHANGES[case][1]
    assert as_read_by(java_latest, catalog, table) == content(table)
    assert_only_reachable_files(table)
