"""Texts of JSON as columns by Arrow's own parser, where it means just what the slow way means.

Arrow reads many objects as one text. Each text is one object if it begins and ends as an object
does, holds no line break, and there are as many objects as texts: no object lies in two of them,
since a comma stands between values. Whatever Arrow refuses, or reads otherwise, is left to the slow
way, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.value_limits import unfit_value
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)

# Arrow takes these for numbers, and JSON does not.
_NO_NUMBERS = (b"NaN", b"Infinity")


def arrow_columns(texts: Sequence[bytes], fields: Sequence[DataField]) -> list[pa.Array] | None:
    """The columns of texts that are an object each; None if the slow way decides."""
    rows = arrow_rows(texts, fields, infers=False)
    return None if rows is None else [column.combine_chunks() for column in rows.columns]


def arrow_rows(
    texts: Sequence[bytes], fields: Sequence[DataField], *, infers: bool
) -> pa.Table | None:
    """The columns of texts, or None; with `infers`, other members follow as columns of any type."""
    types = [_read_type(each.type) for each in fields]
    data = b"\n".join(texts)
    if (
        not texts
        or None in types
        or data.count(b"\n") != len(texts) - 1
        or not all(text[:1] == b"{" and text[-1:] == b"}" for text in texts)
        or any(each in data for each in _NO_NUMBERS)
    ):
        return None
    names = [each.name for each in fields]
    try:
        data.decode()
        rows = pyarrow.json.read_json(
            pa.BufferReader(data),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(list(zip(names, types, strict=True))),
                unexpected_field_behavior="infer" if infers else "ignore",
            ),
        )
        if rows.num_rows != len(texts):
            return None
        for at, (field, kind) in enumerate(zip(fields, types, strict=True)):
            if not rows.column(at).type.equals(kind):
                # A member that the type of a row lacks.
                return None
            made = _made(rows.column(at).combine_chunks(), field.type)
            rows = rows.set_column(at, field.name, made)
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return rows


def _read_type(data_type: DataType) -> pa.DataType | None:
    """The type in which Arrow reads a column; None if it has none for it."""
    match data_type:
        case AtomicType(root=root):
            if root is TypeRoot.DATE or root.is_timestamp:
                return pa.string()
            return None if root.is_bytes or root is TypeRoot.TIME else to_arrow_type(data_type)
        case ArrayType(element=element):
            inner = _read_type(element)
            return None if inner is None else pa.list_(inner)
        case RowType(fields=fields):
            members = [_read_type(field.type) for field in fields]
            if None in members:
                return None
            return pa.struct(list(zip([field.name for field in fields], members, strict=True)))
        case _:
            return None


def _made(array: pa.Array, data_type: DataType) -> pa.Array:
    """A column in its type.

    Raises:
        ArrowException: it holds what the slow way decides.
    """
    target = to_arrow_type(data_type)
    mask = array.is_null() if array.null_count else None
    match data_type:
        case ArrayType(element=element):
            inner = _made(array.flatten(), element)
            return pa.ListArray.from_arrays(array.offsets, inner, type=target, mask=mask)
        case RowType(fields=fields):
            parts = zip(array.flatten(), fields, strict=True)
            members = [_made(part, each.type) for part, each in parts]
            return pa.StructArray.from_arrays(members, fields=list(target), mask=mask)
        case AtomicType():
            if not _is_usual(array, data_type):
                raise pa.ArrowInvalid("the slow way decides")
            made = array if array.type == target else array.cast(target)
            if unfit_value(made, data_type) is not None:
                raise pa.ArrowInvalid("the slow way decides")
            return made
        case _:
            raise AssertionError(data_type)


def _is_usual(array: pa.Array, data_type: AtomicType) -> bool:
    root = data_type.root
    if root.is_floating:
        return not pc.any(pc.is_inf(array)).as_py()
    return True
