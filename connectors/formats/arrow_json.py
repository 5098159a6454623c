"""Messages of JSON as columns by Arrow's own parser, where it means just what the slow way means.

Arrow reads many objects as one text. Each message is one object if it begins and ends as an object
does, holds no line break, and there are as many objects as messages: no object lies in two of them,
since a comma stands between values. Whatever Arrow refuses, or reads otherwise, is left to the slow
way, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from lakewright.connectors.formats.messages import Numbered
from lakewright.storage.codec.arrow_types import to_arrow_type
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


def arrow_columns(
    messages: Sequence[Numbered], fields: Sequence[DataField], mark: str
) -> list[pa.Array] | None:
    """The columns of messages, or None; `mark` parts a date from a time."""
    types = [_read_type(each.type, is_inner=False) for each in fields]
    texts = [message for _, message in messages]
    data = b"\n".join(texts)
    if (
        not texts
        or None in types
        or data.count(b"\n") != len(texts) - 1
        or not all(each[:1] == b"{" and each[-1:] == b"}" for each in texts)
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
                unexpected_field_behavior="ignore",
            ),
        )
        if rows.num_rows != len(texts):
            return None
        columns = [
            _made(rows.column(each.name).combine_chunks(), each.type, mark) for each in fields
        ]
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return None if None in columns else columns


def _read_type(data_type: DataType, *, is_inner: bool) -> pa.DataType | None:
    """The type in which Arrow reads a column; None if it has none for it."""
    match data_type:
        case AtomicType(root=root):
            if root.is_text or root is TypeRoot.BOOLEAN or root.is_integer:
                return to_arrow_type(data_type)
            if is_inner:
                return None
            if root.is_floating or root is TypeRoot.DECIMAL:
                return to_arrow_type(data_type)
            return pa.string() if root is TypeRoot.DATE or root.is_timestamp else None
        case ArrayType(element=element):
            inner = _read_type(element, is_inner=True)
            return None if inner is None else pa.list_(inner)
        case RowType(fields=fields):
            members = [_read_type(each.type, is_inner=True) for each in fields]
            names = [each.name for each in fields]
            if None in members:
                return None
            return pa.struct(list(zip(names, members, strict=True)))
        case _:
            return None


def _made(array: pa.Array, data_type: DataType, mark: str) -> pa.Array | None:
    """A column in its type; None if it holds what the slow way decides."""
    if not isinstance(data_type, AtomicType):
        return array.cast(to_arrow_type(data_type))
    root = data_type.root
    if root.is_floating:
        return None if pc.any(pc.is_inf(array)).as_py() else array
    if root is TypeRoot.DECIMAL:
        limit = Decimal(10) ** (data_type.precision - data_type.scale)
        fits = pc.less(pc.abs(array), pa.scalar(limit, pa.decimal256(76, data_type.scale)))
        return None if pc.all(fits).as_py() is False else array
    if root.is_timestamp:
        is_marked = pc.equal(pc.utf8_slice_codeunits(array, 10, 11), mark)
        if pc.all(is_marked).as_py() is False:
            return None
    return array if array.type == to_arrow_type(data_type) else array.cast(to_arrow_type(data_type))
