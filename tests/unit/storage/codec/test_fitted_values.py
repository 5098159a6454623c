"""Which values fit their new type, for every pair of types that is cast."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage.codec.arrow_mapping import map_column
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.codec.fitted_values import MustNotBeNull, fitted, fitted_part, nulled_parts
from lakewright.storage.spec.cast_mode import CastMode
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.data_types import AtomicType, DataField, parse_data_type
from lakewright.storage.spec.schema import with_member_ids
from lakewright.storage.spec.schema_mapping import schema_mapping
from tests.support.values.evolution import CAST_TYPES

INF, NAN = math.inf, math.nan
DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30)
LATE = dt.datetime(2100, 1, 1)
EARLY, FAR = dt.datetime(1677, 1, 1), dt.datetime(9999, 12, 30)
# Nanoseconds hold fewer years.
NEW_TYPES = [*CAST_TYPES, "TIMESTAMP(9)"]

# By family of types: values, and for each new type those of them that do not fit.
INTEGERS = ["TINYINT", "SMALLINT", "INT", "BIGINT"]
FAMILIES: dict[str, tuple[list[str], list[Any]]] = {
    "BOOLEAN": (["BOOLEAN"], [True, False]),
    "TINYINT": (["TINYINT"], [0, -128, 127]),
    "SMALLINT": (["SMALLINT"], [0, 128, -129, 32767, -32768]),
    "INT": (["INT"], [0, 127, 32768, -32769, 2**31 - 1]),
    "BIGINT": (["BIGINT"], [0, 127, 2**31, -(2**31) - 1, 99_999_999, 2**63 - 1]),
    "FLOAT": (["FLOAT"], [0.0, 1.5, -128.5, 1e30, INF, NAN]),
    "DOUBLE": (["DOUBLE"], [0.0, 1.5, -128.5, 2147483647.5, 1e300, -INF, NAN]),
    "DECIMAL": (
        ["DECIMAL(10, 2)"],
        [Decimal("0.00"), Decimal("127.99"), Decimal("-129.00"), Decimal("99999999.99")],
    ),
    "CHAR(3)": (["CHAR(3)"], ["12 ", "abc", "t  ", "1.5", "äöü"]),
    "VARCHAR(5)": (["VARCHAR(5)"], ["", "1", "abc", "abc  ", "300", "true", "99999", "äöüßé"]),
    "STRING": (
        ["STRING"],
        [
            "1",
            "1.9",
            "-129",
            "9" * 10,
            "9" * 30,
            "1e50",
            "1e400",
            "NaN",
            "abc",
            "abcdef",
            "yes",
            "2024-02-29",
            "12:30:00",
            "2024-02-29 12:30:00",
            "2024-02-30",
        ],
    ),
    "BINARY(3)": (["BINARY(3)"], [b"abc", b"\xff\x00\x01"]),
    "VARBINARY(5)": (["VARBINARY(5)"], [b"", b"abcde", b"\xff"]),
    "BYTES": (["BYTES"], [b"abc", b"abcdef", b"\xc3\xa4", b"\xa4"]),
    "DATE": (["DATE"], [DAY, dt.date(1, 1, 1)]),
    "TIME": (["TIME(0)", "TIME(3)"], [dt.time(12, 30)]),
    "TIMESTAMP": (["TIMESTAMP(3)", "TIMESTAMP(6)"], [NOON, LATE, EARLY, FAR]),
    "LTZ": (
        ["TIMESTAMP(6) WITH LOCAL TIME ZONE"],
        [each.replace(tzinfo=dt.UTC) for each in (NOON, LATE, EARLY, FAR)],
    ),
}
# What does not fit, from what a person knows of the types; every other value fits.
UNFIT: dict[tuple[str, str], list[Any]] = {
    ("SMALLINT", "TINYINT"): [128, -129, 32767, -32768],
    ("INT", "TINYINT"): [32768, -32769, 2**31 - 1],
    ("INT", "SMALLINT"): [32768, -32769, 2**31 - 1],
    ("INT", "DECIMAL(10, 2)"): [2**31 - 1],
    ("INT", "CHAR(3)"): [32768, -32769, 2**31 - 1],
    ("INT", "VARCHAR(5)"): [-32769, 2**31 - 1],
    ("TINYINT", "CHAR(3)"): [-128],
    ("SMALLINT", "CHAR(3)"): [-129, 32767, -32768],
    ("SMALLINT", "VARCHAR(5)"): [-32768],
    ("BOOLEAN", "CHAR(3)"): [True, False],
    ("BIGINT", "TINYINT"): [2**31, -(2**31) - 1, 99_999_999, 2**63 - 1],
    ("BIGINT", "SMALLINT"): [2**31, -(2**31) - 1, 99_999_999, 2**63 - 1],
    ("BIGINT", "INT"): [2**31, -(2**31) - 1, 2**63 - 1],
    ("BIGINT", "DECIMAL(10, 2)"): [2**31, -(2**31) - 1, 2**63 - 1],
    ("BIGINT", "CHAR(3)"): [2**31, -(2**31) - 1, 99_999_999, 2**63 - 1],
    ("BIGINT", "VARCHAR(5)"): [2**31, -(2**31) - 1, 99_999_999, 2**63 - 1],
    ("BIGINT", "TIMESTAMP(3)"): [2**63 - 1],
    ("BIGINT", "TIMESTAMP(6) WITH LOCAL TIME ZONE"): [2**63 - 1],
    **{("FLOAT", new): [1e30, INF, NAN] for new in INTEGERS},
    ("FLOAT", "DECIMAL(10, 2)"): [1e30, INF, NAN],
    ("FLOAT", "CHAR(3)"): [-128.5, 1e30, INF],
    ("FLOAT", "VARCHAR(5)"): [-128.5, 1e30, INF],
    ("DOUBLE", "TINYINT"): [2147483647.5, 1e300, -INF, NAN],
    ("DOUBLE", "SMALLINT"): [2147483647.5, 1e300, -INF, NAN],
    ("DOUBLE", "INT"): [1e300, -INF, NAN],
    ("DOUBLE", "BIGINT"): [1e300, -INF, NAN],
    ("DOUBLE", "FLOAT"): [1e300],
    ("DOUBLE", "DECIMAL(10, 2)"): [2147483647.5, 1e300, -INF, NAN],
    ("DOUBLE", "CHAR(3)"): [-128.5, 2147483647.5, 1e300, -INF],
    ("DOUBLE", "VARCHAR(5)"): [-128.5, 2147483647.5, 1e300, -INF],
    ("DECIMAL", "TINYINT"): [Decimal("-129.00"), Decimal("99999999.99")],
    ("DECIMAL", "SMALLINT"): [Decimal("99999999.99")],
    ("DECIMAL", "CHAR(3)"): [
        Decimal("0.00"),
        Decimal("127.99"),
        Decimal("-129.00"),
        Decimal("99999999.99"),
    ],
    ("DECIMAL", "VARCHAR(5)"): [Decimal("127.99"), Decimal("-129.00"), Decimal("99999999.99")],
    ("BIGINT", "TIMESTAMP(9)"): [99_999_999_999, 2**63 - 1],
    ("DATE", "TIMESTAMP(9)"): [dt.date(1, 1, 1)],
    ("TIMESTAMP", "TIMESTAMP(9)"): [EARLY, FAR],
    ("TIMESTAMP", "INT"): [EARLY, LATE, FAR],
    ("LTZ", "TIMESTAMP(9)"): [each.replace(tzinfo=dt.UTC) for each in (EARLY, FAR)],
    ("LTZ", "INT"): [each.replace(tzinfo=dt.UTC) for each in (EARLY, LATE, FAR)],
    **{("BYTES", new): [b"\xa4"] for new in ("STRING", "CHAR(3)", "VARCHAR(5)")},
    ("VARBINARY(5)", "BINARY(3)"): [b"abcde"],
    ("BYTES", "BINARY(3)"): [b"abcdef"],
    ("BYTES", "VARBINARY(5)"): [b"abcdef"],
    ("BINARY(3)", "STRING"): [b"\xff\x00\x01"],
    ("BINARY(3)", "CHAR(3)"): [b"\xff\x00\x01"],
    ("BINARY(3)", "VARCHAR(5)"): [b"\xff\x00\x01"],
    ("VARBINARY(5)", "STRING"): [b"\xff"],
    ("VARBINARY(5)", "CHAR(3)"): [b"\xff"],
    ("VARBINARY(5)", "VARCHAR(5)"): [b"\xff"],
}
# Of texts, what does fit is less than what does not.
FIT_OF_TEXTS: dict[str, set[str]] = {
    "BOOLEAN": {"1", "true", "yes"},
    "TINYINT": {"1", "1.9", "1.5"},
    "SMALLINT": {"1", "1.9", "1.5", "-129", "300"},
    "INT": {"1", "1.9", "1.5", "-129", "300", "99999"},
    "BIGINT": {"1", "1.9", "1.5", "-129", "300", "99999", "9" * 10},
    "FLOAT": {"1", "12 ", "1.9", "1.5", "-129", "300", "99999", "9" * 10, "9" * 30, "NaN"},
    "DECIMAL(10, 2)": {"1", "1.9", "1.5", "-129", "300", "99999"},
    "DATE": {"1", "12 ", "300", "99999", "9" * 9, "2024-02-29", "2024-02-29 12:30:00"},
    "TIME(0)": {"1", "12 ", "300", "99999", "12:30:00"},
    "TIMESTAMP(3)": {"1", "300", "99999", "9" * 10, "2024-02-29", "2024-02-29 12:30:00"},
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": {"2024-02-29", "2024-02-29 12:30:00"},
}
FIT_OF_TEXTS["DOUBLE"] = {*FIT_OF_TEXTS["FLOAT"], "1e50"}
FIT_OF_TEXTS["TIME(3)"] = FIT_OF_TEXTS["TIME(0)"]
# Java takes a day beyond the end of its month for the last day.
FIT_OF_TEXTS["TIMESTAMP(3)"].add("2024-02-30")
FIT_OF_TEXTS["TIMESTAMP(6) WITH LOCAL TIME ZONE"].add("2024-02-30")
# Digits count nanoseconds there.
FIT_OF_TEXTS["TIMESTAMP(9)"] = FIT_OF_TEXTS["TIMESTAMP(3)"]
LONG_TEXTS = {"CHAR(3)": 3, "VARCHAR(5)": 5, "BINARY(3)": 3, "VARBINARY(5)": 5}


def atomic(text: str) -> AtomicType:
    found = parse_data_type(text)
    assert isinstance(found, AtomicType)
    return found


def field_of(text: str) -> DataField:
    return DataField(0, "c", with_member_ids(parse_data_type(text), itertools.count(1)))


def fits(family: str, new: str, value: Any) -> bool:
    if not isinstance(value, str):
        unfit = UNFIT.get((family, new), [])
        return repr(value) not in map(repr, unfit)
    if new in LONG_TEXTS:
        kept = value.encode() if "BINARY" in new else value.rstrip(" ")
        return len(kept) <= LONG_TEXTS[new]
    return new in ("STRING", "BYTES") or value in FIT_OF_TEXTS[new]


PAIRS = [
    (family, old, new)
    for family, (types, _) in FAMILIES.items()
    for old, new in product(types, NEW_TYPES)
    if cast_rule(atomic(old), atomic(new)).cast in (Cast.IMPLICIT, Cast.EXPLICIT)
]


@pytest.mark.parametrize(("family", "old", "new"), PAIRS)
@pytest.mark.mission("SE41")
def test_values_that_fit_are_cast_and_the_others_are_null(family: str, old: str, new: str) -> None:
    source, target = atomic(old), atomic(new)
    values = [*FAMILIES[family][1], None]
    array = pa.array(values, to_arrow_type(source))
    found = fitted(array, source, target)
    assert found.type == to_arrow_type(target)
    expected = [value is not None and fits(family, new, value) for value in values]
    assert dict(zip(map(repr, values), found.is_valid().to_pylist(), strict=True)) == dict(
        zip(map(repr, values), expected, strict=True)
    )
    # A value that fits is the one that Java reads.
    kept = array.filter(pa.array(expected))
    assert repr(found.filter(pa.array(expected)).to_pylist()) == repr(
        evolved(kept, source, target).to_pylist()
    )
    # The table of casts tells of values that do not fit exactly where there may be some.
    if not all(expected[:-1]):
        assert cast_rule(source, target).unfit is not None


# The table of casts says what the kinds of types may lose; these types are too short for it.
NEVER_UNFIT = {
    ("BOOLEAN", "VARCHAR(5)"),
    ("TINYINT", "VARCHAR(5)"),
    ("DECIMAL(10, 2)", "INT"),
    ("DECIMAL(10, 2)", "BIGINT"),
    ("CHAR(3)", "BYTES"),
    ("VARCHAR(5)", "BYTES"),
    ("STRING", "BYTES"),
}


def test_every_pair_with_values_that_do_not_fit_is_tried_with_one() -> None:
    untried = {
        (old, new)
        for family, old, new in PAIRS
        if cast_rule(atomic(old), atomic(new)).unfit is not None
        and all(fits(family, new, value) for value in FAMILIES[family][1])
    }
    assert untried == NEVER_UNFIT


@pytest.mark.parametrize(
    ("old", "new", "fails", "nulls"),
    [
        ("BIGINT", "TINYINT", "values beyond -128 to 127 fail the read", "127 become null"),
        ("STRING", "INT", "texts that are no INT fail the read", "no INT become null"),
        ("DOUBLE", "INT", "fractions are cut, and values beyond", "become null"),
        ("STRING", "VARCHAR(5)", "longer than 5 characters fail", "5 characters become null"),
    ],
)
@pytest.mark.mission("SE40")
def test_the_table_of_casts_says_what_a_mode_does(
    old: str, new: str, fails: str, nulls: str
) -> None:
    rule = cast_rule(atomic(old), atomic(new))
    assert fails in (rule.loss_in(CastMode.EXPLICIT_FAIL) or "")
    assert nulls in (rule.loss_in(CastMode.EXPLICIT_NULL) or "")


def test_what_cannot_be_cast_at_all_does_not_fit() -> None:
    early = pa.array([-800_000, 0, None], pa.int32()).cast(pa.date32())
    assert fitted(early, atomic("DATE"), atomic("STRING")).to_pylist() == [None, "1970-01-01", None]


@pytest.mark.parametrize(
    ("stored", "read", "values", "expected", "lost"),
    [
        (
            "ROW<a STRING, b INT>",
            "ROW<a INT, b INT>",
            [{"a": "x", "b": 1}, None, {"a": "2", "b": 2}],
            [{"a": None, "b": 1}, None, {"a": 2, "b": 2}],
            [("c.a", [0], ["x"])],
        ),
        (
            "ARRAY<BIGINT>",
            "ARRAY<TINYINT>",
            [None, [1, 300], [], [None, 400, 2, 500]],
            [None, [1, None], [], [None, None, 2, None]],
            [("c.element", [1, 3, 3], [300, 400, 500])],
        ),
        (
            "MAP<STRING, ROW<a STRING>>",
            "MAP<STRING, ROW<a INT>>",
            [[("k", {"a": "1"})], None, [("k", {"a": "x"}), ("l", None)]],
            [[("k", {"a": 1})], None, [("k", {"a": None}), ("l", None)]],
            [("c.value.a", [2], ["x"])],
        ),
    ],
)
@pytest.mark.mission("SE41")
def test_values_inside_of_a_column_are_lost_in_their_rows(
    stored: str, read: str, values: list[Any], expected: list[Any], lost: list[Any]
) -> None:
    old, new = (field_of(each) for each in (stored, read))
    mapping = schema_mapping([old], [new]).columns[0]
    whole = pa.array([values[0], *values, values[-1]], to_arrow_type(old.type))
    held = pa.chunked_array([whole.slice(1, 1), whole.slice(2, len(values) - 1)])
    found = map_column(held, mapping.values, fitted_part)
    assert found.to_pylist() == expected
    told = [
        (each.path, each.rows.tolist(), each.values.to_pylist())
        for each in nulled_parts(held, mapping.values, found, "c")
    ]
    assert told == lost


@pytest.mark.parametrize(
    ("stored", "read", "values"),
    [
        ("ARRAY<STRING>", "ARRAY<INT NOT NULL>", [["x"]]),
        ("MAP<STRING, INT>", "MAP<INT, INT>", [[("x", 1)]]),
    ],
)
@pytest.mark.mission("SE41")
def test_a_part_that_is_never_null_is_refused(stored: str, read: str, values: list[Any]) -> None:
    old, new = (field_of(each) for each in (stored, read))
    held = pa.chunked_array([pa.array(values, to_arrow_type(old.type))])
    with pytest.raises(MustNotBeNull, match="'x', which does not fit INT"):
        map_column(held, schema_mapping([old], [new]).columns[0].values, fitted_part)
