"""Sections and runs: which files must be merged together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.binary_row import decode_row, encode_row
from lakewright.storage.lsm.sections import first_overlap, runs_by_age, sections_of
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.manifest import DataFileMeta

INT = [AtomicType(TypeRoot.INT)]


def file(name: str, low: int = 0, high: int = 0, **given: Any) -> DataFileMeta:
    defaults: dict[str, Any] = {
        "file_size": 10,
        "row_count": 1,
        "min_sequence_number": 0,
        "max_sequence_number": 0,
        "schema_id": 0,
        "delete_row_count": 0,
    }
    return DataFileMeta(
        file_name=name,
        min_key=encode_row([low], INT),
        max_key=encode_row([high], INT),
        **{**defaults, **given},
    )


def decode(data: bytes) -> tuple[Any, ...]:
    return decode_row(data, INT)


def names(files: Any) -> list[str]:
    return [each.file_name for each in files]


def test_files_that_share_a_key_directly_or_through_others_are_one_section() -> None:
    files = [
        file("d", 20, 30),
        file("a", 1, 5),
        file("c", 8, 12),
        file("b", 4, 9),
        file("e", 13, 13),
    ]
    found = sections_of(files, decode)
    assert [sorted(names(each.files)) for each in found] == [["a", "b", "c"], ["e"], ["d"]]
    # Within a section, as few runs as hold it.
    assert [names(run) for run in found[0].runs] == [["a", "c"], ["b"]]


def test_equal_bounds_overlap() -> None:
    (section,) = sections_of([file("a", 1, 5), file("b", 5, 9)], decode)
    assert len(section.runs) == 2
    assert first_overlap([file("a", 1, 5), file("b", 5, 9)], decode) is not None
    assert first_overlap([file("a", 1, 5), file("b", 6, 9)], decode) is None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=12))
@pytest.mark.mission("FS15")
def test_sections_share_no_key_and_lose_no_file(spans: list[tuple[int, int]]) -> None:
    files = [file(str(index), low, low + width) for index, (low, width) in enumerate(spans)]
    found = sections_of(files, decode)
    assert sorted(name for each in found for name in names(each.files)) == sorted(names(files))
    ends = [
        (min(decode(f.min_key) for f in each.files), max(decode(f.max_key) for f in each.files))
        for each in found
    ]
    assert all(left[1] < right[0] for left, right in pairwise(ends))
    for section in found:
        for run in section.runs:
            assert first_overlap(run, decode) is None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=12))
@pytest.mark.mission("FS12")
def test_where_keys_overlap_the_newer_file_lies_in_a_later_run(
    spans: list[tuple[int, int]],
) -> None:
    files = [file(str(index), low, low + width) for index, (low, width) in enumerate(spans)]
    runs = runs_by_age(files, decode)
    placed = {each.file_name: index for index, run in enumerate(runs) for each in run}
    assert sorted(placed) == sorted(names(files))
    for run in runs:
        assert first_overlap(run, decode) is None
        assert [each.min_key for each in run] == sorted((f.min_key for f in run), key=decode)
    for newer, (low, width) in enumerate(spans):
        for older, (first, more) in enumerate(spans[:newer]):
            if low <= first + more and first <= low + width:
                assert placed[str(older)] < placed[str(newer)]
