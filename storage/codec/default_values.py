"""The default of a column as a value: schemas hold it as text."""

from __future__ import annotations

import pyarrow as pa

from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.errors import InvalidSchema, UnsupportedError
from lakewright.storage.spec.data_types import STRING, AtomicType, DataField


def default_value(field: DataField, table: str) -> pa.Scalar:
    """The default of a column that has one, in the column's Arrow type.

    Raises:
        UnsupportedError: the text is no value of the type, or the type has parts.
    """
    try:
        return _value_of(field)
    except _NoValue as error:
        raise UnsupportedError(
            f"{table}: {error}; give the column a value in every row",
            table=table,
            column=field.name,
        ) from error


def check_default(field: DataField, table: str) -> None:
    """Check the default that a column is to have.

    Raises:
        InvalidSchema: the text is no value of the type, or the type has parts.
    """
    try:
        _value_of(field)
    except _NoValue as error:
        raise InvalidSchema(
            f"{table}: {error}; choose another default, or none", table=table, column=field.name
        ) from error


def unquoted(text: str) -> str:
    """The text of a default as Paimon reads it, without quotes around it."""
    is_quoted = len(text) > 1 and text.startswith("'") and text.endswith("'")
    return text[1:-1] if is_quoted else text


class _NoValue(ValueError):
    pass


def _value_of(field: DataField) -> pa.Scalar:
    text = unquoted(field.default_value or "")
    try:
        if isinstance(field.type, AtomicType):
            return evolved(pa.array([text], pa.string()), STRING, field.type)[0]
        reason = "defaults of types with parts are not implemented"
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error)
    raise _NoValue(
        f"column {field.name} is {field.type} and has the default {field.default_value!r}: {reason}"
    )
