"""Values from callers: a value that fits its type is accepted, any other is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.values import from_python

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
        (2**31, "DATE"),
        (LARGE, "TIMESTAMP(3)"),
        (2**63 * 1_000, "TIMESTAMP(6)"),
        (2**63, "TIMESTAMP(9)"),
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
        (2**31 - 1, "DATE", 2**31 - 1),
        (-(2**63) * 1_000, "TIMESTAMP(6)", -(2**63) * 1_000),
        (2**63 - 1, "TIMESTAMP(9)", 2**63 - 1),
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


def test_digits_below_the_nanosecond_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="more than 9 digits below the second"):
        from_python("2024-01-31 10:00:00.1234567891", parse_data_type("TIMESTAMP(9)"))
