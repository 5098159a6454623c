"""The format `json`."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from lakewright.storage.errors import InvalidOption, InvalidRows, UnsupportedError
from tests.support.formats import decoding, encoding, fields_of

_TYPES = {
    "i": "INT",
    "s": "STRING",
    "f": "DOUBLE",
    "p": "DECIMAL(38, 10)",
    "t": "TIMESTAMP(9)",
    "z": "TIMESTAMP_LTZ(3)",
    "b": "BYTES",
    "a": "ARRAY<INT>",
    "m": "MAP<STRING, DOUBLE>",
    "r": "ROW<x INT, y ARRAY<STRING>>",
}


def test_values_keep_their_meaning() -> None:
    message = (
        b'{"i":1,"s":"\\u00e9","f":"NaN","p":1234567890123456789.0123456789,'
        b'"t":"2020-01-01 00:00:00.123456789","z":"2020-01-01 01:00:00+01:00","b":"aGk=",'
        b'"a":[1,null],"m":{"k":"-Infinity"},"r":{"x":1,"y":["a"],"other":2},"other":[1]}'
    )
    (row,) = decoding("json").decoder(fields_of(**_TYPES)).decode([message]).to_pylist()
    assert math.isnan(row.pop("f"))
    assert row.pop("t").value == 1_577_836_800_123_456_789
    assert row == {
        "i": 1,
        "s": "é",
        "p": Decimal("1234567890123456789.0123456789"),
        "z": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "b": b"hi",
        "a": [1, None],
        "m": [("k", -math.inf)],
        "r": {"x": 1, "y": ["a"]},
    }


@pytest.mark.mission("CN34", "RS22")
def test_a_decoder_and_an_encoder_cross_processes_and_undo_each_other() -> None:
    fields = fields_of(**_TYPES)
    decoder = pickle.loads(pickle.dumps(decoding("json").decoder(fields)))
    encoder = pickle.loads(pickle.dumps(encoding("json").encoder(fields)))
    message = (
        b'{"i":1,"s":"\\"\\n","f":1.5,"p":0.0000000001,"t":"2020-01-01 00:00:00.1",'
        b'"z":"1900-01-01 00:00:00.001Z","b":"","a":[],"m":{},"r":null}'
    )
    rows = decoder.decode([message, b"{}"])
    assert decoder.decode(encoder.encode(rows)) == rows


def test_an_encoder_writes_slices_of_nested_columns() -> None:
    fields = fields_of(a="ARRAY<STRING>", m="MAP<STRING, INT>", r="ROW<x ARRAY<INT>>")
    decoder = decoding("json").decoder(fields)
    messages = [
        b'{"a":["x"],"m":{"k":1},"r":{"x":[1]}}',
        b"{}",
        b'{"a":["y","z"],"m":{"l":2,"n":3}}',
    ]
    part = decoder.decode(messages).slice(1)
    assert encoding("json", {"encode.ignore-null-fields": "true"}).encoder(fields).encode(part) == [
        b"{}",
        b'{"a":["y","z"],"m":{"l":2,"n":3}}',
    ]


def test_decimals_are_written_in_one_of_two_ways() -> None:
    fields = fields_of(d="DECIMAL(10, 8)")
    rows = pa.RecordBatch.from_pydict({"d": pa.array([Decimal("2.7E-7")], pa.decimal128(10, 8))})
    plain = {"encode.decimal-as-plain-number": "true"}
    assert encoding("json", plain).encoder(fields).encode(rows) == [b'{"d":0.00000027}']
    assert encoding("json").encoder(fields).encode(rows) == [b'{"d":2.7E-7}']


def test_texts_hold_what_is_no_text_as_json() -> None:
    messages = [b'{"s":1.50}', b'{"s":true}', b'{"s":{"a":[1e5,null,"x"]}}']
    rows = decoding("json").decoder(fields_of(s="STRING")).decode(messages)
    assert rows.column("s").to_pylist() == ["1.50", "true", '{"a":[1e5,null,"x"]}']


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("DOUBLE", "1e400", "1e400 is too large"),
        ("DATE", "18000", "a number is no moment; convert it, or declare its unit"),
        ("INT", '1,"v":2', "a name that its object has twice is not a valid INT"),
        ("STRING", '{"a":1,"a":2}', "it holds a name that its object has twice"),
        ("BYTES", '"?"', "is no text in base64"),
        ("ARRAY<INT>", '"[1]"', "needs a list"),
        ("ROW<a INT>", '{"a":"x"}', "field v.a is INT"),
        ("INT NOT NULL", "null", "column v is NOT NULL, and null"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(kind: str, value: str, said: str) -> None:
    decoder = decoding("json").decoder(fields_of(v=kind))
    fine = b'{"v":null}' if "NOT NULL" not in kind else b'{"v":1}'
    with pytest.raises(InvalidRows) as refused:
        decoder.decode([fine, b'{"v":%s}' % value.encode()])
    assert refused.value.message.startswith("json: message 2 of 2: ")
    assert said in refused.value.message


@pytest.mark.parametrize("message", [b"[]", b"1", b'"a"', b"null"])
def test_a_message_that_is_another_value_is_refused(message: bytes) -> None:
    with pytest.raises(InvalidRows, match="message 1 of 1: it is not an object: "):
        decoding("json").decoder(fields_of(v="INT")).decode([message])


def test_bad_messages_are_left_out_and_told_each() -> None:
    bad: list[int] = []
    messages = [b'{"v":%d}' % each if each % 7 else b'{"v":"x"}' for each in range(100)]
    messages[5] = b"{"
    rows = decoding("json").decoder(fields_of(v="INT")).decode(messages, lambda n, _: bad.append(n))
    assert bad == sorted([5, *range(0, 100, 7)])
    assert rows.column("v").to_pylist() == [n for n in range(100) if n not in bad]


def test_messages_without_bytes_give_no_row() -> None:
    rows = decoding("json").decoder(fields_of(v="INT")).decode([None, b"", b"{}"])
    assert rows.to_pylist() == [{"v": None}]


def test_ignored_errors_are_null_where_they_are() -> None:
    fields = fields_of(
        a="INT", r="ROW<x INT, y INT>", n="ARRAY<INT>", m="MAP<STRING, INT NOT NULL>"
    )
    decoder = decoding("json", {"ignore-parse-errors": "true"}).decoder(fields)
    messages = [b'{"a":"x","r":{"x":1,"y":"z"},"n":[1,"q"],"m":{"k":"z"}}', b"no",
                b'{"r":5,"n":{},"a":2,"m":{"k":1}}']  # fmt: skip
    assert decoder.decode(messages).to_pylist() == [
        {"a": None, "r": {"x": 1, "y": None}, "n": [1, None], "m": None},
        {"a": 2, "r": None, "n": None, "m": [("k", 1)]},
    ]


def test_a_missing_field_is_refused_if_it_is_asked_for() -> None:
    fields = fields_of(a="INT", r="ROW<x INT>")
    decoder = decoding("json", {"fail-on-missing-field": "true"}).decoder(fields)
    assert decoder.decode([b'{"a":null,"r":null}']).num_rows == 1
    with pytest.raises(InvalidRows, match=r"field r\.x is missing"):
        decoder.decode([b'{"a":1,"r":{}}'])


def test_contradicting_options_are_refused() -> None:
    with pytest.raises(InvalidOption, match="contradict each other"):
        decoding("json", {"fail-on-missing-field": "true", "ignore-parse-errors": "true"})


def test_a_map_without_texts_as_keys_has_no_form() -> None:
    with pytest.raises(UnsupportedError, match=r"column a\[\] of type MAP<INT, INT>.*a STRING"):
        decoding("json").decoder(fields_of(a="ARRAY<MAP<INT, INT>>"))
