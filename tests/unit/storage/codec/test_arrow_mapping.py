"""The mapping of file columns: arrays of other writers, and arrays that are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage.codec.arrow_mapping import map_column
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.mapping_proof import mapping_difference
from lakewright.storage.spec.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    not_null,
    parse_data_type,
)
from lakewright.storage.spec.schema_mapping import TypeMapping, schema_mapping

INT, STRING = parse_data_type("INT"), parse_data_type("STRING")
STORED = RowType((DataField(2, "a", INT), DataField(3, "b", STRING)))
SWAPPED = RowType((DataField(2, "b", INT), DataField(3, "a", STRING)))
ROWS = pa.struct([("a", pa.int32()), ("b", pa.string())])


def values_of(stored: DataType, read: DataType) -> TypeMapping:
    return schema_mapping([DataField(1, "x", stored)], [DataField(1, "x", read)]).columns[1].values


def mapped(array: pa.Array, stored: DataType, read: DataType) -> pa.ChunkedArray:
    found = map_column(pa.chunked_array([array]), values_of(stored, read))
    found.validate(full=True)
    return found


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(ROWS),
        pa.large_list(ROWS),
        pa.list_(ROWS, 2),
        # Members in another order than their schema says.
        pa.list_(pa.struct([("b", pa.string()), ("a", pa.int32())])),
    ],
    ids=["list", "large list", "list of fixed size", "other order"],
)
def test_lists_of_every_kind_are_mapped(kind: pa.DataType) -> None:
    held = [[{"a": 1, "b": "x"}, None], None, [{"a": None, "b": "y"}, {"a": 2, "b": None}]]
    found = mapped(pa.array(held, kind), ArrayType(STORED), ArrayType(SWAPPED))
    assert found.to_pylist() == [
        [{"b": 1, "a": "x"}, None],
        None,
        [{"b": None, "a": "y"}, {"b": 2, "a": None}],
    ]


def test_a_row_stays_where_it_is_when_none_of_its_members_is_in_the_file() -> None:
    read = RowType((DataField(9, "n", INT),))
    held = [{"a": 1, "b": "x"}, None]
    assert mapped(pa.array(held, ROWS), STORED, read).to_pylist() == [{"n": None}, None]
    none_left = RowType(())
    assert mapped(pa.array(held, ROWS), STORED, none_left).to_pylist() == [{}, None]


def test_null_where_it_must_not_be_is_refused_and_inside_of_null_does_not_count() -> None:
    read = RowType((DataField(3, "b", STRING), DataField(9, "n", not_null(INT))))
    assert mapped(pa.array([None], ROWS), STORED, read).to_pylist() == [None]
    with pytest.raises(pa.ArrowInvalid, match="null where int32 must not be null"):
        mapped(pa.array([{"a": 1, "b": "x"}], ROWS), STORED, read)


def test_a_member_that_the_file_lacks_though_its_schema_has_it_is_damage() -> None:
    held = pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))
    with pytest.raises(pa.ArrowKeyError, match="lack the member 'b' that their schema has"):
        mapped(held, STORED, SWAPPED)


# --- proof ------------------------------------------------------------------------------------

LISTS, MAPS = ArrayType(STORED), MapType(INT, STORED)
BAGS = MultisetType(STORED)
NEW = RowType((DataField(2, "a", INT), DataField(9, "b", STRING)))


@pytest.mark.parametrize(
    ("stored", "read", "held", "found", "where"),
    [
        (STORED, STORED, [{"a": 1}], [{"a": 2}], "x.a has different values"),
        (STORED, STORED, [{"a": 1}], [{"a": None}], "x.a has different values"),
        (STORED, SWAPPED, [{"a": 1}], [{"b": None}], "x.b has different values"),
        (STORED, STORED, [None], [{"a": None}], "x is null in other places"),
        (STORED, STORED, [{"a": 1}], [], "x has 0 values where the file has 1"),
        (STORED, NEW, [{"b": "x"}], [{"b": "x"}], "x.b has values, and the file has no such"),
        (LISTS, LISTS, [[{"a": 1}]], [[{"a": 2}]], "x[].a has different values"),
        (LISTS, LISTS, [[{"a": 1}], []], [[], [{"a": 1}]], "x[] has different lengths"),
        (LISTS, LISTS, [None], [[]], "x is null in other places"),
        (MAPS, MAPS, [[(1, {"a": 1})]], [[(2, {"a": 1})]], "x.key has different values"),
        (MAPS, MAPS, [[(1, {"a": 1})]], [[(1, {"a": 2})]], "x.value.a has different values"),
        (MAPS, MAPS, [[(1, None)]], [[]], "x has different lengths"),
        (MAPS, MAPS, [None], [[]], "x has different lengths"),
        (MAPS, MAPS, [None, []], [[], None], "x is null in other places"),
        (BAGS, BAGS, [[({"a": 1}, 1)]], [[({"a": 1}, 2)]], "x has different counts"),
    ],
)
def test_any_difference_between_a_file_and_what_is_read_is_found(
    stored: DataType, read: DataType, held: list[Any], found: list[Any], where: str
) -> None:
    before, after = DataField(1, "y", stored), DataField(1, "x", read)
    columns = [
        pa.chunked_array([pa.array(values, to_arrow_type(each.type))])
        for values, each in ((held, before), (found, after))
    ]
    difference = mapping_difference(columns[0], before, columns[1], after)
    assert difference is not None
    assert difference.startswith(where)
    assert mapping_difference(columns[0], before, columns[0], before) is None
