"""The default of a column as a value: schemas hold it as text."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import pyarrow as pa

from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.errors import InvalidSchema, UnsupportedError
from lakewright.storage.spec.data_types import STRING, AtomicType, DataField, TypeRoot

_DIGITS = re.compile(r"\s*[+-]?\d+\s*")
_FRACTION = re.compile(r":\d+[.,](\d+)")


def default_value(field: DataField, table: str) -> pa.Scalar:
    """The default of a column that has one, in the column's Arrow type.

    Raises:
        UnsupportedError: the text is no value of the type, or the type has parts.
    """
    try:
        return _value_of(field)
    except _NoValue as error:
        raise UnsupportedError(
            f"{table}: {error}; give the column a value in every row", column=field.name
        ) from error


def check_default(field: DataField, table: str) -> None:
    """Check the default that a column is to have.

    Raises:
        InvalidSchema: the text is no value of the type, or the type has parts.
    """
    reason = unfit_default(field)
    if reason is not None:
        raise InvalidSchema(
            f"{table}: {reason}; choose another default, or none", column=field.name
        )


def unfit_default(field: DataField) -> str | None:
    """Why a column cannot be given its default; None if it can.

    The format reads digits as days or milliseconds since 1970, and cuts or rounds a text to fit.
    A default that a schema has already is read so; a new one says what it means.
    """
    text = unquoted(field.default_value or "")
    try:
        value = _value_of(field)
        assert isinstance(field.type, AtomicType)
        why = _change(text, field.type, value)
    except _NoValue as error:
        return str(error)
    if why is None:
        return None
    return f"column {field.name} is {field.type} and has the default {field.default_value!r}: {why}"


def _change(text: str, data_type: AtomicType, value: pa.Scalar) -> str | None:
    """How a text differs from the value that the format reads in it; None if it does not."""
    root = data_type.root
    if root.is_timestamp or root in (TypeRoot.DATE, TypeRoot.TIME):
        if _DIGITS.fullmatch(text):
            return "a number is no moment; write such as 2024-01-31 or 13:45:00"
        fraction = _FRACTION.search(text)
        most = 3 if root is TypeRoot.TIME else data_type.precision
        if fraction is not None and len(fraction[1].rstrip("0")) > most:
            return f"the format reads {most} digits of a second in it"
        return None
    held = value.as_py()
    if held is None:
        return "the type does not hold it"
    if root.is_text or root.is_bytes:
        length = len(text) if root.is_text else len(text.encode())
        return f"it is {length} long" if length > data_type.length else None
    if root.is_floating:
        return "it is too large" if math.isinf(held) and "inf" not in text.lower() else None
    if root is TypeRoot.BOOLEAN or Decimal(text) == held:
        return None
    return f"the column would hold {held}"


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
