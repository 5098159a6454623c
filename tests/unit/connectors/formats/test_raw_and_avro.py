"""The formats `raw` and `avro`."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import InvalidOption, InvalidRows, UnsupportedError
from tests.support.formats import decoding, encoding, fields_of


@pytest.mark.parametrize(
    ("kind", "options", "message", "value"),
    [
        ("INT", {}, b"\x00\x00\x01\x00", 256),
        ("INT", {"endianness": "little-endian"}, b"\x00\x01\x00\x00", 256),
        ("BOOLEAN", {}, b"\x01", True),
        ("DOUBLE", {}, b"@\x04\x00\x00\x00\x00\x00\x00", 2.5),
        ("STRING", {}, "é".encode(), "é"),
        ("STRING", {"charset": "latin-1"}, b"\xe9", "é"),
        ("STRING", {}, b"", ""),
        ("BYTES", {}, b"\x00\xff", b"\x00\xff"),
        ("BYTES", {}, None, None),
    ],
)
def test_a_raw_message_is_one_value(
    kind: str, options: dict[str, str], message: bytes | None, value: object
) -> None:
    fields = fields_of(v=kind)
    rows = pickle.loads(pickle.dumps(decoding("raw", options).decoder(fields))).decode([message])
    assert rows.to_pylist() == [{"v": value}]
    assert encoding("raw", options).encoder(fields).encode(rows) == [message]


def test_raw_refuses_what_is_no_such_value() -> None:
    with pytest.raises(InvalidRows, match="raw: message 2 of 2: it has 1 bytes, and INT has 4"):
        decoding("raw").decoder(fields_of(v="INT")).decode([None, b"1"])
    with pytest.raises(InvalidRows, match="it is not text in UTF-8"):
        decoding("raw").decoder(fields_of(v="STRING")).decode([b"\xff"])
    with pytest.raises(UnsupportedError, match="a table of one column, and this one has 2"):
        decoding("raw").decoder(fields_of(a="INT", b="INT"))
    with pytest.raises(UnsupportedError, match=r"type DATE: make it BYTES"):
        decoding("raw").decoder(fields_of(v="DATE"))
    with pytest.raises(InvalidOption, match="no encoding of Python"):
        decoding("raw", {"charset": "klingon"})


_AVRO = {
    "i": "INT NOT NULL",
    "b": "TINYINT",
    "s": "STRING",
    "d": "DECIMAL(20, 2)",
    "t": "TIMESTAMP(3)",
    "day": "DATE",
    "time": "TIME(3)",
    "a": "ARRAY<ROW<x INT, y MAP<STRING, TIMESTAMP(3)>>>",
}


def test_records_of_avro_keep_their_values() -> None:
    fields = fields_of(**_AVRO)
    row = {
        "i": 1,
        "b": -5,
        "s": "é",
        "d": Decimal("-5.25"),
        "t": dt.datetime(1960, 1, 1),
        "day": dt.date(1950, 1, 1),
        "time": dt.time(1, 0, 0, 5000),
        "a": [{"x": None, "y": [("k", dt.datetime(2020, 1, 1))]}, None],
    }
    rows = pa.RecordBatch.from_pylist([row, {"i": 2}], schema=to_arrow_schema(fields))
    messages = pickle.loads(pickle.dumps(encoding("avro").encoder(fields))).encode(rows)
    assert pickle.loads(pickle.dumps(decoding("avro").decoder(fields))).decode(messages) == rows


def test_a_message_that_is_no_record_is_refused() -> None:
    decoder = decoding("avro").decoder(fields_of(v="INT"))
    with pytest.raises(InvalidRows, match="1 bytes follow the record"):
        decoder.decode([b"\x02\x04\x05"])
    with pytest.raises(InvalidRows, match="not a record of the table's columns"):
        decoder.decode([b"\x02"])
    with pytest.raises(InvalidRows, match="not before 24:00:00"):
        decoding("avro").decoder(fields_of(v="TIME(3)")).decode([b"\x02\x09"])


def test_moments_that_avro_does_not_hold_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="make its precision at most 3"):
        decoding("avro").decoder(fields_of(t="TIMESTAMP(6)"))
    with pytest.raises(UnsupportedError, match=r"'timestamp_mapping\.legacy' = 'false'"):
        decoding("avro").decoder(fields_of(t="TIMESTAMP_LTZ(3)"))
    with pytest.raises(UnsupportedError, match="make the key a STRING"):
        decoding("avro").decoder(fields_of(m="MAP<INT, INT>"))
    with pytest.raises(InvalidOption, match="none of binary"):
        decoding("avro", {"encoding": "json"})
