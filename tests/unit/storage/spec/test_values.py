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
