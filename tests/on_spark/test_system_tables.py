"""System tables and changes as DataFrames hold what the local reader returns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, TagNotFound, UnsupportedError
from lakewright.storage.operations.inspection.system_tables import ROW_TRACKING, system_table_names
from lakewright.storage.spark import SparkEngine
from lakewright.storage.sql import parse_where
from tests.on_spark.test_write import KINDS
from tests.support.tables.builders import compact, comparable, events, new_table, rows
from tests.support.tables.fixtures import memory_uri
from tests.support.values.every_type import ATOMS, table_of


def filled(catalog: Catalog, kind: str = "keyed") -> Table:
    """Appends, a compaction and, where there are keys, an update and a deletion."""
    table = new_table(catalog, **KINDS[kind])
    table.write(rows(table, [*events(0, 20), *events(0, 5, day="b")]))
    table.history.create_tag("first")
    table.write(rows(table, events(15, 30, v="new")))
    compact(table, full=True)
    if table.schema.has_primary_key:
        table.write(rows(table, events(0, 2), ["-D", "-D"]))
    table.history.create_tag("last")
    return table


def assert_alike(frame: DataFrame, expected: pa.Table) -> None:
    found = frame.toArrow()
    assert found.column_names == expected.column_names
    target = pa.schema([each.with_nullable(True).with_metadata(None) for each in expected.schema])
    assert comparable(found.cast(target)) == comparable(expected.cast(target))


@pytest.mark.parametrize("name", system_table_names())
@pytest.mark.mission("FS1")
@pytest.mark.sampled(3)
def test_a_system_table_is_a_dataframe(
    catalog: Catalog, any_spark: SparkSession, name: str
) -> None:
    table = filled(catalog)
    table.upkeep.run(table.upkeep.plan_analyze())
    table.history.create_branch("trial", tag="first")
    table.history.set_consumer("reader", 2)
    assert_alike(table.inspect.to_spark(any_spark, name), table.inspect.table(name))
    if name != "table_indexes":
        assert table.inspect.table(name).num_rows > 0


def test_a_system_table_without_rows_has_columns(catalog: Catalog, spark: SparkSession) -> None:
    table = new_table(catalog)
    for name in set(system_table_names()) - {ROW_TRACKING}:
        frame = table.inspect.to_spark(spark, name)
        assert frame.columns == list(table.inspect.table_schema(name).field_names)


def test_rows_are_filtered_and_of_the_state_that_is_meant(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = filled(catalog)
    for name, text in (("files", "level = 0"), ("audit_log", "rowkind = '-D' AND id < 2")):
        where = parse_where(text, table.inspect.table_schema(name))
        frame = table.inspect.to_spark(spark, name, where)
        assert_alike(frame, table.inspect.table(name, where))
        assert frame.count() > 0
        earlier = table.at(tag="first").inspect.to_spark(spark, name)
        assert_alike(earlier, table.at(tag="first").inspect.table(name))


@pytest.mark.parametrize("kind", ["keyed", "append"])
@pytest.mark.mission("CN20", "CN21")
@pytest.mark.sampled(each="kind")
def test_changes_are_a_dataframe(catalog: Catalog, any_spark: SparkSession, kind: str) -> None:
    table = filled(catalog, kind)
    last = table.history.snapshots()[-1].id
    for start, end, mode in ((0, last, "delta"), (1, last, "diff"), ("first", "last", "auto")):
        frame = table.scan_changes(start, end, mode=mode).to_spark(any_spark)
        expected = table.read_changes(start, end, mode=mode)
        assert_alike(frame, expected)
        assert expected.num_rows > 0


def test_changes_are_filtered_and_in_the_columns_asked_for(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = filled(catalog)
    where = parse_where("v LIKE 'new%' AND id > 20", table.schema)
    frame = table.scan_changes(0, 2, where=where, columns=["v"]).to_spark(spark)
    assert_alike(frame, table.read_changes(0, 2, where=where, columns=["v"]))
    assert (frame.columns, frame.count()) == (["_rowkind", "v"], 9)
    assert table.scan_changes(1, 1).to_spark(spark).columns == [
        "_rowkind",
        *table.schema.field_names,
    ]


def test_values_of_every_type_come_through(catalog: Catalog, any_spark: SparkSession) -> None:
    columns, values = table_of(
        {name: each for name, each in ATOMS.items() if not name.startswith("TIME(")}
    )
    table = new_table(catalog, columns, keys=["k"], options={"bucket": "1"})
    table.write(rows(table, values))
    assert_alike(table.scan_changes(0, 1).to_spark(any_spark), table.read_changes(0, 1))


@pytest.mark.mission("FS19")
def test_an_analysis_on_spark_finds_what_a_local_one_finds(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = filled(catalog)
    local = table.upkeep.run(table.upkeep.plan_analyze()).statistics
    # The same rows without statistics: nothing is computed anew before another commit.
    table.history.rollback(tag="last", grace_ms=0)
    result = table.upkeep.run(table.upkeep.plan_analyze(), SparkEngine(spark))
    assert local is not None
    assert result.statistics is not None
    assert result.statistics.columns == local.columns
    assert result.statistics.merged_record_count == local.merged_record_count


def test_what_cannot_be_is_refused_before_anything_runs(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = filled(catalog)
    with pytest.raises(InvalidRequestError, match="no system table 'file'"):
        table.inspect.to_spark(spark, "file")
    with pytest.raises(TagNotFound, match="no tag 'never'"):
        table.scan_changes("first", "never").to_spark(spark)
    in_memory = new_table(Catalog.open(memory_uri()))
    with pytest.raises(UnsupportedError, match="lies in this process's memory"):
        in_memory.scan_changes(0, 1).to_spark(spark)
