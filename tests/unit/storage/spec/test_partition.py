"""Partitions: their bytes, text, values and folders say the same, for values of every type."""

from __future__ import annotations

from decimal import Decimal
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewright.storage import parse_data_type
from lakewright.storage.codec.binary_row import decode_row, encode_row
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.partition import Partition, PartitionKeys
from lakewright.storage.spec.values import EXACT_DECIMALS, Value, from_python

INT64 = st.integers(-(2**63), 2**63 - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(
        lambda number: Decimal(number).scaleb(-scale, EXACT_DECIMALS)
    )


# Stored values of every type that can be a partition key.
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": INT64,
    "FLOAT": st.floats(width=32, allow_nan=False) | st.just(float("nan")),
    "DOUBLE": st.floats(allow_nan=False) | st.just(float("nan")),
    "DECIMAL(9, 2)": decimals(9, 2),
    "DECIMAL(38, 10)": decimals(38, 10),
    "CHAR(3)": st.text(max_size=3),
    "VARCHAR(9)": st.text(max_size=9),
    "STRING": st.text(max_size=12) | st.sampled_from(["", " ", ".", "%null", "a/b=c", "null"]),
    "BINARY(2)": st.binary(max_size=2),
    "BYTES": st.binary(max_size=12),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(0)": st.integers(-(2**50), 2**50).map(lambda second: second * 10**9),
    "TIMESTAMP(3)": INT64.map(lambda millis: millis * 10**6),
    "TIMESTAMP(6)": INT64.map(lambda micros: micros * 10**3),
    "TIMESTAMP(9)": INT64,
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": INT64.map(lambda micros: micros * 10**3),
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": INT64,
}


def partition_of(keys: PartitionKeys, values: tuple[Value, ...]) -> Partition:
    return Partition(keys, encode_row(values, keys.types), values)


def keys_of(*types: str, names: tuple[str, ...] = ("a", "b", "c")) -> PartitionKeys:
    fields = (
        DataField(number, name, parse_data_type(kind))
        for number, (name, kind) in enumerate(zip(names, types, strict=False))
    )
    return PartitionKeys(0, tuple(fields))


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    names = draw(
        st.lists(st.text(min_size=1, max_size=5), min_size=3, max_size=3, unique=True).map(tuple)
    )
    values = tuple(draw(st.none() | VALUES[each]) for each in types)
    return partition_of(keys_of(*types, names=names), values)


@given(partitions())
def test_bytes_text_and_values_give_each_other_back(partition: Partition) -> None:
    keys = partition.keys
    assert partition_of(keys, decode_row(partition.row, keys.types)) == partition
    assert partition_of(keys, keys.values_of(partition.text)) == partition
    assert partition_of(keys, tuple(keys.stored(partition.spec, table="t").values())) == partition


@pytest.mark.parametrize("kind", sorted(VALUES))
def test_every_type_has_a_text(kind: str) -> None:
    keys = keys_of(kind)

    @given(st.none() | VALUES[kind])
    def gives_back(value: Value) -> None:
        partition = partition_of(keys, (value,))
        assert encode_row(keys.values_of(partition.text), keys.types) == partition.row

    gives_back()


@given(partitions(), partitions())
def test_texts_differ_where_partitions_do(left: Partition, right: Partition) -> None:
    if left.keys.names == right.keys.names and left.keys.types == right.keys.types:
        assert (left == right) == (left.text == right.text)


@given(partitions())
@example(partition_of(keys_of("STRING", names=("../x",)), ("../..",)))
def test_a_folder_has_one_level_for_each_key_and_leads_nowhere_else(partition: Partition) -> None:
    levels = partition.path.split("/")
    assert len(levels) == len(partition.keys.names)
    for level, name in zip(levels, partition.keys.names, strict=True):
        key, equals, _ = level.partition("=")
        assert equals
        assert unquote(key) == name
        assert level not in ("", ".", "..")
        assert "\x00" not in level


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_zeros_and_nan_are_partitions_of_their_own(kind: str) -> None:
    keys = keys_of(kind)
    nan = float("nan")
    found = [partition_of(keys, (value,)) for value in (0.0, -0.0, nan, None)]
    assert len(set(found)) == len(found)
    assert found == [partition_of(keys, (value,)) for value in (0.0, -0.0, nan, None)]
    assert [each.is_named({"a": nan}) for each in found] == [False, False, True, False]
    assert [each.is_named({"a": 0.0}) for each in found] == [True, False, False, False]


def test_a_negative_zero_of_digits_is_zero() -> None:
    keys = keys_of("DECIMAL(9, 2)")
    zero, negative = (
        partition_of(keys, (from_python(Decimal(text), keys.types[0]),)) for text in ("0", "-0")
    )
    assert zero == negative
    assert zero.path == negative.path == "a=0.00"


def test_the_schema_is_no_part_of_what_a_partition_is() -> None:
    old = partition_of(keys_of("STRING"), ("x",))
    later = Partition(PartitionKeys(3, old.keys.fields), old.row, old.values)
    assert old == later
    assert hash(old) == hash(later)
    assert old != partition_of(keys_of("STRING", names=("b",)), ("x",))
    assert old != old.row


def test_null_comes_first_in_the_order_and_not_a_number_last() -> None:
    keys = keys_of("DOUBLE")
    ordered = [None, float("-inf"), -0.0, 0.0, 1.5, float("nan")]
    found = [partition_of(keys, (value,)) for value in ordered]
    backwards = found[::-1]
    assert sorted(backwards, key=lambda each: each.order) == found


@pytest.mark.parametrize("text", ["", "a=1", "a=1/b=2/c=3", "b=1/a=2", "a=1/b=x", "a=1/b="])
def test_a_text_of_another_partition_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="partition"):
        keys_of("INT", "INT").values_of(text)


def test_a_key_that_is_none_is_named_with_those_there_are() -> None:
    with pytest.raises(InvalidRequestError, match=r"'c' is not a partition key of db\.t; .* a, b"):
        keys_of("INT", "INT").stored({"c": 1}, table="db.t")
