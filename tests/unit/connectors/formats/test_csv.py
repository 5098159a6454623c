"""The formats `csv` and `changelog-csv`."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.storage.errors import InvalidOption, InvalidRows, UnsupportedError
from lakewright.storage.spec.rows import RowKind
from tests.support.formats import decoding, encoding, fields_of

_TYPES = {
    "i": "INT",
    "s": "STRING",
    "d": "DECIMAL(10, 2)",
    "t": "TIMESTAMP(3)",
    "z": "TIMESTAMP_LTZ(3)",
    "b": "BYTES",
    "a": "ARRAY<INT>",
    "r": "ROW<x INT, y STRING>",
}
_PAIR = {"k": "INT", "v": "STRING"}


def test_values_are_read_with_and_without_quotes() -> None:
    plain = b"1,x,2.5,2020-01-01 00:00:00.5,2020-01-01 00:00:00Z,aGk=,1;2,3;z"
    quoted = b'1,"x",2.5,"2020-01-01 00:00:00.5","2020-01-01 00:00:00Z",aGk=,"1;2","3;z"\r\n'
    decoder = pickle.loads(pickle.dumps(decoding("csv").decoder(fields_of(**_TYPES))))
    row = {
        "i": 1,
        "s": "x",
        "d": Decimal("2.50"),
        "t": dt.datetime(2020, 1, 1, 0, 0, 0, 500000),
        "z": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "b": b"hi",
        "a": [1, 2],
        "r": {"x": 3, "y": "z"},
    }
    assert decoder.decode([plain]).to_pylist() == [row]
    assert decoder.decode([plain, quoted]).to_pylist() == [row, row]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"field-delimiter": r"\t"},
        {"field-delimiter": r"\u0001"},
        {"quote-character": "'", "escape-character": "\\"},
        {"disable-quote-character": "true", "escape-character": "\\"},
    ],
)
def test_texts_with_characters_of_meaning_are_read_back(options: dict[str, str]) -> None:
    texts = ["a,b", 'a"b', "'", "\\", "#", "", "\t", '"x"', "\\n", " x "]
    texts += ["a\nb", "\r"]
    fields = fields_of(**_PAIR)
    rows = pa.RecordBatch.from_pydict(
        {"k": pa.array(range(len(texts)), pa.int32()), "v": pa.array(texts)}
    )
    messages = encoding("csv", options).encoder(fields).encode(rows)
    assert (
        decoding("csv", options).decoder(fields).decode(messages).column("v").to_pylist() == texts
    )


def test_a_text_that_only_quotes_could_hold_is_refused_without_them() -> None:
    rows = pa.RecordBatch.from_pydict({"k": pa.array([1], pa.int32()), "v": ["a,b"]})
    encoder = encoding("csv", {"disable-quote-character": "true"}).encoder(fields_of(**_PAIR))
    with pytest.raises(InvalidRows, match="leave out disable-quote-character"):
        encoder.encode(rows)


def test_null_is_a_literal_or_an_empty_field() -> None:
    fields = fields_of(**_PAIR)
    rows = pa.RecordBatch.from_pydict(
        {"k": pa.array([None], pa.int32()), "v": pa.array([None], pa.string())}
    )
    assert encoding("csv").encoder(fields).encode(rows) == [b","]
    literal = {"null-literal": "NULL"}
    assert encoding("csv", literal).encoder(fields).encode(rows) == [b"NULL,NULL"]
    assert decoding("csv", literal).decoder(fields).decode([b"NULL,NULL"]).to_pylist() == [
        {"k": None, "v": None}
    ]
    # Of a number nothing else can be meant; an empty text is one.
    assert decoding("csv").decoder(fields).decode([b","]).to_pylist() == [{"k": None, "v": ""}]


def test_a_null_literal_with_an_escape_is_null_as_it_is_written() -> None:
    options = {
        "field-delimiter": "\x01",
        "disable-quote-character": "true",
        "escape-character": "\\",
        "null-literal": r"\N",
    }
    fields = fields_of(**_PAIR)
    decoder = decoding("csv", options).decoder(fields)
    messages = [b"1\x01\\N", b"2\x01\\\\N", b"3\x01N"]
    rows = decoder.decode(messages)
    assert rows.column("v").to_pylist() == [None, r"\N", "N"]
    assert encoding("csv", options).encoder(fields).encode(rows) == messages


def test_one_empty_text_is_a_row() -> None:
    fields = fields_of(v="STRING")
    messages = encoding("csv").encoder(fields).encode(pa.RecordBatch.from_pydict({"v": [""]}))
    assert decoding("csv").decoder(fields).decode(messages).to_pylist() == [{"v": ""}]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"1", "it has 1 fields, and the table 2: '1'"),
        (b"1,a,b", "it has 3 fields"),
        (b"x,a", "column k is INT, and it holds 'x'; write digits"),
        (b'1,"a', "its quote does not end"),
        (b'1,"a"b', "',' is expected after '\"'"),
        (b"1,a\n2,b", "it holds more than one line, and a message is one row"),
        (b"1,\xff", "can't decode byte 0xff"),
    ],
)
def test_a_row_of_another_form_is_refused(message: bytes, said: str) -> None:
    with pytest.raises(InvalidRows) as refused:
        decoding("csv").decoder(fields_of(**_PAIR)).decode([b"1,a", message])
    assert refused.value.message.startswith("csv: message 2 of 2: ")
    assert said in refused.value.message


def test_ignored_errors_are_null_and_short_rows_are_filled() -> None:
    decoder = decoding("csv", {"ignore-parse-errors": "true"}).decoder(fields_of(**_PAIR))
    rows = decoder.decode([b"x,a", b"1", b"1,a,b", b'1,"', b"2,b,"])
    assert [tuple(each.values()) for each in rows.to_pylist()] == [(None, "a"), (1, None), (2, "b")]


def test_a_mark_of_byte_order_is_part_of_a_message() -> None:
    rows = decoding("csv").decoder(fields_of(a="STRING", b="INT")).decode([b"\xef\xbb\xbfx,1"])
    assert rows.to_pylist() == [{"a": "\ufeffx", "b": 1}]


def test_comments_give_no_row() -> None:
    decoder = decoding("csv", {"allow-comments": "true"}).decoder(fields_of(**_PAIR))
    assert decoder.decode([b"# a comment", b"1,#a"]).to_pylist() == [{"k": 1, "v": "#a"}]


def test_what_has_no_form_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"column m of type MAP.*use the format json"):
        decoding("csv").decoder(fields_of(m="MAP<STRING, INT>"))
    with pytest.raises(UnsupportedError, match=r"column a of type ARRAY<ARRAY<INT>>"):
        decoding("csv").decoder(fields_of(a="ARRAY<ARRAY<INT>>"))
    fields = fields_of(a="ARRAY<STRING>")
    rows = pa.RecordBatch.from_pydict({"a": pa.array([["x;y"]])})
    with pytest.raises(InvalidRows, match="set another array-element-delimiter"):
        encoding("csv").encoder(fields).encode(rows)


@pytest.mark.parametrize("options", [{}, {"null-literal": "NULL"}])
@pytest.mark.parametrize("element", ["", None])
def test_an_array_that_would_be_read_as_another_is_refused(
    options: dict[str, str], element: str | None
) -> None:
    rows = pa.RecordBatch.from_pydict({"a": pa.array([["x"], [element]], pa.list_(pa.string()))})
    with pytest.raises(InvalidRows, match="is read as no element, or null; use the format json"):
        encoding("csv", options).encoder(fields_of(a="ARRAY<STRING>")).encode(rows)


def test_options_are_checked() -> None:
    with pytest.raises(InvalidOption, match="is not one character"):
        decoding("csv", {"field-delimiter": "||"})
    with pytest.raises(InvalidOption, match="contradict each other"):
        decoding("csv", {"disable-quote-character": "true", "quote-character": "'"})


@pytest.mark.mission("CN41", "CN44", "CN45")
def test_changelog_csv_has_the_kind_first() -> None:
    fields = fields_of(name="STRING", score="INT")
    found = decoding("changelog-csv")
    assert found.changelog_mode() == ChangelogMode.of(RowKind.INSERT, RowKind.DELETE)
    messages = [b"INSERT|Alice|12", b"DELETE|Alice|12"]
    rows = found.decoder(fields).decode(messages)
    assert rows.to_pylist() == [
        {"name": "Alice", "score": 12, "_rowkind": "+I"},
        {"name": "Alice", "score": 12, "_rowkind": "-D"},
    ]
    assert encoding("changelog-csv").encoder(fields).encode(rows) == messages
    other = decoding("changelog-csv", {"column-delimiter": "::"}).decoder(fields)
    assert other.decode([b"INSERT::Alice::12"]).num_rows == 1


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"UPDATE_AFTER|1|a", "the kinds are INSERT and DELETE"),
        (b"INSERT|1", "it has 1 values, and the table 2 columns"),
        (b"INSERT|x|a", "column k is INT"),
    ],
)
def test_a_change_of_another_form_is_refused(message: bytes, said: str) -> None:
    with pytest.raises(InvalidRows, match=said):
        decoding("changelog-csv").decoder(fields_of(**_PAIR)).decode([message])


def test_changelog_csv_refuses_rows_that_it_cannot_hold() -> None:
    encoder = encoding("changelog-csv").encoder(fields_of(v="STRING"))
    with pytest.raises(InvalidRows, match="holds the column-delimiter"):
        encoder.encode(pa.RecordBatch.from_pydict({"v": ["a|b"]}))
    with pytest.raises(
        InvalidRows, match=r"row 1 has the kind \+U, and changelog-csv takes \+I -D"
    ):
        encoder.encode(pa.RecordBatch.from_pydict({"v": ["a"], "_rowkind": ["+U"]}))
