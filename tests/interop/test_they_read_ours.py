"""Other clients read what we write, row for row, after every kind of operation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.schema_json import type_to_json
from lakewright.storage.spec.data_types import nested_fields
from tests.oracles.client import JavaOracle, Oracle, OracleError, Row, WritingOracle
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.values.every_type import ATOMS, FLOATING_PARTITIONS, NESTED, PARTITIONS, table_of


@pytest.fixture
def readers(released_pypaimon: Oracle, java: Oracle, rust: Oracle) -> list[Oracle]:
    """Every client that reads; pypaimon as it was released."""
    return [released_pypaimon, java, rust]


def assert_read_alike(
    readers: list[Oracle], catalog: Catalog, table: Table, snapshot: int | None = None
) -> None:
    """Each of them returns the rows that we return."""
    ours = content(table.at(snapshot=snapshot))
    for reader in readers:
        theirs = as_read_by(reader, catalog, table, snapshot=snapshot)
        assert theirs == ours, f"{reader.name} reads other rows"


def as_read_by(reader: Oracle, catalog: Catalog, table: Table, **read: Any) -> list[str]:
    """A client's rows in the form of `content`."""
    return as_texts(reader.read(catalog.root, table.name, **read))


def as_texts(rows_read: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows_read)


def append(table: Table) -> None:
    for day in ("a", "b", None):
        table.write(rows(table, events(0, 3, day=day)))


def upsert(table: Table) -> None:
    append(table)
    for day in ("a", "b"):
        table.write(rows(table, events(1, 5, day=day, v="new")))


def delete(table: Table) -> None:
    upsert(table)
    gone = [row for day in ("a", "b") for row in events(0, 2, day=day)]
    table.write(rows(table, gone, ["-D"] * len(gone)))


def overwrite_static(table: Table) -> None:
    upsert(table)
    table.write(
        rows(table, events(7, 9)).drop_columns(["day"]), mode="overwrite", partition={"day": "a"}
    )


def overwrite_dynamic(table: Table) -> None:
    upsert(table)
    table.write(rows(table, events(7, 9, day="b")), mode="overwrite")


def overwrite_everything(table: Table) -> None:
    upsert(table)
    table.write(rows(table, events(7, 9, day="b")), mode="overwrite", dynamic=False)


def compact_fully(table: Table) -> None:
    upsert(table)
    compact(table, full=True)


def write_after_compaction(table: Table) -> None:
    compact_fully(table)
    table.write(rows(table, events(4, 6, v="later")))


def expire_all_but_one(table: Table) -> None:
    write_after_compaction(table)
    compact(table, full=True)
    expire(table)


OPERATIONS = [
    append,
    upsert,
    delete,
    overwrite_static,
    overwrite_dynamic,
    overwrite_everything,
    compact_fully,
    write_after_compaction,
    expire_all_but_one,
]
KINDS: dict[str, dict[str, Any]] = {
    "append": {"partitions": ("day",)},
    "append in buckets": {"partitions": ("day",), "options": {"bucket": "2", "bucket-key": "id"}},
    "keyed": {
        "columns": {"id": "BIGINT", "day": "STRING", "v": "STRING"},
        "partitions": ("day",),
        "keys": ("day", "id"),
        "options": {"bucket": "2"},
    },
}


def cases() -> Iterator[Any]:
    """Every kind with every operation it takes: deletions are for keyed tables."""
    for kind, operation in itertools.product(KINDS, OPERATIONS):
        if operation is not delete or kind == "keyed":
            yield pytest.param(kind, operation, id=f"{kind}-{operation.__name__}")


def make(catalog: Catalog, kind: str) -> Table:
    return new_table(catalog, **KINDS[kind])


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("kind", "operation"), list(cases()))
@pytest.mark.mission("SE30", "PT10", "FS3", "FS4", "FS18")
def test_they_read_our_rows_after(
    catalog: Catalog, readers: list[Oracle], kind: str, operation: Callable[[Table], None]
) -> None:
    table = make(catalog, kind)
    operation(without_null_days(table))
    assert table.read().num_rows > 0
    assert_read_alike(readers, catalog, table)


class _KeyedTable:
    """A keyed table that is not given the rows whose key is null."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def write(self, new: Any, **options: Any) -> Any:
        if "day" in new.column_names and new.column("day").null_count:
            return None
        return self._table.write(new, **options)


def without_null_days(table: Table) -> Any:
    return _KeyedTable(table) if table.schema.has_primary_key else table


@pytest.mark.parametrize("kind", list(KINDS))
def test_they_read_every_snapshot_of_ours_by_its_id(
    catalog: Catalog, readers: list[Oracle], kind: str
) -> None:
    table = make(catalog, kind)
    compact_fully(without_null_days(table))
    for snapshot in table.history.snapshots():
        assert_read_alike(readers, catalog, table, snapshot.id)


@pytest.mark.parametrize("types", [ATOMS, NESTED], ids=["atomic", "nested"])
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.mission("SE28", "SE29", "FS3")
def test_they_read_every_type(
    catalog: Catalog, readers: list[Oracle], types: dict[str, list[Any]], keyed: bool
) -> None:
    columns, values = table_of(types)
    options = {"bucket": "2"} if keyed else {}
    table = new_table(catalog, columns, keys=["k"] if keyed else [], options=options)
    table.write(rows(table, values))
    table.write(rows(table, values[:2]))
    expected = content(table)
    assert_read_alike(readers, catalog, table)
    compact(table, full=True)
    assert content(table) == expected
    assert_read_alike(readers, catalog, table)


NANOSECONDS = 1_704_164_645_678_901_234


@pytest.mark.parametrize("type_name", ["TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE"])
def test_they_read_nanoseconds(catalog: Catalog, readers: list[Oracle], type_name: str) -> None:
    table = new_table(catalog, {"k": "INT", "n": type_name, "r": "ROW<t TIMESTAMP(9)>"})
    table.write(rows(table, [{"k": 1, "n": NANOSECONDS, "r": {"t": -1}}, {"k": 2, "n": -1}]))
    assert_read_alike(readers, catalog, table)


def test_nanoseconds_of_keyed_tables_are_read_by_java_and_cut_by_pypaimon(
    catalog: Catalog, readers: list[Oracle]
) -> None:
    table = new_table(
        catalog, {"k": "INT", "n": "TIMESTAMP(9)"}, keys=["k"], options={"bucket": "1"}
    )
    for _ in range(2):
        table.write(rows(table, [{"k": 1, "n": NANOSECONDS}]))
    pypaimon, java, rust = readers
    assert_read_alike([java, rust], catalog, table)
    # Its merging reader counts microseconds.
    (row,) = pypaimon.read(catalog.root, table.name)
    assert row["n"] == "2024-01-02T03:04:05.678901000"


@pytest.mark.parametrize("coarser", ["TIMESTAMP(3)", "TIMESTAMP(6)"])
def test_java_cannot_read_coarser_timestamps_beside_nanoseconds(
    catalog: Catalog, readers: list[Oracle], coarser: str
) -> None:
    """Our Parquet writer keeps all timestamps of a file as INT96 once one of them needs it."""
    table = new_table(catalog, {"n": "TIMESTAMP(9)", "t": coarser})
    table.write(rows(table, [{"n": NANOSECONDS, "t": -1}]))
    pypaimon, java, rust = readers
    assert_read_alike([pypaimon, rust], catalog, table)
    with pytest.raises(OracleError, match="UnsupportedOperationException"):
        java.read(catalog.root, table.name)


@pytest.mark.parametrize("type_name", list(PARTITIONS))
@pytest.mark.mission("PT9", "PT10")
def test_they_find_partitions_of_every_type_and_with_awkward_characters(
    catalog: Catalog, readers: list[Oracle], type_name: str
) -> None:
    table = partitioned(catalog, type_name, PARTITIONS[type_name])
    assert_read_alike(readers, catalog, table)


@pytest.mark.parametrize("type_name", list(PARTITIONS))
def test_they_find_partitions_named_as_sql_prints_them(
    catalog: Catalog, readers: list[Oracle], type_name: str
) -> None:
    table = partitioned(
        catalog, type_name, PARTITIONS[type_name], options={"partition.legacy-name": "false"}
    )
    pypaimon, java, rust = readers
    assert_read_alike([pypaimon, rust], catalog, table)
    # Java 0.9 is older than the option, and knows days since the epoch and ISO times only.
    if type_name.startswith(("DATE", "TIME")):
        with pytest.raises(OracleError, match="not found"):
            java.read(catalog.root, table.name)
    else:
        assert_read_alike([java], catalog, table)


@pytest.mark.parametrize("type_name", list(FLOATING_PARTITIONS))
def test_they_find_partitions_of_floating_numbers(
    catalog: Catalog, readers: list[Oracle], type_name: str
) -> None:
    table = partitioned(catalog, type_name, FLOATING_PARTITIONS[type_name])
    pypaimon, java, rust = readers
    assert_read_alike([pypaimon, java], catalog, table)
    with pytest.raises(OracleError, match="not supported as partition key"):
        rust.read(catalog.root, table.name)


def test_java_finds_partitions_of_nan_and_infinity(catalog: Catalog, java: JavaOracle) -> None:
    # The others name such folders `nan` and `inf`, unlike the format.
    values = [float("nan"), float("inf"), float("-inf")]
    table = partitioned(catalog, "DOUBLE", values)
    assert as_read_by(java, catalog, table) == content(table)


def partitioned(
    catalog: Catalog, type_name: str, values: list[Any], options: dict[str, str] | None = None
) -> Table:
    table = new_table(catalog, {"k": "INT", "p": type_name}, partitions=["p"], options=options)
    table.write(rows(table, [{"k": key, "p": value} for key, value in enumerate([*values, None])]))
    return table


CONDITIONS: list[tuple[Any, ...]] = [
    ("id", "=", 3),
    ("id", "<", 2),
    ("id", ">=", 4),
    ("v", "=", "new3"),
    ("v", ">", "new"),
    ("day", "=", "b"),
    ("day", "is null"),
    ("v", "is not null"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.mission("PT8", "PT39", "FS19")
def test_our_statistics_prune_nothing_that_they_should_find(
    catalog: Catalog, readers: list[Oracle], kind: str
) -> None:
    table = make(catalog, kind)
    write_after_compaction(without_null_days(table))
    unfiltered = [json.loads(text) for text in content(table)]
    for condition, reader in itertools.product(CONDITIONS, readers):
        expected = [row for row in unfiltered if holds(row, condition)]
        found = reader.read(catalog.root, table.name, where=[condition])  # type: ignore[list-item]
        assert as_texts(found) == as_texts(expected), (reader.name, condition)


def holds(row: Row, condition: tuple[Any, ...]) -> bool:
    column, operator, *literal = condition
    value = row[column]
    if operator == "is null":
        return value is None
    if value is None:
        return False
    tests: dict[str, Callable[[], bool]] = {
        "=": lambda: value == literal[0],
        "<": lambda: value < literal[0],
        ">": lambda: value > literal[0],
        ">=": lambda: value >= literal[0],
        "is not null": lambda: True,
    }
    return tests[operator]()


# Under these every commit merges manifests.
MERGING = {"manifest.merge-min-count": "2", "manifest.full-compaction-threshold-size": "1 b"}


def test_they_read_tables_whose_manifests_were_merged(
    catalog: Catalog, readers: list[Oracle]
) -> None:
    table = new_table(catalog, partitions=["day"], options=MERGING)
    for number in range(6):
        table.write(rows(table, events(number, number + 2, day="ab"[number % 2])))
    compact(table, full=True)
    table.write(rows(table, events(9, 10)))
    assert_read_alike(readers, catalog, table)


def test_they_give_the_same_ids_to_the_same_columns(
    catalog: Catalog, java: JavaOracle, released_pypaimon: WritingOracle
) -> None:
    columns = {
        "r": "ROW<a INT, b ROW<c INT, d ARRAY<ROW<e INT>>>>",
        "k": "INT NOT NULL",
        "m": "MAP<STRING, ROW<x INT, y INT>>",
        "z": "STRING",
    }
    ours = new_table(catalog, columns, keys=["k"], options={"bucket": "1"}).schema
    declared = {field.name: without_ids(type_to_json(field.type)) for field in ours.fields}
    for name, client in (("db.j", java), ("db.p", released_pypaimon)):
        client.create(catalog.root, name, declared, primary_keys=["k"], options={"bucket": "1"})
    python = catalog.table("db.p").schema
    assert (python.fields, python.highest_field_id) == (ours.fields, ours.highest_field_id)
    # Java numbers a member after the members inside it; only that ids are unique matters there.
    theirs = catalog.table("db.j").schema
    assert [field.id for field in theirs.fields] == [field.id for field in ours.fields]
    assert theirs.highest_field_id == ours.highest_field_id
    members = [each.id for field in theirs.fields for each in nested_fields(field.type)]
    assert len(set(members)) == len(members) == 7


def without_ids(declared: Any) -> Any:
    """A type as somebody writes it who leaves the ids to the client."""
    if isinstance(declared, list):
        return [without_ids(each) for each in declared]
    if not isinstance(declared, dict):
        return declared
    return {key: without_ids(value) for key, value in declared.items() if key != "id"}
