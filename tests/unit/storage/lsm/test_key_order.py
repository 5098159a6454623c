"""The order of a merge is that of a plain sort by key, user sequence and sequence number."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.lsm.key_order import merge_order
from lakewright.storage.spec.values import order_key

# Few different values, so that keys and sequences meet.
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.sampled_from([-128, -1, 0, 127]),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 2**63 - 1]),
    pa.float64(): st.sampled_from([-1.5, -0.0, 0.0, 2.5, float("nan"), float("inf")]),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(
        ["", "a", "a\0", "user-0000001", "user-0000002", "user-00000020", "ü", "\U0001f600"]
    ),
    pa.binary(): st.binary(max_size=20),
    # Of one length, over eight bytes and under.
    pa.large_string(): st.sampled_from(["user-0000001", "user-0000002", "user-1000001"]),
    pa.large_binary(): st.sampled_from([b"aaa", b"aab", b"baa"]),
    pa.decimal128(12, 2): st.sampled_from([Decimal("-9.99"), Decimal("0.00"), Decimal("7.50")]),
    pa.decimal128(38, 0): st.sampled_from([Decimal(-(10**37)), Decimal(-1), Decimal(10**30)]),
    pa.date32(): st.sampled_from([dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
    pa.timestamp("us"): st.sampled_from([dt.datetime(1900, 1, 1), dt.datetime(2024, 1, 1)]),
}
TYPES = list(VALUES)


@st.composite
def inputs(draw: st.DrawFn) -> tuple[list[pa.DataType], list[pa.DataType], list[tuple[Any, ...]]]:
    keys = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    sequences = draw(st.lists(st.sampled_from(TYPES), max_size=2))
    row = st.tuples(
        *(VALUES[key] for key in keys),
        *(st.none() | VALUES[kind] for kind in sequences),
        st.integers(0, 9),
    )
    return keys, sequences, draw(st.lists(row, max_size=40))


def laid_out(values: list[Any], kind: pa.DataType, cuts: list[int]) -> pa.ChunkedArray:
    """The values in chunks, each a slice from the middle of an array, some of them empty."""
    bounds = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    around = values[:1]
    chunks = [
        pa.array([*around, *values[low:high], *around], kind).slice(len(around), high - low)
        for low, high in pairwise(bounds)
    ]
    return pa.chunked_array(chunks, kind)


@pytest.mark.parametrize("descending", [False, True])
@given(given=inputs(), cuts=st.lists(st.integers(0, 40), max_size=3))
@pytest.mark.mission("FS5", "FS16")
def test_rows_are_ordered_by_key_then_user_sequence_then_sequence_number(
    descending: bool,
    given: tuple[list[pa.DataType], list[pa.DataType], list[tuple[Any, ...]]],
    cuts: list[int],
) -> None:
    keys, sequences, rows = given
    columns = [
        laid_out([row[index] for row in rows], kind, cuts)
        for index, kind in enumerate([*keys, *sequences, pa.int64()])
    ]
    count = len(keys)

    def compare(left: int, right: int) -> int:
        for index in range(count + len(sequences) + 1):
            low, high = rows[left][index], rows[right][index]
            if low is None or high is None:
                order = (low is not None) - (high is not None)
            else:
                order = _compare(order_key(low), order_key(high))
                if count <= index < count + len(sequences) and descending:
                    order = -order
            if order:
                return order
        return 0

    expected = sorted(range(len(rows)), key=cmp_to_key(compare))
    found = merge_order(columns[:count], columns[count:-1], columns[-1], descending=descending)
    assert found.order.tolist() == expected
    first_of_key = [
        place
        for place, row in enumerate(expected)
        if place == 0
        or [order_key(v) for v in rows[row][:count]]
        != [order_key(v) for v in rows[expected[place - 1]][:count]]
    ]
    assert found.starts.tolist() == first_of_key


def _compare(low: Any, high: Any) -> int:
    if isinstance(low, str):
        low, high = low.encode(), high.encode()
    return (low > high) - (low < high)
