"""Rows of the binary log as the values that the server prints: texts, or bytes."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from lakewright.connectors.mysql_cdc.columns import SourceColumn, decoded_text

Value = str | bytes | None
Values = list[Value]

_EPOCH = dt.datetime(1970, 1, 1)
# Bytes of the digits of a decimal that do not fill a group of nine.
_BYTES_OF_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_GROUP = 9


def decimal_size(precision: int, scale: int) -> int:
    """The bytes of a decimal in the log."""
    whole = precision - scale
    return sum(
        digits // _GROUP * 4 + _BYTES_OF_DIGITS[digits % _GROUP] for digits in (whole, scale)
    )


class RowReader:
    """Reads rows of some columns, of which the wanted ones are decoded."""

    def __init__(self, columns: Sequence[SourceColumn], wanted: Sequence[int]) -> None:
        self._columns = columns
        self._wanted = wanted
        self._decoders = {at: _decoder(columns[at]) for at in wanted}

    def read(self, data: bytes, at: int) -> tuple[Values, int]:
        """The wanted values of the row that begins at a place, in their order, and where it ends.

        Every column is in the log (`binlog_row_image` is FULL).
        """
        nulls = data[at : at + (len(self._columns) + 7) // 8]
        at += len(nulls)
        found: dict[int, Value] = {}
        for number, column in enumerate(self._columns):
            if nulls[number >> 3] >> (number & 7) & 1:
                continue
            size = column.size
            if _varies(column):
                size, at = int.from_bytes(data[at : at + size], "little"), at + size
            decode = self._decoders.get(number)
            if decode is not None:
                found[number] = decode(data[at : at + size])
            at += size
        if at > len(data):
            raise ValueError(f"it ends {at - len(data)} bytes before its last column does")
        return [found.get(each) for each in self._wanted], at


def _varies(column: SourceColumn) -> bool:
    return column.kind in _VARYING


_VARYING = frozenset(("char", "varchar", "text", "binary", "varbinary", "blob", "json", "geometry"))


def _decoder(column: SourceColumn) -> Callable[[bytes], Value]:
    if column.charset is not None and column.kind in _VARYING:
        charset = column.charset
        return lambda data: decoded_text(data, charset)
    match column.kind:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint":
            is_signed = not column.is_unsigned
            return lambda data: str(int.from_bytes(data, "little", signed=is_signed))
        case "float" | "double":
            form = struct.Struct("<f" if column.kind == "float" else "<d")
            return lambda data: repr(form.unpack(data)[0])
        case "decimal":
            return lambda data: _decimal(data, column.precision, column.scale)
        case "date":
            return _date
        case "datetime":
            return lambda data: _datetime(data, column.scale)
        case "timestamp":
            return lambda data: _timestamp(data, column.scale)
        case "time":
            return lambda data: _time(data, column.scale)
        case "year":
            return lambda data: str(data[0] and 1900 + data[0])
        case "enum":
            labels = ("", *column.labels)
            return lambda data: _label(column, labels[int.from_bytes(data, "little")])
        case "set":
            return lambda data: _set(column, int.from_bytes(data, "little"))
        case "json":
            return _json
        case "binary":
            return lambda data: data.ljust(column.length, b"\0")
        case _:
            return bytes


def _decimal(data: bytes, precision: int, scale: int) -> str:
    is_negative = not data[0] & 0x80
    digits = bytes((data[0] ^ 0x80, *data[1:]))
    if is_negative:
        digits = bytes(digit ^ 0xFF for digit in digits)
    whole, at = "", 0
    lead, groups = (precision - scale) % _GROUP, (precision - scale) // _GROUP
    tail = scale % _GROUP
    parts = [(lead, _BYTES_OF_DIGITS[lead])] + [(_GROUP, 4)] * (groups + scale // _GROUP)
    for count, size in (*parts, (tail, _BYTES_OF_DIGITS[tail])):
        if size:
            whole += f"{int.from_bytes(digits[at : at + size], 'big'):0{count}}"
            at += size
    front = whole[: precision - scale].lstrip("0") or "0"
    return f"{'-' * is_negative}{front}{'.' * bool(scale)}{whole[precision - scale :]}"


def _date(data: bytes) -> str:
    number = int.from_bytes(data, "little")
    return f"{number >> 9:04}-{number >> 5 & 15:02}-{number & 31:02}"


def _datetime(data: bytes, scale: int) -> str:
    number = int.from_bytes(data[:5], "big") - (1 << 39)
    day, second = number >> 17, number & 0x1FFFF
    months = day >> 5
    clock = f"{second >> 12:02}:{second >> 6 & 63:02}:{second & 63:02}"
    return f"{months // 13:04}-{months % 13:02}-{day & 31:02} {clock}{_fraction(data[5:], scale)}"


def _timestamp(data: bytes, scale: int) -> str:
    seconds, fraction = int.from_bytes(data[:4], "big"), _fraction(data[4:], scale)
    moment = str(_EPOCH + dt.timedelta(seconds=seconds)) if seconds else "0000-00-00 00:00:00"
    return moment + fraction


def _time(data: bytes, scale: int) -> str:
    bits = 8 * (len(data) - 3)
    number = int.from_bytes(data, "big") - (0x800000 << bits)
    whole, sign = abs(number), "-" * (number < 0)
    second = whole >> bits
    fraction = (whole & (1 << bits) - 1).to_bytes(bits // 8, "big")
    clock = f"{second >> 12:02}:{second >> 6 & 63:02}:{second & 63:02}"
    return f"{sign}{clock}{_fraction(fraction, scale)}"


def _fraction(data: bytes, scale: int) -> str:
    if not scale:
        return ""
    return f".{int.from_bytes(data, 'big'):0{2 * len(data)}}"[: scale + 1]


def _label(column: SourceColumn, label: str | None) -> str:
    if label is None:
        raise ValueError(
            f"a label of {column.kind} {column.name} is empty or not in UTF-8, and the column has "
            "other labels by now; declare the table without it"
        )
    return label


def _set(column: SourceColumn, bits: int) -> str:
    text = ""
    for at, label in enumerate(column.labels):
        if bits >> at & 1:
            # The server writes no comma behind an empty text.
            text += f"{',' * bool(text)}{_label(column, label)}"
    return text


def _json(data: bytes) -> str:
    if not data:
        return "null"
    parse = import_module("pymysqlreplication.json_binary").parse_json
    return json.dumps(_plain(parse(data[0], data[1:])), ensure_ascii=False)


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode()
        case dict():
            return {_plain(name): _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
