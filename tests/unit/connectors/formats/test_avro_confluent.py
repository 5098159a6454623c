"""Avro with schemas in a registry: the protocol, folders, foreign writers, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import threading
from collections.abc import Iterator, Mapping
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakewright.connectors.formats.schema_registry import RegistryFolder
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import (
    AccessRefused,
    InvalidOption,
    InvalidRequestError,
    InvalidRows,
    UnavailableError,
)
from tests.support.formats import decoding, encoding, fields_of
from tests.support.schema_registry import SchemaRegistry, schema_registry

_RECORD = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as server:
        yield server


def _written(server: SchemaRegistry, schema: Any, record: Any) -> bytes:
    """A message as another writer makes it."""
    target = BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), record)
    return b"\0" + server.add(schema=json.dumps(schema)).to_bytes(4, "big") + target.getvalue()


def _rows(name: str, options: Mapping[str, str], message: bytes, **types: str) -> list[Any]:
    decoder = pickle.loads(pickle.dumps(decoding(name, options).decoder(fields_of(**types))))
    return list(decoder.decode([message]).to_pylist())


def test_messages_have_the_number_that_the_registry_gave(registry: SchemaRegistry) -> None:
    registry.add(schema=json.dumps(_RECORD))
    fields = fields_of(id="INT NOT NULL", name="STRING", d="DECIMAL(9, 2)")
    rows = pa.RecordBatch.from_pylist(
        [{"id": 1, "name": "é", "d": Decimal("1.25")}, {"id": 2}], schema=to_arrow_schema(fields)
    )
    options = {"url": registry.url, "subject": "orders/é-value"}
    encoder = pickle.loads(pickle.dumps(encoding("avro-confluent", options).encoder(fields)))
    first, second = encoder.encode(rows)
    assert first[:5] == second[:5] == b"\0\0\0\0\2"
    assert registry.subjects == {"orders/é-value": [2]}
    held = fastavro.parse_schema(json.loads(registry.schemas[1]["schema"]))
    assert fastavro.schemaless_reader(BytesIO(first[5:]), held, None) == {
        "id": 1,
        "name": "é",
        "d": Decimal("1.25"),
    }
    asked = registry.requests
    encoder.encode(rows)
    assert decoding("avro-confluent", options).decoder(fields).decode([first, second]) == rows
    # Numbers and schemas are asked for once in a process.
    assert registry.requests == asked + 1


def test_a_foreign_writer_decides_what_its_numbers_stand_for(registry: SchemaRegistry) -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "namespace": "shop.v1",
        "fields": [
            {"name": "extra", "type": {"type": "fixed", "name": "Sum", "size": 2}},
            {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
            {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
            {
                "name": "price",
                "type": {
                    "type": "fixed",
                    "name": "Price",
                    "size": 5,
                    "logicalType": "decimal",
                    "precision": 9,
                    "scale": 2,
                },
            },
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}},
            {
                "name": "at",
                "type": {
                    "type": "record",
                    "name": "Place",
                    "fields": [
                        {"name": "since", "type": {"type": "int", "logicalType": "date"}},
                        {"name": "next", "type": ["null", "Place"]},
                    ],
                },
            },
            {"name": "places", "type": {"type": "array", "items": "shop.v1.Place"}},
            {
                "name": "number",
                "type": {
                    "type": "long",
                    "connect.version": 1,
                    "connect.name": "io.debezium.time.NanoTimestamp",
                },
            },
        ],
    }
    place = {"since": dt.date(2000, 1, 1), "next": None}
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    record = {
        "extra": b"ab",
        "micros": moment,
        "local": dt.datetime(2024, 1, 2, 3, 4, 5),
        "day": dt.date(1950, 1, 1),
        "time": dt.time(1, 2, 3, 4000),
        "price": Decimal("-1.25"),
        "state": "OLD",
        "at": place,
        "places": [place],
        "number": 1_000_000_001,
    }
    message = _written(registry, schema, record)
    inner = "ROW<since DATE>"
    (row,) = _rows(
        "avro-confluent",
        {"url": registry.url},
        message,
        missing="INT",
        micros="TIMESTAMP_LTZ(6)",
        local="TIMESTAMP(3)",
        day="DATE",
        time="TIME(3)",
        price="DECIMAL(12, 4)",
        state="STRING",
        extra="BYTES",
        at=inner,
        places=f"ARRAY<{inner}>",
        number="TIMESTAMP(9)",
    )
    assert row.pop("number").value == 1_000_000_001
    held = {"since": dt.date(2000, 1, 1)}
    assert row == {
        "missing": None,
        "micros": moment,
        "local": dt.datetime(2024, 1, 2, 3, 4, 5),
        "day": dt.date(1950, 1, 1),
        "time": dt.time(1, 2, 3, 4000),
        "price": Decimal("-1.2500"),
        "state": "OLD",
        "extra": b"ab",
        "at": held,
        "places": [held],
    }


def test_values_beyond_what_a_writer_declares_are_read_exactly_or_refused(
    registry: SchemaRegistry,
) -> None:
    def decoded(kind: str, logical: Mapping[str, Any], value: object, declared: str) -> object:
        plain, meant = (
            {"type": "record", "name": "r", "fields": [{"name": "v", "type": each}]}
            for each in (kind, {"type": kind, **logical})
        )
        number = registry.add(schema=json.dumps(meant)).to_bytes(4, "big")
        message = b"\0" + number + _written(registry, plain, {"v": value})[5:]
        (row,) = _rows("avro-confluent", {"url": registry.url}, message, v=declared)
        return row["v"]

    amount = {"logicalType": "decimal", "precision": 4, "scale": 2}
    digits = (123456).to_bytes(3, "big")
    assert decoded("bytes", amount, digits, "DECIMAL(10, 2)") == Decimal("1234.56")
    with pytest.raises(InvalidRows, match="has more than 5 digits"):
        decoded("bytes", amount, digits, "DECIMAL(5, 2)")
    for number in (-5, 86_400_000):
        with pytest.raises(InvalidRows, match="not before 24:00:00"):
            decoded("int", {"logicalType": "time-millis"}, number, "TIME(3)")


def _event(*fields: Any) -> Any:
    row = {"type": "record", "name": "Value", "fields": list(fields)}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }


def test_events_of_debezium_are_changes(registry: SchemaRegistry) -> None:
    variable = {
        "type": "record",
        "name": "VariableScaleDecimal",
        "namespace": "io.debezium.data",
        "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
        "connect.name": "io.debezium.data.VariableScaleDecimal",
    }
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    schema = _event(
        {"name": "id", "type": "int"}, {"name": "day", "type": day}, {"name": "n", "type": variable}
    )
    old = {"id": 1, "day": 1, "n": {"scale": 1, "value": b"\x05"}}
    new = {"id": 1, "day": 2, "n": {"scale": 0, "value": b"\xff"}}
    types = {"id": "INT NOT NULL", "day": "DATE", "n": "DECIMAL(5, 2)"}
    before = ("1970-01-02", "0.50")
    after = ("1970-01-03", "-1.00")
    name, options = "debezium-avro-confluent", {"url": registry.url}
    for operation, given, expected in (
        ("c", (None, new), [("+I", after)]),
        ("r", (None, new), [("+I", after)]),
        ("u", (old, new), [("-U", before), ("+U", after)]),
        ("d", (old, None), [("-D", before)]),
    ):
        event = {"before": given[0], "after": given[1], "op": operation, "ts_ms": 1}
        rows = _rows(name, options, _written(registry, schema, event), **types)
        found = [(each["_rowkind"], (str(each["day"]), str(each["n"]))) for each in rows]
        assert found == expected
    update = {"before": None, "after": new, "op": "u", "ts_ms": 1}
    message = _written(registry, schema, update)
    with pytest.raises(InvalidRows, match="REPLICA IDENTITY FULL"):
        _rows(name, options, message, **types)
    (row,) = _rows(name, {**options, "updates": "upsert"}, message, **types)
    assert row["_rowkind"] == "+U"


_MARK = "__debezium_unavailable_value"
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "declared", "value"),
    [
        ("string", "STRING", _MARK),
        ("bytes", "BYTES", _MARK.encode()),
        ({"type": "array", "items": "string"}, "ARRAY<STRING>", [_MARK]),
        ({"type": "array", "items": "bytes"}, "ARRAY<BYTES>", [_MARK.encode()]),
        ({"type": "array", "items": "int"}, "ARRAY<INT>", list(_MARK.encode())),
        ({"type": "array", "items": "float"}, "ARRAY<FLOAT>", [*map(float, _MARK.encode())]),
        (
            {"type": "array", "items": _DECIMAL},
            "ARRAY<DECIMAL(4, 2)>",
            [Decimal(each).scaleb(-2) for each in _MARK.encode()],
        ),
        ({"type": "map", "values": "string"}, "MAP<STRING, STRING>", {_MARK: _MARK}),
    ],
    ids=range(8),
)
def test_a_large_value_that_is_not_in_the_event_is_refused(
    registry: SchemaRegistry, kind: Any, declared: str, value: object
) -> None:
    schema = _event({"name": "id", "type": "int"}, {"name": "x", "type": ["null", kind]})
    name, options = "debezium-avro-confluent", {"url": registry.url, "updates": "upsert"}
    types = {"id": "INT NOT NULL", "x": declared}
    event = {"before": None, "after": {"id": 1, "x": value}, "op": "u", "ts_ms": 1}
    with pytest.raises(InvalidRows, match="column x has the placeholder"):
        _rows(name, options, _written(registry, schema, event), **types)
    other = {**options, "unavailable.value.placeholder": "another"}
    assert len(_rows(name, other, _written(registry, schema, event), **types)) == 1


def test_an_update_of_the_key_removes_the_old_row(registry: SchemaRegistry) -> None:
    schema = _event({"name": "id", "type": "int"})
    options = {"url": registry.url, "updates": "upsert"}
    made = decoding("debezium-avro-confluent", options).with_key(["id"])  # type: ignore[attr-defined]
    event = {"before": {"id": 1}, "after": {"id": 2}, "op": "u", "ts_ms": 1}
    rows = made.decoder(fields_of(id="INT")).decode([_written(registry, schema, event)])
    assert [tuple(each.values()) for each in rows.to_pylist()] == [(1, "-D"), (2, "+U")]


def test_messages_that_cannot_be_read_are_told_one_by_one(registry: SchemaRegistry) -> None:
    proto = registry.add(schema="syntax", schemaType="PROTOBUF")
    several = registry.add(schema="{}", references=[{"name": "x"}])
    messages = [
        b"\1\0\0\0\1\2",
        b"\0\0",
        b"\0\0\0\0\x63\2",
        b"\0" + proto.to_bytes(4, "big") + b"\2",
        b"\0" + several.to_bytes(4, "big") + b"\2",
        _written(registry, _RECORD, {"id": 7}) + b"x",
        _written(registry, _RECORD, {"id": 7}),
        b"",
    ]
    told: dict[int, str] = {}
    decoder = decoding("avro-confluent", {"url": registry.url}).decoder(fields_of(id="INT"))
    rows = decoder.decode(messages, told.__setitem__)
    assert rows.to_pylist() == [{"id": 7}]
    for at, why in enumerate(
        (
            "begin with a zero",
            "begin with a zero",
            "no schema 99",
            "PROTOBUF",
            "by references",
            "1 byte",
        )
    ):
        assert why in told.pop(at)
    assert not told
    # A schema that comes later is found.
    for each in range(99):
        registry.add(schema=json.dumps({**_RECORD, "doc": str(each)}))
    assert decoder.decode([messages[2]]).to_pylist() == [{"id": 1}]


def test_credentials_are_sent_and_never_told(registry: SchemaRegistry) -> None:
    registry.credentials = "ann:a-secret"
    message = _written(registry, _RECORD, {"id": 1})
    options = {"url": registry.url, "basic-auth.user-info": "ann:a-secret"}
    assert _rows("avro-confluent", options, message, id="INT") == [{"id": 1}]
    wrong = {**options, "basic-auth.user-info": "ann:another-secret"}
    with pytest.raises(AccessRefused, match="answers 401") as refused:
        _rows("avro-confluent", wrong, message, id="INT")
    assert "another-secret" not in str(refused.value)
    assert "another-secret" not in repr(decoding("avro-confluent", wrong).decoder([]))
    with pytest.raises(InvalidOption, match="has a user"):
        decoding("avro-confluent", {"url": "http://ann:a-secret@localhost"})


def test_a_registry_that_fails_for_a_moment_is_asked_again(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewright.connectors.formats.schema_registry._PAUSES_MS", (1, 1))
    registry.failures = [503, 429]
    message = _written(registry, _RECORD, {"id": 1})
    assert _rows("avro-confluent", {"url": registry.url}, message, id="INT") == [{"id": 1}]
    registry.failures = [500, 500, 500]
    other = _written(registry, {**_RECORD, "doc": "another"}, {"id": 1})
    with pytest.raises(UnavailableError, match="does not answer: 500 failed with 500"):
        _rows("avro-confluent", {"url": registry.url}, other, id="INT")
    encoder = encoding("avro-confluent", {"url": registry.url, "subject": "s"})
    registry.failures = [409]
    with pytest.raises(InvalidRequestError, match="with 409"):
        encoder.encoder(fields_of(x="INT")).encode(pa.record_batch({"x": pa.array([1], "int32")}))


def test_writers_of_a_folder_agree_on_numbers(tmp_path: Path) -> None:
    folder = RegistryFolder((tmp_path / "schemas").as_uri())
    texts = [json.dumps({**_RECORD, "doc": str(at)}) for at in range(5)]
    found: list[list[int]] = []

    def register(order: list[int]) -> None:
        numbers = {at: folder.register(f"s{at % 2}/value", texts[at]) for at in order}
        found.append([numbers[at] for at in range(5)])

    orders = [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [1, 3, 0, 4, 2]]
    threads = [threading.Thread(target=register, args=(each,)) for each in orders]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [found[0]] * 4
    assert sorted(found[0]) == [1, 2, 3, 4, 5]
    for at, number in enumerate(found[0]):
        assert folder.schema(number) == texts[at]
    assert folder.schema(6) is None
    held = [json.loads(each.read_text())["id"] for each in tmp_path.glob("schemas/subjects/*/*")]
    assert sorted(held) == [1, 2, 3, 4, 5]


def test_what_is_no_answer_of_a_registry_is_named(registry: SchemaRegistry, tmp_path: Path) -> None:
    fields = fields_of(id="INT")
    number = registry.add(error="gone")
    decoder = decoding("avro-confluent", {"url": registry.url}).decoder(fields)
    with pytest.raises(InvalidRequestError, match=rf"/schemas/ids/{number} has no schema: "):
        decoder.decode([b"\0" + number.to_bytes(4, "big") + b"\2"])
    folder = RegistryFolder(f"file://{tmp_path}")
    schema = json.dumps(_RECORD)
    subject = tmp_path / "subjects" / "s"
    subject.mkdir(parents=True)
    for text, said in (("{", "is no JSON"), ("[]", "has no id"), ('{"id": "x"}', "the id 'x'")):
        (subject / "1.json").write_text(text)
        with pytest.raises(InvalidRequestError, match=said):
            folder.register("s", schema)
    # A version that was removed leaves a number free.
    (subject / "1.json").unlink()
    (subject / "2.json").write_text('{"id": 99}')
    assert folder.register("s", schema) == 1
    assert json.loads((subject / "3.json").read_text()) == {"id": 1}
    for text, said in (("{", "is no JSON"), ("[1]", "has no schema")):
        (tmp_path / "schemas" / "1.json").write_text(text)
        with pytest.raises(InvalidRequestError, match=said):
            folder.schema(1)


def test_what_is_missing_is_asked_for() -> None:
    with pytest.raises(InvalidOption, match="write http"):
        decoding("avro-confluent", {"url": "schemas"})
    with pytest.raises(InvalidOption, match="such as <topic>-value"):
        encoding("avro-confluent", {"url": "memory://s"}).encoder(fields_of(x="INT"))
    old = {"schema-registry.url": "memory://s", "schema-registry.subject": "x"}
    assert encoding("avro-confluent", old).encoder(fields_of(x="INT"))
