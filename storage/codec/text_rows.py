"""Rows as text: CSV, lines of JSON, and plain lines, as Paimon's format tables write them.

Null is a missing or null member in JSON; a plain line is never null. Times are in ISO form. Readers
of the format end a line at a line feed, a carriage return, or both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_texts import texts_of
from lakewright.storage.codec.csv_encoding import csv_dialect, encode_csv
from lakewright.storage.errors import (
    InvalidOption,
    InvalidRequestError,
    InvalidRows,
)
from lakewright.storage.spec.data_types import AtomicType, DataField

CSV = "csv"
JSON = "json"
TEXT = "text"
TEXT_FORMATS = (CSV, JSON, TEXT)


def check_text_columns(format_name: str, fields: Sequence[DataField], *, table: str) -> None:
    """Refuse columns that files of a text format cannot hold.

    Raises:
        InvalidRequestError: names the column and why.
    """
    if format_name == TEXT:
        types = [field.type for field in fields]
        if len(types) != 1 or not _is_text(types[0]):
            names = ", ".join(f"{field.name} {field.type}" for field in fields)
            raise InvalidRequestError(
                f"{table} has the columns {names} beside its partition keys, and text files hold "
                "one column of type STRING"
            )
    for field in fields:
        if not isinstance(field.type, AtomicType) or field.type.root.is_bytes:
            raise InvalidRequestError(
                f"column {field.name} of {table} is {field.type}, which {format_name} files do "
                "not hold; choose parquet, orc or avro",
                column=field.name,
            )


def check_text_options(format_name: str, options: Mapping[str, str]) -> None:
    """Refuse options that would make other files than are written and read here.

    Raises:
        InvalidOption: names the option.
    """
    for name in (f"{format_name}.line-delimiter", "lineSep"):
        if options.get(name, "\n") != "\n":
            raise InvalidOption(
                f"option {name} is {options[name]!r}; lines end at a line feed here: leave the "
                "option out",
                option=name,
            )
    if format_name == CSV:
        csv_dialect(options)


def _is_text(data_type: object) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root.is_text


def encode_text_rows(
    rows: pa.Table, format_name: str, options: Mapping[str, str], *, table: str
) -> bytes:
    """The bytes of a file with these rows.

    Raises:
        InvalidRows: a text has a line break, which CSV and plain lines do not hold; a plain line is
            null; or a column holds instants, which Java's readers take for times of their zone.
    """
    check_text_options(format_name, options)
    for field in rows.schema:
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            raise InvalidRows(
                f"column {field.name} of {table} holds moments, and {format_name} files hold "
                "times without a zone, which each reader takes for its own; make the column a "
                "TIMESTAMP, or the table one of parquet, orc or avro",
                column=field.name,
            )
    if format_name == JSON:
        return _encode_json(rows)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        _check_lines(column, name, format_name, table)
    if format_name == CSV:
        return encode_csv(rows, csv_dialect(options))
    return "".join(f"{line}\n" for line in rows.column(0).to_pylist()).encode()


def _check_lines(column: pa.ChunkedArray, name: str, format_name: str, table: str) -> None:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return
    wrong = pc.match_substring_regex(column, r"[\r\n]")
    if format_name == TEXT:
        wrong = pc.fill_null(wrong, True)
    found = column.filter(wrong)
    if len(found):
        raise InvalidRows(
            f"a {format_name} file of {table} holds one row a line, and column {name} of a row is "
            f"{found[0].as_py()!r:.100}; leave such rows out, or choose another format: json keeps "
            "line breaks and nulls",
            column=name,
        )


def _encode_json(rows: pa.Table) -> bytes:
    columns = [_members(column) for column in rows.columns]
    lines = (
        json.dumps(dict(zip(rows.column_names, row, strict=True)), ensure_ascii=False)
        for row in zip(*columns, strict=True)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _members(column: pa.ChunkedArray) -> list[object]:
    found: list[object] = column.to_pylist() if _is_plain(column.type) else []
    if not found:
        return list(texts_of(column).to_pylist())
    if not pa.types.is_floating(column.type):
        return found
    # JSON has no numbers that are not finite; readers take their texts.
    texts = texts_of(column).to_pylist()
    is_number = pc.fill_null(pc.is_finite(column), True).to_pylist()
    return [a if ok else b for a, b, ok in zip(found, texts, is_number, strict=True)]


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    )
