"""The table of casts: it agrees with what is implemented, and says what is lost."""

from __future__ import annotations

import datetime as dt
from itertools import product

import pyarrow as pa
import pytest

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.spec.cast_rules import Cast, CastRule, cast_rule
from lakewright.storage.spec.data_types import AtomicType, parse_data_type
from tests.support.values.evolution import CAST_TYPES


def rule(old: str, new: str) -> CastRule:
    return cast_rule(parse_data_type(old), parse_data_type(new))


@pytest.mark.parametrize(("old", "new"), list(product(CAST_TYPES, CAST_TYPES)))
@pytest.mark.mission("SE1")
def test_a_pair_is_refused_exactly_if_values_cannot_be_cast(old: str, new: str) -> None:
    source, target = parse_data_type(old), parse_data_type(new)
    assert isinstance(source, AtomicType)
    assert isinstance(target, AtomicType)
    nothing = pa.nulls(1, to_arrow_type(source))
    if rule(old, new).cast is Cast.REFUSED:
        with pytest.raises(pa.ArrowNotImplementedError):
            evolved(nothing, source, target)
    else:
        assert evolved(nothing, source, target).to_pylist() == [None]
    assert (rule(old, new).cast is Cast.SAME) is (old == new)


# Values at the edges of each type: a pair without a loss must keep all of them.
EDGES: dict[str, list[object]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-(2**15), 2**15 - 1],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1],
    "FLOAT": [0.1, -3.4028234663852886e38],
    "DOUBLE": [0.1, 1.7976931348623157e308],
    "CHAR(3)": ["abc"],
    "VARCHAR(5)": ["", "abcde"],
    "STRING": ["", "x" * 99],
    "BINARY(3)": [b"\x00\xff\x01"],
    "VARBINARY(5)": [b"", b"\xff\x00\xff\x00\xff"],
    "BYTES": [b"", b"\xff" * 9],
    "DATE": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "TIMESTAMP(3)": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)],
    "TIMESTAMP(6)": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)],
    "TIMESTAMP(9)": [dt.datetime(1678, 1, 1), dt.datetime(2262, 1, 1)],
}
LOSSLESS = [
    (old, new)
    for old, new in product(EDGES, EDGES)
    if rule(old, new).cast is not Cast.REFUSED and rule(old, new).loss is None
]


@pytest.mark.parametrize(("old", "new"), LOSSLESS)
def test_a_cast_without_loss_keeps_every_value_apart(old: str, new: str) -> None:
    source, target = parse_data_type(old), parse_data_type(new)
    assert isinstance(source, AtomicType)
    assert isinstance(target, AtomicType)
    values = pa.array(EDGES[old], to_arrow_type(source))
    cast = evolved(values, source, target)
    assert cast.null_count == 0
    assert len(set(cast.to_pylist())) == len(set(values.to_pylist()))
    if rule(new, old).cast is not Cast.REFUSED:
        assert evolved(cast, target, source).to_pylist() == values.to_pylist()


@pytest.mark.parametrize(
    ("old", "new", "cast", "loss"),
    [
        ("INT", "BIGINT", Cast.IMPLICIT, None),
        ("BIGINT", "INT", Cast.EXPLICIT, "beyond -2147483648 to 2147483647 wrap"),
        ("INT", "DOUBLE", Cast.IMPLICIT, None),
        ("BIGINT", "DOUBLE", Cast.IMPLICIT, "rounded to the nearest DOUBLE"),
        ("DECIMAL(10, 2)", "DECIMAL(12, 2)", Cast.IMPLICIT, None),
        ("DECIMAL(10, 2)", "DECIMAL(10, 4)", Cast.IMPLICIT, "more than 6 digits"),
        ("BIGINT", "DECIMAL(19, 0)", Cast.IMPLICIT, None),
        ("BIGINT", "DECIMAL(10, 0)", Cast.IMPLICIT, "more than 10 digits become null"),
        ("VARCHAR(5)", "STRING", Cast.IMPLICIT, None),
        ("STRING", "VARCHAR(5)", Cast.IMPLICIT, "longer than 5 characters are cut"),
        ("STRING", "INT", Cast.EXPLICIT, "no INT fail the read"),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", Cast.IMPLICIT, "cut to 3 digits"),
        ("TIMESTAMP(6)", "TIMESTAMP(9)", Cast.IMPLICIT, "beyond the years 1677 to 2262 fail"),
        ("TIMESTAMP(7)", "TIMESTAMP(9)", Cast.IMPLICIT, None),
        ("DATE", "TIMESTAMP(7)", Cast.EXPLICIT, "beyond the years 1677 to 2262 fail"),
        ("BIGINT", "TIMESTAMP(9)", Cast.EXPLICIT, "beyond the years 1677 to 2262 fail"),
        ("TIMESTAMP(3)", "DATE", Cast.IMPLICIT, "times of the day are cut"),
        ("DATE", "STRING", Cast.EXPLICIT, None),
        ("DATE", "VARCHAR(20)", Cast.REFUSED, None),
        ("DATE", "INT", Cast.REFUSED, None),
        ("ARRAY<INT>", "ARRAY<BIGINT>", Cast.REFUSED, None),
        ("ARRAY<INT>", "STRING", Cast.REFUSED, None),
        ("INT NOT NULL", "INT", Cast.SAME, None),
    ],
)
@pytest.mark.mission("SE38")
def test_the_table_says_how_and_what_is_lost(
    old: str, new: str, cast: Cast, loss: str | None
) -> None:
    found = rule(old, new)
    assert found.cast is cast
    assert (found.loss is None) if loss is None else (loss in (found.loss or ""))
