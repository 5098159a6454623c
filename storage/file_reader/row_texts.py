"""The texts of rejected rows: objects of JSON, which a replay reads back as the same values.

A value that no text of its column's type says exactly is kept by its kind and its raw number, as
the list `["time32[ms]", 86400000]`, and a map whose keys an object cannot have as a list of pairs.
The column takes no such list, so a replay refuses it as the run did.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakewright.storage.codec.value_limits import END_DAY, FIRST_DAY, UNITS_OF_A_DAY
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.values import StoredNumber


@dataclass(frozen=True, slots=True)
class _Text:
    """A value as the text of its kind, which says it exactly."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Raw:
    """A value that its kind has no text for."""

    kind: str
    number: object


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The entries of a map, or the members of a row."""

    pairs: Sequence[tuple[object, object]]


def row_text(
    row: Mapping[str, Any], fields: Sequence[DataField], *, parses_texts: bool = True
) -> str:
    """A row of Python values; `parses_texts` says whether its source takes texts for any type."""
    members = [(name, _of_python(value)) for name, value in row.items()]
    return _object(members, _types(fields), parses_texts=parses_texts)


def row_texts(rows: pa.Table, fields: Sequence[DataField] = ()) -> list[str]:
    """Rows of Arrow; without `fields`, their values are those of their types."""
    names, types = rows.column_names, _types(fields)
    columns = [_of_arrow(column.combine_chunks()) for column in rows.columns]
    return [
        _object([(name, column[at]) for name, column in zip(names, columns, strict=True)], types)
        for at in range(rows.num_rows)
    ]


def _types(fields: Sequence[DataField]) -> Mapping[str, DataType]:
    return {field.name: field.type for field in fields}


def _object(
    members: Sequence[tuple[str, object]],
    types: Mapping[str, DataType],
    *,
    parses_texts: bool = False,
) -> str:
    said = {
        name: _said(value, types.get(name), parses_texts=parses_texts) for name, value in members
    }
    text = json.dumps(said, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no text in UTF-8.
        return json.dumps(said)
    return text


# --- values by their types ------------------------------------------------------------------------

_NUMBERS = (TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE)


def _takes(kind: str, data_type: DataType | None) -> bool:
    """Whether a type reads texts of a kind as values of that kind."""
    if data_type is None:
        return True
    if not isinstance(data_type, AtomicType):
        return False
    root = data_type.root
    match kind:
        case "bytes":
            return root.is_bytes
        case "decimal":
            return root.is_integer or root in _NUMBERS
        case "moment":
            return root is TypeRoot.DATE or root.is_timestamp
        case "time":
            return root is TypeRoot.TIME
        case _:
            return False


def _said(value: object, data_type: DataType | None, *, parses_texts: bool) -> object:
    """A value as JSON, of a kind that its column takes, or as a list that it refuses."""
    match value:
        case _Raw(kind=kind, number=number):
            return [kind, number]
        case _Text(kind="decimal", text=text) if _takes("moment", data_type):
            # A unit may be declared for numbers; without one, a number is no moment.
            return int(text) if text.lstrip("-").isdigit() else text
        case _Text(kind=kind, text=text):
            return text if _takes(kind, data_type) else [kind, text]
        case str():
            is_text = not isinstance(data_type, AtomicType) or data_type.root.is_text
            return value if is_text or parses_texts else ["text", value]
        case bool() | None:
            return value
        case int():
            return value if _has_number(data_type, value) else ["number", value]
        case list():
            inner = data_type.element if isinstance(data_type, ArrayType) else None
            return [_said(each, inner, parses_texts=parses_texts) for each in value]
        case _Pairs(pairs=pairs):
            return _said_pairs(pairs, data_type, parses_texts=parses_texts)
        case _:
            return value


def _said_pairs(
    pairs: Sequence[tuple[object, object]], data_type: DataType | None, *, parses_texts: bool
) -> object:
    members: Mapping[str, DataType] = {}
    key_type: DataType | None = None
    value_type: DataType | None = None
    match data_type:
        case MapType(key=key, value=each):
            key_type, value_type = key, each
        case MultisetType(element=element):
            key_type = element
        case RowType(fields=fields):
            members = _types(fields)
    said = []
    for name, value in pairs:
        inner = members.get(name) if isinstance(name, str) else None
        # A name of JSON is a text, and parsed for the type of the keys.
        told = _said(name, key_type, parses_texts=True)
        said.append((told, _said(value, inner or value_type, parses_texts=parses_texts)))
    names = [name if isinstance(name, str) else json.dumps(name) for name, _ in said]
    is_object = not any(isinstance(name, (list, dict)) or name is None for name, _ in said)
    if is_object and len(set(names)) == len(names):
        return dict(zip(names, (value for _, value in said), strict=True))
    return [list(each) for each in said]


def _has_number(data_type: DataType | None, number: int) -> bool:
    """Whether a type of floating numbers has a whole one; other types judge it themselves."""
    if not isinstance(data_type, AtomicType) or not data_type.root.is_floating:
        return True
    try:
        single = data_type.root is TypeRoot.FLOAT
        nearest = struct.unpack("<f", struct.pack("<f", number))[0] if single else float(number)
    except OverflowError:
        return False
    return bool(nearest == number)


# --- values of Python -----------------------------------------------------------------------------


def _of_python(value: object) -> object:
    match value:
        case StoredNumber():
            return _Raw("number of a moment", int(value))
        case None | bool() | float() | str():
            return value
        case int():
            # Python prints no number of more than some thousand digits.
            return value if value.bit_length() <= 256 else _Raw("number", hex(value))
        case bytes() | bytearray() | memoryview():
            return _Text("bytes", bytes(value).hex())
        case Decimal():
            return _Text("decimal", str(value))
        case dt.date():
            return _Text("moment", value.isoformat())
        case dt.time():
            return _Text("time", value.isoformat())
        case Mapping():
            return _Pairs([(_of_python(key), _of_python(each)) for key, each in value.items()])
        case list() | tuple():
            return [_of_python(each) for each in value]
        case _:
            return _Text(type(value).__name__, str(value))


# --- values of Arrow ------------------------------------------------------------------------------


def _of_arrow(array: pa.Array) -> list[object]:
    """Values without the conversions of the library, which wrap times and refuse far dates."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _of_arrow(array.storage)
    if pa.types.is_dictionary(kind):
        return _of_arrow(array.dictionary_decode())
    if pa.types.is_null(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return list(array.to_pylist())
    if pa.types.is_floating(kind):
        return list(array.cast(pa.float64()).to_pylist())
    if pa.types.is_decimal(kind):
        return [None if each is None else _Text("decimal", str(each)) for each in array.to_pylist()]
    if any(is_kind(kind) for is_kind in (pa.types.is_date, pa.types.is_time)):
        return _moments(array)
    if pa.types.is_timestamp(kind):
        return _moments(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return [None if each is None else _text(each) for each in _bytes(array)]
    if any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        )
    ):
        return [None if each is None else _Text("bytes", each.hex()) for each in _bytes(array)]
    if pa.types.is_struct(kind):
        return _rows(array)
    if pa.types.is_map(kind):
        return [_Pairs([*_entries(each)]) if each.is_valid else None for each in array]
    if pa.types.is_nested(kind) and hasattr(kind, "value_type"):
        return [_of_arrow(each.values) if each.is_valid else None for each in array]
    return [_Raw(str(kind), None) if each.is_valid else None for each in array]


def _bytes(array: pa.Array) -> list[bytes | None]:
    kind = array.type
    if pa.types.is_string_view(kind):
        array = array.cast(pa.large_string())
    return list(array.cast(pa.large_binary()).to_pylist())


def _text(data: bytes) -> object:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _Raw("bytes of a text", data.hex())


def _rows(array: pa.StructArray) -> list[object]:
    names = [each.name for each in array.type]
    members = [_of_arrow(array.field(at)) for at in range(len(names))]
    return [
        _Pairs([(name, each[at]) for name, each in zip(names, members, strict=True)])
        if there
        else None
        for at, there in enumerate(array.is_valid().to_pylist())
    ]


def _entries(scalar: pa.MapScalar) -> Iterator[tuple[object, object]]:
    entries = scalar.values
    yield from zip(_of_arrow(entries.field(0)), _of_arrow(entries.field(1)), strict=True)


def _moments(array: pa.Array) -> list[object]:
    """Dates, times and timestamps of the years 1 to 9999, in UTC if they have a zone."""
    kind = array.type
    is_time, is_stamp = pa.types.is_time(kind), pa.types.is_timestamp(kind)
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    numbers = array.cast(whole).to_pylist()
    of_a_day = 1
    if not pa.types.is_date32(kind):
        of_a_day = UNITS_OF_A_DAY["ms" if pa.types.is_date64(kind) else kind.unit]

    def is_exact(number: int) -> bool:
        if is_time:
            return 0 <= number < of_a_day
        is_day = is_stamp or number % of_a_day == 0
        return is_day and FIRST_DAY <= number // of_a_day < END_DAY

    exact = [None if each is None or not is_exact(each) else each for each in numbers]
    plain = pa.timestamp(kind.unit) if is_stamp else kind
    texts = pa.array(exact, whole).cast(plain).cast(pa.string()).to_pylist()
    zone = "+00:00" if is_stamp and kind.tz is not None else ""
    found: list[object] = []
    for number, text in zip(numbers, texts, strict=True):
        if text is not None:
            day, point, digits = text.replace(" ", "T").partition(".")
            digits = digits.rstrip("0")
            said = f"{day}{point if digits else ''}{digits}{zone}"
            found.append(_Text("time" if is_time else "moment", said))
        else:
            found.append(None if number is None else _Raw(str(kind), number))
    return found
