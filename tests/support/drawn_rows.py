"""Rows drawn from a seed, of every type that formats hold."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import array_of
from lakewright.storage.spec.data_types import (
    INTEGER_BITS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)

_TEXT = string.ascii_letters + string.digits + " .,:|'\"\\/{}[]#éß漢😀\t"


def drawn_rows(fields: Sequence[DataField], count: int, seed: int) -> pa.RecordBatch:
    """Rows whose times have whole seconds, which is what all formats keep."""
    chance = random.Random(seed)
    columns = []
    for field in fields:
        values = [_drawn(field.type, chance) for _ in range(count)]
        columns.append(_array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(fields))


def _array(values: list[Any], data_type: DataType) -> pa.Array:
    match data_type:
        case AtomicType():
            return array_of(values, data_type)
        case ArrayType(element=element):
            inner = _array([item for each in values for item in each or ()], element)
            return _listed(values, inner)
        case MapType(key=key, value=value):
            pairs = [pair for each in values for pair in each or ()]
            keys, items = (
                _array([pair[at] for pair in pairs], kind) for at, kind in ((0, key), (1, value))
            )
            made = pa.MapArray.from_arrays(_listed(values, keys).offsets, keys, items)
            return made.take(
                pa.array([None if v is None else at for at, v in enumerate(values)], pa.int64())
            )
        case RowType(fields=members):
            parts = [
                _array([None if each is None else each[at] for each in values], member.type)
                for at, member in enumerate(members)
            ]
            names = [each.name for each in members]
            return pa.StructArray.from_arrays(
                parts, names, mask=pa.array([v is None for v in values])
            )
        case _:
            raise AssertionError(data_type)


def _listed(values: list[Any], inner: pa.Array) -> pa.ListArray:
    offsets = [0]
    for each in values:
        offsets.append(offsets[-1] + len(each or ()))
    mask = pa.array([each is None for each in values])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=mask)


def _drawn(data_type: DataType, chance: random.Random) -> Any:
    if data_type.nullable and chance.random() < 0.15:
        return None
    match data_type:
        case ArrayType(element=element):
            return [_drawn(element, chance) for _ in range(chance.randint(1, 3))]
        case MapType(value=value):
            keys = {_text(chance) for _ in range(chance.randint(0, 3))}
            return [(key, _drawn(value, chance)) for key in sorted(keys)]
        case RowType(fields=members):
            return [_drawn(each.type, chance) for each in members]
        case AtomicType():
            return _atom(data_type, chance)
        case _:
            raise AssertionError(data_type)


def _atom(data_type: AtomicType, chance: random.Random) -> Any:
    root = data_type.root
    if root in INTEGER_BITS:
        most = 2 ** (INTEGER_BITS[root] - 1)
        return chance.choice((0, most - 1, -most, chance.randint(-most, most - 1)))
    if root.is_floating:
        number = chance.choice((0.0, 1e20, -1.5, 1e-10, chance.gauss(0, 1000)))
        return (
            float(pa.array([number], pa.float32())[0].as_py()) if root is TypeRoot.FLOAT else number
        )
    if root is TypeRoot.DECIMAL:
        most = 10 ** chance.randint(0, data_type.precision)
        return Decimal(chance.randint(-most + 1, most - 1)).scaleb(-data_type.scale)
    if root is TypeRoot.BOOLEAN:
        return chance.random() < 0.5
    if root.is_text:
        return _text(chance)
    if root.is_bytes:
        return chance.randbytes(chance.randint(1, 5))
    if root is TypeRoot.DATE:
        return chance.randint(-200_000, 200_000)
    if root is TypeRoot.TIME:
        return chance.randrange(86_400) * 1000
    unit = 10 ** (9 - data_type.precision)
    return chance.randint(-(2**60) // unit, 2**60 // unit) * unit


def _text(chance: random.Random) -> str:
    return "".join(chance.choices(_TEXT, k=chance.randint(1, 8)))
