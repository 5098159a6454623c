"""Values that casts lose: value by value, and as far as bounds tell."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.codec.cast_survival import known_loss, lost_values
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.values import Value, order_key
from tests.support.values.evolution import CAST_TYPES
from tests.unit.storage.codec.test_evolved_values import atomic

NAN = float("nan")
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 678_901)
FAR = dt.datetime(9999, 12, 31)

# Of each cast: the values that survive it, and those that do not.
CASES: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
    ("INT", "TINYINT"): ([127, -128, 0], [128, -129, 300]),
    ("INT", "FLOAT"): ([2**24, -(2**24), 2**30], [2**24 + 1, 2**31 - 1]),
    ("BIGINT", "DOUBLE"): ([2**53, -(2**63), 2**62], [2**53 + 1, 2**63 - 1]),
    ("BIGINT", "DECIMAL(5, 2)"): ([999, -999], [1000, -1000]),
    ("INT", "BOOLEAN"): ([0, 1], [2, -1]),
    ("INT", "VARCHAR(3)"): ([999, -99], [1000, -100]),
    ("INT", "TIMESTAMP(3)"): ([0, -1, 2**31 - 1], []),
    ("BIGINT", "TIMESTAMP(3)"): ([0], [2**63 - 1]),
    ("DOUBLE", "INT"): ([1.0, -2.0, float(2**31 - 1)], [0.5, 2.0**31, NAN, float("inf")]),
    ("DOUBLE", "BIGINT"): ([2.0**62], [2.0**63, 1e300]),
    ("DOUBLE", "FLOAT"): ([0.5, NAN, float("inf")], [0.1, 1e300]),
    ("DOUBLE", "DECIMAL(4, 1)"): ([1.5, 999.9], [0.25, 1000.0, NAN]),
    ("DOUBLE", "VARCHAR(3)"): ([1.5], [10.25, 1e7]),
    ("DECIMAL(6, 2)", "INT"): ([Decimal("5.00")], [Decimal("5.25")]),
    ("DECIMAL(6, 2)", "DECIMAL(4, 1)"): ([Decimal("9.50")], [Decimal("9.55"), Decimal("1000.00")]),
    ("DECIMAL(6, 2)", "DOUBLE"): ([Decimal("0.10"), Decimal("9999.99")], []),
    ("DECIMAL(20, 0)", "DOUBLE"): ([Decimal(10**19)], [Decimal(10**19 + 1)]),
    ("STRING", "INT"): (["7", "-12"], ["seven", "1e99", ""]),
    ("STRING", "DECIMAL(4, 1)"): (["1.5", "1.50"], ["1.55", "12345", "x"]),
    ("STRING", "DATE"): (["2024-02-29"], ["2023-02-29", "soon"]),
    ("STRING", "TIMESTAMP(0)"): (["2024-01-02 03:04:05"], ["2024-01-02 03:04:05.5", "noon"]),
    ("STRING", "BOOLEAN"): (["true", "false"], ["maybe"]),
    ("STRING", "VARCHAR(2)"): (["ab", "", "éé", "a  "], ["abc", "  a"]),
    ("STRING", "CHAR(3)"): (["ab", "abc"], ["abcd"]),
    ("CHAR(4)", "VARCHAR(2)"): (["ab  "], ["abc "]),
    ("STRING", "VARBINARY(2)"): (["ab"], ["éa"]),
    ("BYTES", "BINARY(2)"): ([b"ab"], [b"a", b"abc"]),
    ("BYTES", "STRING"): ([b"ab"], [b"\xff"]),
    ("TIMESTAMP(6)", "TIMESTAMP(3)"): ([MOMENT.replace(microsecond=5000)], [MOMENT]),
    ("TIMESTAMP(6)", "DATE"): ([dt.datetime(2024, 1, 2)], [MOMENT]),
    ("TIMESTAMP(6)", "BIGINT"): ([MOMENT.replace(microsecond=0)], [MOMENT]),
    ("TIMESTAMP(6)", "TIME(3)"): ([dt.datetime(1970, 1, 1, 5)], [MOMENT]),
    ("TIMESTAMP(6)", "TIMESTAMP(9)"): ([MOMENT], [FAR, dt.datetime(1, 1, 1)]),
    ("DATE", "TIMESTAMP(9)"): ([dt.date(2262, 4, 11)], [dt.date(9999, 12, 31)]),
    ("BOOLEAN", "VARCHAR(4)"): ([True], [False]),
    ("BOOLEAN", "DECIMAL(1, 1)"): ([False], [True]),
}


def lost_of(old: str, new: str, values: list[Any]) -> list[bool]:
    array = pa.array(values, to_arrow_type(atomic(old)))
    found: list[bool] = lost_values(array, atomic(old), atomic(new)).to_pylist()
    return found


@pytest.mark.parametrize(("old", "new"), list(CASES))
def test_each_value_that_a_cast_changes_for_good_is_found(old: str, new: str) -> None:
    kept, lost = CASES[old, new]
    # Twice, in another order, with nulls: one bad value must not hide or taint its neighbours.
    values = [*lost, None, *kept, *lost]
    due = [True] * len(lost) + [False] * (1 + len(kept)) + [True] * len(lost)
    assert lost_of(old, new, values) == due


def bounds_of(old: str, values: list[Any]) -> Bounds:
    array = pa.array(values, to_arrow_type(atomic(old)))
    stored: list[Value] = [value_of(each, atomic(old)) for each in array]
    known = sorted((each for each in stored if each is not None), key=order_key)
    low, high = (known[0], known[-1]) if known else (None, None)
    return Bounds(low, high, len(stored) - len(known), len(stored))


@pytest.mark.parametrize(
    ("old", "new", "values", "at_least", "is_all"),
    [
        ("INT", "TINYINT", [-128, 127, None], 0, True),
        ("INT", "TINYINT", [-200, 5, 300], 2, False),
        ("INT", "TINYINT", [5, 6, 300], 1, False),
        ("INT", "TINYINT", [300, 301, 302, None], 3, True),
        ("INT", "TINYINT", [-302, -301, 300], 2, False),
        ("INT", "TINYINT", [None, None], 0, True),
        ("INT", "BOOLEAN", [0, 1], 0, True),
        ("INT", "VARCHAR(2)", [-9, 99], 0, True),
        ("BIGINT", "DOUBLE", [-(2**53), 2**53], 0, True),
        ("BIGINT", "DOUBLE", [0, 2**60], 0, False),
        ("DECIMAL(20, 2)", "DOUBLE", [Decimal("0.10"), Decimal("123456.78")], 0, True),
        ("DECIMAL(20, 2)", "DOUBLE", [Decimal("0.10"), Decimal("12345678901234.00")], 0, False),
        ("DECIMAL(6, 2)", "DECIMAL(4, 1)", [Decimal("1.00"), Decimal("2.00")], 0, False),
        ("DECIMAL(6, 2)", "DECIMAL(4, 1)", [Decimal("2.00")] * 3, 0, True),
        ("DECIMAL(6, 2)", "DECIMAL(4, 2)", [Decimal("1.25"), Decimal("99.99")], 0, True),
        ("DOUBLE", "INT", [1.0, 2.0], 0, False),
        ("DOUBLE", "INT", [1.0, 2.5], 1, False),
        # NaN has no place between bounds.
        ("DOUBLE", "INT", [1.0, 1.0], 0, False),
        ("STRING", "INT", ["1", "2"], 0, False),
        ("STRING", "VARCHAR(2)", ["a", "abc"], 1, False),
        ("STRING", "VARCHAR(2)", ["a", "b"], 0, False),
        ("CHAR(4)", "VARCHAR(2)", ["a   ", "b   "], 0, False),
        ("STRING", "VARCHAR(2)", ["a   ", "b   "], 0, False),
        ("STRING", "VARCHAR(2)", ["abc", "xyz"], 2, False),
        # Bounds that were cut after three characters, of "abcdef" and of "a" with blanks.
        ("STRING", "VARCHAR(2)", ["abc", "abd"], 1, False),
        ("STRING", "VARCHAR(2)", ["a  ", "a !"], 0, False),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", [dt.datetime(2024, 1, 2), MOMENT], 1, False),
        ("TIMESTAMP(6)", "TIMESTAMP(9)", [dt.datetime(2024, 1, 2), MOMENT], 0, True),
        ("TIMESTAMP(6)", "TIMESTAMP(9)", [MOMENT, FAR, FAR], 1, False),
        ("TIMESTAMP(6)", "TIMESTAMP(9)", [FAR, FAR - dt.timedelta(1), FAR], 3, True),
        ("DATE", "TIMESTAMP(9)", [dt.date(1700, 1, 1), dt.date(2200, 1, 1)], 0, True),
    ],
)
def test_bounds_tell_as_much_as_they_can(
    old: str, new: str, values: list[Any], at_least: int, is_all: bool
) -> None:
    found = known_loss(bounds_of(old, values), atomic(old), atomic(new))
    assert (found.at_least, found.is_all) == (at_least, is_all)


def test_without_bounds_nothing_is_known() -> None:
    for bounds in (None, Bounds(None, None, None, 3), Bounds(None, None, 0, 3)):
        found = known_loss(bounds, atomic("INT"), atomic("TINYINT"))
        assert (found.at_least, found.is_all) == (0, False)


NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "BIGINT": st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1)),
    "DOUBLE": st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e19, -3.0]), st.floats(allow_nan=False)),
    "DECIMAL(20, 2)": st.decimals(-(10**17), 10**17, places=2),
    "DECIMAL(9, 0)": st.decimals(-999, 999, places=0),
    "STRING": st.text("0123.-é ", max_size=6),
}
TARGETS = (
    "TINYINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "BOOLEAN",
    "DECIMAL(4, 0)",
    "DECIMAL(12, 2)",
    "VARCHAR(3)",
    "CHAR(2)",
    "BINARY(3)",
)


@given(data=st.data(), old=st.sampled_from(list(NUMBERS)), new=st.sampled_from(TARGETS))
def test_what_bounds_tell_is_true_of_the_values(data: Any, old: str, new: str) -> None:
    """The law: never more than is lost, and all of it where they say so."""
    rule = cast_rule(atomic(old), atomic(new))
    assume(rule.cast is not Cast.REFUSED)
    assume(rule.loss is not None)
    values = data.draw(st.lists(st.one_of(st.none(), NUMBERS[old]), max_size=5))
    lost = sum(lost_of(old, new, values))
    found = known_loss(bounds_of(old, values), atomic(old), atomic(new))
    assert found.at_least <= lost
    assert not found.is_all or found.at_least == lost


def sample_of(kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return "2024"
    if pa.types.is_binary(kind):
        return b"five"
    if pa.types.is_timestamp(kind):
        return MOMENT
    others = {pa.bool_(): True, pa.date32(): dt.date(2024, 1, 2), pa.time32("ms"): dt.time(3, 4)}
    return others.get(kind, 1)


def test_every_cast_that_may_lose_values_has_an_answer() -> None:
    tried = 0
    for old, new in product(CAST_TYPES, repeat=2):
        rule = cast_rule(atomic(old), atomic(new))
        if rule.loss is not None and rule.cast is not Cast.REFUSED:
            sample = sample_of(to_arrow_type(atomic(old)))
            assert len(lost_of(old, new, [sample, None])) == 2
            tried += 1
    assert tried > 100
