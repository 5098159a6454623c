"""Values of retyped columns, as the newest Java casts them; see also the interop tests."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import parse_data_type
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.spec.data_types import AtomicType
from tests.support.tables.zones import machine_in

NAN, INFINITY = float("nan"), float("inf")


def atomic(text: str) -> AtomicType:
    found = parse_data_type(text)
    assert isinstance(found, AtomicType)
    return found


def cast(old: str, new: str, values: list[Any], *, shown: bool = False) -> list[Any]:
    """Cast the values of a file to another type."""
    array = pa.array([*values, None], to_arrow_type(atomic(old)))
    found = evolved(array, atomic(old), atomic(new), shown=shown)
    assert found.type == to_arrow_type(atomic(new))
    assert not found[len(values)].is_valid
    found.validate(full=True)
    return list(found.to_pylist()[:-1])


# Checked against Double.toString and Float.toString of Java 25.
DOUBLES = {
    1.0: "1.0",
    -0.0: "-0.0",
    0.1: "0.1",
    123456.789: "123456.789",
    0.001: "0.001",
    0.00099: "9.9E-4",
    9999999.0: "9999999.0",
    1e7: "1.0E7",
    -1e20: "-1.0E20",
    2e23: "2.0E23",
    4.9e-324: "4.9E-324",
    1e-323: "9.9E-324",
    1.7976931348623157e308: "1.7976931348623157E308",
    INFINITY: "Infinity",
    -INFINITY: "-Infinity",
}
FLOATS = {0.1: "0.1", 16777216.0: "1.6777216E7", 1.401298464324817e-45: "1.4E-45", 1e20: "1.0E20"}


@pytest.mark.parametrize(("old", "texts"), [("DOUBLE", DOUBLES), ("FLOAT", FLOATS)])
def test_floating_numbers_become_the_texts_of_java(old: str, texts: dict[float, str]) -> None:
    assert cast(old, "STRING", list(texts)) == list(texts.values())
    assert cast(old, "STRING", [NAN]) == ["NaN"]


def test_timestamps_become_texts_with_the_digits_of_their_precision() -> None:
    moment = dt.datetime(1, 2, 3, 4, 5, 6, 120000)
    texts = {0: "0001-02-03 04:05:06.12", 3: "0001-02-03 04:05:06.120"}
    for precision, text in {**texts, 6: texts[3] + "000"}.items():
        assert cast(f"TIMESTAMP({precision})", "STRING", [moment]) == [text]
    assert cast("TIMESTAMP(0)", "STRING", [dt.datetime(1969, 12, 31)]) == ["1969-12-31 00:00:00"]


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "2024-07-01 00:00:00.000"),
        ("Europe/Berlin", "2024-07-01 02:00:00.000"),
        ("America/New_York", "2024-06-30 20:00:00.000"),
    ],
)
def test_moments_become_texts_of_the_machine_s_wall_clock(zone: str, text: str) -> None:
    moment = dt.datetime(2024, 7, 1, tzinfo=dt.UTC)
    with machine_in(zone):
        assert cast("TIMESTAMP(3) WITH LOCAL TIME ZONE", "STRING", [moment]) == [text]


def test_times_that_a_wall_clock_skipped_or_showed_twice_are_java_s_moments() -> None:
    times = [dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30)]
    with machine_in("Europe/Berlin"):
        found = cast("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", times)
    utc = dt.UTC
    assert found == [
        dt.datetime(2024, 3, 31, 1, 30, tzinfo=utc),
        dt.datetime(2024, 10, 27, 0, 30, tzinfo=utc),
    ]


# The interop test covers casts on which both Java releases of the oracles agree. These are the
# other casts, by the newest source.
@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        ("BIGINT", "BOOLEAN", [-(2**63), 0], [True, False]),
        ("TIMESTAMP(3)", "TIME(3)", [dt.datetime(1969, 12, 31, 23)], [dt.time(23)]),
        ("STRING", "TIMESTAMP(3)", ["1704164645120"], [dt.datetime(2024, 1, 2, 3, 4, 5, 120000)]),
        ("STRING", "TIMESTAMP(0)", ["1704164645"], [dt.datetime(2024, 1, 2, 3, 4, 5)]),
        ("STRING", "DECIMAL(38, 0)", ["9" * 39, "9" * 38], [None, Decimal("9" * 38)]),
        # A text is rounded to a float once, not to a double first.
        ("STRING", "FLOAT", ["1.00000017881393432617187499"], [1.0000001192092896]),
    ],
)
def test_values_are_cast_as_the_newest_java_does(
    old: str, new: str, values: list[Any], expected: list[Any]
) -> None:
    assert cast(old, new, values) == expected


UNREADABLE = {
    "BOOLEAN": ["", "on", "2"],
    "TINYINT": ["", "128", " 1", "1e2", "0x1", "-"],
    "BIGINT": ["9223372036854775808", "1_000", "١"],
    "DOUBLE": ["", "nan", "inf", "1_0", "0x1", "++1", "+-NaN", "1 2"],
    "DECIMAL(5, 2)": ["", " 1", "NaN", "1_0", "0x1", "1e99999999999999999999"],
    "DATE": ["", "2024-02-30", "2024-13-01", "2024-1-1-1", "24:00", "x"],
    "TIME": ["", "12:x", "12:00:00Z", "25:00:00", "12+01:30"],
    "TIMESTAMP(3)": ["", "2024-01-01T00:00:00", "2024-01-01 24:00:01", "24-01-01", "2024-00-01"],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": ["1704164645120", "2024-01-01 00:00:00Z"],
}


@pytest.mark.parametrize("new", list(UNREADABLE))
def test_texts_that_java_does_not_read_are_named(new: str) -> None:
    for text in UNREADABLE[new]:
        with pytest.raises(pa.ArrowInvalid, match="cannot be read as"):
            cast("STRING", new, [text])


@pytest.mark.parametrize("value", [NAN, INFINITY])
def test_numbers_that_are_none_are_no_decimals(value: float) -> None:
    with pytest.raises(pa.ArrowInvalid, match="cannot be read as DECIMAL"):
        cast("DOUBLE", "DECIMAL(10, 2)", [value])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DATE", "INT"),
        ("BOOLEAN", "DATE"),
        ("TIMESTAMP(3)", "VARCHAR(30)"),
        ("TINYINT", "TIMESTAMP(3)"),
    ],
)
def test_casts_that_java_does_not_know_are_refused(old: str, new: str) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match="no client casts"):
        cast(old, new, [])


def test_timestamps_that_nanoseconds_do_not_reach_are_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="too far from 1970"):
        cast("DATE", "TIMESTAMP(9)", [dt.date(9999, 12, 31)])


def test_bytes_that_are_no_text_are_shown_with_replacements_and_kept_from_rewrites() -> None:
    values = [b"a\xffb", b"\xe4\xb8", "ä".encode()]
    assert cast("BYTES", "STRING", values, shown=True) == ["a\ufffdb", "\ufffd", "ä"]
    with pytest.raises(pa.ArrowInvalid, match="alter the column back to BYTES"):
        cast("BYTES", "STRING", values)


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ("DATE", "99999999999-01-01"),
        ("DATE", "2024-99999999999-01"),
        ("DATE", "9" * 5000),
        ("TIMESTAMP(3)", "9223372036854775807"),
        ("TIMESTAMP(0)", "9" * 19),
        ("TIMESTAMP(0)", "9" * 5000),
        ("TIME(3)", "99999999999999999:00:00"),
        ("TIME(3)", "9" * 5000 + ":00:00"),
        ("INT", "9" * 5000),
    ],
)
def test_texts_of_numbers_that_are_too_large_are_named(new: str, text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        cast("STRING", new, [text])


def test_seconds_that_java_s_milliseconds_do_not_hold_wrap() -> None:
    found = cast("STRING", "TIMESTAMP(0)", ["9223372036854775807"])
    assert found == [dt.datetime(1969, 12, 31, 23, 59, 59)]
