"""The formats of change events over JSON."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import pickle
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.storage.errors import InvalidOption, InvalidRows
from tests.support.formats import decoding, encoding, fields_of

_ROW = {"id": "INT NOT NULL", "n": "STRING"}
_NAMES = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")


def _rows(
    name: str, message: bytes, options: dict[str, str] | None = None
) -> list[tuple[Any, ...]]:
    rows = decoding(name, options).decoder(fields_of(**_ROW)).decode([message])
    return [(row["_rowkind"], row["id"], row["n"]) for row in rows.to_pylist()]


@pytest.mark.mission("CN35", "CN45")
@pytest.mark.parametrize(
    ("name", "message", "rows"),
    [
        ("debezium-json", b'{"op":"c","after":{"id":1,"n":"a"}}', [("+I", 1, "a")]),
        ("debezium-json", b'{"op":"r","after":{"id":1,"n":"a"}}', [("+I", 1, "a")]),
        (
            "debezium-json",
            b'{"op":"u","before":{"id":1,"n":"a"},"after":{"id":1,"n":"b"}}',
            [("-U", 1, "a"), ("+U", 1, "b")],
        ),
        ("debezium-json", b'{"op":"d","before":{"id":1}}', [("-D", 1, None)]),
        (
            "canal-json",
            b'{"type":"INSERT","data":[{"id":"1","n":"a"},{"id":"2","n":"b"}]}',
            [("+I", 1, "a"), ("+I", 2, "b")],
        ),
        (
            "canal-json",
            b'{"type":"UPDATE","data":[{"id":"1","n":"a"}],"old":[{"n":null}]}',
            [("-U", 1, None), ("+U", 1, "a")],
        ),
        ("canal-json", b'{"type":"CREATE","data":null}', []),
        (
            "maxwell-json",
            b'{"type":"update","data":{"id":1,"n":"b"},"old":{"n":"a"}}',
            [("-U", 1, "a"), ("+U", 1, "b")],
        ),
        ("maxwell-json", b'{"type":"delete","data":{"id":1,"n":"b"}}', [("-D", 1, "b")]),
        (
            "ogg-json",
            b'{"op_type":"U","before":{"id":1,"n":"a"},"after":{"id":2,"n":"a"}}',
            [("-U", 1, "a"), ("+U", 2, "a")],
        ),
    ],
)
def test_an_event_gives_rows_with_their_kinds(
    name: str, message: bytes, rows: list[tuple[Any, ...]]
) -> None:
    assert _rows(name, message) == rows


@pytest.mark.parametrize("name", _NAMES)
def test_what_is_encoded_is_decoded_as_comings_and_goings(name: str) -> None:
    fields = fields_of(**_ROW)
    update = b'{"op":"u","before":{"id":1,"n":"{"},"after":{"id":1,"n":"}"}}'
    rows = decoding("debezium-json").decoder(fields).decode([update])
    messages = pickle.loads(pickle.dumps(encoding(name).encoder(fields))).encode(rows)
    read = pickle.loads(pickle.dumps(decoding(name).decoder(fields))).decode(messages)
    assert [tuple(each.values()) for each in read.to_pylist()] == [(1, "{", "-D"), (1, "}", "+I")]


@pytest.mark.parametrize(
    ("name", "message", "said"),
    [
        ("debezium-json", b'{"op":"u","after":{"id":1}}', "'updates' = 'upsert'"),
        ("debezium-json", b'{"op":"d"}', "set REPLICA IDENTITY FULL"),
        ("debezium-json", b'{"op":"t"}', "op is 't'; the format has c, r, u and d"),
        ("debezium-json", b'{"schema":{},"payload":{}}', "set 'schema-include' = 'true'"),
        ("debezium-json", b'{"op":"c","after":{"n":"x"}}', "column id is NOT NULL, and null"),
        ("canal-json", b'{"type":"ALTER"}', "type is 'ALTER'"),
        ("canal-json", b'{"type":"INSERT","data":null}', "data is no array of rows: None"),
        ("canal-json", b'{"type":"UPDATE","data":[{"id":1}],"old":[]}', "1 rows, and old 0"),
        ("maxwell-json", b'{"type":"update","data":{"id":1}}', "old is null or missing"),
        ("ogg-json", b'{"op_type":"U","after":{"id":1}}', "set REPLICA IDENTITY FULL"),
    ],
)
def test_an_event_of_another_form_is_refused(name: str, message: bytes, said: str) -> None:
    with pytest.raises(InvalidRows) as refused:
        _rows(name, message)
    assert refused.value.message.startswith(f"{name}: message 1 of 1: ")
    assert said in refused.value.message


def test_what_a_row_was_may_be_its_key_alone() -> None:
    fields = fields_of(id="INT NOT NULL", n="STRING NOT NULL")
    event = b'{"op":"u","before":{"id":1},"after":{"id":2,"n":"b"}}'
    rows = decoding("debezium-json").decoder(fields).decode([event])
    assert rows.column("n").to_pylist() == [None, "b"]


def test_a_database_that_logs_no_former_rows_gives_upserts() -> None:
    options = {"updates": "upsert"}
    assert decoding("debezium-json", options).changelog_mode() == ChangelogMode.upsert()
    assert _rows("debezium-json", b'{"op":"u","after":{"id":1,"n":"b"}}', options) == [
        ("+U", 1, "b")
    ]


_MARK = "__debezium_unavailable_value"
_BASE64 = base64.b64encode(_MARK.encode()).decode()
_BYTES = list(_MARK.encode())
# The type of a column, and the forms that the placeholder has in it.
_UNAVAILABLE: list[tuple[str, object]] = [
    ("STRING", _MARK),
    ("BYTES", _BASE64),
    # binary.handling.mode = hex, and base64-url-safe.
    ("STRING", _MARK.encode().hex()),
    ("STRING", _BASE64),
    ("ARRAY<STRING>", [_MARK]),
    ("ARRAY<BYTES>", [_BASE64]),
    ("ARRAY<SMALLINT>", _BYTES),
    ("ARRAY<BIGINT>", _BYTES),
    ("ARRAY<DOUBLE>", [float(each) for each in _BYTES]),
    ("ARRAY<STRING>", [base64.b64encode(bytes([each])).decode() for each in _BYTES]),
    ("ARRAY<STRING>", ["9eb5a6c3-1e30-3e5c-8b71-0cf1a1bd5b45"]),
    ("MAP<STRING, STRING>", {_MARK: _MARK}),
    ("STRING", json.dumps({_MARK: _MARK})),
    ("DECIMAL(10, 2)", _MARK),
]


def _java_uuid() -> str:
    digest = hashlib.md5(_MARK.encode(), usedforsecurity=False).digest()
    return str(UUID(bytes=digest, version=3))


@pytest.mark.parametrize("updates", ["retract", "upsert"])
@pytest.mark.parametrize("ignores", ["true", "false"])
@pytest.mark.parametrize(("kind", "value"), _UNAVAILABLE, ids=range(len(_UNAVAILABLE)))
def test_a_large_value_that_is_not_in_the_event_is_refused(
    kind: str, value: object, updates: str, ignores: str
) -> None:
    if value == ["9eb5a6c3-1e30-3e5c-8b71-0cf1a1bd5b45"]:
        value = [_java_uuid()]
    fields = fields_of(id="INT", x=kind, y="INT")
    options = {"updates": updates, "ignore-parse-errors": ignores}
    whole = {"id": 1, "x": None, "y": 1}
    event = {"before": whole, "after": {**whole, "x": value}, "op": "u"}
    made = decoding("debezium-json", options).with_key(["id"])  # type: ignore[attr-defined]
    for others in ((), ({"before": None, "after": whole, "op": "c"},)):
        messages = [json.dumps(each).encode() for each in (*others, event)]
        with pytest.raises(InvalidRows, match="column x has the placeholder") as refused:
            made.decoder(fields).decode(messages)
        assert "REPLICA IDENTITY FULL" in refused.value.message
    # A row that goes is found by its key, and a column that is not read may have anything.
    gone = json.dumps({"before": event["after"], "after": None, "op": "d"}).encode()
    if updates == "upsert" and kind != "DECIMAL(10, 2)":
        assert made.decoder(fields).decode([gone]).num_rows == 1
    message = json.dumps(event).encode()
    assert made.decoder(fields_of(id="INT", y="INT")).decode([message]).num_rows > 0


def test_the_placeholder_is_the_one_that_debezium_is_given() -> None:
    name = "unavailable.value.placeholder"
    row = {"id": 1, "n": "none"}
    message = json.dumps({"before": row, "after": {**row, "n": "gone"}, "op": "u"}).encode()
    assert len(_rows("debezium-json", message)) == 2
    for given in ("gone", "hex:676F6e65"):
        with pytest.raises(InvalidRows, match="column n has the placeholder"):
            _rows("debezium-json", message, {name: given})
    marked = message.replace(b"gone", _MARK.encode())
    assert len(_rows("debezium-json", marked, {name: "gone"})) == 2
    escaped = message.replace(b"gone", rb"g\u006fne")
    with pytest.raises(InvalidRows, match="column n has the placeholder"):
        _rows("debezium-json", escaped, {name: "gone"})
    for wrong in ("hex:xyz", "", "hex:"):
        with pytest.raises(InvalidOption, match=name):
            decoding("debezium-json", {name: wrong})


@pytest.mark.parametrize("is_quick", [True, False])
def test_an_update_of_the_key_removes_the_old_row(is_quick: bool) -> None:
    made = decoding("debezium-json", {"updates": "upsert"}).with_key(["id"])  # type: ignore[attr-defined]
    fields = fields_of(id="INT NOT NULL", n="STRING")
    old, new = {"id": 1, "n": "a"}, {"id": 2, "n": "a"}
    events = [
        {"before": old, "after": new, "op": "u"},
        # The key alone, as databases log it by default.
        {"before": {"id": 2, "n": None}, "after": {"id": 3, "n": "a"}, "op": "u"},
        {"before": new, "after": {**new, "n": "b"}, "op": "u"},
        {"before": None, "after": {**new, "n": "c"}, "op": "u"},
        {"before": {"id": None, "n": "c"}, "after": {**new, "n": "d"}, "op": "u"},
    ]
    mark = "" if is_quick else "\n"
    messages = [(json.dumps(each) + mark).encode() for each in events]
    rows = made.decoder(fields).decode(messages).to_pylist()
    assert [(row["_rowkind"], row["id"], row["n"]) for row in rows] == [
        ("-D", 1, "a"),
        ("+U", 2, "a"),
        ("-D", 2, None),
        ("+U", 3, "a"),
        ("+U", 2, "b"),
        ("+U", 2, "c"),
        ("+U", 2, "d"),
    ]


def test_an_upsert_without_a_known_key_is_refused_where_it_may_have_changed() -> None:
    options = {"updates": "upsert"}
    same = b'{"op":"u","before":{"id":1,"n":null},"after":{"id":1,"n":"b"}}'
    assert _rows("debezium-json", same, options) == [("+U", 1, "b")]
    other = b'{"op":"u","before":{"id":1,"n":"a"},"after":{"id":1,"n":"b"}}'
    for more in ({}, {"ignore-parse-errors": "true"}):
        with pytest.raises(InvalidRows, match=r"changes n, and .* declare PRIMARY KEY"):
            _rows("debezium-json", other, {**options, **more})


def test_goldengate_may_leave_out_what_did_not_change() -> None:
    for before, after, rows in (
        ('{"id":1,"n":"a"}', '{"id":1,"n":null}', [("-U", 1, "a"), ("+U", 1, None)]),
        ('{"id":1}', '{"id":2}', [("-U", 1, None), ("+U", 2, None)]),
    ):
        message = f'{{"op_type":"U","before":{before},"after":{after}}}'.encode()
        assert _rows("ogg-json", message) == rows
    message = b'{"op_type":"U","before":{"id":1,"n":"a"},"after":{"id":1}}'
    for options in ({}, {"ignore-parse-errors": "true"}):
        with pytest.raises(InvalidRows, match="after lacks n, which before has"):
            _rows("ogg-json", message, options)


def test_an_update_without_its_former_row_is_not_passed_over() -> None:
    message = b'{"op":"u","before":null,"after":{"id":1,"n":"b"}}'
    with pytest.raises(InvalidRows, match="set REPLICA IDENTITY FULL"):
        _rows("debezium-json", message, {"ignore-parse-errors": "true"})


def test_canal_leaves_out_other_tables() -> None:
    options = {"database.include": "d.*", "table.include": "t"}
    event = b'{"type":"INSERT","data":[{"id":1}],"database":"%s","table":"%s"}'
    assert _rows("canal-json", event % (b"db", b"t"), options) == [("+I", 1, None)]
    assert _rows("canal-json", event % (b"db", b"tt"), options) == []
    with pytest.raises(InvalidRows, match=r"no database, which database\.include is about"):
        _rows("canal-json", b'{"type":"INSERT","data":[{"id":1}]}', options)


_SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "field": "after",
            "type": "struct",
            "fields": [
                {
                    "field": "price",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2"},
                },
                {"field": "any", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
                {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
                {"field": "number", "type": "int32", "name": "io.debezium.time.Date"},
                {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
                {"field": "zoned", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
                {"field": "time", "type": "int64", "name": "io.debezium.time.MicroTime"},
                {
                    "field": "days",
                    "type": "array",
                    "items": {"type": "int32", "name": "io.debezium.time.Date"},
                },
            ],
        }
    ],
}
_TYPED = {
    "price": "DECIMAL(10, 2)",
    "any": "DECIMAL(10, 3)",
    "day": "DATE",
    "number": "INT",
    "at": "TIMESTAMP(6)",
    "zoned": "TIMESTAMP_LTZ(6)",
    "time": "TIME(3)",
    "days": "ARRAY<DATE>",
}


def _enclosed(**row: object) -> bytes:
    return json.dumps({"schema": _SCHEMA, "payload": {"op": "c", "after": row}}).encode()


def test_an_embedded_schema_says_what_numbers_and_texts_mean() -> None:
    message = _enclosed(
        price=base64.b64encode((-12345).to_bytes(3, "big", signed=True)).decode(),
        any={"scale": 3, "value": base64.b64encode(b"\x01\x00").decode()},
        day=18000,
        number=18000,
        at=1_600_000_000_123_456,
        zoned="2020-01-01T00:00:00.5Z",
        time=3_600_000_000,
        days=[0, None],
    )
    decoder = decoding("debezium-json", {"schema-include": "true"}).decoder(fields_of(**_TYPED))
    assert decoder.decode([message]).to_pylist() == [
        {
            "price": Decimal("-123.45"),
            "any": Decimal("0.256"),
            "day": dt.date(2019, 4, 14),
            "number": 18000,
            "at": dt.datetime(2020, 9, 13, 12, 26, 40, 123456),
            "zoned": dt.datetime(2020, 1, 1, 0, 0, 0, 500000, dt.UTC),
            "time": dt.time(1),
            "days": [dt.date(1970, 1, 1), None],
            "_rowkind": "+I",
        }
    ]


def test_a_value_that_is_not_of_its_schema_is_refused() -> None:
    decoder = decoding("debezium-json", {"schema-include": "true"}).decoder(fields_of(**_TYPED))
    with pytest.raises(InvalidRows, match=r"field day is not what its schema says \(io\.debezium"):
        decoder.decode([_enclosed(day="x")])
    with pytest.raises(InvalidRows, match="finer than milliseconds"):
        decoder.decode([_enclosed(time=1)])


def _metadata(name: str, message: bytes, options: dict[str, str] | None = None) -> dict[str, Any]:
    found = decoding(name, options)
    types = {f"metadata.{key}": str(kind) for key, kind in found.readable_metadata().items()}
    (row,) = found.decoder(fields_of(id="INT", **types)).decode([message]).to_pylist()
    return {key.removeprefix("metadata."): value for key, value in row.items() if "metadata" in key}


def test_metadata_of_debezium() -> None:
    payload = (
        b'{"op":"c","after":{"id":1},"ts_ms":1000,'
        b'"source":{"db":"d","schema":"s","table":"t","ts_ms":2000,"snapshot":true,"lsn":null}}'
    )
    expected = {
        "schema": None,
        "ingestion-timestamp": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        "source.timestamp": dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC),
        "source.database": "d",
        "source.schema": "s",
        "source.table": "t",
        "source.properties": [
            ("db", "d"),
            ("schema", "s"),
            ("table", "t"),
            ("ts_ms", "2000"),
            ("snapshot", "true"),
            ("lsn", None),
        ],
    }
    assert _metadata("debezium-json", payload) == expected
    enclosed = b'{"schema":{"type":"struct"},"payload":%s}' % payload
    with_schema = _metadata("debezium-json", enclosed, {"schema-include": "true"})
    assert with_schema == {**expected, "schema": '{"type":"struct"}'}


def test_metadata_of_the_others() -> None:
    canal = (
        b'{"type":"INSERT","data":[{"id":1}],"database":"d","table":"t","sqlType":{"id":4},'
        b'"pkNames":["id"],"ts":1000,"es":2000}'
    )
    assert _metadata("canal-json", canal) == {
        "database": "d",
        "table": "t",
        "sql-type": [("id", 4)],
        "pk-names": ["id"],
        "ingestion-timestamp": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        "event-timestamp": dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC),
    }
    maxwell = (
        b'{"type":"insert","data":{"id":1},"database":"d","table":"t","ts":10,'
        b'"primary_key_columns":["id"]}'
    )
    assert _metadata("maxwell-json", maxwell) == {
        "database": "d",
        "table": "t",
        "primary-key-columns": ["id"],
        "ingestion-timestamp": dt.datetime(1970, 1, 1, 0, 0, 10, tzinfo=dt.UTC),
    }
    ogg = (
        b'{"op_type":"I","after":{"id":1},"table":"S.T","primary_keys":["id"],'
        b'"op_ts":"2020-05-13 15:40:06.000001","current_ts":"2020-05-13T15:40:07"}'
    )
    assert _metadata("ogg-json", ogg) == {
        "table": "S.T",
        "primary-keys": ["id"],
        "ingestion-timestamp": dt.datetime(2020, 5, 13, 15, 40, 7, tzinfo=dt.UTC),
        "event-timestamp": dt.datetime(2020, 5, 13, 15, 40, 6, 1, dt.UTC),
    }


def test_metadata_that_cannot_be_read_is_refused() -> None:
    message = b'{"op":"c","after":{"id":1},"ts_ms":"soon"}'
    with pytest.raises(InvalidRows, match=r"metadata\.ingestion-timestamp cannot be read"):
        _metadata("debezium-json", message)


@pytest.mark.parametrize("name", _NAMES)
def test_tombstones_give_no_row_and_ignored_errors_neither(name: str) -> None:
    decoder = decoding(name, {"ignore-parse-errors": "true"}).decoder(fields_of(**_ROW))
    assert decoder.decode([None, b"", b"x", b"{}"]).num_rows == 0
