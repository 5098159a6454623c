"""Analyze: true statistics of the merged rows, published without changing a row."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.statistics_json import decode_statistics
from lakewright.storage.errors import (
    CorruptionError,
    InvalidRequestError,
    InvalidSchema,
    SchemaMoved,
    StalePlan,
)
from lakewright.storage.operations.inspection.analyze import AnalyzePlan, AnalyzeResult
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import CommitKind
from lakewright.storage.spec.table_statistics import ColumnStatistics, TableStatistics
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.edited_plans import assert_changes_nothing, edited

COLUMNS = {
    "id": "INT",
    "n": "BIGINT",
    "price": "DECIMAL(20, 2)",
    "small": "DECIMAL(9, 1)",
    "text": "STRING",
    "raw": "BYTES",
    "flag": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP(3)",
    "x": "DOUBLE",
    "list": "ARRAY<INT>",
}
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "n": 5,
        "price": Decimal("1.50"),
        "small": Decimal("0.5"),
        "text": "ä",
        "raw": b"abc",
        "flag": True,
        "day": dt.date(2024, 1, 2),
        "at": dt.datetime(2024, 1, 2, 3, 4, 5),
        "x": 0.5,
        "list": [1],
    },
    {"id": 2, "n": -7, "price": Decimal("-3.25"), "text": "longer", "raw": b"", "x": -1e300},
    {"id": 3, "n": 5, "text": "", "flag": False, "day": dt.date(1969, 1, 1), "x": 0.5},
]
EXPECTED = {
    "id": (3, "1", "3", 0, 4, 4),
    "n": (2, "-7", "5", 0, 8, 8),
    "price": (2, "-3.25", "1.50", 1, 16, 16),
    "small": (1, "0.5", "0.5", 2, 8, 8),
    # (1 + 6 + 0) characters of 3 texts, rounded up.
    "text": (3, "", "ä", 0, 3, 6),
    "raw": (2, None, None, 1, 2, 3),
    "flag": (2, "false", "true", 1, 1, 1),
    "day": (2, "-365", "19724", 1, 4, 4),
    "at": (1, "2024-01-02 03:04:05.000", "2024-01-02 03:04:05.000", 2, 8, 8),
    "x": (2, "-1.0E300", "0.5", 0, 8, 8),
    "list": (None, None, None, 2, None, None),
}


def analyze(table: Table, **plan: Any) -> AnalyzeResult:
    return table.upkeep.run(table.upkeep.plan_analyze(**plan))


def figures(column: ColumnStatistics) -> tuple[Any, ...]:
    return (
        column.distinct_count,
        column.minimum,
        column.maximum,
        column.null_count,
        column.avg_len,
        column.max_len,
    )


def published(table: Table) -> TableStatistics:
    """The statistics that the latest snapshot names, read from the raw file."""
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    assert snapshot.statistics is not None
    path = table.table_files.paths.statistics(snapshot.statistics)
    return decode_statistics(table.table_files.fs.read_bytes(path), name=path)


@pytest.mark.mission("FS1", "FS19", "CT7")
def test_every_column_is_described(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, keys=("id",), options={"bucket": "2"})
    table.write(rows(table, ROWS))
    result = analyze(table)
    assert result.statistics == published(table) == table.at().statistics()
    assert table.at(snapshot=1).statistics() is None
    assert {each.name: figures(each) for each in result.statistics.columns} == EXPECTED
    assert set(result.exact_columns) == COLUMNS.keys() - {"list"}


@pytest.mark.mission("FS19")
def test_versions_and_deletions_of_a_key_do_not_count(catalog: Catalog) -> None:
    table = new_table(catalog, keys=("id",), options={"bucket": "2"})
    table.write(rows(table, events(0, 100, v="old")))
    table.write(rows(table, events(0, 50, v="new")))
    table.write(rows(table, events(90, 100), ["-D"] * 10))
    result = analyze(table)
    found = result.statistics
    assert found is not None
    assert (found.snapshot_id, found.schema_id, found.merged_record_count) == (3, 0, 90)
    size = sum(entry.file.file_size for entry in table.at().files())
    assert found.merged_record_size == size * 90 // 160
    by_name = {each.name: each for each in found.columns}
    assert (by_name["id"].distinct_count, by_name["id"].maximum) == (90, "89")
    assert (by_name["v"].distinct_count, by_name["v"].minimum) == (90, "new0")


@pytest.mark.parametrize("partitions", [(), ("day",)])
def test_parts_of_many_files_add_up(catalog: Catalog, partitions: tuple[str, ...]) -> None:
    table = new_table(catalog, partitions=partitions)
    for number in range(12):
        table.write(rows(table, events(number * 10, number * 10 + 15, day="abc"[number % 3])))
    table.write(rows(table, [{"id": None, "day": None, "v": None}]))
    found = analyze(table).statistics
    assert found is not None
    by_name = {each.name: figures(each) for each in found.columns}
    assert found.merged_record_count == 181
    assert by_name == {
        "id": (125, "0", "124", 1, 8, 8),
        "day": (3, "a", "c", 1, 1, 1),
        # Lengths are 3.1 on average.
        "v": (125, "v0", "v99", 1, 4, 4),
    }


def test_an_analysis_is_a_snapshot_that_changes_no_row(catalog: Catalog) -> None:
    table = new_table(catalog, keys=("id",), options={"bucket": "1"})
    table.write(rows(table, events(0, 10)))
    before, files = content(table), table.at().files()
    result = analyze(table)
    latest = table.history.latest_snapshot()
    assert latest == result.snapshot
    assert latest is not None
    assert (latest.id, latest.commit_kind, latest.delta_record_count) == (2, CommitKind.ANALYZE, 0)
    assert (content(table), table.at().files()) == (before, files)


def test_statistics_stay_through_later_commits_and_go_with_their_snapshots(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, keys=("id",), options={"bucket": "1"})
    table.write(rows(table, events(0, 10)))
    first = analyze(table).statistics
    table.write(rows(table, events(10, 20)))
    compact(table, full=True)
    assert published(table) == first
    second = analyze(table).statistics
    assert second is not None
    assert (second.snapshot_id, second.merged_record_count) == (4, 20)
    folder = table.table_files.paths.statistics_dir + "/"
    assert len(table.table_files.fs.list_dir(folder.rstrip("/"))) == 2
    expire(table)
    assert len(table.table_files.fs.list_dir(folder.rstrip("/"))) == 1
    assert published(table) == second


def test_only_the_columns_that_are_named_are_described(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    named = analyze(table, columns=["v", "id"]).statistics
    assert named is not None
    assert [each.name for each in named.columns] == ["v", "id"]
    none = analyze(table, columns=[]).statistics
    assert none is not None
    assert (none.merged_record_count, none.columns) == (3, ())


def test_many_values_are_an_estimate_and_said_to_be_one(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 30_000)))
    result = analyze(table)
    assert result.exact_columns == ("day",)
    assert result.statistics is not None
    by_name = {each.name: each for each in result.statistics.columns}
    for name in ("id", "v"):
        estimate = by_name[name].distinct_count
        assert estimate is not None
        assert abs(estimate / 30_000 - 1) < 0.03


def test_bounds_that_nobody_could_use_are_left_out(catalog: Catalog) -> None:
    table = new_table(catalog, {"long": "STRING", "x": "DOUBLE", "nothing": "STRING"})
    table.write(rows(table, [{"long": "z" * 1000, "x": float("nan")}, {"long": "a", "x": 1.0}]))
    found = analyze(table).statistics
    assert found is not None
    assert [figures(each) for each in found.columns] == [
        (2, None, None, 0, 501, 1000),
        (2, None, None, 0, 8, 8),
        (0, None, None, 2, None, None),
    ]


def test_a_plan_says_what_is_read_and_survives_its_text(catalog: Catalog) -> None:
    table = new_table(catalog)
    empty = table.upkeep.plan_analyze()
    assert (empty.snapshot_id, empty.files) == (None, 0)
    assert "nothing to analyze" in empty.reason
    table.write(rows(table, events(0, 7)))
    plan = table.upkeep.plan_analyze(columns=["id"])
    assert (plan.snapshot_id, plan.files, plan.rows, plan.columns) == (1, 1, 7, ("id",))
    assert plan.reason == "snapshot 1 has no statistics"
    assert AnalyzePlan.from_json(plan.to_json()) == plan
    table.upkeep.run(plan)
    assert table.upkeep.plan_analyze().reason == "the statistics are those of snapshot 1"


def test_a_table_without_snapshots_is_left_as_it_is(catalog: Catalog) -> None:
    table = new_table(catalog)
    result = analyze(table)
    assert (result.snapshot, result.statistics) == (None, None)
    assert table.history.snapshots() == ()


def test_a_plan_whose_snapshot_is_expired_is_refused(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    plan = table.upkeep.plan_analyze()
    table.write(rows(table, events(3, 6)))
    expire(table)
    with pytest.raises(StalePlan, match=r"snapshot 1 of db.t.*expired; plan again"):
        table.upkeep.run(plan)


def test_a_plan_whose_snapshot_is_not_the_latest_is_refused(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    old = table.upkeep.plan_analyze()
    table.write(rows(table, events(3, 6)))
    for plan in (old, edited(table.upkeep.plan_analyze(), snapshot_id=1)):
        run = partial(table.upkeep.run, plan)
        assert_changes_nothing(table, run, StalePlan)


@pytest.mark.parametrize("columns", [["id", "id"], ["nope"]])
def test_a_plan_of_columns_that_cannot_be_analyzed_is_refused(
    catalog: Catalog, columns: list[str]
) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    changed = edited(table.upkeep.plan_analyze(), columns=columns)
    run = partial(table.upkeep.run, changed)
    assert_changes_nothing(table, run, InvalidRequestError)


def evolved(table: Table) -> TableSchema:
    """Give the table a second schema, as another client would."""
    schema = replace(table.schema, id=1, options={**table.schema.options, "comment": "two"})
    assert table.table_files.schemas.put_schema(schema)
    return schema


def test_a_schema_that_changes_meanwhile_leaves_nothing_behind(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    plan = table.upkeep.plan_analyze()
    evolved(table)
    with pytest.raises(SchemaMoved, match="analyze it again"):
        table.upkeep.run(plan)
    with pytest.raises(StalePlan, match="schema 0, and the table has schema 1"):
        catalog.table(table.name).upkeep.run(plan)
    assert len(table.history.snapshots()) == 1


def test_statistics_end_with_their_schema(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    analyze(table)
    evolved(table)
    later = catalog.table(table.name)
    later.write(rows(later, events(3, 4)))
    snapshot = later.history.latest_snapshot()
    assert snapshot is not None
    assert snapshot.statistics is None
    assert "no statistics" in later.upkeep.plan_analyze().reason


def test_columns_that_are_none_are_refused(catalog: Catalog) -> None:
    table = new_table(catalog)
    with pytest.raises(InvalidSchema, match="no column 'nope'; there are id, day, v"):
        table.upkeep.plan_analyze(columns=["nope"])
    with pytest.raises(InvalidRequestError, match="one is named twice"):
        table.upkeep.plan_analyze(columns=["id", "id"])
    other = new_table(catalog, name="db.other")
    with pytest.raises(InvalidRequestError, match=r"the plan is for db.other, and this is db.t"):
        table.upkeep.run(other.upkeep.plan_analyze())


def test_a_statistics_file_that_is_gone_is_named(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog)
    table.write(rows(table, events(0, 3)))
    analyze(table)
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    assert snapshot.statistics is not None
    table.table_files.fs.delete(table.table_files.paths.statistics(snapshot.statistics))
    with pytest.raises(CorruptionError, match=f"{snapshot.statistics} is missing"):
        table.upkeep.plan_analyze()


def test_statistics_that_are_there_are_not_computed_again(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    assert analyze(table, columns=["id"]).snapshot is not None
    plan = table.upkeep.plan_analyze(columns=["id"])
    assert plan.has_statistics
    assert "which no commit followed" in plan.reason
    assert analyze(table, columns=["id"]).snapshot is None
    # Of other columns, or of more rows, there are none.
    assert not table.upkeep.plan_analyze(columns=["v"]).has_statistics
    assert not table.upkeep.plan_analyze(columns=[]).has_statistics
    table.write(rows(table, events(3, 4)))
    assert not table.upkeep.plan_analyze(columns=["id"]).has_statistics
