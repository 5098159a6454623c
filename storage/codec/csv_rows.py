"""Rows as CSV, as Paimon's format tables write it.

A field with a delimiter, a quote, an escape or blanks alone stands in quotes; in quotes, a
backslash stands before quotes and backslashes. Null is the null literal without quotes, by default
an empty field. A file has a header only by option `csv.include-header`.

Source: Paimon `CsvFormatWriter`, `CsvParser`, `CsvOptions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lakewright.storage.codec.arrow_texts import texts_of
from lakewright.storage.errors import InvalidOption

# A block holds whole rows, and Arrow counts its bytes in 32 bits.
_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 20, 2**31 - 1


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The signs of a table's CSV files."""

    delimiter: str
    quote: str
    escape: str
    null: str
    has_header: bool


def csv_dialect(options: Mapping[str, str]) -> CsvDialect:
    """The dialect that a table's options say; some have several names.

    Raises:
        InvalidOption: a sign is none, or means two things.
    """
    found = CsvDialect(
        delimiter=_option(options, ",", "csv.field-delimiter", "field-delimiter", "delimiter"),
        quote=_option(options, '"', "csv.quote-character", "quote"),
        escape=_option(options, "\\", "csv.escape-character", "escape"),
        null=_option(options, "", "csv.null-literal", "nullvalue"),
        has_header=_option(options, "false", "csv.include-header", "header").lower() == "true",
    )
    signs = {
        "csv.field-delimiter": found.delimiter,
        "csv.quote-character": found.quote,
        "csv.escape-character": found.escape,
    }
    for name, sign in signs.items():
        if len(sign.encode()) != 1 or sign in "\0\r\n" or list(signs.values()).count(sign) > 1:
            raise InvalidOption(
                f"option {name} is {sign!r}; delimiter, quote and escape of CSV files are three "
                "different ASCII characters, and none of them ends a line",
                option=name,
            )
    if any(sign in found.null for sign in (*signs.values(), "\r", "\n")):
        raise InvalidOption(
            f"option csv.null-literal is {found.null!r}, which holds a sign of the files; write "
            "letters, such as NULL",
            option="csv.null-literal",
        )
    return found


def _option(options: Mapping[str, str], default: str, *names: str) -> str:
    return next((options[name] for name in names if name in options), default)


def encode_csv(rows: pa.Table, dialect: CsvDialect) -> bytes:
    """The bytes of a file with these rows; no text holds the end of a line."""
    # pyarrow's own writer knows one null, and puts uninitialized bytes before rows whose first
    # chunk is empty.
    fields = [_quoted(texts_of(column), dialect) for column in rows.columns]
    lines = pc.binary_join_element_wise(
        *fields, _text(dialect.delimiter), null_handling="replace", null_replacement=dialect.null
    )
    written = lines.to_pylist()
    if dialect.has_header:
        names = _quoted(pa.chunked_array([rows.column_names], pa.large_string()), dialect)
        written.insert(0, dialect.delimiter.join(names.to_pylist()))
    return "".join(f"{line}\n" for line in written).encode()


def _quoted(texts: pa.ChunkedArray, dialect: CsvDialect) -> pa.ChunkedArray:
    signs = re.escape(dialect.delimiter + dialect.quote + dialect.escape)
    # A line of blanks alone is a row of nulls to readers.
    needs_quotes = pc.or_(
        pc.match_substring_regex(texts, rf"[{signs}]|^\s*$"), pc.equal(texts, dialect.null)
    )
    inside = texts
    for sign in (dialect.escape, dialect.quote):
        inside = pc.replace_substring(inside, sign, f"{dialect.escape}{sign}")
    quoted = pc.binary_join_element_wise(
        _text(dialect.quote), inside, _text(dialect.quote), _text("")
    )
    return pc.if_else(needs_quotes, quoted, texts)


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def decode_csv(data: bytes, schema: pa.Schema, dialect: CsvDialect) -> pa.Table:
    """The rows of a file, in the columns of a schema.

    Raises:
        pa.ArrowInvalid: the file holds something else.
    """
    if not data.strip(b"\r\n") and len(schema) != 1:
        return schema.empty_table()
    block = min(max(len(data) + 1, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    read = pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(
            column_names=None if dialect.has_header else schema.names, block_size=block
        ),
        pa_csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote,
            escape_char=dialect.escape,
            newlines_in_values=True,
            # In a file of one column, an empty line is a row with null.
            ignore_empty_lines=len(schema) != 1,
        ),
        pa_csv.ConvertOptions(
            column_types=schema,
            include_columns=schema.names,
            include_missing_columns=True,
            null_values=[dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return read.cast(schema)
