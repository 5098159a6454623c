"""Arrow columns as plain JSON values, for `read` and for scripts.

Decimals are text with the column's scale, dates and times ISO text, moments in UTC with Z, bytes
hexadecimal, NaN and infinities text. Rows are objects; a map is an object if its keys are text,
otherwise a list of [key, value].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.spec.data_types import (
    INTEGER_BITS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
    not_decoded,
)

Plain = bool | int | float | str | None | list["Plain"] | dict[str, "Plain"]

_JSON_AS_THEY_ARE = {TypeRoot.BOOLEAN, TypeRoot.CHAR, TypeRoot.VARCHAR, *INTEGER_BITS}
_COUNT = AtomicType(TypeRoot.INT)


def plain_rows(rows: pa.Table, fields: Sequence[DataField]) -> list[tuple[Plain, ...]]:
    """Rows of a table whose columns are `fields`, in their order; two may have one name."""
    columns = [
        plain_values(_one_array(column, field.type), field.type)
        for column, field in zip(rows.columns, fields, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _one_array(column: pa.ChunkedArray, data_type: DataType) -> pa.Array:
    if column.num_chunks == 0:
        return pa.array([], to_arrow_type(data_type))
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def plain_values(array: pa.Array, data_type: DataType) -> list[Plain]:
    """One plain value for each value of an Arrow array."""
    match data_type:
        case AtomicType():
            return _atomic_values(array, data_type)
        case OpaqueType():
            raise not_decoded(data_type)
        case ArrayType(element=element):
            first, count, spans = _spans(array)
            items = plain_values(array.values.slice(first, count), element)
            return [None if span is None else items[span] for span in spans]
        case MapType(key=key, value=value):
            return _map_values(array, key, value)
        case MultisetType(element=element):
            return _map_values(array, element, _COUNT)
        case RowType(fields=fields):
            members = [
                plain_values(each, field.type)
                for field, each in zip(fields, array.flatten(), strict=True)
            ]
            names = [field.name for field in fields]
            # Zipped with the validity, so that rows without members are counted too.
            return [
                dict(zip(names, row, strict=True)) if valid else None
                for valid, *row in zip(_validity(array), *members, strict=True)
            ]


def _map_values(array: pa.Array, key: DataType, value: DataType) -> list[Plain]:
    first, count, spans = _spans(array)
    names = plain_values(array.keys.slice(first, count), key)
    items = plain_values(array.items.slice(first, count), value)
    as_object = isinstance(key, AtomicType) and key.root.is_text
    result: list[Plain] = []
    for span in spans:
        if span is None:
            result.append(None)
            continue
        pairs = zip(names[span], items[span], strict=True)
        if as_object:
            result.append({str(name): item for name, item in pairs})
        else:
            result.append([[name, item] for name, item in pairs])
    return result


def _validity(array: pa.Array) -> list[bool]:
    valid: list[bool] = array.is_valid().to_pylist()
    return valid


def _spans(array: pa.Array) -> tuple[int, int, list[slice | None]]:
    """The offset and the number of the items of some lists, and each list's slice of them."""
    offsets: list[int] = array.offsets.to_pylist()
    first = offsets[0]
    spans = [
        slice(start - first, end - first) if valid else None
        for start, end, valid in zip(offsets, offsets[1:], _validity(array), strict=False)
    ]
    return first, offsets[-1] - first, spans


def _atomic_values(array: pa.Array, data_type: AtomicType) -> list[Plain]:
    root = data_type.root
    values: list[Any]
    if root in _JSON_AS_THEY_ARE:
        values = array.to_pylist()
    elif root is TypeRoot.FLOAT:
        # The shortest digits of this float, not of the nearest double.
        values = [
            None if v is None else _number(float(str(np.float32(v)))) for v in array.to_pylist()
        ]
    elif root is TypeRoot.DOUBLE:
        values = [None if v is None else _number(v) for v in array.to_pylist()]
    elif root is TypeRoot.DECIMAL:
        values = [None if v is None else format(v, "f") for v in array.to_pylist()]
    elif root.is_bytes:
        values = [None if v is None else v.hex() for v in array.to_pylist()]
    elif root is TypeRoot.TIME:
        values = [None if v is None else v.isoformat() for v in array.to_pylist()]
    elif root is TypeRoot.DATE:
        values = _iso_texts(array.cast(pa.int32()), "D", "")
    else:
        suffix = "Z" if root is TypeRoot.TIMESTAMP_LTZ else ""
        values = _iso_texts(array.cast(pa.int64()), array.type.unit, suffix)
    return values


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _iso_texts(array: pa.Array, unit: str, suffix: str) -> list[Plain]:
    """ISO text of days or ticks since the epoch, without a fraction of zero."""
    numbers: list[int | None] = array.to_pylist()
    moments = np.array([number or 0 for number in numbers], f"datetime64[{unit}]")
    zero = "." + "0" * {"ms": 3, "us": 6, "ns": 9}.get(unit, 0)
    return [
        None if number is None else text.removesuffix(zero) + suffix
        for number, text in zip(numbers, np.datetime_as_string(moments).tolist(), strict=True)
    ]
