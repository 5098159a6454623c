"""Tables that other clients made are read, written and kept by us."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest

from lakewright.storage import Catalog, Table, parse_data_type
from lakewright.storage.codec.schema_json import type_to_json
from lakewright.storage.spec.predicate import Leaf, Operator
from lakewright.storage.spec.values import from_python
from tests.interop.test_they_read_ours import KINDS, as_read_by, without_ids
from tests.oracles.arrow_values import canonical_rows
from tests.oracles.client import JavaOracle, OracleError, WritingOracle
from tests.support.tables.builders import EVENTS, compact, content, events, expire, rows, values_of
from tests.support.tables.invariants import assert_nothing_missing, assert_readable_history
from tests.support.values.every_type import ATOMS, NESTED, PARTITIONS, table_of


@pytest.fixture(params=["java", "released_pypaimon"])
def writer(request: pytest.FixtureRequest) -> WritingOracle:
    """Each client that writes, in turn."""
    found: WritingOracle = request.getfixturevalue(request.param)
    return found


def declared(columns: dict[str, str]) -> dict[str, Any]:
    return {
        name: without_ids(type_to_json(parse_data_type(text))) for name, text in columns.items()
    }


def create_theirs(
    catalog: Catalog,
    writer: WritingOracle,
    columns: dict[str, str],
    *,
    partitions: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    options: dict[str, str] | None = None,
) -> Table:
    required = {
        name: f"{text} NOT NULL" if name in keys else text for name, text in columns.items()
    }
    writer.create(
        catalog.root,
        "db.t",
        declared(required),
        partition_keys=partitions,
        primary_keys=keys,
        options=options,
    )
    return catalog.table("db.t")


def of_kind(catalog: Catalog, writer: WritingOracle, kind: str) -> Table:
    settings = KINDS[kind]
    return create_theirs(
        catalog,
        writer,
        dict(EVENTS),
        partitions=settings.get("partitions", ()),
        keys=settings.get("keys", ()),
        options=settings.get("options"),
    )


@pytest.mark.parametrize("kind", list(KINDS))
def test_we_read_and_keep_what_they_made(
    catalog: Catalog, writer: WritingOracle, java: JavaOracle, kind: str
) -> None:
    table = of_kind(catalog, writer, kind)
    for first, day in ((0, "a"), (2, "a"), (4, "b")):
        writer.write(catalog.root, table.name, events(first, first + 4, day=day, v=f"{first}"))
    expected = as_read_by(writer, catalog, table)
    assert len(expected) == (10 if kind == "keyed" else 12)
    assert content(table) == expected
    assert_readable_history(table)
    table.write(rows(table, events(3, 5, day="b", v="ours")))
    with_ours = content(table)
    assert as_read_by(writer, catalog, table) == with_ours
    compact(table, full=True)
    assert content(table) == with_ours
    assert as_read_by(writer, catalog, table) == with_ours
    expire(table)
    assert content(table) == with_ours
    assert as_read_by(java, catalog, table) == with_ours
    assert_nothing_missing(table)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_filter_finds_all_that_they_wrote(
    catalog: Catalog, writer: WritingOracle, kind: str
) -> None:
    table = of_kind(catalog, writer, kind)
    for first in (0, 3, 6):
        writer.write(catalog.root, table.name, events(first, first + 4, day="a", v=f"{first}-"))
    everything = [json.loads(text) for text in content(table)]
    columns = {"id": [0, 3, 5, 9, 42], "v": ["0-0", "3-4", "zz"], "day": ["a", "b"]}
    tests = {Operator.EQ: "==", Operator.LT: "<", Operator.GE: ">="}
    for (column, literals), operator in itertools.product(columns.items(), tests):
        for literal in literals:
            stored = from_python(literal, table.schema.field(column).type)
            found = content(table, where=Leaf(column, operator, (stored,)))
            expected = [row for row in everything if compared(row[column], operator, literal)]
            assert found == sorted(json.dumps(row, sort_keys=True) for row in expected)


def compared(value: Any, operator: Operator, literal: Any) -> bool:
    if operator is Operator.EQ:
        return bool(value == literal)
    return bool(value < literal) if operator is Operator.LT else bool(value >= literal)


@pytest.mark.parametrize("types", [ATOMS, NESTED], ids=["atomic", "nested"])
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_we_read_every_type_they_write(
    catalog: Catalog, writer: WritingOracle, types: dict[str, list[Any]], keyed: bool
) -> None:
    columns, values = table_of(types)
    table = create_theirs(
        catalog,
        writer,
        columns,
        keys=("k",) if keyed else (),
        options={"bucket": "2"} if keyed else None,
    )
    given = canonical_rows(rows(table, values))
    writer.write(catalog.root, table.name, given)
    assert content(table) == as_read_by(writer, catalog, table)
    assert content(table) == sorted(json.dumps(row, sort_keys=True) for row in given)
    compact(table, full=True)
    assert content(table) == as_read_by(writer, catalog, table)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("type_name", list(PARTITIONS))
def test_we_find_partitions_they_made(
    catalog: Catalog, writer: WritingOracle, type_name: str
) -> None:
    table = create_theirs(catalog, writer, {"k": "INT", "p": type_name}, partitions=("p",))
    given = rows(
        table, [{"k": key, "p": value} for key, value in enumerate([*PARTITIONS[type_name], None])]
    )
    writer.write(catalog.root, table.name, canonical_rows(given))
    assert content(table) == as_read_by(writer, catalog, table)
    assert table.read().num_rows == given.num_rows
    # And write into the same folders.
    table.write(given)
    assert content(table) == as_read_by(writer, catalog, table)


def test_bounds_that_java_wrote_are_understood(catalog: Catalog, java: JavaOracle) -> None:
    columns, values = table_of(ATOMS)
    table = create_theirs(catalog, java, columns)
    java.write(catalog.root, table.name, canonical_rows(rows(table, values)))
    for name, type_name in columns.items():
        data_type = parse_data_type(type_name)
        for row in values:
            literal = row.get(name)
            if literal is None or (isinstance(literal, float) and math.isnan(literal)):
                continue
            stored = from_python(literal, data_type)
            found = table.read(Leaf(name, Operator.EQ, (stored,)), columns=["k"])
            assert row["k"] in found.column("k").to_pylist(), (type_name, literal)


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.mission("SE8", "SE10", "SE12", "SE13", "SE14", "SE24", "SE26", "SE27")
def test_we_read_a_table_that_they_altered_between_writes(
    catalog: Catalog, writer: WritingOracle, keyed: bool
) -> None:
    columns = {"k": "INT", "a": "STRING", "b": "INT", "c": "STRING"}
    table = create_theirs(
        catalog,
        writer,
        columns,
        keys=("k",) if keyed else (),
        options={"bucket": "1"} if keyed else None,
    )
    writer.write(catalog.root, table.name, [{"k": 1, "a": "a1", "b": 1, "c": "c1"}])
    writer.alter(catalog.root, table.name, {"drop_column": "c"})
    writer.alter(catalog.root, table.name, {"add_column": "c", "type": "STRING"})
    writer.alter(catalog.root, table.name, {"rename_column": "a", "to": "renamed"})
    writer.alter(catalog.root, table.name, {"update_type": "b", "type": "BIGINT"})
    writer.write(catalog.root, table.name, [{"k": 2, "renamed": "a2", "b": 2**40, "c": "c2"}])
    expected = [
        {"k": 1, "renamed": "a1", "b": 1, "c": None},
        {"k": 2, "renamed": "a2", "b": 2**40, "c": "c2"},
    ]
    table = catalog.table(table.name)
    assert table.schema.id == 4
    assert sorted(table.read().to_pylist(), key=lambda row: row["k"]) == [
        {name: row[name] for name in table.schema.field_names} for row in expected
    ]
    compact(table, full=True)
    assert values_of(table, "c") == ["c2", None]
    try:
        assert content(table) == as_read_by(writer, catalog, table)
    except OracleError as error:
        pytest.fail(str(error))
