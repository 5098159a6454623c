"""The texts of rejected rows: made of any value, and read back as the same value or not at all."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from lakewright.storage.codec.json_atoms import JSON_DECODER, JsonLayout
from lakewright.storage.codec.python_columns import UnfitValueError, python_column
from lakewright.storage.file_reader.row_texts import row_text, row_texts
from lakewright.storage.spec.data_types import DataField, parse_data_type
from lakewright.storage.spec.values import StoredNumber


def _field(kind: str) -> DataField:
    return DataField(0, "x", parse_data_type(kind))


def _read(text: str, field: DataField) -> pa.Array:
    """A kept text, read as a replay does."""
    return python_column([JSON_DECODER.decode(text)["x"]], field, JsonLayout().reading)


def _stamps(kind: pa.DataType, *numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int64()).cast(kind)


_DAYS = pa.array([dt.date(2024, 1, 31)])
_NANOS = pa.timestamp("ns")
_A_ROW = pa.struct([("a", pa.int32()), ("a", pa.int32())])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DATE", _DAYS),
        ("TIMESTAMP(9)", _stamps(_NANOS, 1_706_708_700_123_456_789, -1)),
        ("TIMESTAMP_LTZ(6)", _stamps(pa.timestamp("us", "UTC"), 5)),
        ("TIME(3)", pa.array([86_399_999], pa.int32()).cast(pa.time32("ms"))),
        ("DECIMAL(38, 2)", pa.array([Decimal("-1" + "0" * 35 + ".25")])),
        ("BYTES", pa.array([b"\x00\xff"])),
        ("MAP<DATE, INT>", pa.array([[(dt.date(2024, 1, 31), 1)]], pa.map_(pa.date32(), "int32"))),
        ("MAP<BYTES, STRING>", pa.array([[(b"a", "b")]], pa.map_("binary", "string"))),
        ("MAP<INT, DOUBLE>", pa.array([[(1, 0.1), (2, None)]], pa.map_("int32", "float64"))),
        ("ROW<a INT, b ARRAY<DATE>>", pa.array([{"a": 1, "b": [dt.date(1, 1, 1)]}])),
    ],
)
def test_a_value_that_fits_is_read_back(kind: str, values: pa.Array) -> None:
    field = _field(kind)
    texts = row_texts(pa.table([values], names=["x"]), [field])
    made = pa.concat_arrays([_read(text, field) for text in texts])
    assert made.equals(values.cast(made.type))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DATE", pa.array([2**31 - 1, -719_163], pa.int32()).cast(pa.date32())),
        ("DATE", pa.array([1], pa.int64()).view(pa.date64())),
        ("TIMESTAMP(6)", _stamps(pa.timestamp("us"), 2**63 - 1, -(2**62))),
        ("TIMESTAMP_LTZ(6)", _stamps(pa.timestamp("us", "Mars/Phobos"), 2**62)),
        ("TIME(3)", pa.array([86_400_000, -5], pa.int32()).cast(pa.time32("ms"))),
        ("STRING", pa.array([b"\xff"]).view(pa.string())),
        ("DOUBLE", pa.array([2**53 + 1])),
        ("FLOAT", pa.array([2**24 + 1])),
        ("MAP<STRING, INT>", pa.array([[("a", 1), ("a", 2)]], pa.map_("string", "int32"))),
        (
            "MAP<ROW<a INT>, INT>",
            pa.array([[({"a": 1}, 1)]], pa.map_(pa.struct([("a", "int32")]), "int32")),
        ),
        (
            "ROW<a INT>",
            pa.StructArray.from_arrays([pa.array([1], "int32")] * 2, fields=list(_A_ROW)),
        ),
        ("INT", pa.array([dt.timedelta(1)])),
    ],
)
def test_a_value_that_no_text_says_stays_unfit(kind: str, values: pa.Array) -> None:
    field = _field(kind)
    for text in row_texts(pa.table([values], names=["x"]), [field]):
        with pytest.raises(UnfitValueError):
            _read(text, field)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("STRING", b"ab"),
        ("STRING", dt.date(2024, 1, 31)),
        ("STRING", Decimal("1.5")),
        ("STRING", UUID(int=5)),
        ("STRING", "\ud800"),
        ("INT", b"\x12"),
        ("DATE", b"\x20\x24\x01\x31"),
        ("BYTES", Decimal(12)),
        ("BIGINT", StoredNumber(5)),
        ("INT", 10**5000),
        ("MAP<STRING, INT>", {1: 1, "1": 2}),
        ("MAP<INT, INT>", {None: 1}),
    ],
    ids=range(12),
)
def test_a_value_of_python_does_not_become_that_of_another_type(kind: str, value: Any) -> None:
    field = _field(kind)
    with pytest.raises(UnfitValueError):
        python_column([value], field)
    with pytest.raises(UnfitValueError):
        _read(row_text({"x": value}, [field]), field)


def test_texts_of_a_source_that_parses_none_are_kept_as_texts() -> None:
    for kind, text in (("BYTES", "cd"), ("INT", "5"), ("DATE", "2024-01-31")):
        said = row_text({"x": text}, [_field(kind)], parses_texts=False)
        assert json.loads(said) == {"x": ["text", text]}
        with pytest.raises(UnfitValueError):
            _read(said, _field(kind))
