"""Statistics: true bounds in every mode, however text is cut."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.binary_row import decode_row, encode_row
from lakewright.storage.codec.column_stats import (
    StatsCollector,
    file_bounds,
    partition_stats,
    truncated_upper,
)
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.schema import new_schema
from tests.support.tables.builders import spec

CUT = {
    ("abc", 16): "abc",
    ("abcdefghijklmnop", 16): "abcdefghijklmnop",
    ("abcdefghijklmnopqrstuvwxyz", 16): "abcdefghijklmnoq",
    ("ab\U0010ffff", 2): "ac",
    ("a\U0010ffffz", 2): "b",
    ("\U0010ffff\U0010ffffz", 2): None,
    # The next character of U+D7FF is no surrogate.
    ("a\ud7ffz", 2): "a\ue000",
    ("", 0): "",
    ("a", 0): None,
}


@pytest.mark.parametrize(("given_", "expected"), CUT.items())
def test_an_upper_bound_is_cut_and_rounded_up(
    given_: tuple[str, int], expected: str | None
) -> None:
    assert truncated_upper(*given_) == expected


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.integers(1, 5))
def test_a_cut_bound_is_no_longer_and_no_lower_in_the_order_of_utf_8(text: str, width: int) -> None:
    upper = truncated_upper(text, width)
    if upper is None:
        assert set(text[:width]) == {"\U0010ffff"}
    else:
        assert len(upper) <= width
        assert upper.encode() >= text.encode()


COLUMNS = {
    "i": "INT",
    "s": "STRING",
    "d": "DOUBLE",
    "b": "BYTES",
    "n": "ARRAY<INT>",
    "t": "TIMESTAMP(6)",
    "x": "BOOLEAN",
}
SCHEMA = new_schema(spec(COLUMNS), time_millis=0)
TYPES = [field.type for field in SCHEMA.fields]


def batch(**columns: list[Any]) -> pa.Table:
    kinds = {
        "i": pa.int32(),
        "s": pa.string(),
        "d": pa.float64(),
        "b": pa.binary(),
        "n": pa.list_(pa.int32()),
        "t": pa.timestamp("us"),
        "x": pa.bool_(),
    }
    size = len(next(iter(columns.values())))
    return pa.table(
        {name: pa.array(columns.get(name, [None] * size), kind) for name, kind in kinds.items()}
    )


def collected(mode: str, *batches: pa.Table, **column_modes: str) -> Any:
    collector = StatsCollector(SCHEMA.fields, mode=mode, column_modes=column_modes)
    for each in batches:
        collector.add(each)
    return collector.result()


LONG = "abcdefghijklmnopqrstuvwxyz"
FIRST = batch(
    i=[3, None], s=[LONG, None], d=[0.0, 1.0], b=[b"x", None], n=[[1], None], x=[True, None]
)
SECOND = batch(i=[-1, 9], s=["b", ""], d=[-0.0, None], t=[5, 1])


def test_bounds_widen_from_batch_to_batch_and_nested_and_bytes_have_none() -> None:
    stats, covered = collected("full", FIRST, SECOND)
    assert covered is None
    assert decode_row(stats.min_values, TYPES) == (-1, "", -0.0, None, None, 1000, True)
    assert str(decode_row(stats.min_values, TYPES)[2]) == "-0.0"
    assert decode_row(stats.max_values, TYPES) == (9, "b", 1.0, None, None, 5000, True)
    assert stats.null_counts == (1, 1, 1, 3, 3, 2, 3)


def test_truncated_bounds_are_those_of_the_format() -> None:
    stats, _ = collected("truncate(16)", FIRST)
    assert decode_row(stats.min_values, TYPES)[1] == LONG[:16]
    assert decode_row(stats.max_values, TYPES)[1] == "abcdefghijklmnoq"


def test_a_nan_leaves_a_column_without_bounds() -> None:
    stats, _ = collected("full", FIRST, batch(d=[float("nan")]), SECOND)
    assert decode_row(stats.min_values, TYPES)[2] is None
    assert decode_row(stats.max_values, TYPES)[2] is None
    assert stats.null_counts[2] == 1


def test_text_that_cannot_be_rounded_up_has_no_bounds_at_all() -> None:
    stats, _ = collected("truncate(2)", batch(s=["a", "\U0010ffff" * 3]))
    assert decode_row(stats.min_values, TYPES)[1] is None
    assert decode_row(stats.max_values, TYPES)[1] is None


def test_modes_say_what_is_kept_column_by_column() -> None:
    stats, covered = collected("counts", FIRST)
    assert decode_row(stats.max_values, TYPES) == (None,) * 7
    assert stats.null_counts[:2] == (1, 1)
    stats, covered = collected("none", FIRST)
    assert (covered, stats.null_counts) == ((), ())
    stats, covered = collected("none", FIRST, s="truncate(3)", i="counts")
    assert covered == ("i", "s")
    types = [TYPES[0], TYPES[1]]
    assert decode_row(stats.min_values, types) == (None, "abc")
    assert decode_row(stats.max_values, types) == (None, "abd")


def meta(stats: Any, covered: tuple[str, ...] | None, **given_: Any) -> DataFileMeta:
    return DataFileMeta(
        file_name="f",
        file_size=1,
        row_count=4,
        value_stats=stats,
        value_stats_cols=covered,
        min_sequence_number=0,
        max_sequence_number=3,
        schema_id=0,
        **given_,
    )


def test_bounds_of_a_file_are_found_by_the_columns_it_covers() -> None:
    full = meta(*collected("full", FIRST, SECOND))
    bounds = file_bounds(full, SCHEMA)
    assert (bounds["i"].minimum, bounds["i"].maximum, bounds["i"].null_count) == (-1, 9, 1)
    some = meta(*collected("none", FIRST, SECOND, i="full"))
    assert list(file_bounds(some, SCHEMA)) == ["i"]
    assert file_bounds(meta(*collected("none", FIRST)), SCHEMA) == {}


def test_statistics_of_columns_nobody_knows_are_left_aside() -> None:
    stats, _ = collected("none", FIRST, i="full")
    assert file_bounds(meta(stats, ("gone",)), SCHEMA) == {}


def test_partition_bounds_are_over_distinct_values_and_count_every_null() -> None:
    fields = SCHEMA.fields_of(["i", "s", "d"])
    types = [field.type for field in fields]
    partitions = [
        encode_row(values, types)
        for values in ([1, "b", 1.0], [5, None, 2.0], [None, "a", None], [5, None, 2.0])
    ]
    stats = partition_stats(partitions, fields)
    assert decode_row(stats.min_values, types) == (1, "a", None)
    assert decode_row(stats.max_values, types) == (5, "b", None)
    assert stats.null_counts == (1, 2, 1)
