"""Universal compaction: which runs are merged, where they go, which files keep their bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.binary_row import decode_row, encode_row
from lakewright.storage.errors import CorruptionError
from lakewright.storage.lsm.levels import LevelRun, Levels, levels_of
from lakewright.storage.lsm.sections import sections_of
from lakewright.storage.lsm.universal_compaction import (
    CompactionUnit,
    OffPeakHours,
    Rewrite,
    UniversalPolicy,
    Upgrade,
    may_drop_deletes,
    may_merge,
    pick_full,
    pick_steps,
    pick_unit,
)
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.manifest import DataFileMeta

INT = [AtomicType(TypeRoot.INT)]

pytestmark = pytest.mark.mission("FS12")


def file(name: str = "f", low: int = 0, high: int = 0, **given: Any) -> DataFileMeta:
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


def tree(*runs: tuple[int, int], count: int) -> Levels:
    """Runs as (level, size), newest first."""
    return Levels(
        tuple(
            LevelRun(level, (file(f"f{index}", level=level, file_size=size),))
            for index, (level, size) in enumerate(runs)
        ),
        count,
    )


def level0(*sizes: int, count: int) -> Levels:
    return tree(*((0, size) for size in sizes), count=count)


def policy(amplification: int, ratio: int, trigger: int, **given: Any) -> UniversalPolicy:
    return UniversalPolicy(
        max_size_amplification_percent=amplification,
        size_ratio_percent=ratio,
        run_trigger=trigger,
        **given,
    )


def picked(levels: Levels, how: UniversalPolicy, **when: int) -> tuple[list[int], int] | None:
    """Sizes of what is picked, and the level it goes to."""
    unit = pick_unit(levels, how, **when)
    return unit and ([each.file_size for each in unit.files], unit.output_level)


# --- runs ---------------------------------------------------------------------------------------


def test_level_0_comes_first_by_age_and_a_deeper_level_is_one_run() -> None:
    files = [
        file("deep-b", level=5),
        file("old", max_sequence_number=3),
        file("middle", level=2),
        file("new", max_sequence_number=9),
        file("deep-a", level=5),
        file("twin-b", min_sequence_number=4, max_sequence_number=7, creation_time=1),
        file("twin-a", min_sequence_number=4, max_sequence_number=7, creation_time=1),
        file("twin-later", min_sequence_number=4, max_sequence_number=7, creation_time=2),
        file("twin-wider", min_sequence_number=2, max_sequence_number=7, creation_time=9),
    ]
    levels = levels_of(files, 6)
    assert [[each.file_name for each in run.files] for run in levels.runs] == [
        ["new"],
        ["twin-later"],
        ["twin-b"],
        ["twin-a"],
        ["twin-wider"],
        ["old"],
        ["middle"],
        ["deep-b", "deep-a"],
    ]
    assert [run.level for run in levels.runs] == [0, 0, 0, 0, 0, 0, 2, 5]
    assert (levels.max_level, levels.deepest) == (5, 5)
    assert (levels_of([], 6).deepest, levels_of([file()], 6).deepest) == (-1, 0)


def test_a_bucket_deeper_than_the_option_keeps_its_depth() -> None:
    assert levels_of([file(level=7)], 6).max_level == 7
    with pytest.raises(CorruptionError, match="lies at level -1"):
        levels_of([file(level=-1)], 6)


# --- size amplification -------------------------------------------------------------------------


def test_everything_is_merged_when_the_newer_runs_outweigh_the_oldest() -> None:
    # 1 + 2 + 3 on top of 3 is 200%, over 25%.
    assert picked(level0(1, 2, 3, 3, count=3), policy(25, 1, 3)) == ([1, 2, 3, 3], 2)
    # 12 on top of 50 is 24%, and no run is of the size of its neighbour.
    assert picked(tree((0, 1), (2, 3), (3, 8), (4, 50), count=6), policy(25, 1, 4)) is None


def test_amplification_at_the_limit_is_still_fine() -> None:
    at = tree((0, 1), (2, 9), (3, 20), (4, 120), count=6)
    assert picked(at, policy(25, 1, 4)) is None
    over = tree((0, 1), (2, 10), (3, 20), (4, 120), count=6)
    assert picked(over, policy(25, 1, 4)) == ([1, 10, 20, 120], 5)


def test_sizes_in_reasons_have_units() -> None:
    unit = pick_unit(tree((0, 1), (2, 2000), (3, 20), (4, 120), count=6), policy(25, 1, 4))
    assert unit is not None
    assert "2,021 bytes above an oldest run of 120 bytes, over 25% of it" in unit.reason


def appended(how: UniversalPolicy, sizes: list[int]) -> list[int]:
    """One more run of size 1, and what the policy leaves of all of them."""
    sizes = [1, *sizes]
    unit = pick_unit(tree(*enumerate(sizes), count=len(sizes) + 1), how)
    return sizes if unit is None else [sum(sizes[: len(unit.files)]), *sizes[len(unit.files) :]]


def test_amplification_alone_merges_ever_more_seldom() -> None:
    sizes, found = [1], []
    for _ in range(18):
        sizes = [1, *sizes]
        unit = pick_unit(level0(*sizes, count=4), policy(25, 0, 1))
        # The other rules would find something too: they are for another test.
        if unit is not None and "above an oldest run" in unit.reason:
            sizes = [sum(sizes)]
        found.append(sizes)
    assert found[:8] == [[2], [3], [4], [1, 4], [6], [1, 6], [8], [1, 8]]
    assert found[8:14] == [[1, 1, 8], [11], [1, 11], [1, 1, 11], [14], [1, 14]]
    assert found[14:] == [[1, 1, 14], [1, 1, 1, 14], [18], [1, 18]]


# --- size ratio ---------------------------------------------------------------------------------


def test_runs_of_about_one_size_are_merged_up_to_the_first_much_larger() -> None:
    levels = tree((0, 1), (1, 1), (2, 1), (3, 50), count=4)
    assert picked(levels, policy(25, 1, 3)) == ([1, 1, 1], 2)


def test_size_ratio_makes_runs_of_growing_size() -> None:
    how = policy(10**6, 1, 5)
    sizes, found = [1, 1, 1, 1], []
    for _ in range(23):
        sizes = appended(how, sizes)
        found.append(sizes)
    assert found[:6] == [[5], [1, 5], [1, 1, 5], [1, 1, 1, 5], [4, 5], [1, 4, 5]]
    assert found[6:12] == [
        [1, 1, 4, 5],
        [3, 4, 5],
        [1, 3, 4, 5],
        [2, 3, 4, 5],
        [1, 2, 3, 4, 5],
        [16],
    ]
    assert found[-4:] == [[1, 3, 4, 16], [2, 3, 4, 16], [1, 2, 3, 4, 16], [11, 16]]


def test_the_ratio_is_a_percentage_on_top_of_what_is_picked() -> None:
    runs = tree((2, 8), (3, 9), (4, 10), count=6)
    # 8 · 1.10 is less than 9; 8 · 1.20 is more.
    assert picked(runs, policy(10**6, 10, 3)) is None
    assert picked(runs, policy(10**6, 20, 3)) == ([8, 9, 10], 5)


def test_off_peak_hours_loosen_the_ratio() -> None:
    runs = tree((2, 8), (3, 9), (4, 10), count=6)
    nights = OffPeakHours(start=22, end=6, ratio_percent=10)
    how = policy(10**6, 10, 3, off_peak=nights)
    assert [hour for hour in range(24) if picked(runs, how, hour=hour)] == [*range(6), 22, 23]
    midday = replace(how, off_peak=OffPeakHours(start=11, end=13, ratio_percent=10))
    assert [hour for hour in range(24) if picked(runs, midday, hour=hour)] == [11, 12]


# --- run count ----------------------------------------------------------------------------------


def test_too_many_runs_are_merged_though_their_sizes_differ() -> None:
    # One run too many, so the first two; with those, 3 is of their size.
    levels = tree((0, 1), (1, 2), (2, 3), (3, 50), count=4)
    assert picked(levels, policy(25, 1, 3)) == ([1, 2, 3], 2)


def test_level_2_comes_along_when_the_newer_runs_together_reach_its_size() -> None:
    levels = tree((0, 10), (0, 20), (1, 97), (2, 100), count=3)
    assert picked(levels, policy(200, 1, 3)) == ([10, 20, 97, 100], 2)


def test_nothing_is_due_with_few_runs() -> None:
    assert picked(level0(1, 1, 1, 1, count=6), UniversalPolicy()) is None
    assert picked(level0(count=6), UniversalPolicy()) is None
    assert picked(level0(1, count=6), policy(200, 1, 1)) is None
    assert picked(tree((5, 1), count=6), policy(200, 1, 1)) is None


# --- the level rows go to -----------------------------------------------------------------------


def test_rows_go_to_the_level_above_the_next_run_and_never_to_level_0() -> None:
    how = policy(25, 1, 3)
    assert picked(tree((0, 1), (0, 1), (1, 1), (2, 50), count=3), how) == ([1, 1, 1], 1)
    assert picked(tree((0, 1), (0, 2), (1, 3), (2, 50), count=3), how) == ([1, 2, 3], 1)
    # Nothing but level 0: all of it goes, however large its oldest file is.
    large = level0(1, 1, 1, 1024, 1024 * 1024, count=6)
    assert picked(large, policy(200, 1, 5)) == ([1, 1, 1, 1024, 1024 * 1024], 5)


@pytest.mark.parametrize(
    ("sizes", "trigger", "expected"),
    [
        # The next run is at 3, so 2; at 4, so 3; there is none, so the last of all.
        ([1, 1, 1, 100, 1000], 3, ([1, 1, 1], 2)),
        ([1, 1, 1, 1, 1000], 2, ([1, 1, 1, 1], 3)),
        ([1, 1, 1, 1, 1], 2, ([1, 1, 1, 1, 1], 5)),
        # The next run is at 1, whose upper neighbour is 0: it comes along.
        ([1, 1, 50, 500, 5000], 4, ([1, 1, 50], 2)),
    ],
)
def test_the_output_level_follows_the_next_run(
    sizes: list[int], trigger: int, expected: tuple[list[int], int]
) -> None:
    runs = tree(*zip((0, 0, 1, 3, 4), sizes, strict=True), count=6)
    assert picked(runs, policy(10**6, 1, trigger)) == expected


@given(
    st.lists(st.integers(1, 1000), max_size=6),
    st.dictionaries(st.integers(1, 5), st.integers(1, 100_000)),
    st.integers(1, 6),
    st.booleans(),
)
def test_what_is_picked_is_newer_than_what_stays(
    zero: list[int], deeper: dict[int, int], trigger: int, force: bool
) -> None:
    runs = [(0, size) for size in zero] + sorted(deeper.items())
    levels = tree(*runs, count=6)
    unit = pick_unit(levels, policy(200, 1, trigger, force_up_level0=force))
    if unit is None:
        assert not (force and zero)
        assert len(runs) <= trigger or trigger == 1
        return
    assert unit.files == levels.files[: len(unit.files)]
    rest = levels.runs[len(unit.files) :]
    assert unit.output_level > 0
    assert all(run.level > unit.output_level for run in rest)
    assert all(each.level <= unit.output_level for each in unit.files)
    if not rest:
        assert unit.output_level == 5


# --- before their time --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "left", "output", "allowed"),
    [
        # Each file as (level, highest sequence number).
        ([(0, 3), (0, 2)], [(0, 4), (5, 1)], 4, True),
        ([(0, 3), (0, 2)], [(0, 3)], 5, True),
        ([(0, 3), (0, 1)], [(0, 2)], 5, False),
        ([(0, 3)], [(4, 1)], 4, False),
        ([(0, 3), (5, 1)], [], 4, False),
        ([(4, 1)], [(0, 2)], 5, True),
    ],
)
def test_a_merge_takes_no_row_past_an_older_one(
    taken: list[tuple[int, int]], left: list[tuple[int, int]], output: int, allowed: bool
) -> None:
    files = [file(level=level, max_sequence_number=number) for level, number in taken]
    rest = [file(level=level, max_sequence_number=number) for level, number in left]
    unit = CompactionUnit(files=tuple(files), output_level=output, reason="")
    assert may_merge(unit, rest) is allowed


def test_only_files_of_the_output_level_are_rewritten_one_by_one() -> None:
    for level, allowed in ((5, True), (0, False)):
        unit = CompactionUnit(
            files=(file(level=level),), output_level=5, reason="", file_by_file=True
        )
        assert may_merge(unit, []) is allowed


def test_a_full_compaction_is_due_once_an_interval() -> None:
    how = policy(100, 1, 3, optimization_interval_ms=1000)
    levels = tree((0, 1), (1, 3), (2, 5), count=3)
    everything = ([1, 3, 5], 2)
    # No file says when its creator finished, so that is long ago.
    assert picked(levels, how, now_ms=10**12) == everything
    merged_at = replace(
        levels,
        runs=(*levels.runs[:2], LevelRun(2, (file(level=2, file_size=5, creation_time=5000),))),
    )
    assert picked(merged_at, how, now_ms=6000) is None
    assert picked(merged_at, how, now_ms=6001) == everything
    # Without a top level there was none yet.
    assert picked(tree((0, 1), (1, 3), count=3), how) == ([1, 3], 2)
    assert picked(tree((0, 1), count=3), how) is None


def test_a_small_bucket_and_many_new_bytes_are_reasons_by_themselves() -> None:
    small = policy(100, 1, 3, total_size_threshold=10)
    assert picked(tree((0, 1), (1, 3), (2, 5), count=3), small) == ([1, 3, 5], 2)
    assert picked(tree((0, 2), (1, 6), (2, 10), count=3), small) is None
    assert picked(tree((2, 5), count=3), small) is None
    many = policy(100, 1, 3, incremental_size_threshold=4)
    assert picked(tree((0, 1), (1, 3), (2, 5), count=3), many) is None
    assert picked(tree((0, 2), (1, 3), (2, 9), count=3), many) == ([2, 3, 9], 2)


def test_level_0_is_emptied_where_lookups_need_it() -> None:
    how = policy(25, 1, 3, force_up_level0=True)
    assert picked(level0(1, 2, 2, 2, count=3), how) == ([1, 2, 2, 2], 2)
    assert picked(tree((0, 1), (1, 2), (2, 2), count=3), how) == ([1, 2, 2], 2)
    # To the empty level above the next run.
    assert picked(tree((0, 1), (2, 2), count=3), how) == ([1], 1)
    assert picked(tree((1, 1), (2, 2), count=3), how) is None


# --- full compaction ----------------------------------------------------------------------------


def test_a_full_compaction_takes_everything_unless_it_is_at_the_top_already() -> None:
    unit = pick_full(tree((0, 1), (3, 5), count=6))
    assert unit is not None
    assert ([each.file_size for each in unit.files], unit.output_level) == ([1, 5], 5)
    assert pick_full(tree((5, 5), count=6)) is None
    assert pick_full(tree(count=6)) is None
    lower = pick_full(tree((4, 5), count=6))
    assert lower is not None
    assert lower.output_level == 5


def test_files_of_the_top_level_are_written_anew_only_for_what_they_hold() -> None:
    files = (file("clean", level=5), file("stale", level=5))
    unit = pick_full(levels_of(files, 6), lambda each: each.file_name == "stale")
    assert unit is not None
    assert (unit.files, unit.output_level, unit.file_by_file) == (files[1:], 5, True)
    (step,) = pick_steps(unit, (), max_level=5, small_below_bytes=0)
    assert isinstance(step, Rewrite)
    assert step.files == files[1:]


def test_deletions_end_where_nothing_older_is_left() -> None:
    levels = tree((0, 1), (2, 5), (4, 9), count=6)
    assert [may_drop_deletes(levels, level) for level in range(6)] == [False] * 4 + [True] * 2
    assert [may_drop_deletes(levels, level, deletion_vectors=True) for level in (0, 1)] == [
        False,
        True,
    ]


# --- what becomes of the files ------------------------------------------------------------------


def steps(
    *files: DataFileMeta, output: int, small_below: int = 10, **given: Any
) -> list[tuple[str, list[str]]]:
    unit = CompactionUnit(files=files, output_level=output, reason="")
    sections = sections_of(files, lambda data: decode_row(data, INT))
    found = pick_steps(unit, sections, max_level=5, small_below_bytes=small_below, **given)
    return [
        ("upgrade", [step.file.file_name])
        if isinstance(step, Upgrade)
        else ("rewrite", [each.file_name for each in step.files])
        for step in found
    ]


def test_a_large_file_that_meets_no_other_only_changes_its_level() -> None:
    assert steps(
        file("large", 0, 9),
        file("a", 20, 30),
        file("b", 25, 35),
        file("small", 40, 41, file_size=1),
        file("last", 50, 60),
        output=4,
    ) == [("upgrade", ["large"]), ("rewrite", ["a", "b", "small"]), ("upgrade", ["last"])]


def test_a_small_file_by_itself_is_moved_too() -> None:
    assert steps(file("small", 0, 1, file_size=1), file("large", 5, 6), output=3) == [
        ("upgrade", ["small"]),
        ("upgrade", ["large"]),
    ]


def test_small_neighbours_become_one() -> None:
    small = [file(str(n), n, n, file_size=1) for n in range(4)]
    assert steps(*small, output=5) == [("rewrite", ["0", "1", "2", "3"])]


def test_a_file_at_the_output_level_stays_as_it_is() -> None:
    assert steps(file("there", 0, 9, level=5), file("new", 20, 21), output=5) == [
        ("upgrade", ["new"])
    ]


@pytest.mark.parametrize("deletes", [1, None])
def test_deletions_are_written_out_of_a_file_on_its_way_to_the_top(deletes: int | None) -> None:
    holds = file("holds", 0, 9, delete_row_count=deletes)
    assert steps(holds, file("clean", 20, 21), output=5) == [
        ("rewrite", ["holds"]),
        ("upgrade", ["clean"]),
    ]
    assert steps(holds, output=4) == [("upgrade", ["holds"])]


def test_every_file_is_written_anew_on_request() -> None:
    found = steps(file("a", 0, 9, level=5), output=5, rewritten=lambda _: True)
    assert found == [("rewrite", ["a"])]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6), st.integers(1, 20)), max_size=12))
def test_steps_touch_every_file_once_and_leave_one_run(spans: list[tuple[int, int, int]]) -> None:
    files = [
        file(str(index), low, low + width, file_size=size)
        for index, (low, width, size) in enumerate(spans)
    ]
    unit = CompactionUnit(files=tuple(files), output_level=5, reason="")
    sections = sections_of(files, lambda data: decode_row(data, INT))
    found = pick_steps(unit, sections, max_level=5, small_below_bytes=10)
    touched = [
        each
        for step in found
        for each in (step.files if isinstance(step, Rewrite) else [step.file])
    ]
    assert sorted(each.file_name for each in touched) == sorted(each.file_name for each in files)
    end = None
    for step in found:
        group = step.files if isinstance(step, Rewrite) else (step.file,)
        low = min(decode_row(each.min_key, INT) for each in group)
        assert end is None or low > end
        end = max(decode_row(each.max_key, INT) for each in group)


def test_as_many_runs_as_were_asked_for_are_merged_though_each_is_much_smaller() -> None:
    sizes = (1, 10, 100, 1000, 10_000)
    by_format = policy(10_000_000, 1, 5)
    assert picked(level0(*sizes, count=5), by_format) is None
    asked = policy(10_000_000, 1, 5, merges_at_trigger=True)
    found = picked(level0(*sizes, count=5), asked)
    assert found is not None
    assert len(found[0]) >= 2
    assert picked(level0(*sizes[:4], count=5), asked) is None
