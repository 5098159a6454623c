"""Columns of PostgreSQL in declared types: which types fit, and texts of the server as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors import server_texts
from lakewright.connectors.postgres_cdc.pgoutput import Column
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot

_SMALLINT, _INTEGER, _BIGINT, _NUMERIC = 21, 23, 20, 1700
# By declared type, the oids of the types whose values it holds; texts hold every type.
_FITTING = {
    TypeRoot.BOOLEAN: {16},
    TypeRoot.SMALLINT: {_SMALLINT},
    TypeRoot.INT: {_SMALLINT, _INTEGER},
    TypeRoot.BIGINT: {_SMALLINT, _INTEGER, _BIGINT},
    TypeRoot.FLOAT: {700},
    TypeRoot.DOUBLE: {700, 701},
    TypeRoot.DECIMAL: {_NUMERIC},
    TypeRoot.BINARY: {17},
    TypeRoot.VARBINARY: {17},
    TypeRoot.DATE: {1082},
    TypeRoot.TIME: {1083},
    TypeRoot.TIMESTAMP: {1114},
    TypeRoot.TIMESTAMP_LTZ: {1184},
}
# Of regclass, regtype and the like, of aclitem, and of arrays of them.
_NAMES = frozenset((24, 1033, *range(2202, 2207), 3734, 3769, 4089, 4096, 4191)) | frozenset(
    (1008, 1034, *range(2207, 2212), 3735, 3770, 4090, 4097, 4192)
)


def check_columns(
    fields: Sequence[DataField],
    columns: Sequence[Column],
    *,
    place: str,
    owner: str,
    type_name: Callable[[Column], str],
) -> None:
    """Refuse declared columns that the table has not, or has with another type.

    Raises:
        InvalidRequestError: names the column, both types and the way out.
    """
    by_name = {each.name: each for each in columns}
    for field in fields:
        column = by_name.get(field.name)
        if column is not None and _fits(field, column):
            continue
        found = "is not there" if column is None else f"is {type_name(column)}"
        if column is not None and column.type_oid in _NAMES:
            raise InvalidRequestError(
                f"column {field.name} of {owner} is {type_name(column)} in {place}: it shows its "
                "values by names of other objects, and the log does not tell when one is renamed; "
                "leave the column out",
                column=field.name,
            )
        raise InvalidRequestError(
            f"column {field.name} of {owner} is declared {field.type}, and {found} in {place}; "
            "define the external table anew with the columns that it has, and start the stream "
            "again with the same checkpoint",
            column=field.name,
        )


def _fits(field: DataField, column: Column) -> bool:
    if not isinstance(field.type, AtomicType):
        return False
    root = field.type.root
    if root.is_text:
        return column.type_oid not in _NAMES
    if column.type_oid not in _FITTING.get(root, ()):
        return False
    if column.type_oid != _NUMERIC or column.modifier < 0:
        return True
    digits, scale = (column.modifier - 4) >> 16, (column.modifier - 4) & 0xFFFF
    declared = to_arrow_type(field.type)
    return bool(scale <= declared.scale and digits - scale <= declared.precision - declared.scale)


def column_of_texts(texts: pa.Array, field: DataField, *, owner: str) -> pa.Array:
    """Texts of the server as values of a column.

    Raises:
        InvalidRows: a value is not of the declared type, such as NaN or infinity.
    """
    return server_texts.column_of_texts(texts, field, lambda each: _typed(each, field), owner)


def _typed(texts: pa.Array, field: DataField) -> pa.Array:
    assert isinstance(field.type, AtomicType)
    root, kind = field.type.root, to_arrow_type(field.type)
    if root.is_bytes:
        values = (text.as_py() for text in texts)
        return pa.array([each and bytes.fromhex(each[2:]) for each in values], pa.binary())
    if root is TypeRoot.BOOLEAN:
        return pc.equal(texts, "t")
    if root is TypeRoot.TIME:
        moments = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, " ")
        return moments.cast(pa.timestamp("ms")).cast(kind)
    return texts.cast(kind)
