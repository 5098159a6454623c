"""Formats beside Flink's own: the same rows of the same bytes, and bytes that Flink reads."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from fastavro.schema import to_parsing_canonical_form

from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import DataField
from tests.flink.flink_formats import FlinkFormats, Row, rows_of
from tests.support.drawn_rows import drawn_rows
from tests.support.formats import decoding, encoding, fields_of
from tests.support.schema_registry import schema_registry

_ATOMS = {
    "b": "BOOLEAN",
    "i1": "TINYINT",
    "i2": "SMALLINT",
    "i4": "INT",
    "i8": "BIGINT",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "de": "DECIMAL(20, 5)",
    "dn": "DECIMAL(38, 0)",
    "s": "STRING",
    "v": "VARCHAR(20)",
    "by": "BYTES",
    "d": "DATE",
    "t": "TIME(0)",
    "t3": "TIMESTAMP(3)",
}
_FINE = {"t6": "TIMESTAMP(6)", "t9": "TIMESTAMP(9)", "z6": "TIMESTAMP_LTZ(6)"}
_NESTED = {
    "a": "ARRAY<INT>",
    "r": "ROW<x INT, y STRING>",
    "m": "MAP<STRING, DOUBLE>",
    "n": "ARRAY<ROW<x ARRAY<STRING>, y MAP<STRING, DECIMAL(10, 2)>>>",
}
_JSON = {**_ATOMS, **_FINE, **_NESTED}
# Flink reads null in these columns of a CSV as something else.
_CSV = {**_ATOMS, **_FINE, "a": "ARRAY<INT NOT NULL> NOT NULL", "r": "ROW<x INT, y DATE> NOT NULL"}
_OTHER_CSV = {
    "field-delimiter": "|",
    "quote-character": "'",
    "escape-character": "\\",
    "array-element-delimiter": "~",
    "null-literal": "n/a",
    "write-bigdecimal-in-scientific-notation": "false",
}
_OTHER_JSON = {
    "timestamp-format.standard": "ISO-8601",
    "encode.decimal-as-plain-number": "true",
    "encode.ignore-null-fields": "true",
}
_EXCHANGED = [
    pytest.param("json", {}, _JSON, id="json"),
    pytest.param("json", _OTHER_JSON, _JSON, id="json-other"),
    pytest.param("csv", {"null-literal": "NULL"}, _CSV, id="csv"),
    pytest.param("csv", _OTHER_CSV, _CSV, id="csv-other"),
    pytest.param("avro", {}, {**_ATOMS, **_NESTED}, id="avro"),
    pytest.param(
        "avro",
        {"timestamp_mapping.legacy": "false"},
        {**_ATOMS, **_NESTED, "z3": "TIMESTAMP_LTZ(3)"},
        id="avro-not-legacy",
    ),
    pytest.param("debezium-json", {}, _JSON, id="debezium"),
    pytest.param("canal-json", {}, _JSON, id="canal"),
    pytest.param("maxwell-json", {}, _JSON, id="maxwell"),
    pytest.param("ogg-json", _OTHER_JSON, _JSON, id="ogg"),
    *(
        pytest.param("raw", {"endianness": endianness}, {"v": kind}, id=f"raw-{kind}-{endianness}")
        for kind in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
        for endianness in ("big-endian", "little-endian")
    ),
    pytest.param("raw", {}, {"v": "BYTES"}, id="raw-BYTES"),
    pytest.param("raw", {"charset": "UTF-16BE"}, {"v": "STRING"}, id="raw-STRING"),
]


@pytest.mark.mission("CN35", "CN42")
@pytest.mark.parametrize(("name", "options", "types"), _EXCHANGED)
def test_flink_reads_the_rows_that_we_wrote_and_we_those_of_flink(
    flink: FlinkFormats, name: str, options: dict[str, str], types: dict[str, str]
) -> None:
    fields = fields_of(**types)
    for seed in range(3):
        batch = drawn_rows(fields, 100, seed)
        rows = rows_of(batch, fields)
        ours = encoding(name, options).encoder(fields).encode(batch)
        theirs = flink.encode(name, options, fields, rows)
        assert flink.decode(name, options, fields, ours) == [[each] for each in rows]
        read = decoding(name, options).decoder(fields).decode(theirs)
        assert rows_of(read, fields) == rows


@pytest.mark.parametrize("name", ["avro-confluent", "debezium-avro-confluent"])
def test_flink_and_we_share_a_schema_registry(flink: FlinkFormats, name: str) -> None:
    fields = fields_of(**_ATOMS, **_NESTED)
    with schema_registry() as registry:
        options = {"url": registry.url, "subject": "rows-value"}
        for seed in range(3):
            batch = drawn_rows(fields, 100, seed)
            rows = rows_of(batch, fields)
            ours = encoding(name, options).encoder(fields).encode(batch)
            theirs = flink.encode(name, options, fields, rows)
            assert flink.decode(name, options, fields, ours) == [[each] for each in rows]
            read = decoding(name, options).decoder(fields).decode(theirs)
            assert rows_of(read, fields) == rows
        # The same schemas, but for their spelling; Flink lets an event be null.
        schemas = [json.loads(each["schema"]) for each in registry.schemas]
        records = [each[1] if isinstance(each, list) else each for each in schemas]
        assert len({to_parsing_canonical_form(each) for each in records}) == 1


_ROW = {"id": "INT", "n": "STRING"}
_EVENTS = {
    "debezium-json": [
        None,
        b"",
        b'{"before":null,"after":{"id":1,"n":"a"},"op":"c"}',
        b'{"after":{"id":1,"n":"a"},"op":"r","source":{"x":[1]},"ts_ms":1}',
        b'{"before":{"id":1,"n":"a"},"after":{"id":1,"n":"b"},"op":"u"}',
        b'{"before":null,"after":{"id":1,"n":"b"},"op":"u"}',
        b'{"before":{"id":1},"op":"d"}',
        b'{"before":null,"op":"d"}',
        b'{"op":"t"}',
        b'{"after":{"id":"x"},"op":"c"}',
        b'{"after":null,"op":"c"}',
        b'{"after":[],"op":"c"}',
        b'{"payload":{"after":{"id":1},"op":"c"},"schema":{}}',
        b"{}",
        b"x",
    ],
    "canal-json": [
        None,
        b'{"data":[{"id":"1","n":"a"},{"id":"2"}],"type":"INSERT"}',
        b'{"data":[{"id":"1","n":"a"}],"old":[{"n":"z"}],"type":"UPDATE"}',
        b'{"data":[{"id":"1","n":"a"}],"old":[{"n":null}],"type":"UPDATE"}',
        b'{"data":[{"id":"1"}],"type":"DELETE","database":"d"}',
        b'{"data":null,"type":"CREATE"}',
        b'{"data":null,"type":"ALTER"}',
        b'{"data":null,"type":"INSERT"}',
        b'{"data":[],"type":"INSERT"}',
        b'{"data":{"id":1},"type":"INSERT"}',
        b"{}",
    ],
    "maxwell-json": [
        None,
        b'{"data":{"id":1,"n":"a"},"type":"insert"}',
        b'{"data":{"id":1,"n":"a"},"old":{"n":"z"},"type":"update"}',
        b'{"data":{"id":1,"n":"a"},"old":{"n":null},"type":"update"}',
        b'{"data":{"id":1,"n":"a"},"type":"update"}',
        b'{"data":{"id":1},"type":"delete"}',
        b'{"data":{},"type":"bootstrap-start"}',
        b"{}",
    ],
    "ogg-json": [
        None,
        b'{"after":{"id":1},"op_type":"I"}',
        b'{"before":{"id":1},"after":{"id":2},"op_type":"U"}',
        b'{"after":{"id":2},"op_type":"U"}',
        b'{"before":{"id":1},"op_type":"D"}',
        b'{"op_type":"D"}',
        b'{"op_type":"T"}',
        b"{}",
    ],
}


@pytest.mark.parametrize("ignored", ["false", "true"])
@pytest.mark.parametrize("name", _EVENTS)
def test_an_event_gives_the_rows_that_it_gives_in_flink(
    flink: FlinkFormats, name: str, ignored: str
) -> None:
    fields = fields_of(**_ROW)
    options = {"ignore-parse-errors": ignored}
    answers = flink.decode(name, options, fields, _EVENTS[name])
    for message, theirs in zip(_EVENTS[name], answers, strict=True):
        ours = _ours(name, options, fields, message)
        assert ours == (None if isinstance(theirs, str) else theirs), message


def test_canal_s_filters_are_those_of_flink(flink: FlinkFormats) -> None:
    fields = fields_of(**_ROW)
    options = {"database.include": "d.*", "table.include": "t|u"}
    messages = [
        b'{"data":[{"id":1}],"type":"DELETE","database":"%s","table":"%s"}' % each
        for each in ((b"d", b"t"), (b"dx", b"u"), (b"xd", b"t"), (b"d", b"tt"))
    ]
    for message, theirs in zip(
        messages, flink.decode("canal-json", options, fields, messages), strict=True
    ):
        assert _ours("canal-json", options, fields, message) == theirs


_WITH_METADATA = {
    "debezium-json": [
        (
            b'{"op":"u","before":{"id":1},"after":{"id":2},"ts_ms":1000,"source":{"db":"d","schema":"s",'
            b'"table":"t","ts_ms":2000,"snapshot":true,"lsn":null,"name":"n"}}'
        ),
        b'{"op":"c","after":{"id":1}}',
    ],
    "canal-json": [
        (
            b'{"type":"INSERT","data":[{"id":1},{"id":2}],"database":"d","table":"t","es":2000,'
            b'"sqlType":{"id":4,"n":12},"pkNames":["id"],"ts":1000}'
        ),
        b'{"type":"INSERT","data":[{"id":1}]}',
    ],
    "maxwell-json": [
        (
            b'{"type":"insert","data":{"id":1},"database":"d","table":"t","ts":10,'
            b'"primary_key_columns":["id"]}'
        ),
        b'{"type":"insert","data":{"id":1}}',
    ],
    "ogg-json": [
        (
            b'{"op_type":"I","after":{"id":1},"table":"S.T","primary_keys":["id"],'
            b'"op_ts":"2020-05-13 15:40:06.001000","current_ts":"2020-05-13 15:40:07.000000"}'
        ),
        b'{"op_type":"I","after":{"id":1}}',
    ],
}


@pytest.mark.parametrize("name", _WITH_METADATA)
def test_metadata_of_an_event_are_those_of_flink(flink: FlinkFormats, name: str) -> None:
    found = decoding(name)
    physical = fields_of(**_ROW)
    types = found.readable_metadata()
    metadata = [DataField(-1, key, kind) for key, kind in types.items()]
    answers = flink.decode(name, {}, physical, _WITH_METADATA[name], metadata)
    ours = [*physical, *(DataField(-1, f"metadata.{key}", types[key]) for key in types)]
    for message, theirs in zip(_WITH_METADATA[name], answers, strict=True):
        assert rows_of(found.decoder(ours).decode([message]), ours) == theirs


# What Flink makes of a message, and why we do otherwise.
_DIFFERENT = [
    ("json", "INT", b'{"v":1.5}', [1], None, "Flink cuts off the fraction"),
    ("json", "DECIMAL(5, 2)", b'{"v":1.235}', ["1.24"], None, "Flink rounds"),
    ("json", "DECIMAL(5, 2)", b'{"v":1000}', [None], None, "Flink reads too many digits as null"),
    ("json", "DOUBLE", b'{"v":1e400}', ["inf"], None, "Flink reads a large number as infinite"),
    ("json", "BOOLEAN", b'{"v":"yes"}', [False], None, "Flink reads any other text as false"),
    ("json", "TIME(3)", b'{"v":"10:00:00.5"}', [36_000_000], [36_000_500], "Flink keeps seconds"),
    ("json", "STRING", b'{"v":[1.50]}', ["[1.5]"], ["[1.50]"], "we keep the digits"),
    ("json", "INT", b'{"v":1}{"v":2}', [1], None, "Flink reads the first value of a message"),
    ("csv", "DECIMAL(5, 2)", b"1000", [None], None, "as in JSON"),
    ("csv", "BOOLEAN", b"1", [False], None, "as in JSON"),
    ("csv", "STRING", b"a\nb", ["a"], None, "Flink reads the first line of a message"),
    ("raw", "STRING", b"a\xff", ["a\ufffd"], None, "Flink replaces bytes that are no text"),
    ("avro", "INT", b"\x02\x04\x05", [2], None, "Flink passes over what follows a record"),
]


@pytest.mark.parametrize(("name", "kind", "message", "theirs", "ours", "why"), _DIFFERENT)
def test_where_flink_guesses_we_do_not(
    flink: FlinkFormats,
    name: str,
    kind: str,
    message: bytes,
    theirs: list[object],
    ours: list[object] | None,
    why: str,
) -> None:
    fields = fields_of(v=kind)
    assert flink.decode(name, {}, fields, [message]) == [[("+I", theirs)]], why
    assert _ours(name, {}, fields, message) == (None if ours is None else [("+I", ours)])


def test_an_update_of_several_rows_in_canal_keeps_the_rows_apart(flink: FlinkFormats) -> None:
    fields = fields_of(**_ROW)
    message = (
        b'{"data":[{"id":1,"n":"a"},{"id":2,"n":"b"}],"old":[{"n":null},{"id":5}],"type":"UPDATE"}'
    )
    theirs = flink.decode("canal-json", {}, fields, [message])[0]
    # Flink asks of the whole event whether a column changed.
    assert theirs[0] == ("-U", [None, None])
    ours = _ours("canal-json", {}, fields, message)
    assert ours == [("-U", [1, None]), ("+U", [1, "a"]), ("-U", [5, "b"]), ("+U", [2, "b"])]


def _ours(
    name: str, options: dict[str, str], fields: Sequence[DataField], message: bytes | None
) -> list[Row] | None:
    try:
        return rows_of(decoding(name, options).decoder(fields).decode([message]), fields)
    except InvalidRows:
        return None
