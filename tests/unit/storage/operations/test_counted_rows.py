"""Tables without a primary key that keep each different row once, with how often it is there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Column, SchemaSpec, Table, parse_data_type
from lakewright.storage.errors import InvalidOption, InvalidSchema, UnsupportedError
from tests.support.environment import FixedEnv
from tests.support.invariants import assert_sound

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
    table.run_compact(table.plan_compact(full=True))
    assert content(table) == {("mon", 1, "a"): 2, ("mon", None, None): 2}
    files = [entry.file for entry in table.data_files()]
    assert {file.level for file in files} == {table.options.max_level}
    assert sum(file.row_count for file in files) == 2
    assert_sound(table)


@pytest.mark.mission("LG8")
def test_a_row_may_be_taken_back_before_it_comes(tmp_path: Path) -> None:
    table = counting_table(str(tmp_path))
    put(table, [("mon", 7, "early")], "-D")
    table.run_compact(table.plan_compact(full=True))
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
@settings(deadline=None, max_examples=25)
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
            table.run_compact(table.plan_compact(full=step == "full"))
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


def test_changes_of_counted_rows_are_refused(tmp_path: Path) -> None:
    table = counting_table(str(tmp_path))
    put(table, [("mon", 1, "a")])
    put(table, [("mon", 1, "a")])
    with pytest.raises(UnsupportedError, match="counts"):
        table.read_incremental(1, 2)
