"""The mapping from a file's schema to the schema that is read, by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    not_null,
    parse_data_type,
)
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.schema_mapping import (
    ArrayMapping,
    CastValues,
    NoValues,
    RowMapping,
    SameValues,
    SchemaMapping,
    schema_mapping,
)

INT, BIGINT = parse_data_type("INT"), parse_data_type("BIGINT")


def column(data_type: DataType, number: int = 1, name: str = "x") -> DataField:
    return DataField(number, name, data_type)


def row(**ids: int) -> RowType:
    return RowType(tuple(DataField(number, name, INT) for name, number in ids.items()))


def mapping(stored: DataType, read: DataType) -> SchemaMapping:
    return schema_mapping([column(stored, name="then")], [column(read, name="now")])


WRAPS: dict[str, Callable[[DataType], DataType]] = {
    "row": lambda inner: inner,
    "array": ArrayType,
    "value": lambda inner: MapType(INT, inner),
    "key": lambda inner: MapType(inner, INT),
}


@pytest.mark.parametrize("wrapped", WRAPS)
def test_what_no_reader_could_tell_apart_is_the_same(wrapped: str) -> None:
    """Comments, defaults and whether null is allowed change no value."""
    wrap, stored = WRAPS[wrapped], row(a=2, b=3)
    first, second = stored.fields
    told = replace(stored, fields=(replace(first, description="d"), second), nullable=False)
    stricter = replace(stored, fields=(first, replace(second, type=not_null(INT))))
    for read in (stored, told, stricter):
        assert isinstance(mapping(wrap(stored), wrap(read)).columns[1].values, SameValues)
    for read in (row(b=3, a=2), row(a=2), row(a=2, c=3), row(a=2, b=4), row(a=2, b=3, c=4)):
        assert not isinstance(mapping(wrap(stored), wrap(read)).columns[1].values, SameValues)


def test_members_are_found_by_id_and_those_of_new_ids_are_not_there() -> None:
    values = mapping(ArrayType(row(a=2, b=3)), ArrayType(row(b=2, a=4))).columns[1].values
    assert isinstance(values, ArrayMapping)
    assert isinstance(values.element, RowMapping)
    renamed, added = values.element.members
    assert (renamed.field.name, renamed.stored) == ("b", DataField(2, "a", INT))
    assert (added.field.name, added.stored, added.values) == ("a", None, NoValues(INT))


def test_bounds_follow_their_column_and_say_only_what_is_still_true() -> None:
    stored = [column(INT, 1, "a"), column(INT, 2, "b"), column(row(m=5), 3, "r")]
    read = [
        column(INT, 2, "a"),
        column(BIGINT, 1, "b"),
        column(row(n=5), 3, "s"),
        column(INT, 9, "r"),
    ]
    known = {name: Bounds(1, 2, 3, 10) for name in ("a", "b", "r")}
    assert schema_mapping(stored, read).bounds(known, 10) == {
        "a": Bounds(1, 2, 3, 10),
        # Of `b` nothing is known: a cast may make other values, and other nulls.
        "s": Bounds(None, None, 3, 10),
        "r": Bounds(None, None, 10, 10),
    }
    assert schema_mapping(stored, read).same_columns(read[:2]) == {"b": "a"}


def test_a_type_that_became_another_kind_is_left_to_the_cast() -> None:
    values = mapping(row(a=2), INT).columns[1].values
    assert values == CastValues(row(a=2), INT)


def test_ids_that_are_not_unique_matter_only_where_a_schema_changed() -> None:
    """There are clients that number members anew in each row, and may do worse."""
    doubled = RowType((DataField(0, "a", INT), DataField(0, "b", INT)))
    assert isinstance(mapping(doubled, doubled).columns[1].values, SameValues)
    with pytest.raises(InvalidSchema, match="fields 'a' and 'b' both have the id 0"):
        mapping(doubled, row(a=0))
