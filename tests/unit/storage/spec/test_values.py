"""Values from callers: a value that fits its type is accepted, any other is refused."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal

import pytest

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.values import StoredNumber, from_python, to_python

# Python prints no integer of so many digits.
LARGE = 10**5_000


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (LARGE, "BIGINT"),
        (Decimal("1e999999999"), "INT"),
        (Decimal("-1e999999999"), "TINYINT"),
        (Decimal("Infinity"), "INT"),
        (float("inf"), "INT"),
        (float("nan"), "BIGINT"),
        (Decimal("1e999999999"), "DECIMAL(38, 10)"),
        (LARGE, "DECIMAL(38, 0)"),
        (float("nan"), "DECIMAL(5, 2)"),
        ("9" * 10_000, "INT"),
        ("9" * 10_000, "DECIMAL(38, 0)"),
        ("9" * 10_000, "DATE"),
        (LARGE, "DATE"),
        (StoredNumber(2**31), "DATE"),
        (StoredNumber(LARGE), "TIMESTAMP(3)"),
        (StoredNumber(2**63 * 1_000), "TIMESTAMP(6)"),
        (StoredNumber(2**63), "TIMESTAMP(9)"),
        (LARGE, "DOUBLE"),
        (LARGE, "STRING"),
        (LARGE, "BYTES"),
    ],
    ids=[f"{number}" for number in range(20)],
)
def test_a_value_beyond_its_type_is_refused_in_few_words(value: object, kind: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        from_python(value, parse_data_type(kind))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (StoredNumber(2**31 - 1), "DATE", 2**31 - 1),
        (StoredNumber(-(2**63) * 1_000), "TIMESTAMP(6)", -(2**63) * 1_000),
        (StoredNumber(2**63 - 1), "TIMESTAMP(9)", 2**63 - 1),
        (Decimal("1e2"), "INT", 100),
        (Decimal("-0.0"), "DECIMAL(5, 2)", Decimal("0.00")),
        ("99999999999999999999999999999999999999", "DECIMAL(38, 0)", Decimal(10**38 - 1)),
    ],
)
def test_a_value_at_the_end_of_its_type_is_taken(value: object, kind: str, stored: object) -> None:
    found = from_python(value, parse_data_type(kind))
    assert (found, str(found)) == (stored, str(stored))


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-31 10:00:00.123456789",
        "2024-01-31T10:00:00,123456789",
        "20240131T100000.123456789",
        "2024-01-31 10:00:00.12345678900",
        "2024-01-31 10:00:00.123456789+00:00",
    ],
)
def test_the_nanoseconds_of_a_text_are_kept_however_it_is_written(text: str) -> None:
    stored = from_python(text, parse_data_type("TIMESTAMP(9) WITH LOCAL TIME ZONE"))
    assert stored == 1706695200_123456789


@pytest.mark.parametrize(
    ("kind", "digits"),
    [("TIMESTAMP(0)", 3), ("TIMESTAMP(3)", 3), ("TIMESTAMP(4)", 6), ("TIMESTAMP(7)", 9)],
)
def test_the_digits_of_the_unit_that_stores_a_moment_are_held(kind: str, digits: int) -> None:
    data_type = parse_data_type(kind)
    text = "2024-01-31 10:00:00.123456789"[: 20 + digits]
    assert from_python(text, data_type) == 1706695200_123456789 // 10 ** (9 - digits) * 10 ** (
        9 - digits
    )
    if digits < 9:
        with pytest.raises(InvalidRequestError, match=f"the column holds {digits} digits of a"):
            from_python(f"{text}9", data_type)


def test_digits_below_the_nanosecond_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="more than 9 digits below the second"):
        from_python("2024-01-31 10:00:00.1234567891", parse_data_type("TIMESTAMP(9)"))


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP(0)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)"])
@pytest.mark.parametrize(
    "value",
    [
        1706708700000,
        0,
        -1,
        1.5,
        Decimal(5),
        # Python reads it as 1512-12-03T00:00 parted by a 4.
        "1512120340000",
        "19723",
        "-2",
        "1706708700.25",
        " 1706708700 ",
    ],
)
def test_a_number_is_no_moment(value: object, kind: str) -> None:
    with pytest.raises(InvalidRequestError, match="a number is no moment; convert it, or declare"):
        from_python(value, parse_data_type(kind))


def test_a_date_of_eight_digits_is_one() -> None:
    assert from_python("20240131", parse_data_type("DATE")) == 19_753


@pytest.mark.parametrize(
    ("stored", "kind"),
    [(2**31 - 1, "DATE"), (10**18 + 1, "TIMESTAMP(9)"), (-(2**62), "TIMESTAMP(6)")],
)
def test_what_python_has_no_value_for_comes_back_as_it_is_stored(stored: int, kind: str) -> None:
    data_type = parse_data_type(kind)
    known = to_python(stored, data_type)
    assert isinstance(known, StoredNumber)
    assert str(known) == str(stored)
    for again in (known, pickle.loads(pickle.dumps(known)), copy.deepcopy(known)):
        assert from_python(again, data_type) == stored
