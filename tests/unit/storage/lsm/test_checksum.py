"""Checksums of rows: equal for equal rows, and different for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage import parse_data_type
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.lsm.checksum import (
    Checksum,
    OrderedChecksum,
    Sums,
    UnorderedChecksum,
    row_hashes,
)
from tests.support.tally import tally
from tests.support.values.every_type import ATOMS, NESTED

TYPES = {**ATOMS, **NESTED}
LONG = ["", "a", "abcdefg", "abcdefgh", "abcdefghi", "x" * 16, "x" * 17, "y" * 300, "y" * 301]


def unordered() -> UnorderedChecksum:
    return UnorderedChecksum([("values", ("v", "n"))])


KINDS: dict[str, Callable[[], Checksum]] = {"ordered": OrderedChecksum, "unordered": unordered}


@pytest.fixture(params=KINDS)
def checksum(request: pytest.FixtureRequest) -> Callable[[], Checksum]:
    return KINDS[request.param]


def table_of(kind: str, values: list[Any]) -> pa.Table:
    array = pa.array(values, to_arrow_type(parse_data_type(kind)))
    return pa.table({"v": array, "n": np.arange(len(values))})


def sums_of(made: Checksum, *parts: pa.Table) -> Sums:
    for part in parts:
        made.add(part)
    return made.sums()


def texts(first: int, last: int) -> list[str]:
    return [f"customer {number * 7919:07d}" for number in range(first, last)]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("kind", TYPES)
def test_rows_cut_in_any_way_are_the_same_rows(checksum: Callable[[], Checksum], kind: str) -> None:
    rows = table_of(kind, [None, *TYPES[kind], None, *TYPES[kind], *TYPES[kind]])
    whole = sums_of(checksum(), rows)
    for at, end in combinations(range(rows.num_rows + 1), 2):
        pieces = rows.slice(0, at), rows.slice(at, end - at), rows.slice(end)
        assert sums_of(checksum(), *pieces) == whole
        assert sums_of(checksum(), pa.concat_tables(pieces)) == whole
    assert sums_of(checksum(), rows.take(pa.array(np.arange(rows.num_rows)))) == whole


@pytest.mark.parametrize("kind", TYPES)
def test_any_other_value_at_any_place_is_noticed(
    checksum: Callable[[], Checksum], kind: str
) -> None:
    values = [None, *TYPES[kind], *TYPES[kind], None]
    seen = {sums_of(checksum(), table_of(kind, values))}
    tried = 1
    for place, value in enumerate(values):
        for other in [None, *TYPES[kind]]:
            if other is value:
                continue
            changed = [*values[:place], other, *values[place + 1 :]]
            seen.add(sums_of(checksum(), table_of(kind, changed)))
            tried += 1
    assert len(seen) == tried
    tally("changed values that checksums told apart", tried - 1)


@pytest.mark.parametrize("kind", TYPES)
def test_values_that_changed_places_are_noticed(
    checksum: Callable[[], Checksum], kind: str
) -> None:
    values = [None, *TYPES[kind]]
    whole = sums_of(checksum(), table_of(kind, values))
    for one, two in combinations(range(len(values)), 2):
        swapped = list(values)
        swapped[one], swapped[two] = swapped[two], swapped[one]
        assert sums_of(checksum(), table_of(kind, swapped)) != whole


def test_a_row_too_few_or_too_many_is_noticed(checksum: Callable[[], Checksum]) -> None:
    rows = pa.table({"v": texts(0, 50), "n": np.arange(50)})
    whole = sums_of(checksum(), rows)
    for place in range(50):
        one = rows.slice(place, 1)
        less = pa.concat_tables([rows.slice(0, place), rows.slice(place + 1)])
        assert sums_of(checksum(), less).rows == 49
        assert sums_of(checksum(), rows, one).rows == 51
        # A row in the place of another has the same count.
        other = rows.slice((place + 1) % 50, 1)
        assert sums_of(checksum(), less, other) != whole


def test_order_counts_for_one_and_not_for_the_other() -> None:
    rows = pa.table({"v": texts(0, 40_000), "n": np.arange(40_000) % 7})
    mixed = rows.take(pa.array(np.random.default_rng(0).permutation(40_000)))
    assert sums_of(unordered(), rows) == sums_of(unordered(), mixed)
    assert sums_of(OrderedChecksum(), rows) != sums_of(OrderedChecksum(), mixed)


def test_parts_add_up_to_the_whole() -> None:
    rows = pa.table({"v": texts(0, 100), "n": np.arange(100)})
    halves = sums_of(unordered(), rows.slice(0, 30)), sums_of(unordered(), rows.slice(30))
    assert halves[0].plus(halves[1]) == sums_of(unordered(), rows)
    assert Sums(0, ()).plus(halves[0]) == halves[0]


def test_columns_that_differ_are_named() -> None:
    rows = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [0.5, None, 1.5]})
    changed = rows.set_column(2, "c", pa.array([0.5, None, 2.5]))
    found = sums_of(OrderedChecksum(), rows).differences(sums_of(OrderedChecksum(), changed))
    assert found == ("c",)


def test_text_of_any_length_counts_to_its_last_byte() -> None:
    def shortened() -> Iterator[str]:
        for text in LONG:
            yield text
            yield from (f"{text[:place]}!{text[place + 1 :]}" for place in range(len(text)))

    values = sorted(set(shortened()))
    (hashes,) = row_hashes(pa.table({"v": values}))
    assert len(set(hashes.tolist())) == len(values)


def test_the_place_in_its_row_and_in_its_text_counts() -> None:
    rows = pa.table({"a": ["ab", "a", "", "b" * 8 + "a" * 8], "b": ["", "b", "ab", "a" * 8]})
    turned = pa.table({"a": rows["b"], "b": rows["a"]})
    (hashes,), (others,) = list(row_hashes(rows)), list(row_hashes(turned))
    # The first row turned is the third one.
    assert len({*hashes.tolist(), *others.tolist()}) == 6
    (words,) = row_hashes(pa.table({"v": ["12345678abcdefgh", "abcdefgh12345678"]}))
    assert words[0] != words[1]


def test_round_numbers_that_changed_places_in_two_columns_are_noticed() -> None:
    """Their lower bits are all zero, so plain products would often add up to the same."""
    pairs = [(float(one), float(two)) for one in range(1, 60) for two in range(1, 60)]
    rows = pa.table({"a": [one for one, _ in pairs], "b": [two for _, two in pairs]})
    (hashes,) = row_hashes(rows)
    assert len(set(hashes.tolist())) == len(pairs)


def test_what_lies_beneath_null_does_not_count(checksum: Callable[[], Checksum]) -> None:
    mask = np.array([False, True, False])
    for hidden in (["a", "secret", "b"], ["a", "", "b"]):
        text = pa.array(hidden)
        nulls = pa.py_buffer(np.packbits(~mask, bitorder="little"))
        column = pa.StringArray.from_buffers(3, text.buffers()[1], text.buffers()[2], nulls, 1)
        rows = pa.table({"v": column, "n": [1, 2, 3]})
        plain = pa.table({"v": ["a", None, "b"], "n": [1, 2, 3]})
        assert sums_of(checksum(), rows) == sums_of(checksum(), plain)
    numbers = pa.Array.from_buffers(
        pa.int64(), 3, [nulls, pa.py_buffer(np.array([1, 99, 2]))], null_count=1
    )
    rows = pa.table({"v": numbers, "n": [1, 2, 3]})
    plain = pa.table({"v": pa.array([1, None, 2]), "n": [1, 2, 3]})
    assert sums_of(checksum(), rows) == sums_of(checksum(), plain)
    lists = pa.ListArray.from_arrays([0, 1, 3, 4], [1, 7, 8, 2], mask=pa.array(mask))
    rows = pa.table({"v": lists, "n": [1, 2, 3]})
    plain = pa.table({"v": pa.array([[1], None, [2]]), "n": [1, 2, 3]})
    assert sums_of(checksum(), rows) == sums_of(checksum(), plain)
