"""Sort layouts: rows by column, and rows along a curve."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.lsm.sort_layout import (
    SortOrder,
    hilbert_axes,
    interleaved,
    part_of,
    sort_layout,
    split_points,
)

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [None, -(2**31), -1, 0, 7, 2**31 - 1]),
    "bigint": (pa.int64(), [None, -(2**63), -(2**63) + 1, 0, 2**63 - 1]),
    "double": (pa.float64(), [None, float("-inf"), -1.5, -0.0, 0.0, 1e-300, 2.0, NAN]),
    "bool": (pa.bool_(), [None, False, True]),
    "date": (pa.date32(), [None, dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us"), [None, dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 1)]),
    "decimal": (
        pa.decimal128(38, 2),
        [None, Decimal("-9" + "0" * 30 + ".00"), Decimal("0.01"), Decimal("9" + "0" * 30 + ".00")],
    ),
    "string": (
        pa.string(),
        [None, "", "a", "a\0", "ab", "b" * 40, "b" * 40 + "c", "ä", "\U0001f600"],
    ),
    "bytes": (pa.binary(), [None, b"", b"\x00", b"\x00\x00", b"\xff"]),
}


def as_texts(rows: pa.Table, name: str) -> list[str]:
    return [repr(value) for value in rows.column(name).to_pylist()]


@pytest.mark.parametrize("kind", VALUES)
def test_a_column_of_any_type_sorts_as_the_format_orders_it(kind: str) -> None:
    arrow_type, ordered = VALUES[kind]
    shuffled = [ordered[index] for index in np.random.default_rng(1).permutation(len(ordered))]
    rows = pa.table(
        {
            "c": pa.chunked_array(
                [pa.array(shuffled[:2], arrow_type), pa.array(shuffled[2:], arrow_type)]
            )
        }
    )
    layout = sort_layout(SortOrder.ORDER, ["c"], rows)
    found = layout.sorted_rows(rows)
    assert as_texts(found, "c") == [repr(value) for value in ordered]
    words = [tuple(line) for line in layout.words(found).tolist()]
    assert words == sorted(words)


def test_rows_alike_keep_their_order_and_the_next_column_decides() -> None:
    rows = pa.table({"a": [2, 1, 2, 1], "b": ["x", None, "w", "y"], "n": [0, 1, 2, 3]})
    by_both = sort_layout(SortOrder.ORDER, ["a", "b"], rows).sorted_rows(rows)
    assert by_both.column("n").to_pylist() == [1, 3, 2, 0]
    by_first = sort_layout(SortOrder.ORDER, ["a"], rows).sorted_rows(rows)
    assert by_first.column("n").to_pylist() == [1, 3, 0, 2]


@given(
    st.lists(
        st.tuples(
            st.integers(-3, 3) | st.none(), st.text("ab\0", max_size=12), st.floats(width=32)
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(2, 6),
    st.permutations(["a", "b", "c"]),
    st.sampled_from(SortOrder),
)
def test_parts_sorted_by_themselves_are_the_whole_sorted(
    values: list[tuple[Any, ...]], parts: int, by: list[str], order: SortOrder
) -> None:
    a, b, c = (list(column) for column in zip(*values, strict=True))
    rows = pa.table({"a": pa.array(a, pa.int64()), "b": b, "c": pa.array(c, pa.float64())})
    layout = sort_layout(order, by, rows)
    words = layout.words(rows)
    points = split_points(words, parts)
    part = part_of(words, points)
    assert len(points) < parts
    pieces = [layout.sorted_rows(rows.filter(pa.array(part == each))) for each in range(parts)]
    joined = pa.concat_tables(pieces)
    whole = layout.sorted_rows(rows)
    for name in rows.column_names:
        assert as_texts(joined, name) == as_texts(whole, name)


def test_bits_are_taken_in_turn() -> None:
    x, y = np.array([0b101], dtype=np.uint64), np.array([0b011], dtype=np.uint64)
    assert interleaved([x, y], 3).tolist() == [0b100111]
    z = np.array([0b110], dtype=np.uint64)
    assert interleaved([x, y, z], 3).tolist() == [0b101011110]
    rng = np.random.default_rng(3)
    for count in range(2, 12):
        bits = 64 // count
        ranks = [rng.integers(0, 1 << bits, 50, dtype=np.uint64) for _ in range(count)]
        for index, curve in enumerate(interleaved(ranks, bits).tolist()):
            texts = [f"{int(rank[index]):0{bits}b}" for rank in ranks]
            in_turn = "".join("".join(each) for each in zip(*texts, strict=True))
            assert f"{curve:0{bits * count}b}" == in_turn


def test_a_row_is_in_the_part_of_the_last_point_it_reaches() -> None:
    rng = np.random.default_rng(5)
    words = rng.integers(0, 6, (400, 3), dtype=np.uint64)
    for count in (0, 1, 2, 3, 7, 16, 40):
        points = np.unique(rng.integers(0, 6, (count, 3), dtype=np.uint64), axis=0)
        expected = [
            sum(tuple(point) <= tuple(row) for point in points.tolist()) for row in words.tolist()
        ]
        assert part_of(words, points.reshape(-1, 3)).tolist() == expected


def test_a_curve_gives_every_point_its_own_number_and_hilbert_never_jumps() -> None:
    for dimensions, bits in ((2, 4), (3, 3)):
        side = np.arange(1 << bits, dtype=np.uint64)
        points = [axis.reshape(-1) for axis in np.meshgrid(*[side] * dimensions)]
        for axes in (points, hilbert_axes(points, bits)):
            numbers = interleaved(axes, bits)
            assert sorted(numbers.tolist()) == list(range(1 << (bits * dimensions)))
        order = np.argsort(interleaved(hilbert_axes(points, bits), bits))
        walked = [tuple(int(axis[index]) for axis in points) for index in order]
        for here, there in pairwise(walked):
            assert sum(abs(left - right) for left, right in zip(here, there, strict=True)) == 1


@pytest.mark.parametrize("order", [SortOrder.ZORDER, SortOrder.HILBERT])
def test_a_curve_keeps_rows_near_in_every_column_together(order: SortOrder) -> None:
    """Columns of very different spread: each of 64 slices spans a part of both."""
    rng = np.random.default_rng(7)
    rows = pa.table(
        {
            "small": rng.integers(0, 1000, 40_000),
            "large": pa.array(np.exp(rng.uniform(0, 40, 40_000))),
            "s": [f"same prefix {number:06d}" for number in rng.integers(0, 10**6, 40_000)],
        }
    )
    spans: dict[str, list[float]] = {}
    for by in (["small", "large"], ["small", "s"]):
        found = sort_layout(order, by, rows.slice(0, 5000)).sorted_rows(rows)
        for name in by:
            ranked = np.unique(found.column(name).to_numpy(), return_inverse=True)[1]
            slices = np.array_split(ranked / ranked.max(), 64)
            spans.setdefault(name, []).append(float(np.mean([np.ptp(each) for each in slices])))
    # Sorted by the first column alone the other would span all of its values.
    assert all(span < 0.35 for each in spans.values() for span in each), spans
