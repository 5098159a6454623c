"""A table read into a DataFrame holds the rows that the local reader returns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import SnapshotNotFound, TagNotFound, UnsupportedError
from lakewright.storage.spark import read
from lakewright.storage.sql.where import parse_where
from tests.on_spark.test_write import DAYS, KINDS, SPARK_PARTITIONS
from tests.support.tables.builders import (
    compact,
    comparable,
    content,
    events,
    expire,
    new_table,
    rows,
    with_options,
    write_as_files,
)
from tests.support.values.every_type import ATOMS, NESTED, PARTITIONS, table_of


def frame_content(frame: DataFrame, table: Table, columns: list[str] | None = None) -> list[str]:
    """Rows of a DataFrame in the form of `content`; moments count from the same epoch."""
    names = columns or list(table.schema.field_names)
    target = pa.schema([table.arrow_schema.field(name).with_nullable(True) for name in names])
    arrow = frame.toArrow()
    assert arrow.column_names == names
    return comparable(arrow.cast(target))


def filled(catalog: Catalog, kind: str) -> Table:
    """Files that need merging and files that need none, in awkward folders."""
    table = new_table(catalog, **KINDS[kind])
    for day in DAYS:
        table.write(rows(table, events(0, 20, day=day)))
    compact(table, [{"day": "a"}] if table.schema.partition_keys else None, full=True)
    table.write(rows(table, events(5, 10, day="b", v="new")))
    table.write(rows(table, events(100, 105, day="a", v="later")))
    return table


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.mission("PT9", "FS15", "FS16")
@pytest.mark.sampled(each="kind")
def test_all_rows_are_there(catalog: Catalog, any_spark: SparkSession, kind: str) -> None:
    table = filled(catalog, kind)
    assert frame_content(table.to_spark(any_spark), table) == content(table)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.mission("FS3", "FS17")
@pytest.mark.sampled(each="keyed")
def test_files_of_every_format_are_read_together(
    catalog: Catalog, any_spark: SparkSession, keyed: bool
) -> None:
    options = {"bucket": "1"} if keyed else {}
    table = new_table(catalog, keys=["id"] if keyed else [], options=options)
    for first, format_name in enumerate(["parquet", "orc", "avro"]):
        changed = with_options(table, file__format=format_name)
        changed.write(rows(table, events(5 * first, 5 * first + 7, v=format_name)))
    assert frame_content(table.to_spark(any_spark), table) == content(table)
    where = parse_where("v LIKE 'orc%' AND id > 6", table.schema)
    frame = table.to_spark(any_spark, where, ["id"])
    assert frame_content(frame, table, ["id"]) == content(table, where=where, columns=["id"])


FILTERS = [
    "id = 7",
    "id < 3 OR id > 101",
    "v = 'new7'",
    "v LIKE 'la%'",
    "day = 'c/d=e%' AND id >= 18",
    "day IN ('a', 'b') AND NOT v = 'v3'",
    "v IS NULL",
    "day <> 'a'",
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.mission("PT8", "PT39", "FS13", "FS19")
def test_a_filter_keeps_the_same_rows(catalog: Catalog, spark: SparkSession, kind: str) -> None:
    table = filled(catalog, kind)
    everything = table.read().num_rows
    for text in FILTERS:
        where = parse_where(text, table.schema)
        expected = content(table, where=where)
        assert frame_content(table.to_spark(spark, where), table) == expected, text
        # And the filter is no mere hint: nothing else is left to filter.
        assert len(expected) < everything


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_columns_come_in_the_order_asked_for_without_those_of_the_filter(
    catalog: Catalog, spark: SparkSession, kind: str
) -> None:
    table = filled(catalog, kind)
    where = parse_where("day = 'b'", table.schema)
    frame = table.to_spark(spark, where, ["v", "id"])
    expected = content(table, where=where, columns=["v", "id"])
    assert frame_content(frame, table, ["v", "id"]) == expected


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_earlier_snapshots_are_read_by_id_and_by_time(
    catalog: Catalog, spark: SparkSession, kind: str
) -> None:
    table = filled(catalog, kind)
    for snapshot in table.history.snapshots():
        frame = table.at(snapshot=snapshot.id).to_spark(spark)
        assert frame_content(frame, table) == content(table.at(snapshot=snapshot.id))
    then = table.history.snapshots()[2].time_millis
    frame = table.at(time=then).to_spark(spark)
    assert frame_content(frame, table) == content(table.at(time=then))
    with pytest.raises(SnapshotNotFound):
        table.at(snapshot=99).to_spark(spark)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_dataframe_shows_the_snapshot_it_was_made_from(
    catalog: Catalog, spark: SparkSession, kind: str
) -> None:
    table = filled(catalog, kind)
    before = content(table)
    frame = table.to_spark(spark)
    table.write(rows(table, events(200, 203)))
    assert frame_content(frame, table) == before


@pytest.mark.parametrize("types", [ATOMS, NESTED], ids=["atomic", "nested"])
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.sampled(each="types")
def test_every_type_that_spark_has_is_read_alike(
    catalog: Catalog, any_spark: SparkSession, types: dict[str, list[Any]], keyed: bool
) -> None:
    columns, values = table_of(
        {name: each for name, each in types.items() if not name.startswith("TIME(")}
    )
    settings: dict[str, Any] = {"keys": ["k"], "options": {"bucket": "1"}} if keyed else {}
    table = new_table(catalog, columns, **settings)
    table.write(rows(table, values))
    table.write(rows(table, values[:1]))
    assert frame_content(table.to_spark(any_spark), table) == content(table)


def test_a_time_of_day_is_refused_and_the_other_columns_are_read(
    catalog: Catalog, spark: SparkSession
) -> None:
    columns, values = table_of({"TIME(3)": ATOMS["TIME(3)"], "INT": ATOMS["INT"]})
    table = new_table(catalog, columns)
    table.write(rows(table, values))
    with pytest.raises(UnsupportedError, match="TIME"):
        table.to_spark(spark)
    frame = table.to_spark(spark, columns=["k", "c1"])
    assert frame_content(frame, table, ["k", "c1"]) == content(table, columns=["k", "c1"])


def test_timestamps_finer_than_microseconds_lose_the_rest(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, {"t": "TIMESTAMP(9)", "u": "TIMESTAMP(6)"})
    table.write(
        pa.table(
            {"t": pa.array([1_001], pa.timestamp("ns")), "u": pa.array([5], pa.timestamp("us"))}
        )
    )
    (row,) = table.to_spark(spark).collect()
    assert (row["t"].microsecond, row["u"].microsecond) == (1, 5)


@pytest.mark.parametrize("type_name", SPARK_PARTITIONS)
@pytest.mark.sampled(2)
def test_partitions_of_every_type_are_read_alike(
    catalog: Catalog, spark: SparkSession, type_name: str
) -> None:
    table = new_table(catalog, {"k": "INT", "p": type_name}, partitions=["p"])
    values = [*PARTITIONS[type_name], None]
    table.write(rows(table, [{"k": key, "p": value} for key, value in enumerate(values)]))
    assert frame_content(table.to_spark(spark), table) == content(table)


def test_an_empty_table_has_columns_and_no_rows(catalog: Catalog, spark: SparkSession) -> None:
    table = new_table(catalog, **KINDS["keyed"])
    frame = table.to_spark(spark)
    assert frame.columns == ["id", "day", "v"]
    assert frame.count() == 0


def test_counting_needs_no_column(catalog: Catalog, spark: SparkSession) -> None:
    table = filled(catalog, "keyed")
    assert table.to_spark(spark).count() == table.read().num_rows
    assert table.to_spark(spark).selectExpr("count(*)").collect()[0][0] == 65


def jobs_of(spark: SparkSession) -> set[int]:
    """The jobs that the session has started, as far as Spark remembers them."""
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def many_files(catalog: Catalog) -> Table:
    """A table of more files than Spark lists without a job."""
    table = new_table(catalog, partitions=["day"])
    write_as_files(
        table,
        [rows(table, events(number, number + 1, day="ab"[number % 2])) for number in range(80)],
    )
    return table


@pytest.mark.mission("PT23")
def test_a_plan_starts_no_job_whether_it_prunes_or_has_many_small_files(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = many_files(catalog)
    before = jobs_of(spark)
    everything = table.scan().to_spark(spark)
    some = table.scan("day = 'b'").to_spark(spark)
    assert jobs_of(spark) == before
    assert frame_content(everything, table) == content(table)
    assert frame_content(some, table) == content(table, where="day = 'b'")


def test_large_files_that_spark_lists_are_listed_by_few_tasks_whatever_the_session_says(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "SMALL_FILE_BYTES", 0)
    monkeypatch.setattr(read, "handed_base", lambda *_: None)
    table, option = many_files(Catalog.open(str(tmp_path))), read.LISTING_OPTION
    before, own = jobs_of(spark), spark.conf.get(option)
    try:
        spark.conf.set(option, "10000")
        found = table.scan().to_spark(spark)
        assert spark.conf.get(option) == "10000"
    finally:
        spark.conf.set(option, str(own))
    (job,) = jobs_of(spark) - before
    tracker = spark.sparkContext.statusTracker()
    (stage,) = tracker.getJobInfo(job).stageIds
    assert tracker.getStageInfo(stage).numTasks == 16
    assert frame_content(found, table) == content(table)


def test_small_splits_share_a_task_and_a_large_one_has_several(catalog: Catalog) -> None:
    (split, _) = many_files(catalog).scan().splits
    large = replace(split.files[0], file_size=100 * 2**20)
    small = replace(split, files=split.files[:3])
    packed = read.packed_splits([small, small, replace(split, files=(large,) * 3), small], 1)
    assert [[len(each.files) for each in task] for task in packed] == [[3, 3, 1], [1], [1, 3]]
    merged = replace(split, files=(large,) * 3, merge=True)
    packed = read.packed_splits([merged], 1)
    assert [[len(each.files) for each in task] for task in packed] == [[3]]


def test_each_core_gets_a_task_where_there_is_enough_to_read(catalog: Catalog) -> None:
    (split, _) = many_files(catalog).scan().splits
    file = replace(split.files[0], file_size=20 * 2**20)
    buckets = [replace(split, bucket=bucket, files=(file,), merge=True) for bucket in range(4)]
    assert [len(task) for task in read.packed_splits(buckets, 1)] == [4]
    assert [len(task) for task in read.packed_splits(buckets, 2)] == [2, 2]
    assert [len(task) for task in read.packed_splits(buckets, 100)] == [1, 1, 1, 1]
    small = [replace(each, files=(replace(file, file_size=2**20),)) for each in buckets]
    assert [len(task) for task in read.packed_splits(small, 100)] == [4]


@pytest.mark.mission("FS19")
@pytest.mark.sampled(1)
def test_a_tag_and_a_branch_are_read_after_their_snapshot_expired(
    catalog: Catalog, any_spark: SparkSession
) -> None:
    table = filled(catalog, "keyed")
    then = content(table)
    table.history.create_tag("t")
    branch = table.history.create_branch("b", tag="t")
    table.write(rows(table, events(0, 3, day="a", v="over")), mode="overwrite")
    expire(table)
    assert frame_content(table.at(tag="t").to_spark(any_spark), table) == then
    assert frame_content(table.at(version="t").to_spark(any_spark), table) == then
    assert frame_content(branch.to_spark(any_spark), table) == then
    assert frame_content(table.to_spark(any_spark), table) == content(table) != then
    with pytest.raises(TagNotFound, match="there are t"):
        table.at(tag="other").to_spark(any_spark)


@pytest.mark.mission("FS19")
def test_a_reader_that_an_expiry_overtakes_is_told_by_tasks_in_our_words_and_by_spark_in_its_own(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = filled(catalog, "keyed")
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    table.history.create_tag("held")
    whole = table.to_spark(spark)
    merged = table.to_spark(spark, parse_where("day = 'b'", table.schema))
    compact(table, full=True)
    expire(table)
    # A tag made in time protects both.
    assert (whole.count(), merged.count()) == (65, 20)
    table.history.run(table.history.plan_delete_tags("held", grace_ms=0))
    with pytest.raises(PySparkException, match=f"snapshot {snapshot.id} of db.t expired while"):
        merged.select("v").collect()
    with pytest.raises((PySparkException, Py4JJavaError), match=r"does not exist"):
        whole.select("v").collect()
