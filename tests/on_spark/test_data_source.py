"""`format("lakewright")`: PySpark reads and writes by options alone what the library would."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.data_source import FORMAT, LakewrightSource, TableWriter, Written
from lakewright.storage.errors import (
    InvalidOption,
    InvalidRequestError,
    InvalidRows,
    StorageError,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.spark import error_of
from lakewright.storage.spark.write import write_share
from tests.on_spark.test_read import filled, frame_content
from tests.on_spark.test_streaming import Feed
from tests.on_spark.test_write import KINDS, by_bucket, dataframe, some_rows, twins
from tests.oracles.client import JavaOracle
from tests.support.tables.builders import comparable, content, events, new_table, rows, values_of
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.values.every_type import ATOMS, NESTED, table_of


def load(spark: SparkSession, of: Table, **options: str) -> DataFrame:
    reader = spark.read.format(FORMAT).options(**{"warehouse": warehouse_of(of), **options})
    return reader.load(of.name)


def save(frame: DataFrame, table: Table, mode: str = "append", **options: str) -> None:
    writer = frame.write.format(FORMAT).mode(mode)
    writer.options(**{"warehouse": warehouse_of(table), **options}).save(table.name)


def warehouse_of(table: Table) -> str:
    return str(Path(table.table_files.paths.root).parents[1])


def told(call: Callable[[], object]) -> StorageError:
    """The error of ours that a caller of PySpark gets as a text."""
    with pytest.raises(PySparkException) as failed:
        call()
    found = error_of(failed.value)
    assert found is not None, str(failed.value)
    return found


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.mission("PT9", "FS16")
@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.sampled(each="any_spark")
def test_rows_are_those_of_the_table_whatever_the_session_is_set_to(
    catalog: Catalog, any_spark: SparkSession, kind: str
) -> None:
    table = filled(catalog, kind)
    frame = load(any_spark, table)
    assert frame_content(frame, table) == content(table)
    where = "day = 'b' AND id < 7"
    assert frame.filter(where).count() == table.count(where)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.sampled(1)
def test_values_of_every_type_come_and_go(
    catalog: Catalog, spark: SparkSession, named: bool
) -> None:
    types = {name: each for name, each in {**ATOMS, **NESTED}.items() if "TIME(" not in name}
    columns, values = table_of(types)
    table = new_table(catalog, columns)
    new = rows(table, values)
    save(dataframe(spark, table, new), table)
    schema = load(spark, table).schema if named else None
    reader = spark.read.format(FORMAT).option("warehouse", warehouse_of(table))
    frame = (reader if schema is None else reader.schema(schema)).load(table.name)
    assert frame_content(frame, table) == content(table) == comparable(new)


def test_options_choose_the_state_the_rows_and_the_columns(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(0, 3)))
    table.history.create_tag("first")
    table = table.alter(AddColumn("w", "INT"))
    first_ms = table.history.snapshots()[0].time_millis
    table.write(rows(table, events(3, 5, day="b")))
    moment = dt.datetime.fromtimestamp(first_ms / 1000, dt.UTC).isoformat()
    for options in ({"snapshot": "1"}, {"tag": "first"}, {"timestamp": moment}):
        frame = load(spark, table, **options)
        assert (frame.columns, frame.count()) == (["id", "day", "v"], 3)
    frame = load(spark, table, where="day = 'b' OR id = 1", columns="v, id")
    assert sorted(map(tuple, frame.collect())) == [("v1", 1), ("v3", 3), ("v4", 4)]
    asked = spark.read.format(FORMAT).schema("id BIGINT").option("table", table.name)
    assert asked.option("warehouse", warehouse_of(table)).load().columns == ["id"]


def test_a_dataframe_reads_the_snapshot_at_which_it_was_loaded(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog)
    empty = load(spark, table)
    table.write(rows(table, events(0, 3)))
    frame = load(spark, table)
    table.write(rows(table, events(3, 6)))
    table.alter(AddColumn("w", "INT"))
    assert (empty.count(), frame.count(), load(spark, table).count()) == (0, 3, 6)
    frame.createOrReplaceTempView("of_ours")
    assert spark.sql("SELECT max(id) FROM of_ours").first() == (2,)


def test_two_filters_of_one_dataframe_do_not_read_each_others_rows(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 100)))
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        frame = load(spark, table)
        assert frame.filter("id < 10").union(frame.filter("id >= 95")).count() == 15
        assert frame.count() == 100
    finally:
        spark.conf.unset(setting)


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.mission("PT12", "PT28", "BK2")
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.sampled(each="kind")
def test_an_append_lays_rows_where_the_local_writer_lays_them(
    catalog: Catalog, any_spark: SparkSession, kind: str
) -> None:
    on_spark, local = twins(catalog, kind)
    new = some_rows(on_spark)
    save(dataframe(any_spark, on_spark, new).repartition(3), on_spark)
    local.write(new)
    assert content(on_spark) == content(local)
    assert by_bucket(on_spark) == by_bucket(local)
    assert len(on_spark.history.snapshots()) == 1


@pytest.mark.mission("PT27", "PT36")
def test_an_overwrite_replaces_the_partitions_that_rows_touch_or_what_options_say(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, partitions=["day"])
    for day in "abc":
        table.write(rows(table, events(0, 2, day=day)))
    new = dataframe(spark, table, rows(table, events(7, 8, day="b")))
    save(new, table, "overwrite")
    assert values_of(table, "day") == ["a", "a", "b", "c", "c"]
    save(new.drop("day"), table, "overwrite", partition="day=a")
    assert values_of(table, "day") == ["a", "b", "c", "c"]
    save(new, table, "overwrite", partitionOverwriteMode="static")
    assert values_of(table, "day") == ["b"]
    assert_only_reachable_files(table)


def test_dynamic_buckets_are_written_by_one_task_for_each_partition(
    catalog: Catalog, spark: SparkSession
) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}
    table = new_table(catalog, partitions=["day"], keys=["day", "id"], options=options)
    new = dataframe(spark, table, some_rows(table))
    error = told(lambda: save(new.repartition(3, "id"), table))
    assert isinstance(error, InvalidRequestError)
    assert "several tasks have rows for day=" in error.message
    assert "repartition('day')" in error.message
    assert table.history.latest_snapshot() is None
    assert_only_reachable_files(table)
    for _ in range(2):
        save(new.repartition("day"), table)
    assert content(table) == comparable(some_rows(table))


def test_rows_that_do_not_fit_are_told_by_an_error_of_ours_and_leave_no_file(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, partitions=["day"])
    new = dataframe(spark, table, some_rows(table))
    error = told(lambda: save(new.withColumn("id", f.lit("no number")), table))
    assert isinstance(error, InvalidRows)
    broken = new.repartition(2).withColumn("v", f.expr("raise_error('no such row')"))
    with pytest.raises(PySparkException, match="no such row"):
        save(broken, table)
    assert table.history.latest_snapshot() is None
    assert_only_reachable_files(table)


def test_a_write_that_is_repeated_under_its_name_is_committed_once(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog)
    new = dataframe(spark, table, rows(table, events(0, 5)))
    for _ in range(2):
        save(new, table, commit_user="nightly", commit_identifier="20240131")
    assert values_of(table, "id") == [0, 1, 2, 3, 4]
    assert_only_reachable_files(table)


def test_a_write_tells_its_snapshot_and_partitions_where_spark_keeps_logs_of_python(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, partitions=["day"])
    new = dataframe(spark, table, rows(table, [*events(0, 3), *events(3, 5, day="b")]))
    setting = "spark.sql.pyspark.worker.logging.enabled"
    spark.conf.set(setting, "true")
    try:
        save(new, table)
        told = spark.sql("SELECT msg FROM python_worker_logs() WHERE msg LIKE 'db.t: %'").first()
    finally:
        spark.conf.unset(setting)
    assert told is not None
    assert told.msg.startswith("db.t: snapshot 1 has 5 rows in ")
    assert told.msg.endswith("of day=a, day=b") or told.msg.endswith("of day=b, day=a")


@pytest.mark.mission("PT55")
def test_an_abort_takes_the_files_of_failed_tasks_and_nothing_that_may_be_committed(
    catalog: Catalog,
) -> None:
    table = new_table(catalog)

    def staged() -> tuple[TableWriter, Written]:
        job = table.prepare_write(mode="append")
        new = rows(table, events(0, 3))
        results = write_share(job, iter(new.to_batches()), new.column_names).to_pylist()
        return TableWriter(job, new.column_names), Written(job, tuple(results), None)

    writer, written = staged()
    writer.commit([written])
    # Spark aborts what it took for not committed.
    writer.abort([written])
    assert values_of(table, "id") == [0, 1, 2]
    failed, written = staged()
    failed.abort([written, None])
    assert_only_reachable_files(table)
    # Of a repeated task, the files of the attempt that does not count go.
    writer, written = staged()
    new = rows(table, events(0, 3))
    write_share(written.job, iter(new.to_batches()), new.column_names)
    repeated = tuple({**row, "attempt": 1} for row in written.results)
    writer.commit([Written(written.job, repeated, None)])
    assert values_of(table, "id") == [0, 0, 1, 1, 2, 2]
    assert_only_reachable_files(table)


def test_java_reads_what_was_written(
    catalog: Catalog, spark: SparkSession, java_latest: JavaOracle
) -> None:
    keyed, _ = twins(catalog, "keyed")
    for version in ("old", "new"):
        for first in (0, 20):
            new = rows(keyed, events(first, first + 30, v=version))
            save(dataframe(spark, keyed, new).repartition(3, "id"), keyed)
    theirs = java_latest.read(warehouse_of(keyed), keyed.name)
    assert sorted(json.dumps(row, sort_keys=True) for row in theirs) == content(keyed)
    assert len(theirs) == 50


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"table": "db.none"}, InvalidRequestError, "the options name db.none and db.t"),
        ({"partition": "day=a"}, InvalidOption, "option 'partition' of format lakewright is unkn"),
        ({"snapshot": "one"}, InvalidOption, "option snapshot is 'one', which is no whole number"),
        ({"catalog.metastore": "glue"}, InvalidRequestError, "metastore 'glue' is not implemented"),
        ({"where": "nothing = 1"}, InvalidRequestError, "nothing"),
    ],
)
def test_an_option_that_does_not_fit_is_told(
    catalog: Catalog, spark: SparkSession, options: dict[str, str], kind: type, said: str
) -> None:
    table = new_table(catalog)
    error = told(lambda: load(spark, table, **options).count())
    assert isinstance(error, kind)
    assert said in error.message


def test_a_table_that_is_not_there_is_told(catalog: Catalog, spark: SparkSession) -> None:
    table = new_table(catalog)
    reader = spark.read.format(FORMAT).option("warehouse", warehouse_of(table))
    assert isinstance(told(lambda: reader.load("db.none")), TableNotFound)


def test_a_secret_is_refused_and_shown_in_no_error_and_no_plan(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog)
    secrets = {
        "s3.secret-key": "hush-hush",
        "catalog.uri": "postgresql://me:hush-hush@host/db",
        "warehouse": "sftp://me:hush-hush@host/data",
    }
    for name, text in secrets.items():
        for call in (
            lambda o: load(spark, table, **o),
            lambda o: save(spark.range(1), table, **o),
        ):
            with pytest.raises(PySparkException) as failed:
                call({name: text})
            assert isinstance(error_of(failed.value), InvalidOption)
            assert "hush" not in str(failed.value)


def test_a_session_finds_the_format_by_itself_and_by_its_registration(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    assert load(spark, table).count() == 2
    spark.dataSource.register(LakewrightSource)
    assert load(spark, table).count() == 2


# --- streams --------------------------------------------------------------------------------------


def stream_into(table: Table, frame: DataFrame, checkpoint: str, output: str = "append") -> None:
    writer = frame.writeStream.format(FORMAT).outputMode(output).trigger(availableNow=True)
    options = {"warehouse": warehouse_of(table), "checkpointLocation": checkpoint}
    query = writer.options(table=table.name, **options).start()
    query.awaitTermination()


@pytest.mark.mission("PT13", "PT49")
@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_each_batch_is_a_commit_and_a_repeated_one_is_not_written_twice(
    catalog: Catalog, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = new_table(catalog, **KINDS[kind])
    feed = Feed(spark, tmp_path / "feed")
    feed.add(*({"id": each, "day": "a", "v": "x"} for each in (1, 2)))
    feed.add({"id": 3, "day": "b", "v": "x"})
    stream_into(table, feed.rows(), feed.checkpoint)
    assert values_of(table, "id") == [1, 2, 3]
    # As after a crash between the commit of the batch and Spark's note of it.
    for name in ("1", ".1.crc"):
        (Path(feed.checkpoint) / "commits" / name).unlink()
    feed.add({"id": 4, "day": "b", "v": "x"})
    stream_into(table, feed.rows(), feed.checkpoint)
    assert values_of(table, "id") == [1, 2, 3, 4]
    (stream,) = table.history.streams()
    assert {each.commit_user for each in table.history.snapshots()} == {stream.stream}
    assert [each.commit_identifier for each in table.history.snapshots()] == [0, 1, 2]
    assert_only_reachable_files(table)
    # The same query goes on by the other door, since the record is one.
    feed.add({"id": 5, "day": "b", "v": "x"})
    feed.into(table)
    assert values_of(table, "id") == [1, 2, 3, 4, 5]


def test_complete_results_replace_the_whole_table_with_each_batch(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(catalog, {"day": "STRING", "n": "BIGINT"}, partitions=["n"])
    feed = Feed(spark, tmp_path / "feed")
    feed.add({"id": 1, "day": "a", "v": "x"})
    counted = feed.rows().groupBy("day").agg(f.count("*").alias("n"))
    for _ in range(2):
        stream_into(table, counted, feed.checkpoint, output="complete")
        feed.add({"id": 2, "day": "a", "v": "x"})
    # Its partition n=1 is not touched by the second batch.
    assert table.read().to_pylist() == [{"day": "a", "n": 2}]


# test_streaming.py tries one without the data source.
@pytest.mark.deep
def test_a_checkpoint_that_is_older_than_the_table_is_refused(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(catalog)
    feed = Feed(spark, tmp_path / "feed")
    feed.add({"id": 1, "day": "a", "v": "x"})
    stream_into(table, feed.rows(), feed.checkpoint)
    table.history.create_tag("before")
    feed.add({"id": 2, "day": "a", "v": "x"})
    stream_into(table, feed.rows(), feed.checkpoint)
    table.history.rollback(tag="before", grace_ms=0)
    feed.add({"id": 3, "day": "a", "v": "x"})
    error = told(lambda: stream_into(table, feed.rows(), feed.checkpoint))
    assert "was rolled back behind batch 1 of stream" in error.message
    assert values_of(table, "id") == [1]
    assert_only_reachable_files(table)


def test_a_stream_out_of_a_table_has_rows_and_with_their_kinds_all_changes(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    source = new_table(catalog, name="db.source", keys=["id"], options={"bucket": "1"})
    target = new_table(catalog, name="db.target", keys=["id"], options={"bucket": "1"})
    reader = spark.readStream.format(FORMAT).option("warehouse", warehouse_of(source))
    source.write(rows(source, events(0, 4)))
    plain = reader.load(source.name)
    assert plain.columns == ["id", "day", "v"]
    stream_into(target, plain, str(tmp_path / "plain"))
    assert content(target) == content(source)
    source.write(rows(source, events(0, 1), kinds=["-D"]))
    error = told(lambda: stream_into(target, plain, str(tmp_path / "plain")))
    assert "rows of the kind -D" in error.message
    changes = reader.option("changes", "true").load(source.name)
    assert changes.columns == ["_rowkind", "id", "day", "v", "_change_order"]
    error = told(lambda: stream_into(target, changes, str(tmp_path / "ordered")))
    assert isinstance(error, UnsupportedError)
    target.write_stream(
        changes, checkpoint=str(tmp_path / "changes"), trigger="available-now"
    ).awaitTermination()
    assert content(target) == content(source)


def test_a_stream_needs_its_checkpoint_as_an_option(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(catalog)
    feed = Feed(spark, tmp_path / "feed")
    feed.add({"id": 1, "day": "a", "v": "x"})
    setting = "spark.sql.streaming.checkpointLocation"
    spark.conf.set(setting, str(tmp_path / "all"))
    try:
        writer = feed.rows().writeStream.format(FORMAT).trigger(availableNow=True)
        options: dict[str, Any] = {"warehouse": warehouse_of(table), "table": table.name}
        query = writer.options(**options).queryName("unnamed").start()
        assert "no option checkpointLocation" in told(query.awaitTermination).message
    finally:
        spark.conf.unset(setting)
