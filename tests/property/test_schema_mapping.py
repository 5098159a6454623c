"""Whatever becomes of a nested type, its values are found by id: in Arrow and in whole tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Column, SchemaSpec, parse_data_type
from lakewright.storage.codec.arrow_mapping import map_column
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.mapping_proof import mapping_difference
from lakewright.storage.spec.data_types import (
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    not_null,
)
from lakewright.storage.spec.predicate import Leaf, Operator
from lakewright.storage.spec.schema import TableSchema, with_member_ids
from lakewright.storage.spec.schema_mapping import schema_mapping
from tests.oracles.arrow_values import canonical_rows
from tests.support.tables.builders import compact, comparable, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import assert_sound
from tests.support.values.evolution import altered, by_id
from tests.support.values.strategies import values

# Few enough for a new member to take the name of one that was dropped or renamed.
NAMES = "abcde"
_ATOMS = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE"),
    *("STRING", "BYTES", "DECIMAL(9, 2)", "DECIMAL(30, 4)"),
]
ATOMS = [parse_data_type(name) for name in _ATOMS]
_KEYS = [each for each in ATOMS if isinstance(each, AtomicType) and not each.root.is_floating]
WIDER = {
    TypeRoot.TINYINT: "SMALLINT",
    TypeRoot.SMALLINT: "INT",
    TypeRoot.INT: "BIGINT",
    TypeRoot.FLOAT: "DOUBLE",
}


@st.composite
def _nested(draw: st.DrawFn, depth: int = 3) -> DataType:
    """A type of at most so many containers in each other."""
    kinds = ["atom", "row", "row", "array", "map", "map of rows", "multiset"]
    match draw(st.sampled_from(kinds)) if depth else "atom":
        case "row":
            return _row(draw, depth)
        case "array":
            return ArrayType(_held(draw, depth))
        case "map":
            return MapType(not_null(draw(st.sampled_from(_KEYS))), _held(draw, depth))
        case "map of rows":
            return MapType(not_null(_row(draw, depth)), _held(draw, depth - 1))
        case "multiset":
            return MultisetType(not_null(_row(draw, 1)))
    return draw(st.sampled_from(ATOMS))


def _held(draw: st.DrawFn, depth: int) -> DataType:
    inner = draw(_nested(max(0, depth - 1)))
    return not_null(inner) if draw(st.booleans()) else inner


def _row(draw: st.DrawFn, depth: int) -> RowType:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return RowType(tuple(DataField(-1, name, _held(draw, depth)) for name in names))


@st.composite
def nested(draw: st.DrawFn) -> DataType:
    """A nested type with rows in it, and an id for each member."""
    row = _row(draw, 3)
    wrapped = draw(
        st.sampled_from([row, ArrayType(row), MapType(not_null(STRING), row), MultisetType(row)])
    )
    return with_member_ids(wrapped, count(10))


def changed(draw: st.DrawFn, data_type: DataType, ids: Iterator[int]) -> DataType:
    """The type after members in it were dropped, added, renamed, moved and widened."""
    match data_type:
        case RowType(fields=members):
            return replace(data_type, fields=_changed_members(draw, members, ids))
        case ArrayType(element=element) | MultisetType(element=element):
            return replace(data_type, element=changed(draw, element, ids))
        case MapType(key=key, value=value):
            return replace(data_type, key=changed(draw, key, ids), value=changed(draw, value, ids))
        case AtomicType(root=root, nullable=nullable):
            if root not in WIDER or not draw(st.booleans()):
                return data_type
            return replace(parse_data_type(WIDER[root]), nullable=nullable)


def _changed_members(
    draw: st.DrawFn, members: tuple[DataField, ...], ids: Iterator[int]
) -> tuple[DataField, ...]:
    kept = [
        replace(member, type=changed(draw, member.type, ids))
        for member in members
        if draw(st.integers(0, 3)) > 0
    ]
    added = draw(st.integers(0 if kept else 1, 2))
    kept += [
        DataField(next(ids), "", draw(st.sampled_from([*ATOMS, ArrayType(ATOMS[3])])))
        for _ in range(min(added, len(NAMES) - len(kept)))
    ]
    order = draw(st.permutations(kept))
    own = [member.name for member in order]
    taken = draw(st.permutations(NAMES))
    renaming = "" in own or draw(st.booleans())
    return tuple(
        replace(member, name=name if renaming else member.name)
        for member, name in zip(order, taken, strict=False)
    )


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[DataType, DataType]:
    """A nested type, and what became of it."""
    stored = draw(nested())
    return stored, changed(draw, stored, count(1000))


@given(data=st.data())
def test_values_are_mapped_by_id_whatever_slices_they_lie_in(data: st.DataObject) -> None:
    stored, read = data.draw(evolutions())
    held = data.draw(st.lists(values(stored), max_size=8))
    first = data.draw(st.integers(0, len(held)))
    cut = data.draw(st.integers(first, len(held)))
    array = pa.array(held, to_arrow_type(stored))
    column = pa.chunked_array([array.slice(first, cut - first), array.slice(cut)])
    before, after = DataField(1, "x", stored), DataField(1, "y", read)
    mapping = schema_mapping([before], [after]).columns[1]
    found = map_column(column, mapping.values)
    found.validate(full=True)
    due = pa.array([by_id(value, stored, read) for value in held[first:]], to_arrow_type(read))
    assert canonical_rows(pa.table({"y": found})) == canonical_rows(pa.table({"y": due}))
    assert mapping_difference(column, before, found, after) is None


@given(data=st.data())
def test_a_schema_maps_to_itself_without_a_change(data: st.DataObject) -> None:
    stored = data.draw(nested())
    field = DataField(1, "x", stored)
    column = pa.chunked_array(
        [pa.array(data.draw(st.lists(values(stored), max_size=3)), to_arrow_type(stored))]
    )
    mapping = schema_mapping([field], [replace(field, description="another one")]).columns[1]
    assert map_column(column, mapping.values) is column


# --- whole tables -----------------------------------------------------------------------------


def _spec(nested_type: DataType, file_format: str, *, keyed: bool) -> SchemaSpec:
    return SchemaSpec(
        columns=(Column("k", parse_data_type("INT")), Column("x", nested_type)),
        primary_keys=("k",) if keyed else (),
        options={"file.format": file_format, **({"bucket": "1"} if keyed else {})},
    )


@st.composite
def _later(draw: st.DrawFn, schema: TableSchema) -> TableSchema:
    ids = count(schema.highest_field_id + 1)
    key, column = schema.fields
    fields = (key, replace(column, type=changed(draw, column.type, ids)))
    return replace(schema, fields=fields, highest_field_id=next(ids) - 1)


@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_tables_hold_by_id_what_was_written_before_their_members_changed(
    data: st.DataObject,
) -> None:
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    file_format = data.draw(st.sampled_from(["parquet", "orc", "avro"]))
    spec = _spec(data.draw(nested()), file_format, keyed=data.draw(st.booleans()))
    table = catalog.create_table("db.t", spec)
    model: list[dict[str, Any]] = []
    for step in range(3):
        kind = table.schema.field("x").type
        drawn = data.draw(st.lists(values(kind), max_size=3))
        new = [{"k": 10 * step + number, "x": value} for number, value in enumerate(drawn)]
        table.write(rows(table, new))
        model += new
        later = data.draw(_later(table.schema))
        table = altered(catalog, table, lambda _, later=later: later)
        after = table.schema.field("x").type
        model = [{**row, "x": by_id(row["x"], kind, after)} for row in model]
        if data.draw(st.booleans()):
            compact(table, full=True, min_files=2)
        assert comparable(table.read()) == comparable(rows(table, model)), step
    for operator, is_null in ((Operator.IS_NULL, True), (Operator.IS_NOT_NULL, False)):
        due = [row for row in model if (row["x"] is None) is is_null]
        assert comparable(table.read(where=Leaf("x", operator))) == comparable(rows(table, due))
    assert_sound(table)
    empty_memory()
