"""The text of CSV files: quotes are read strictly, and numbers in the marks that are declared."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.declaration_checks import check_declaration
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader import csv_rows
from lakewright.storage.file_reader.reader import read_in_turn
from lakewright.storage.spec.csv_dialect import CsvDialect

TEXTS = [{"name": "id", "type": "STRING"}, {"name": "note", "type": "STRING"}]


def declared(folder: Path, columns: list[dict[str, str]], **form: Any) -> TableDeclaration:
    declaration = TableDeclaration.model_validate(
        {"table": "s.t", "columns": columns, "source": {"csv": str(folder), **form}}
    )
    assert list(check_declaration(declaration)) == []
    return declaration


def read(
    folder: Path,
    content: str | bytes,
    columns: list[dict[str, str]] = TEXTS,
    name: str = "a.csv",
    **form: Any,
) -> list[tuple[Any, ...]]:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    files = source_files(declared(folder, columns, **form), None)
    return [tuple(row.values()) for part in read_in_turn(files, None) for row in part.to_pylist()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('id,note\n1,"abc\n2,def\n3,ghi\n', "row 1 is not well quoted: its quote does not end"),
        ('id,note\n1,a\n2,"say \\"hi\\" now"\n', "row 2 is not well quoted: ',' is expected after"),
        ('id,note\n1,"5" disk\n', "row 1 is not well quoted: ',' is expected after"),
        ('id,note\n1,"a" \n', "row 1 is not well quoted: ',' is expected after"),
        ('id,note\n1,5" disk\n2,"5" disk\n', "row 2 is not well quoted: ',' is expected after"),
        ('id,"note\n1,a\n', "the header is not well quoted: its quote does not end"),
        ("id,note\n1,a\n2,\0\0\n", "row 2 holds a NUL character"),
        ("id,note\n1,a\n\0\0\0\0", "row 2 holds a NUL character"),
        ('id,note\n1,"a",b\n', "row 1 has 3 values, and the header has 2 columns"),
        ('id,note\n\n1,"a"\n2\n', "row 2 has 1 values, and the header has 2 columns"),
    ],
)
def test_text_that_is_no_csv_is_refused_with_file_and_row(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(InvalidRows) as refused:
        read(tmp_path, text)
    assert f"{tmp_path / 'a.csv'}: {said}" in refused.value.message


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('id,note\r\n1,"a\r\nb"\n2,""\r3,\n', [("1", "a\r\nb"), ("2", ""), ("3", None)]),
        ('\ufeff"id","note"\n"1","""a"", b"', [("1", '"a", b')]),
        ('id,note\n1,5" disk\n2, "a\n3,"b"\n', [("1", '5" disk'), ("2", ' "a'), ("3", "b")]),
        ("id,note", []),
        ("id,note\n", []),
        ('"id","note"', []),
        ("note,id\nx,1\n", [("1", "x")]),
    ],
)
def test_text_of_all_quotes_line_ends_and_marks_is_read(
    tmp_path: Path, text: str, rows: list[tuple[Any, ...]]
) -> None:
    assert read(tmp_path, text) == rows


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b"\xef\xbb\xbf"])
def test_a_file_without_rows_and_header_is_no_damaged_one(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content, header=False) == []
    (tmp_path / "a.csv").unlink()
    assert read(tmp_path, gzip.compress(content), name="a.csv.gz", header=False) == []
    assert read(tmp_path, bz2.compress(b"1,a"), name="b.csv.bz2", header=False) == [("1", "a")]


def test_quotes_and_escapes_are_as_declared(tmp_path: Path) -> None:
    spark = 'id,note\n1,"say \\"hi\\", now"\n2,"a\\\\"\n'
    assert read(tmp_path, spark, escape="\\") == [("1", 'say "hi", now'), ("2", "a\\")]
    single = "id,note\n1,'it''s \"5\", yes'\n"
    assert read(tmp_path, single, quote="'") == [("1", 'it\'s "5", yes')]
    none = 'id,note\n1,"5\n2,a"b\n'
    assert read(tmp_path, none, quote="") == [("1", '"5'), ("2", 'a"b')]
    with pytest.raises(InvalidRows, match="row 2 is not well quoted"):
        read(tmp_path, "id,note\n1,''\n2,'a' b\n", quote="'")
    with pytest.raises(InvalidRows, match="row 1 is not well quoted"):
        read(tmp_path, 'id,note\n1,"a\\"\n', escape="\\")


def test_other_encodings_are_read_strictly_too(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-16-le", "latin-1", "cp1252"):
        good = 'id,note\n1,"ä ""ö"""\n'.encode(encoding)
        assert read(tmp_path, good, encoding=encoding) == [("1", 'ä "ö"')], encoding
        with pytest.raises(InvalidRows, match="row 1 is not well quoted"):
            read(tmp_path, 'id,note\n1,"ä" ö\n'.encode(encoding), encoding=encoding)
    with pytest.raises(InvalidRows, match="utf-16"):
        read(tmp_path, "id,note\n1,a\n".encode("utf-16-le"))


def test_a_long_text_and_quotes_at_the_borders_of_blocks_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_rows, "_BLOCK_BYTES", 1 << 12)
    values = ["a" * 500 + '"' * number for number in range(30)]
    out = io.StringIO()
    pairs = list(zip(values, values, strict=True))
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("id", "note"), *pairs])
    assert read(tmp_path, out.getvalue()) == pairs
    with pytest.raises(InvalidRows, match="row 2 is not well quoted: its quote does not end"):
        read(tmp_path, 'id,note\n1,a\n2,"' + "b\n" * 5_000)
    monkeypatch.undo()
    long = "x" * 200_000
    # A quote during a field has the file read twice.
    assert read(tmp_path, f'id,note\n1",{long}\n') == [('1"', long)]


@given(
    st.lists(
        st.sampled_from(["a", '"', '"', ",", "\n", "\r\n", "\r", " ", "é", '","', '"\n"']),
        max_size=14,
    ),
    st.integers(3, 9),
)
@pytest.mark.parametrize("width", [1, 2])
def test_blocks_of_any_size_give_what_pythons_strict_reader_gives(
    width: int, parts: list[str], block: int
) -> None:
    text = "".join(parts)
    try:
        lines = io.TextIOWrapper(io.BytesIO(text.encode()), newline="")
        rows = list(csv.reader(lines, strict=True))
    except csv.Error:
        rows = None
    if rows is not None:
        blank: list[list[str]] = [[""] if not row and width == 1 else row for row in rows]
        rows = [row for row in blank if row]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_rows, "_BLOCK_BYTES", block)
        found, ragged = [], []
        try:
            for each in csv_rows.read_csv_blocks(
                io.BytesIO(text.encode()),
                CsvDialect(header=False, nulls=()),
                path="a.csv",
                names=[str(at) for at in range(width)],
                on_ragged=lambda row: ragged.append(row.row.values),
            ):
                some = [list(row.values()) for row in each.texts.to_pylist()]
                # The text of each row is found in its block.
                assert [each.written(at).values for at in range(len(some))] == some
                found += some
        except InvalidRows:
            assert rows is None
            return
    assert rows is not None
    assert found == [row for row in rows if len(row) == width]
    assert ragged == [row for row in rows if len(row) != width]


NUMBERS = [
    {"name": "i", "type": "INT"},
    {"name": "d", "type": "DECIMAL(12, 2)"},
    {"name": "f", "type": "DOUBLE"},
]


def test_numbers_are_read_in_the_marks_that_are_declared(tmp_path: Path) -> None:
    german = "i;d;f\n1.234;1.234.567,80;-0,5\n+12;1234,5;1e-3\n;;\n7;-1;inf\n"
    form = {"delimiter": ";", "decimal": ",", "thousands": "."}
    assert read(tmp_path, german, NUMBERS, **form) == [
        (1234, Decimal("1234567.80"), -0.5),
        (12, Decimal("1234.50"), 0.001),
        (None, None, None),
        (7, Decimal("-1.00"), math.inf),
    ]
    assert read(tmp_path, 'i,d,f\n"1,234","1,234.5",1\n', NUMBERS, thousands=",") == [
        (1234, Decimal("1234.50"), 1.0)
    ]
    assert read(tmp_path, "i;d;f\n1 234;1,5;1\n", NUMBERS, **{**form, "thousands": " "}) == [
        (1234, Decimal("1.50"), 1.0)
    ]


@pytest.mark.parametrize(
    "text", ["1.5", "1.23", "12.34.567", "1.2345", ".123", "1,5,0", "1.234.56", "1,234.5", "x"]
)
def test_a_number_in_other_marks_is_refused_and_never_another_number(
    tmp_path: Path, text: str
) -> None:
    columns = [{"name": "d", "type": "DECIMAL(12, 4)"}]
    with pytest.raises(InvalidRows, match=r"row 2 holds .*in groups of three parted by '\.'"):
        read(tmp_path, f"d\n1\n{text}\n", columns, delimiter=";", decimal=",", thousands=".")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"quote": '""'}, "quote: '\"\"' is not one ASCII character"),
        ({"escape": "ab"}, "escape: 'ab' is not one ASCII character"),
        ({"quote": ","}, "quote: ',' is the delimiter already"),
        ({"escape": '"'}, "escape: '\"' is the quote already"),
        ({"decimal": ""}, "decimal: '' is not one character"),
        ({"decimal": "5"}, "decimal: '5' is not one character"),
        ({"thousands": "."}, "thousands: '.' is the decimal point, too"),
        ({"delimiter": "\n"}, "delimiter: '\\n' is not one ASCII character"),
    ],
)
def test_marks_that_cannot_be_told_apart_are_found_before_a_run(
    form: dict[str, str], said: str
) -> None:
    declaration = TableDeclaration.model_validate(
        {"table": "s.t", "columns": TEXTS, "source": {"csv": "/x", **form}}
    )
    ((place, message),) = check_declaration(declaration)
    assert said in f"{place[-1]}: {message}"


def test_a_layout_without_a_zone_gives_no_moment_of_one(tmp_path: Path) -> None:
    columns = [{"name": "at", "type": "TIMESTAMP_LTZ(3)"}]
    with pytest.raises(InvalidRows, match="has no zone; add %z to it, or declare"):
        read(tmp_path, "at\n31.01.2024 10:00\n", columns, timestamp_format="%d.%m.%Y %H:%M")
    ((found,),) = read(
        tmp_path, "at\n31.01.2024 10:00+0200\n", columns, timestamp_format="%d.%m.%Y %H:%M%z"
    )
    assert found.isoformat() == "2024-01-31T08:00:00+00:00"


def test_the_form_of_csv_is_not_for_other_files() -> None:
    for name, mark in (("quote", "'"), ("escape", "\\"), ("decimal", ","), ("thousands", " ")):
        declaration = TableDeclaration.model_validate(
            {"table": "s.t", "columns": TEXTS, "source": {"json": "/x", name: mark}}
        )
        assert [(("source", name), f"{name} describes csv files only; leave it out")] == list(
            check_declaration(declaration)
        )


ESCAPED = (
    'id,note\n1,"C:\\\\new, dir"\n2,"q\\"\\\\n,"\n3,a\\b\n4,a\\\n5,"x\\ny"\n6,\\"\n7,"a""\\b"\n'
)
PLAIN = [
    ("1", "C:\\new, dir"),
    ("2", 'q"\\n,'),
    ("3", "a\\b"),
    ("4", "a\\"),
    ("5", "x\\ny"),
    ("6", '\\"'),
    ("7", 'a"\\b'),
]


def test_an_escape_counts_before_a_quote_or_itself_in_a_quoted_field_alone(tmp_path: Path) -> None:
    """As Spark writes: it quotes no field for a backslash, and doubles those of quoted fields."""
    assert read(tmp_path, ESCAPED, escape="\\") == PLAIN


@pytest.mark.parametrize("size", range(1, 40))
def test_escapes_count_alike_wherever_the_blocks_of_a_file_end(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_rows, "_BLOCK_BYTES", size)
    assert read(tmp_path, ESCAPED, escape="\\") == PLAIN


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("v\n1\n\n3\n", [("1",), (None,), ("3",)]),
        ('v\n""\n\n', [("",), (None,)]),
        ("\n\nv\n1\n", [("1",)]),
    ],
)
def test_an_empty_line_of_one_column_is_its_null(
    tmp_path: Path, text: str, rows: list[tuple[Any, ...]]
) -> None:
    """As PostgreSQL and DuckDB write it."""
    assert read(tmp_path, text, [{"name": "v", "type": "STRING"}]) == rows
