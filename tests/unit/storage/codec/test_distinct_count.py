"""Distinct values: exact while they are few, close when they are many, the same in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.distinct_count import EXACT_LIMIT, DistinctCount, value_hashes
from lakewright.storage.spec.data_types import parse_data_type
from tests.support.values.every_type import ATOMS


def counted(*arrays: pa.Array) -> DistinctCount:
    count = DistinctCount()
    for array in arrays:
        count.add(pa.chunked_array([array]))
    return count


@pytest.mark.parametrize("size", [0, 1, 1000, EXACT_LIMIT])
def test_few_values_are_counted_exactly(size: int) -> None:
    numbers = pa.array(np.arange(size))
    count = counted(numbers, numbers, pa.array([None], pa.int64()))
    assert (count.value, count.exact) == (size, True)


@pytest.mark.parametrize("size", [EXACT_LIMIT + 1, 40_000, 200_000, 2_000_000])
@pytest.mark.parametrize("as_text", [False, True])
def test_many_values_are_estimated_within_four_standard_errors(size: int, as_text: bool) -> None:
    numbers = pa.array(np.arange(size) * 7)
    count = counted(numbers.cast(pa.string()) if as_text else numbers)
    assert not count.exact
    assert abs(count.value / size - 1) < 4 * 1.04 / 128


def test_parts_merge_into_the_whole_in_any_order() -> None:
    parts = [pa.array(np.arange(start, start + 9000)) for start in (0, 3000, 20_000)]
    whole = counted(*parts)
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        merged = DistinctCount()
        for index in order:
            merged.merge(counted(parts[index]))
        assert merged.value == whole.value
    small = counted(pa.array([1, 2]))
    small.merge(counted(pa.array([2, 3])))
    assert (small.value, small.exact) == (3, True)


@pytest.mark.parametrize("type_name", list(ATOMS))
def test_values_of_every_type_are_told_apart(type_name: str) -> None:
    kind = to_arrow_type(parse_data_type(type_name))
    values = pa.array(ATOMS[type_name], kind)
    distinct = len({repr(value) for value in values.drop_null().to_pylist()})
    # One zero and one NaN, however they are written.
    if pa.types.is_floating(kind):
        numbers = values.drop_null().to_numpy()
        distinct = len({float(n) + 0.0 for n in numbers[~np.isnan(numbers)]})
        distinct += int(np.isnan(numbers).any())
    assert counted(values).value == distinct
    assert counted(values.slice(1), values.slice(0, 1)).value == distinct


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 255, 256, 257, 5000])
def test_texts_that_differ_in_one_character_are_told_apart(length: int) -> None:
    base = "x" * length
    texts = [
        base,
        base + "x",
        base + "\x00",
        *(f"{base[:i]}y{base[i + 1 :]}" for i in range(length)),
    ]
    hashes: Any = value_hashes(pa.array(texts))
    assert len(set(hashes.tolist())) == len(set(texts))
    # Where a value lies in its array changes nothing.
    assert (value_hashes(pa.array(["head", *texts]).slice(1)) == hashes).all()
