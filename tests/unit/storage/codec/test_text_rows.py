"""Rows as CSV, JSON and plain lines: what is read is what was written."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.text_rows import encode_text_rows
from lakewright.storage.errors import InvalidOption, InvalidRows
from lakewright.storage.file_reader.location import FoundFile
from lakewright.storage.file_reader.reader import FileReader
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.operations.format_tables.read_folders import form_of_files
from lakewright.storage.spec.data_types import DataField, parse_data_type

TEXTS = ["", None, " ", "a,b", 'say "hi"', "\\", 'a\\"', "a\\b", "\\\\", "\t", "NULL", "é", "nil"]


def fields_of(**types: str) -> list[DataField]:
    return [
        DataField(at, name, parse_data_type(text)) for at, (name, text) in enumerate(types.items())
    ]


def decoded(
    data: bytes, format_name: str, fields: list[DataField], options: dict[str, str]
) -> pa.Table:
    """What a format table reads of a file with these bytes."""
    fs, root = open_file_system("memory://text_rows")
    fs.write_bytes(f"{root}/f", data)
    file = FoundFile(fs=fs, path=f"{root}/f", size_bytes=len(data))
    form = form_of_files(format_name, options)
    empty = to_arrow_schema(fields).empty_table()
    rows = FileReader(file=file, form=form, fields=tuple(fields)).read()
    return pa.concat_tables([empty, *rows])


def written(
    rows: pa.Table, fields: list[DataField], format_name: str, options: dict[str, str]
) -> pa.Table:
    data = encode_text_rows(rows, format_name, options, table="db.t")
    return decoded(data, format_name, fields, options)


@pytest.mark.parametrize(
    ("format_name", "options"),
    [
        ("csv", {}),
        ("csv", {"csv.null-literal": "NULL", "csv.include-header": "true"}),
        ("csv", {"delimiter": "-", "csv.quote-character": "'", "escape": "^", "nullvalue": "nil"}),
        ("json", {}),
    ],
)
@pytest.mark.parametrize("columns", [("v",), ("v", "w", "n")])
@pytest.mark.mission("PT14")
def test_texts_nulls_and_signs_come_back(
    format_name: str, options: dict[str, str], columns: tuple[str, ...]
) -> None:
    fields = [each for each in fields_of(v="STRING", w="STRING", n="INT") if each.name in columns]
    numbers = [at - 5 or None for at in range(len(TEXTS))]
    held = {"v": TEXTS, "w": TEXTS[::-1], "n": numbers}
    rows = pa.table([held[each.name] for each in fields], schema=to_arrow_schema(fields))

    assert written(rows, fields, format_name, options).to_pydict() == rows.to_pydict()


@given(
    st.lists(
        st.tuples(
            st.none()
            | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")),
            st.none() | st.text(',"\\a ', max_size=5),
        ),
        max_size=6,
    )
)
@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_all_texts_without_line_breaks_come_back(
    format_name: str, pairs: list[tuple[str | None, str | None]]
) -> None:
    fields = fields_of(v="STRING", w="STRING")
    rows = pa.table([[a for a, _ in pairs], [b for _, b in pairs]], schema=to_arrow_schema(fields))
    assert written(rows, fields, format_name, {}).to_pydict() == rows.to_pydict()


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_values_of_every_type_come_back(format_name: str) -> None:
    moment = dt.datetime(2024, 1, 31, 10, 0, 0, 123000)
    fields = fields_of(
        a="TIMESTAMP(3)", b="TIMESTAMP(6)", c="TIME(3)", d="TIME(0)", e="DATE", f="BOOLEAN",
        g="DOUBLE", h="FLOAT", i="DECIMAL(38, 12)", j="TINYINT", k="BIGINT", l="CHAR(3)",
    )  # fmt: skip
    row = [
        moment, moment, dt.time(10, 0, 0, 123000), dt.time(10), dt.date(1, 1, 1), True,
        1e300, 0.5, Decimal("1234567890123456.000000000001"), -128, 2**63 - 1, "abc",
    ]  # fmt: skip
    columns = [[each, None] for each in row]
    rows = pa.table(columns, schema=to_arrow_schema(fields))
    # The first chunk of rows that a query returns is empty.
    rows = pa.concat_tables([rows.slice(0, 0), rows])

    assert written(rows, fields, format_name, {}).to_pydict() == rows.to_pydict()


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_floats_that_are_not_finite_are_written_as_java_reads_them(format_name: str) -> None:
    fields = fields_of(x="DOUBLE", y="FLOAT")
    values = [float("inf"), float("-inf"), 1.5, None]
    rows = pa.table([values, values], schema=to_arrow_schema(fields))

    data = encode_text_rows(rows, format_name, {}, table="db.t")

    assert data.count(b"-Infinity") == 2
    assert decoded(data, format_name, fields, {}).equals(rows)


def test_fine_timestamps_keep_their_digits_in_json() -> None:
    fields = fields_of(t="TIMESTAMP(9)")
    rows = pa.table([pa.array([1706695200123456789], pa.int64())], ["t"])
    rows = rows.cast(to_arrow_schema(fields))
    assert written(rows, fields, "json", {}).equals(rows)


def test_long_values_do_not_end_at_a_block() -> None:
    fields = fields_of(v="STRING", n="INT")
    rows = pa.table([["x" * 3_000_000, "y"], [1, 2]], schema=to_arrow_schema(fields))
    assert written(rows, fields, "csv", {}).equals(rows)


def test_lines_end_at_line_feeds_and_carriage_returns_alone() -> None:
    fields = fields_of(v="STRING")
    assert decoded(b"\n", "text", fields, {}).to_pydict() == {"v": [""]}
    data = "\ufeffa\r\n\u2028b\rc".encode()
    found = decoded(data, "text", fields, {})
    assert found.to_pydict() == {"v": ["a", "\u2028b", "c"]}
    data = '{"v": "a\u2028b\x85c"}\r\n{"v": null}'.encode()
    found = decoded(data, "json", fields, {})
    assert found.to_pydict() == {"v": ["a\u2028b\x85c", None]}


@pytest.mark.parametrize("text", ["a\nb", "a\rb"])
@pytest.mark.parametrize("format_name", ["csv", "text"])
def test_line_breaks_that_readers_take_for_rows_are_refused(format_name: str, text: str) -> None:
    rows = pa.table({"v": ["x", text]})
    with pytest.raises(InvalidRows, match="holds one row a line, and column v of a row is 'a"):
        encode_text_rows(rows, format_name, {}, table="db.t")
    assert written(rows, fields_of(v="STRING"), "json", {}).equals(rows)


def test_moments_of_no_zone_are_not_written_as_times() -> None:
    rows = pa.table({"t": pa.array([0], pa.timestamp("us", tz="UTC"))})
    for format_name in ("csv", "json"):
        with pytest.raises(InvalidRows, match=r"column t of db\.t holds moments"):
            encode_text_rows(rows, format_name, {}, table="db.t")


def test_a_number_is_no_moment_and_a_decimal_keeps_its_digits() -> None:
    data = json.dumps({"t": 1706695200000}).encode()
    with pytest.raises(InvalidRows, match=r"column t is TIMESTAMP\(3\), and 1706695200000"):
        decoded(data, "json", fields_of(t="TIMESTAMP(3)"), {})
    data = b'{"d": 12345678901234567890.12}'
    found = decoded(data, "json", fields_of(d="DECIMAL(22, 2)"), {})
    assert found.to_pydict() == {"d": [Decimal("12345678901234567890.12")]}


@pytest.mark.parametrize(
    ("format_name", "options", "told"),
    [
        ("csv", {"csv.line-delimiter": "|"}, "lines end at a line feed here"),
        ("json", {"lineSep": "\r"}, "lines end at a line feed here"),
        ("csv", {"csv.field-delimiter": "||"}, "three different ASCII characters"),
        ("csv", {"csv.quote-character": "\\"}, "three different ASCII characters"),
        ("csv", {"csv.null-literal": "a,b"}, "holds a sign of the files"),
    ],
)
def test_options_of_other_files_are_refused(
    format_name: str, options: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidOption, match=told):
        decoded(b"1\n", format_name, fields_of(n="INT"), options)
