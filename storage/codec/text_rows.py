"""Rows as text: CSV, lines of JSON, and plain lines, as Paimon's format tables write them.

CSV files have no header unless option `csv.include-header` is set. Null is an empty field in CSV,
and a missing or null member in JSON; a plain line is never null. Times are in ISO form.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.csv as pa_csv

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import array_of
from lakewright.storage.errors import CorruptionError, InvalidRequestError, InvalidRows
from lakewright.storage.spec.data_types import AtomicType, DataField
from lakewright.storage.spec.partition_text import value_text
from lakewright.storage.spec.values import from_python

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
                "one column of type STRING",
                table=table,
            )
    for field in fields:
        if not isinstance(field.type, AtomicType) or field.type.root.is_bytes:
            raise InvalidRequestError(
                f"column {field.name} of {table} is {field.type}, which {format_name} files do "
                "not hold; choose parquet, orc or avro",
                table=table,
                column=field.name,
            )


def _is_text(data_type: object) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root.is_text


def encode_text_rows(
    rows: pa.Table, format_name: str, options: Mapping[str, str], *, table: str
) -> bytes:
    """The bytes of a file with these rows.

    Raises:
        InvalidRows: a line of a text file is null or holds a line break.
    """
    match format_name:
        case "csv":
            return _encode_csv(rows, options)
        case "json":
            lines = (json.dumps(_members(row), ensure_ascii=False) for row in rows.to_pylist())
            return "".join(f"{line}\n" for line in lines).encode()
        case _:
            return _encode_lines(rows.column(0), table)


def _members(row: Mapping[str, object]) -> dict[str, object]:
    plain = (bool, int, float, str)
    return {
        name: value if value is None or isinstance(value, plain) else value_text(value)
        for name, value in row.items()
    }


def _encode_csv(rows: pa.Table, options: Mapping[str, str]) -> bytes:
    sink = io.BytesIO()
    pa_csv.write_csv(
        rows,
        sink,
        pa_csv.WriteOptions(
            include_header=_has_header(options),
            delimiter=options.get("csv.field-delimiter", ","),
        ),
    )
    return sink.getvalue()


def _encode_lines(column: pa.ChunkedArray, table: str) -> bytes:
    lines = column.to_pylist()
    for line in lines:
        if line is None or "\n" in line:
            raise InvalidRows(
                f"a text file of {table} holds one value a line, and a row has {line!r:.100}; "
                "leave such rows out, or choose another format",
                table=table,
            )
    return "".join(f"{line}\n" for line in lines).encode()


def decode_text_rows(
    data: bytes,
    format_name: str,
    fields: Sequence[DataField],
    options: Mapping[str, str],
    *,
    path: str,
) -> pa.Table:
    """The rows of a file, in the columns and types of a table.

    Raises:
        CorruptionError: the file holds something else.
    """
    schema = pa.schema([each.with_nullable(True) for each in to_arrow_schema(fields)])
    if not data.strip(b"\n"):
        return schema.empty_table()
    try:
        match format_name:
            case "csv":
                return _decode_csv(data, schema, options)
            case "json":
                rows = [json.loads(line) for line in data.decode().splitlines() if line.strip()]
                return _table_of([_checked(row) for row in rows], fields, schema)
            case _:
                lines = data.decode().removesuffix("\n").split("\n")
                return pa.table([pa.array(lines, schema.field(0).type)], schema=schema)
    except (pa.ArrowInvalid, ValueError, InvalidRequestError) as error:
        raise CorruptionError(
            f"file {path} is no {format_name} file of the table's columns: {error}", path=path
        ) from error


def _checked(row: object) -> Mapping[str, object]:
    if not isinstance(row, dict):
        raise InvalidRequestError(f"{row!r:.100} is not a JSON object")
    return row


def _table_of(
    rows: Sequence[Mapping[str, object]], fields: Sequence[DataField], schema: pa.Schema
) -> pa.Table:
    columns = [
        array_of([from_python(row.get(field.name), field.type) for row in rows], field.type)
        for field in fields
    ]
    return pa.table(columns, schema=schema)


def _decode_csv(data: bytes, schema: pa.Schema, options: Mapping[str, str]) -> pa.Table:
    header = _has_header(options)
    return pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(column_names=None if header else schema.names),
        pa_csv.ParseOptions(
            delimiter=options.get("csv.field-delimiter", ","), newlines_in_values=True
        ),
        pa_csv.ConvertOptions(
            column_types=schema,
            include_columns=schema.names,
            include_missing_columns=True,
            null_values=[options.get("csv.null-literal", "")],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).cast(schema)


def _has_header(options: Mapping[str, str]) -> bool:
    return options.get("csv.include-header", "false").strip().lower() == "true"
