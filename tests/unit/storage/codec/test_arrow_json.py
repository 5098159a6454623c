"""Arrow's parser of JSON reads what the slow way reads, or nothing."""

from __future__ import annotations

import pytest

from lakewright.connectors.formats.json_columns import JsonForm
from lakewright.connectors.formats.messages import BadMessagesError
from lakewright.storage.codec.arrow_json import arrow_columns
from tests.support.formats import decoding, fields_of

_VALUES = (
    b"1 1.0 -0 01 1e2 1.5 0.1 1e400 1e39 1E-400 16777217 3000000000 9223372036854775808 1000 "
    b'"1" "1.5" "a" "" "NaN" NaN Infinity true "true" null [] [1] [1,null] ["a"] [1.5] {} '
    b'{"x":1} {"x":1,"y":[1]} {"x":"a"} "\\ud83d" "\\ud83d\\ude00" "\\u0000" "\xff" "a\tb" '
    b'"2020-01-01" "2020-01-01T00:00:00" "0001-01-01" "2020-13-01" 18000'
).split(b" ")
_OTHERS = [
    b'"2020-01-01 00:00:00"',
    b'"2020-01-01 00:00:00.1234"',
    b'"2020-01-01 00:00:00Z"',
    b'"2020-01-01 00:00:00+01:00"',
    b'"9999-12-31 23:59:59.999"',
    b'"2300-01-01 00:00:00"',
    b'"0000-01-01 00:00:00"',
    b'"0001-01-01 00:00:00+01:00"',
    b'"0000-01-01"',
    b'1,"v":2',
    b'1}{"v":2',
    b'1} {"v":2',
    b'1}\n{"v":2',
    b'1,"w":01',
    b'1,"w":NaN',
    b'1,"w":"\xff"',
    b'1,"w":[{"q":1,"q":2}]',
]
_TYPES = (
    "INT",
    "TINYINT",
    "BIGINT",
    "DOUBLE",
    "FLOAT",
    "DECIMAL(5, 2)",
    "STRING",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP(3)",
    "TIMESTAMP(9)",
    "TIMESTAMP_LTZ(3)",
    "ARRAY<INT>",
    "ROW<x INT, y ARRAY<INT>>",
    "BYTES",
    "MAP<STRING, INT>",
)


@pytest.mark.parametrize("kind", _TYPES)
def test_arrow_reads_what_the_slow_way_reads_or_leaves_it(kind: str) -> None:
    fields = fields_of(v=kind)
    for value in _VALUES + _OTHERS:
        for other in (b'{"v":null}', b"{}"):
            messages = list(enumerate([other, b'{"v":' + value + b"}"]))
            fast = arrow_columns([text for _, text in messages], fields)
            if fast is None:
                continue
            try:
                objects, numbers = JsonForm().objects(messages)
                slow = JsonForm().columns(objects, fields, numbers)
            except BadMessagesError as error:
                pytest.fail(f"{kind} of {value!r} is {fast[0]}, and {error.found}")
            assert fast == slow, value


def test_objects_that_lie_in_two_messages_are_not_read() -> None:
    fields = fields_of(v="INT")
    for parts in (
        [b'{"v":1}{"v":2}', b"{", b"}"],
        [b'{"w":[{}', b'{}],"v":1}', b'{"v":2} {"v":3}'],
        [b'{"w":"}', b'{"}', b"{}{}"],
        [b'\xef\xbb\xbf{"v":1}'],
    ):
        assert arrow_columns(parts, fields) is None


def test_usual_messages_are_read_by_arrow() -> None:
    fields = fields_of(i="INT", s="STRING", f="DOUBLE", d="DECIMAL(5, 2)", t="TIMESTAMP(3)")
    message = b'{"i":1,"s":"a","f":1.5,"d":1.25,"t":"2020-01-01 00:00:00.5","other":{}}'
    fast = arrow_columns([message, b"{}"], fields)
    assert fast is not None
    rows = decoding("json").decoder(fields).decode([message, b"{}"])
    assert fast == rows.columns
