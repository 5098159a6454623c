"""Lookups and changelogs as pure functions: the rows that count, and their changelog."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.lsm.changelog import KeyHistory, changelog_rows, merged_positions
from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.lookup_merge import look_up, without_keys

pytestmark = pytest.mark.mission("FS7")

# File number → level, and whether the file is merged (the others are only looked into).
FILES = [(0, True), (0, True), (2, True), (3, True), (4, False), (5, False)]
LEVELS = np.array([level for level, _ in FILES])
MERGED = np.array([merged for _, merged in FILES])


def grouped(rows: list[tuple[int, int]]) -> KeyGroups:
    """Rows as (key, file), of which each file holds a key once at most."""
    ordered = sorted(set(rows), key=lambda row: (row[0], -LEVELS[row[1]], row[1]))
    keys = [key for key, _ in ordered]
    table = pa.table(
        {
            "_KEY_k": keys,
            "_SEQUENCE_NUMBER": list(range(len(ordered))),
            "_VALUE_KIND": pa.array([0] * len(ordered), pa.int8()),
            "v": [f"{key}@{file}" for key, file in ordered],
        }
    )
    starts = np.flatnonzero(np.diff(np.array(keys, dtype=np.int64), prepend=-1))
    files = np.array([file for _, file in ordered], dtype=np.int32)
    return KeyGroups(table, starts, files, np.arange(len(ordered)))


def counting(rows: list[tuple[int, int]]) -> dict[int, tuple[list[int], int | None]]:
    """By key: the files whose rows count, and the one below level 0 among them."""
    found: dict[int, tuple[list[int], int | None]] = {}
    for key in {key for key, _ in rows}:
        files = sorted({file for other, file in rows if other == key})
        if not any(MERGED[file] for file in files):
            continue
        deeper = [file for file in files if LEVELS[file] > 0]
        inside = [file for file in deeper if MERGED[file]]
        older = min(inside or deeper, key=lambda file: LEVELS[file], default=None)
        newest = [file for file in files if LEVELS[file] == 0]
        found[key] = (sorted([*newest, *([] if older is None else [older])]), older)
    return found


def looked_up(groups: KeyGroups) -> dict[int, tuple[list[int], int | None]]:
    found = look_up(groups, LEVELS, MERGED)
    return {key: (files, older) for key, files, older, _, _ in lines(found.groups, found)}


def lines(groups: KeyGroups, found: Any) -> list[tuple[int, list[int], int | None, bool, bool]]:
    keys = groups.rows.column("_KEY_k").to_pylist()
    ends = [*groups.starts[1:], groups.rows.num_rows][: groups.key_count]
    bounds = zip(groups.starts, ends, found.older, found.outside, found.newer, strict=True)
    return [
        (
            keys[start],
            sorted(groups.origins[start:end].tolist()),
            None if older < 0 else int(groups.origins[older]),
            bool(outside),
            bool(newer),
        )
        for start, end, older, outside, newer in bounds
    ]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, len(FILES) - 1)), max_size=40))
def test_level_0_counts_and_of_what_is_deeper_the_newest(rows: list[tuple[int, int]]) -> None:
    groups = grouped(rows)
    assert looked_up(groups) == counting(rows)
    found = look_up(groups, LEVELS, MERGED)
    for _, files, older, outside, newer in lines(found.groups, found):
        assert outside == (older is not None and not MERGED[older])
        assert newer == any(LEVELS[file] == 0 for file in files)
    kept = without_keys(found, found.outside)
    expected = [line for line in lines(found.groups, found) if not line[3]]
    assert lines(kept.groups, kept) == expected
    # Rows went along with their places.
    values = kept.groups.rows.column("v").to_pylist()
    positions = groups.rows.column("v").take(pa.array(kept.groups.positions)).to_pylist()
    assert values == positions


# --- changelogs ---------------------------------------------------------------------------------


def table(*rows: tuple[int, int, Any]) -> pa.Table:
    """Rows as (key, kind, value)."""
    keys, kinds, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "_KEY_k": pa.array(keys, pa.int64()),
            "_SEQUENCE_NUMBER": pa.array(range(len(rows)), pa.int64()),
            "_VALUE_KIND": pa.array(kinds, pa.int8()),
            "v": pa.array(values, pa.int64()),
        }
    )


def told(history: KeyHistory, compared: list[str] | None = None) -> list[tuple[int, int, Any]]:
    rows = changelog_rows(history, compared).to_pylist()
    return [(row["_KEY_k"], row["_VALUE_KIND"], row["v"]) for row in rows]


def test_old_and_new_rows_tell_what_happened() -> None:
    before = table((1, 0, 10), (2, 0, 20), (3, 3, 30), (4, 0, 40), (5, 2, 50))
    after = table((1, 2, 11), (2, 3, None), (3, 0, 31), (4, 0, 40), (6, 0, 60), (7, 1, 70))
    history = KeyHistory(
        before=before,
        old=np.array([0, 1, 2, 3, 4, -1, -1]),
        after=after,
        new=np.array([0, 1, 2, 3, -1, 4, 5]),
        told=np.ones(7, dtype=bool),
    )
    everything = [
        (1, 1, 10),
        (1, 2, 11),
        (2, 3, 20),
        # Its old row was a deletion, so it was not there.
        (3, 0, 31),
        (4, 1, 40),
        (4, 2, 40),
        (5, 3, 50),
        (6, 0, 60),
    ]
    assert told(history) == everything
    changed = [line for line in everything if line[0] != 4]
    assert told(history, ["v"]) == changed
    silent = KeyHistory(before, history.old, after, history.new, np.zeros(7, dtype=bool))
    assert told(silent) == []


def test_keys_that_an_engine_left_out_are_found() -> None:
    groups = grouped([(key, file) for key in (1, 3, 4, 9) for file in (0, 2)])
    full = groups.rows.take(pa.array(groups.starts))
    assert merged_positions(groups, full).tolist() == [0, 1, 2, 3]
    assert merged_positions(groups, full.take(pa.array([1, 3]))).tolist() == [-1, 0, -1, 1]
    assert merged_positions(groups, full.slice(0, 0)).tolist() == [-1] * 4
