"""Rows of every type are the same after a format wrote and read them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.drawn_rows import drawn_rows
from tests.support.formats import decoding, encoding, fields_of

_ATOMS = {
    "b": "BOOLEAN",
    "i1": "TINYINT",
    "i8": "BIGINT",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "de": "DECIMAL(20, 5)",
    "dn": "DECIMAL(38, 0)",
    "s": "STRING NOT NULL",
    "by": "BYTES",
    "d": "DATE",
    "t": "TIME(3)",
    "t3": "TIMESTAMP(3)",
}
_FINE = {"t6": "TIMESTAMP(6)", "t9": "TIMESTAMP(9)", "z9": "TIMESTAMP_LTZ(9)"}
_NESTED = {
    "a": "ARRAY<INT>",
    "r": "ROW<x INT, y STRING, z TIMESTAMP(3)>",
    "m": "MAP<STRING, DOUBLE>",
    "n": "ARRAY<ROW<x ARRAY<STRING>, y MAP<STRING, DECIMAL(10, 2)>>>",
}
_JSON = {**_ATOMS, **_FINE, **_NESTED}
_READ_BY_ARROW = {k: v for k, v in {**_ATOMS, **_FINE}.items() if k not in ("by", "t")}
_CSV = {**_ATOMS, **_FINE, "a": "ARRAY<INT NOT NULL>", "r": "ROW<x INT, y DATE>"}
_ISO = {"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": "true"}
_HIVE = {
    "field-delimiter": r"\u0001",
    "array-element-delimiter": "\x02",
    "disable-quote-character": "true",
    "escape-character": "\\",
    "null-literal": r"\N",
}

_FOLDER = {"url": "memory://schemas", "subject": "rows"}


@pytest.mark.parametrize(
    ("name", "options", "types"),
    [
        ("json", {}, _JSON),
        ("json", _ISO, _JSON),
        ("json", {}, _READ_BY_ARROW),
        ("csv", {"null-literal": "NULL"}, _CSV),
        ("csv", _HIVE, _CSV),
        ("changelog-csv", {"null-literal": "NULL", "column-delimiter": "\x1f"}, _CSV),
        ("avro", {}, {**_ATOMS, **_NESTED}),
        ("avro-confluent", _FOLDER, {**_ATOMS, **_NESTED}),
        (
            "debezium-avro-confluent",
            {**_FOLDER, "timestamp_mapping.legacy": "false"},
            {**_ATOMS, **_NESTED, "z3": "TIMESTAMP_LTZ(3)"},
        ),
        ("debezium-json", {}, _JSON),
        ("debezium-json", _ISO, {**_READ_BY_ARROW, "r": "ROW<x INT, y TIMESTAMP(3), z DOUBLE>"}),
        ("canal-json", _ISO, _JSON),
        ("maxwell-json", {}, _JSON),
        ("ogg-json", {}, _READ_BY_ARROW),
    ],
)
def test_rows_are_the_same_after_they_were_written_and_read(
    name: str, options: dict[str, str], types: dict[str, str]
) -> None:
    fields = fields_of(**types)
    for seed in range(5):
        rows = drawn_rows(fields, 40, seed)
        messages = encoding(name, options).encoder(fields).encode(rows)
        read = decoding(name, options).decoder(fields).decode(messages)
        if "_rowkind" in read.schema.names:
            assert set(read.column("_rowkind").to_pylist()) == {"+I"}
            read = read.drop_columns(["_rowkind"])
        for column in rows.schema.names:
            assert _plain(read.column(column)) == _plain(rows.column(column)), column


def _plain(array: pa.Array) -> list[object]:
    """Values that compare, with moments in full."""
    if pa.types.is_timestamp(array.type):
        return list(array.cast(pa.int64()).to_pylist())
    return list(array.to_pylist())
