"""Literals for columns: what is another value, or none of the type, is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import TypeRoot, parse_data_type
from lakewright.storage.spec.literals import Members, Moment, default_text, fitted

DAY = Moment("2024-01-31", TypeRoot.DATE)


@pytest.mark.parametrize(
    ("value", "column", "said"),
    [
        (1700000000, "TIMESTAMP(3)", "a number is no moment"),
        (20240131, "DATE", "write DATE '2024-01-31'"),
        (2024.0, "DATE", "write DATE '2024-01-31'"),
        (10, "TIME", "a time of day is expected"),
        ("cafe", "BYTES", "write X'…' in hexadecimal"),
        (17, "BYTES", "write X'…' in hexadecimal"),
        (10**400, "DOUBLE", "larger than every DOUBLE"),
        (9007199254740993, "DOUBLE", "the nearest is 9007199254740992"),
        (16777217, "FLOAT", "the nearest is 16777216"),
        ("1_000", "INT", "is not a number"),
        ("1_000", "DOUBLE", "is not a number"),
        ("1_000", "DECIMAL(10, 2)", "is not a number"),
        ("\u0663", "INT", "is not a number"),
        (Moment("2024-01-31 10:00:00", TypeRoot.DATE), "TIMESTAMP(3)", "it is no date"),
        (Moment("2024-01-31 10:00:00", TypeRoot.TIMESTAMP), "DATE", "it is a timestamp"),
        (Moment("2024-01-31 10:00:00", TypeRoot.DATE), "STRING", "Invalid isoformat"),
        (DAY, "INT", "it is a date"),
        ([1, DAY], "ARRAY<INT>", "it is a date"),
        ({"a": 5}, "MAP<STRING, DATE>", "write DATE"),
        (Members(a=Members(b=5)), "ROW<a ROW<b DATE>>", "write DATE"),
        (Members(a=5), "MAP<STRING, INT>", "it is a struct"),
        ({"a": 5}, "ROW<a INT>", "it is a map"),
        ({"a": 0}, "MULTISET<STRING>", "how often they are in it, from 1 on, and 'a' has 0"),
        ({"a": None}, "MULTISET<STRING>", "'a' has None"),
    ],
)
def test_a_literal_that_a_column_would_hold_as_another_value_is_refused(
    value: object, column: str, said: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        fitted(value, parse_data_type(column))
    assert said in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (9007199254740992, "DOUBLE"),
        (Decimal("0.1"), "FLOAT"),
        (1e300, "DOUBLE"),
        ("nan", "DOUBLE"),
        ("20", "INT"),
        (b"ab", "BYTES"),
        ("2024-01-31", "DATE"),
        (None, "DATE"),
    ],
)
def test_a_literal_of_the_type_is_written_as_it_stands(value: object, column: str) -> None:
    assert fitted(value, parse_data_type(column)) == value


def test_a_moment_is_written_as_its_text() -> None:
    for column in ("DATE", "TIMESTAMP(3)", "STRING"):
        assert fitted(DAY, parse_data_type(column)) == DAY.text
    nested = parse_data_type("ROW<a ARRAY<DATE>, b MULTISET<STRING>>")
    assert fitted(Members(a=[DAY], b={"x": 1}), nested) == {"a": [DAY.text], "b": {"x": 1}}


def test_a_moment_in_a_column_of_text_is_the_text_that_spark_writes() -> None:
    found = [
        fitted(Moment(text, kind), parse_data_type("STRING"))
        for text, kind in [
            ("2024-01-31", TypeRoot.TIMESTAMP),
            ("2024-01-31T10:00:00.500", TypeRoot.TIMESTAMP),
            ("10:00:00", TypeRoot.TIME),
        ]
    ]
    assert found == ["2024-01-31 00:00:00", "2024-01-31 10:00:00.5", "10:00:00"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (True, "true"), (b"ab", "ab"), (5, "5"), ("'x'", "''x''"), ("'", "'")],
)
def test_a_default_is_the_text_that_readers_read_as_its_value(
    value: object, text: str | None
) -> None:
    assert default_text(value) == text


def test_bytes_that_no_schema_can_hold_are_no_default() -> None:
    with pytest.raises(InvalidRequestError, match="none in UTF-8"):
        default_text(b"\xff")
