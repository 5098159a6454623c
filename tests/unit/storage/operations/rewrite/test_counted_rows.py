"""Tables without a primary key that keep each different row once, with how often it is there."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Column, SchemaSpec, Table, parse_data_type
from lakewright.storage.errors import InvalidOption, InvalidSchema
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_sound

ROWS = pa.schema([("day", pa.string()), ("n", pa.int64()), ("word", pa.string())])
Row = tuple[str, int | None, str | None]


def counting_table(warehouse: str, **options: str) -> Table:
    catalog = Catalog.open(warehouse, env=FixedEnv())
    catalog.create_database("db")
    columns = {"day": "STRING", "n": "BIGINT", "word": "STRING"}
    spec = SchemaSpec(
        columns=tuple(Column(name, parse_data_type(kind)) for name, kind in columns.items()),
        partition_keys=("day",),
        options={"merge-engine": "value-count", "bucket": "2", **options},
    )
    return catalog.create_table("db.words", spec)


def put(table: Table, rows: list[Row], kind: str = "+I") -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    data = pa.table([pa.array(column) for column in columns], schema=ROWS) if rows else None
    if data is not None:
        table.write(data.append_column("_rowkind", pa.array([kind] * len(rows))))


def content(table: Table) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in table.read().to_pylist())


@pytest.mark.mission("LG8", "FS2")
def test_a_row_is_there_as_often_as_it_was_added_and_not_deleted(tmp_path: Path) -> None:
    table = counting_table(str(tmp_path))
    put(table, [("mon", 1, "a"), ("mon", 1, "a"), ("mon", None, None), ("tue", 1, "a")])
    put(table, [("mon", 1, "a"), ("mon", None, None)])
    put(table, [("mon", 1, "a"), ("tue", 1, "a")], "-D")
    assert content(table) == {("mon", 1, "a"): 2, ("mon", None, None): 2}
    table.upkeep.run(table.upkeep.plan_compact(full=True))
    assert content(table) == {("mon", 1, "a"): 2, ("mon", None, None): 2}
    files = [entry.file for entry in table.at().files()]
    assert {file.level for file in files} == {table.options.max_level}
    assert sum(file.row_count for file in files) == 2
    assert_sound(table)


@pytest.mark.mission("LG8", "RS25")
def test_a_row_may_be_taken_back_before_it_comes(tmp_path: Path) -> None:
    table = counting_table(str(tmp_path))
    put(table, [("mon", 7, "early")], "-D")
    table.upkeep.run(table.upkeep.plan_compact(full=True))
    assert content(table) == Counter()
    put(table, [("mon", 7, "early"), ("mon", 7, "early")])
    assert content(table) == {("mon", 7, "early"): 1}


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["+I", "-D"]),
            st.lists(
                st.tuples(
                    st.sampled_from(["mon", "tue"]),
                    st.none() | st.integers(0, 2),
                    st.sampled_from([None, "", "a", "b"]),
                ),
                min_size=1,
                max_size=8,
            ),
        ),
        st.sampled_from(["full", "minor"]),
    ),
    max_size=8,
)


@given(steps=STEPS)
@settings(deadline=None, max_examples=max(8, settings().max_examples // 20))
@pytest.mark.mission("LG8")
def test_counts_are_sums_whatever_is_compacted_when(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    table = counting_table(
        str(tmp_path_factory.mktemp("counted")), **{"num-sorted-run.compaction-trigger": "2"}
    )
    model: Counter[Row] = Counter()
    for step in steps:
        if isinstance(step, str):
            table.upkeep.run(table.upkeep.plan_compact(full=step == "full"))
        else:
            kind, rows = step
            put(table, rows, kind)
            for row in rows:
                model[row] += 1 if kind == "+I" else -1
        assert content(table) == +model
    assert_sound(table)


def test_columns_and_filters_see_every_copy_of_a_row(tmp_path: Path) -> None:
    table = counting_table(str(tmp_path))
    put(table, [("mon", 1, "a")] * 3 + [("mon", None, "b")])
    assert table.read(columns=["word"]).column("word").to_pylist().count("a") == 3


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("bucket", "-1"),
        ("deletion-vectors.enabled", "true"),
        ("changelog-producer", "lookup"),
        ("sequence.field", "n"),
        ("file.format", "orc"),
    ],
)
def test_options_that_counting_has_no_use_for_are_refused(
    tmp_path: Path, option: str, value: str
) -> None:
    with pytest.raises(InvalidOption, match=r"value-count"):
        counting_table(str(tmp_path), **{option: value})


def test_rows_with_a_primary_key_are_not_counted(tmp_path: Path) -> None:
    catalog = Catalog.open(str(tmp_path))
    catalog.create_database("db")
    spec = SchemaSpec(
        columns=(Column("n", parse_data_type("BIGINT")),),
        primary_keys=("n",),
        options={"merge-engine": "value-count", "bucket": "1"},
    )
    with pytest.raises((InvalidOption, InvalidSchema), match="without a primary key"):
        catalog.create_table("db.t", spec)


def told(table: Table, first: int, last: int, mode: str) -> Counter[tuple[Any, ...]]:
    found = table.read_changes(first, last, mode=mode).to_pylist()
    return Counter(tuple(row.values()) for row in found)


@pytest.mark.mission("LG8", "CN20")
def test_changes_tell_every_copy_of_a_row(tmp_path: Path) -> None:
    table = counting_table(str(tmp_path))
    put(table, [("mon", 1, "a")] * 3 + [("tue", None, None)])
    put(table, [("mon", 1, "a"), ("mon", 2, "b")])
    put(table, [("mon", 1, "a")] * 2 + [("tue", None, None)], "-D")
    table.upkeep.run(table.upkeep.plan_compact(full=True))
    assert told(table, 1, 3, "delta") == {
        ("+I", "mon", 1, "a"): 1,
        ("+I", "mon", 2, "b"): 1,
        ("-D", "mon", 1, "a"): 2,
        ("-D", "tue", None, None): 1,
    }
    difference = {("-D", "mon", 1, "a"): 1, ("+I", "mon", 2, "b"): 1, ("-D", "tue", None, None): 1}
    assert told(table, 1, 3, "diff") == told(table, 1, 4, "diff") == difference
    assert told(table, 3, 4, "diff") == Counter()
    log = Counter(tuple(row.values()) for row in table.inspect.table("audit_log").to_pylist())
    assert log == {("+I", "mon", 1, "a"): 2, ("+I", "mon", 2, "b"): 1}


@given(steps=STEPS)
@settings(deadline=None, max_examples=max(5, settings().max_examples // 20))
@pytest.mark.mission("LG8")
def test_a_difference_leads_from_any_count_to_any_later_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    table = counting_table(str(tmp_path_factory.mktemp("counted")))
    sums: dict[int, Counter[Row]] = {}
    model: Counter[Row] = Counter()
    for step in steps:
        if isinstance(step, str):
            table.upkeep.run(table.upkeep.plan_compact(full=step == "full"))
        else:
            put(table, step[1], step[0])
            for row in step[1]:
                model[row] += 1 if step[0] == "+I" else -1
        latest = table.history.latest_snapshot()
        if latest is not None:
            sums.setdefault(latest.id, Counter(model))
    ids = list(sums)
    for first, last in itertools.pairwise(ids):
        changed: Counter[Row] = Counter(sums[first])
        for (kind, *row), count in told(table, first, last, "diff").items():
            changed[(row[0], row[1], row[2])] += count if kind == "+I" else -count
        both = sums[last].keys() | changed.keys()
        assert {row: changed[row] for row in both} == {row: sums[last][row] for row in both}
