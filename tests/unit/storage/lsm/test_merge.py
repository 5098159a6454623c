"""Merging rows of equal keys: the last of each, in key order, whatever the key is made of."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.lsm.merge import (
    RowOrder,
    deduplicate,
    sorted_groups,
    take_rows,
    without_deletions,
)
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import SEQUENCE_NUMBER
from lakewright.storage.spec.values import order_key

Entry = tuple[Any, int, int]


def merged(key_type: pa.DataType, entries: list[Entry]) -> list[tuple[Any, str]]:
    """Keys with the number of the row that was kept; entries are key, sequence, kind."""
    table = pa.table(
        {
            "_KEY_k": pa.array([key for key, _, _ in entries], key_type),
            "_SEQUENCE_NUMBER": pa.array([sequence for _, sequence, _ in entries], pa.int64()),
            "_VALUE_KIND": pa.array([kind for _, _, kind in entries], pa.int8()),
            "v": pa.array([str(index) for index in range(len(entries))]),
        }
    )
    kept = deduplicate(table, ["_KEY_k"])
    return list(zip(kept.column("_KEY_k").to_pylist(), kept.column("v").to_pylist(), strict=True))


KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 0, 127]),
    (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    (pa.string(), ["", "a", "ab", "b", "￿", "\U0001f600"]),
    (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
    (pa.bool_(), [False, True]),
    (pa.decimal128(38, 2), [Decimal("-1e30"), Decimal("0.00"), Decimal("0.01")]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    (pa.time32("ms"), [dt.time(0, 0), dt.time(23, 59)]),
    (pa.timestamp("us"), [dt.datetime(1900, 1, 1), dt.datetime(2024, 1, 1)]),
    (pa.timestamp("ms", "UTC"), [dt.datetime(1900, 1, 1, tzinfo=dt.UTC)]),
]


@pytest.mark.parametrize(("key_type", "ordered"), KEYS, ids=[str(kind) for kind, _ in KEYS])
@pytest.mark.mission("FS5", "FS6")
def test_the_last_row_of_each_key_stays_in_key_order(
    key_type: pa.DataType, ordered: list[Any]
) -> None:
    backwards = list(reversed(ordered))
    entries = [(key, 5, 0) for key in backwards] + [(key, 9, 0) for key in ordered]
    entries += [(key, 7, 0) for key in backwards]
    size = len(ordered)
    assert merged(key_type, entries) == [
        (key, str(size + index)) for index, key in enumerate(ordered)
    ]


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()], ids=str)
def test_floating_keys_tell_zeros_apart_and_take_every_nan_for_one(width: pa.DataType) -> None:
    ordered = [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan]
    entries = [(key, index, 0) for index, key in enumerate([*reversed(ordered), math.nan, -0.0])]
    found = merged(width, entries)
    assert [repr(key) for key, _ in found] == [repr(key) for key in ordered]
    kept = {repr(key): number for key, number in found}
    # The later of two NaNs, and of two negative zeros.
    assert (kept["nan"], kept["-0.0"], kept["0.0"]) == ("7", "8", "3")


def test_of_equal_sequence_numbers_the_later_row_counts() -> None:
    assert merged(pa.int32(), [(1, 4, 0), (2, 4, 0), (1, 4, 3), (2, 3, 0)]) == [(1, "2"), (2, "1")]
    assert merged(pa.string(), [("a", 4, 0), ("b", 4, 0), ("a", 4, 3)]) == [("a", "2"), ("b", "1")]


def test_keys_of_several_columns_are_compared_from_the_left() -> None:
    rows = [("b", 1.0, 1), ("a", math.nan, 2), ("a", -0.0, 3), ("a", 0.0, 4), ("b", 1.0, 5)]
    table = pa.table(
        {
            "_KEY_s": [text for text, _, _ in rows],
            "_KEY_d": [number for _, number, _ in rows],
            "_SEQUENCE_NUMBER": [sequence for _, _, sequence in rows],
            "_VALUE_KIND": pa.array([0] * len(rows), pa.int8()),
        }
    )
    kept = deduplicate(table, ["_KEY_s", "_KEY_d"])
    assert kept.column("_SEQUENCE_NUMBER").to_pylist() == [3, 4, 2, 5]


def test_no_rows_merge_to_no_rows() -> None:
    assert merged(pa.int32(), []) == []


def test_deletions_and_old_halves_of_updates_are_taken_out() -> None:
    table = pa.table({"_VALUE_KIND": pa.array([0, 1, 2, 3], pa.int8()), "v": list("abcd")})
    assert without_deletions(table).column("v").to_pylist() == ["a", "c"]
    assert [kind.short for kind in RowKind] == ["+I", "-U", "+U", "-D"]
    assert [kind.retracts for kind in RowKind] == [False, True, False, True]


KEY_VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "numbers": (pa.int16(), st.integers(-3, 3)),
    "texts": (pa.string(), st.text("aé\U0001f600", max_size=2)),
    "floats": (pa.float64(), st.sampled_from([math.nan, -0.0, 0.0, 1.0, -math.inf])),
}


@pytest.mark.parametrize("kind", list(KEY_VALUES))
@given(data=st.data())
def test_merging_is_keeping_the_last_of_a_stable_sort(kind: str, data: st.DataObject) -> None:
    key_type, keys = KEY_VALUES[kind]
    entries = data.draw(
        st.lists(st.tuples(keys, st.integers(0, 3), st.integers(0, 3)), max_size=15)
    )
    order = sorted(
        range(len(entries)), key=lambda index: (order_key(entries[index][0]), entries[index][1])
    )
    last = {repr(order_key(entries[index][0])): str(index) for index in order}
    assert [number for _, number in merged(key_type, entries)] == list(last.values())


@pytest.mark.parametrize("most_bytes", [2_000, 20_000, 2**31 - 1])
def test_rows_are_taken_whatever_their_text_amounts_to(most_bytes: int) -> None:
    generator = np.random.default_rng(7)
    count = 500
    rows = pa.table(
        {
            "id": pa.array(np.arange(count)),
            "text": pa.array(["x" * int(n) for n in generator.integers(0, 200, count)]),
            "many": pa.array([[f"{n}", None] for n in range(count)]),
        }
    )
    chunked = pa.concat_tables([rows.slice(0, 100), rows.slice(100, 3), rows.slice(103)])
    positions = generator.permutation(count)[:400]
    taken = take_rows(chunked, positions, most_bytes=most_bytes)
    assert taken.equals(rows.take(pa.array(positions)))


def test_rows_that_lie_in_merge_order_are_not_copied() -> None:
    rows = pa.table(
        {
            "k": pa.array([1, 2, 2, 3]),
            SEQUENCE_NUMBER: pa.array([5, 1, 7, 2]),
            "v": pa.array(["a", "b", "c", "d"]),
        }
    )
    groups = sorted_groups(rows, RowOrder(("k",)))
    held, given = (table.column("v").chunk(0).buffers()[2] for table in (groups.rows, rows))
    assert held.address == given.address
    assert groups.starts.tolist() == [0, 1, 3]
