"""Rows as CSV, as Paimon's format tables write it.

A field with a delimiter, a quote, an escape or blanks alone stands in quotes; in quotes, a
backslash stands before quotes and backslashes. Null is the null literal without quotes, by default
an empty field. A file has a header only by option `csv.include-header`.

Source: Paimon `CsvFormatWriter`, `CsvParser`, `CsvOptions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_texts import texts_of
from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.csv_dialect import CsvDialect


def csv_dialect(options: Mapping[str, str]) -> CsvDialect:
    """The dialect that a table's options say; some have several names.

    Raises:
        InvalidOption: a sign is none, or means two things.
    """
    dialect = CsvDialect(
        delimiter=_option(options, ",", "csv.field-delimiter", "field-delimiter", "delimiter"),
        quote=_option(options, '"', "csv.quote-character", "quote"),
        escape=_option(options, "\\", "csv.escape-character", "escape"),
        nulls=(_option(options, "", "csv.null-literal", "nullvalue"),),
        escapes_all=True,
        header=_option(options, "false", "csv.include-header", "header").lower() == "true",
    )
    signs = {
        "csv.field-delimiter": dialect.delimiter,
        "csv.quote-character": dialect.quote,
        "csv.escape-character": dialect.escape,
    }
    for name, sign in signs.items():
        if len(sign.encode()) != 1 or sign in "\0\r\n" or list(signs.values()).count(sign) > 1:
            raise InvalidOption(
                f"option {name} is {sign!r}; delimiter, quote and escape of CSV files are three "
                "different ASCII characters, and none of them ends a line",
                option=name,
            )
    (null,) = dialect.nulls
    if any(sign in null for sign in (*signs.values(), "\r", "\n")):
        raise InvalidOption(
            f"option csv.null-literal is {null!r}, which holds a sign of the files; write "
            "letters, such as NULL",
            option="csv.null-literal",
        )
    return dialect


def _option(options: Mapping[str, str], default: str, *names: str) -> str:
    return next((options[name] for name in names if name in options), default)


def encode_csv(rows: pa.Table, dialect: CsvDialect) -> bytes:
    """The bytes of a file with these rows; no text holds the end of a line."""
    # pyarrow's own writer knows one null, and puts uninitialized bytes before rows whose first
    # chunk is empty.
    (null,) = dialect.nulls
    fields = [_quoted(texts_of(column), dialect) for column in rows.columns]
    lines = pc.binary_join_element_wise(
        *fields, _text(dialect.delimiter), null_handling="replace", null_replacement=null
    )
    written = lines.to_pylist()
    if dialect.header:
        names = _quoted(pa.chunked_array([rows.column_names], pa.large_string()), dialect)
        written.insert(0, dialect.delimiter.join(names.to_pylist()))
    return "".join(f"{line}\n" for line in written).encode()


def _quoted(texts: pa.ChunkedArray, dialect: CsvDialect) -> pa.ChunkedArray:
    signs = re.escape(dialect.delimiter + dialect.quote + dialect.escape)
    # A line of blanks alone is a row of nulls to readers.
    needs_quotes = pc.or_(
        pc.match_substring_regex(texts, rf"[{signs}]|^\s*$"),
        pc.is_in(texts, pa.array(dialect.nulls, texts.type)),
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
