"""Timestamps as INT96: what each type holds of them, without a wrap."""

from __future__ import annotations

import struct
from datetime import date, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.arrow_timestamps import OutOfRange
from lakewright.storage.codec.int96 import decoded_int96, whole_days_of_int96

JULIAN_DAY_OF_1970 = 2_440_588
NANOS_PER_DAY = 86_400 * 10**9
PER_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def stored(*values: tuple[int, int] | None) -> pa.FixedSizeBinaryArray:
    """Pairs of a day since 1970 and nanoseconds, as files hold them."""
    parts = [
        None if each is None else struct.pack("<qI", each[1], each[0] + JULIAN_DAY_OF_1970)
        for each in values
    ]
    return pa.array(parts, pa.binary(12))


def decoded(array: pa.Array, unit: str, *, cut: bool = False) -> list[int | None]:
    kind = pa.timestamp(unit)
    found = decoded_int96(array, kind, None, cut=cut, column="t", path="f.parquet")
    assert found.type == kind
    numbers: list[int | None] = found.cast(pa.int64()).to_pylist()
    return numbers


DAYS = st.integers(-2_440_587, 3_000_000)
# Java writes the days before 1970 with negative nanoseconds of the day after.
NANOS = st.integers(-NANOS_PER_DAY, 2 * NANOS_PER_DAY)


@given(value=st.tuples(DAYS, NANOS), unit=st.sampled_from(list(PER_UNIT)), cut=st.booleans())
def test_a_value_is_exact_or_refused_whatever_its_nanoseconds_are(
    value: tuple[int, int], unit: str, cut: bool
) -> None:
    exact = value[0] * NANOS_PER_DAY + value[1]
    due, rest = divmod(exact, PER_UNIT[unit])
    is_far = not -(2**63) <= due < 2**63
    if is_far or (rest and not cut):
        with pytest.raises(OutOfRange) as caught:
            decoded(stored(value), unit, cut=cut)
        assert caught.value.is_far is is_far
    else:
        assert decoded(stored(None, value), unit, cut=cut) == [None, due]
    days = whole_days_of_int96(stored(value, None), None).to_pylist()
    assert days == [exact // NANOS_PER_DAY, None]


def test_nanoseconds_end_where_64_bits_do() -> None:
    for due in (-(2**63), 2**63 - 1):
        day, nanos = divmod(due, NANOS_PER_DAY)
        assert decoded(stored((day, nanos)), "ns") == [due]
        step = 1 if due > 0 else -1
        with pytest.raises(OutOfRange):
            decoded(stored((day, nanos + step)), "ns")


def test_a_refusal_shows_the_value_of_any_year() -> None:
    for day, nanos, shown in (
        (date(9999, 12, 31), 0, "9999-12-31 00:00:00"),
        (date(1, 1, 2), -(10**9), "0001-01-01 23:59:59"),
        (date(2300, 5, 6), 3_723 * 10**9 + 40, "2300-05-06 01:02:03.00000004"),
        (date(9999, 12, 31) + timedelta(0), 2 * NANOS_PER_DAY, "10000-01-02 00:00:00"),
    ):
        with pytest.raises(OutOfRange) as caught:
            decoded(stored(((day - date(1970, 1, 1)).days, nanos)), "ns")
        assert caught.value.value == shown


def test_slices_and_nulls_keep_their_places() -> None:
    array = stored((0, 1), None, (1, 2), (2, 3), None)
    assert decoded(array.slice(1, 3), "ns") == [None, NANOS_PER_DAY + 2, 2 * NANOS_PER_DAY + 3]
    assert decoded(array.slice(4), "us") == [None]
    assert decoded(array.slice(0, 0), "us") == []
    # What lies below a null means nothing.
    far = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(12), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(bytes(12) + b"\xff" * 12)]
    )
    below = pa.concat_arrays([stored((0, 5)), pa.array([None], pa.binary(12))])
    assert decoded(below, "ns") == [5, None]
    assert decoded(far.slice(1), "us") == [None]
