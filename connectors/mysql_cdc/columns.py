"""Columns of MySQL in declared types: which types fit, and texts of the server as values.

A value is what the server prints in a session in UTC, as text, or the bytes of a binary column.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.server_texts import column_of_texts
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot

# By declared type, the types whose values it holds; a `u` in front is unsigned.
_FITTING = {
    TypeRoot.BOOLEAN: "tinyint utinyint bit",
    TypeRoot.TINYINT: "tinyint",
    TypeRoot.SMALLINT: "tinyint utinyint smallint year",
    TypeRoot.INT: "tinyint utinyint smallint usmallint mediumint umediumint int year",
    TypeRoot.BIGINT: "tinyint utinyint smallint usmallint mediumint umediumint int uint bigint",
    TypeRoot.DECIMAL: "decimal udecimal ubigint",
    TypeRoot.FLOAT: "float ufloat",
    TypeRoot.DOUBLE: "float ufloat double udouble",
    TypeRoot.CHAR: "char varchar text enum set json decimal udecimal date time datetime",
    TypeRoot.BINARY: "binary varbinary blob bit",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "time",
    TypeRoot.TIMESTAMP: "datetime timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp",
}
_FITTING[TypeRoot.VARCHAR] = _FITTING[TypeRoot.CHAR]
_FITTING[TypeRoot.VARBINARY] = _FITTING[TypeRoot.BINARY]
_DIGITS_OF_UBIGINT = 20
CODECS = {
    **dict.fromkeys(("utf8", "utf8mb3", "utf8mb4"), "utf-8"),
    "ascii": "ascii",
    "latin1": "latin-1",
    "latin2": "iso8859-2",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "koi8r": "koi8-r",
    "gbk": "gbk",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
# The client decodes labels by themselves.
_OF_LABELS = ("utf-8", "ascii")


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as the catalog or the log describes it, in the words of `information_schema`.

    `scale` are the digits of a decimal behind its point, or those of a second; `size` is the number
    of bytes of a value, or if it varies that of its length; `length` is that of a `binary`.
    """

    name: str
    kind: str
    is_unsigned: bool = False
    precision: int = 0
    scale: int = 0
    charset: str | None = None
    size: int = 0
    length: int = 0
    # Of an `enum` or `set`; None is a label that the log does not tell.
    labels: tuple[str | None, ...] = ()
    # As statements write it.
    text: str = ""

    @property
    def shown(self) -> str:
        return self.text or f"{self.kind}{' unsigned' * self.is_unsigned}"


@dataclass(frozen=True, slots=True)
class Declared:
    """Where columns are declared, for errors; `zone` is that of a `timestamp` without one."""

    owner: str
    place: str
    zone: str | None


def check_columns(
    fields: Sequence[DataField], columns: Sequence[SourceColumn], declared: Declared
) -> None:
    """Refuse declared columns that the table has not, or has with another type.

    Raises:
        InvalidRequestError: names the column, both types and the way out.
    """
    by_name = {each.name: each for each in columns}
    for field in fields:
        column = by_name.get(field.name)
        problem = "is not there" if column is None else _problem(field, column, declared)
        if problem is not None:
            raise InvalidRequestError(
                f"column {field.name} of {declared.owner} is declared {field.type}, and {problem} "
                f"in {declared.place}; define the external table anew with the columns that it "
                "has, and start the stream again: with the same checkpoint it goes on where it is",
                column=field.name,
            )


def _problem(field: DataField, column: SourceColumn, declared: Declared) -> str | None:
    kind = "u" * column.is_unsigned + column.kind
    root = field.type.root if isinstance(field.type, AtomicType) else None
    if root is None or kind not in _FITTING.get(root, "").split():
        return f"is {column.shown}"
    if column.charset is not None and column.charset not in CODECS:
        return f"is in {column.charset}, which is not read (utf8mb4 is)"
    if column.kind in ("enum", "set") and CODECS[column.charset or "ascii"] not in _OF_LABELS:
        return f"has labels in {column.charset}, which are read in utf8mb4 alone"
    kept = to_arrow_type(field.type)
    if root is TypeRoot.DECIMAL:
        digits = _DIGITS_OF_UBIGINT if kind == "ubigint" else column.precision - column.scale
        is_held = column.scale <= kept.scale and digits <= kept.precision - kept.scale
        return None if is_held else f"is {column.shown}"
    if root is TypeRoot.BOOLEAN and kind == "bit" and column.precision != 1:
        return f"is {column.shown}"
    if root is TypeRoot.TIMESTAMP and kind == "timestamp" and declared.zone is None:
        return "is timestamp, a moment (declare TIMESTAMP_LTZ, or set server-time-zone)"
    if root.is_timestamp or root is TypeRoot.TIME:
        assert isinstance(field.type, AtomicType)
        return None if column.scale <= field.type.precision else f"is {column.shown}"
    return None


def typed_column(
    values: Sequence[str | bytes | None], field: DataField, *, zone: str | None, owner: str
) -> pa.Array:
    """Values of the server as a column; moments as the clock of `zone` showed them, if it is given.

    Raises:
        InvalidRows: a value is not of the declared type, such as the date 0000-00-00.
    """
    return column_of_texts(values, field, lambda each: _typed(each, field, zone), owner)


def _typed(values: Sequence[str | bytes | None], field: DataField, zone: str | None) -> pa.Array:
    assert isinstance(field.type, AtomicType)
    root, kind = field.type.root, to_arrow_type(field.type)
    if root.is_bytes:
        return pa.array(values, pa.binary())
    if root is TypeRoot.BOOLEAN:
        return pa.array([None if v is None else v not in ("0", b"\0") for v in values], pa.bool_())
    texts = pa.array(values, pa.string())
    if root is TypeRoot.TIME:
        moments = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, " ")
        return moments.cast(pa.timestamp("ms")).cast(kind)
    if root is TypeRoot.TIMESTAMP_LTZ:
        return pc.binary_join_element_wise(texts, pa.scalar("Z"), "").cast(kind)
    if zone is not None:
        moments = pc.assume_timezone(texts.cast(kind), "UTC")
        return pc.local_timestamp(moments.cast(pa.timestamp(kind.unit, zone)))
    return texts.cast(kind)


def decoded_text(data: bytes, charset: str) -> str:
    """Bytes of a character set of MySQL as a text."""
    if charset == "latin1":
        # It is cp1252, whose five gaps are control characters.
        return data.decode("latin-1").translate(_CP1252)
    return data.decode(CODECS[charset])


def _cp1252() -> dict[int, str]:
    found = {}
    for byte_value in range(0x80, 0xA0):
        try:
            found[byte_value] = codecs.decode(bytes([byte_value]), "cp1252")
        except UnicodeDecodeError:
            found[byte_value] = chr(byte_value)
    return found


_CP1252 = _cp1252()
