"""The model that contestants are checked against, and the rows they get."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.workload import CASES, ROW_KIND_COLUMN, Load, Loads, Model


def load(keys: list[int], versions: list[int], deletes: list[bool], checks: list[float]) -> Load:
    return Load(
        pa.table({"key": keys}),
        np.array(keys),
        np.array(versions),
        np.array(deletes),
        np.array(checks),
    )


def test_a_later_commit_wins_unless_its_version_is_older() -> None:
    model = Model()
    model.apply(load([0, 1, 2], [5, 5, 5], [False] * 3, [1.0, 2.0, 4.0]))
    model.apply(load([0, 1, 3], [5, 4, 1], [False] * 3, [10.0, 20.0, 40.0]))
    assert (model.row_count, model.checksum) == (4, 10.0 + 2.0 + 4.0 + 40.0)


def test_a_deleted_key_is_gone_until_it_comes_again() -> None:
    model = Model()
    model.apply(load([0, 1], [0, 0], [False, False], [1.0, 2.0]))
    model.apply(load([0], [1], [True], [0.0]))
    assert (model.row_count, model.checksum) == (1, 2.0)
    model.apply(load([0], [2], [False], [8.0]))
    assert (model.row_count, model.checksum) == (2, 10.0)


@pytest.mark.parametrize("name", ["bigint", "string", "composite"])
def test_loads_are_the_same_every_time_and_hold_each_key_once(name: str) -> None:
    loads = Loads(CASES[name], 1000)
    for number in (0, 1, 2):
        rows = loads.load(number).rows
        assert rows.equals(loads.load(number).rows)
        keys = rows.select(list(CASES[name].keys))
        assert keys.group_by(keys.column_names).aggregate([]).num_rows == rows.num_rows
        assert set(rows.column_names) - {ROW_KIND_COLUMN} == set(CASES[name].columns)


def test_a_tenth_of_a_commit_is_new_keys() -> None:
    loads = Loads(CASES["bigint"], 1000)
    assert sorted(loads.load(0).key_ids) == list(range(1000))
    assert int(np.count_nonzero(loads.load(1).key_ids >= 1000)) == 10
    assert int(np.count_nonzero(loads.load(2).key_ids >= 1010)) == 10
