"""Bin packing: which files of an append table are written as fewer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.lsm.bin_packing import (
    bytes_once_joined,
    is_small,
    pack_neighbours,
    pack_small_files,
    pack_small_stretches,
)
from lakewright.storage.spec.manifest import DataFileMeta

pytestmark = pytest.mark.mission("FS7")


def sized(*sizes: int) -> list[DataFileMeta]:
    return [
        DataFileMeta(
            file_name=f"{index:02d}",
            file_size=size,
            row_count=1,
            min_sequence_number=index,
            max_sequence_number=index,
            schema_id=0,
        )
        for index, size in enumerate(sizes)
    ]


def sizes_of(groups: Iterable[Iterable[DataFileMeta]]) -> list[list[int]]:
    return [[each.file_size for each in group] for group in groups]


def test_a_file_of_less_than_seven_tenths_of_the_target_is_small() -> None:
    (at,), (below,) = sized(70), sized(69)
    assert (is_small(at, 100), is_small(below, 100)) == (False, True)


# --- any order ----------------------------------------------------------------------------------


def test_small_files_are_packed_from_the_smallest_up_to_two_targets() -> None:
    files = sized(60, 10, 500, 60, 20, 60, 60)
    # 10 + 20 + 60 + 60 + 60 weigh two targets; one is left, which is no group.
    groups = pack_small_files(files, target_bytes=100, min_files=2)
    assert sizes_of(groups) == [[10, 20, 60, 60, 60]]


def test_a_rest_is_packed_only_if_it_has_enough_files() -> None:
    assert pack_small_files(sized(10, 10), target_bytes=100, min_files=3) == []
    assert sizes_of(pack_small_files(sized(10, 10, 9), target_bytes=100, min_files=3)) == [
        [9, 10, 10]
    ]
    # One file alone is never worth it.
    assert pack_small_files(sized(10), target_bytes=100, min_files=1) == []


def test_opening_a_file_weighs_something_too() -> None:
    files = sized(*[1] * 9)
    groups = pack_small_files(
        files, target_bytes=100, min_files=5, weight_of=lambda each: each.file_size + 49
    )
    # Four files of 1 + 49 weigh two targets; of nine, one is left.
    assert [len(group) for group in groups] == [4, 4]


def test_rows_of_small_files_take_what_rows_take_in_the_large_files_beside_them() -> None:
    small, large = replace(sized(2_000)[0], row_count=3), replace(sized(9_000)[0], row_count=1_000)
    weight_of = bytes_once_joined([small, large], 1_500)
    assert (weight_of(small), weight_of(large)) == (27.0, 7_500)


def test_rows_of_small_files_take_little_where_no_large_file_says_how_much() -> None:
    small, tiny = sized(2_500, 1_000)
    weight_of = bytes_once_joined([small, tiny], 1_500)
    assert (weight_of(small), weight_of(tiny)) == (100.0, 3.0)


# --- the order of rows --------------------------------------------------------------------------


def test_only_neighbours_are_joined_where_the_order_of_rows_counts() -> None:
    files = sized(10, 11, 12, 500, 13, 14, 15)
    found = pack_neighbours(list(reversed(files)), target_bytes=100, min_files=3)
    assert sizes_of(found) == [[10, 11, 12], [13, 14, 15]]
    assert pack_neighbours(sized(10, 500, 10), target_bytes=100, min_files=2) == []


def test_a_window_moves_on_over_what_is_too_much() -> None:
    # 90 + 90 + 30 is over two targets, so the first goes; the next three are a group.
    assert sizes_of(pack_neighbours(sized(90, 90, 30, 40), target_bytes=100, min_files=3)) == [
        [90, 30, 40]
    ]


def test_what_would_become_as_many_files_is_left() -> None:
    assert pack_neighbours(sized(100, 30), target_bytes=100, min_files=2) == []
    assert pack_small_stretches(sized(100, 30), target_bytes=100) == []


def test_small_files_behind_a_group_come_along() -> None:
    files = sized(10, 10, 10, 10, 10, 80, 10)
    assert sizes_of(pack_neighbours(files, target_bytes=100, min_files=3)) == [[10] * 5]


def test_every_stretch_of_small_files_is_a_group() -> None:
    files = sized(10, 10, 500, 10, 10, 10, 90, 10)
    found = pack_small_stretches(files, target_bytes=100)
    assert sizes_of(found) == [[10, 10], [10, 10, 10]]
    assert pack_small_stretches(sized(10), target_bytes=100) == []


@given(st.lists(st.integers(1, 200), max_size=20), st.integers(2, 5))
def test_no_file_is_packed_twice_and_every_group_makes_fewer(sizes: list[int], least: int) -> None:
    files = sized(*sizes)
    in_order = [
        pack_neighbours(files, target_bytes=100, min_files=least),
        pack_small_stretches(files, target_bytes=100),
    ]
    for groups in (pack_small_files(files, target_bytes=100, min_files=least), *in_order):
        taken = [each.file_name for group in groups for each in group]
        assert len(set(taken)) == len(taken)
        assert all(len(group) >= 2 for group in groups)
    for groups in in_order:
        for group in groups:
            numbers = [each.min_sequence_number for each in group]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
