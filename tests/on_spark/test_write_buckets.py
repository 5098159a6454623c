"""Buckets of every mode on Spark: rows go where the local writer puts them, by any engine."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import BucketCountChanged
from lakewright.storage.spark import SparkEngine
from tests.on_spark.test_write import by_bucket, dataframe
from tests.support.tables.builders import compact, content, events, new_table, rows, values_of
from tests.support.tables.invariants import assert_only_reachable_files


def keyed(catalog: Catalog, name: str = "db.t", **options: str) -> Table:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return new_table(catalog, name=name, partitions=["day"], keys=["day", "id"], options=named)


@pytest.mark.sampled(1)
def test_new_keys_of_a_dynamic_partition_get_their_buckets_in_one_task(
    catalog: Catalog, any_spark: SparkSession
) -> None:
    table = keyed(catalog, bucket="-1", dynamic_bucket__target_row_num="10")
    first = rows(table, [*events(0, 35), *events(0, 12, day="b")])
    table.commit(table.stage(dataframe(any_spark, table, first).repartition(3)))
    second = rows(table, [*events(20, 50, v="new"), *events(3, 4, day="c")])
    table.commit(table.stage(dataframe(any_spark, table, second).repartition(3)))
    assert len(content(table)) == 50 + 12 + 1
    assert {v for v in values_of(table, "v") if v.startswith("new")} == {
        f"new{number}" for number in range(20, 50)
    }
    ids = [len(set(lines)) for (_, _), lines in by_bucket(table).items()]
    assert len(ids) == 5 + 2 + 1
    # The local writer goes on from there, and Spark from it.
    table.write(rows(table, events(0, 60, v="local")))
    third = dataframe(any_spark, table, rows(table, events(40, 70, v="spark")).drop_columns("day"))
    table.commit(table.stage(third, partition={"day": "a"}))
    assert len(content(table)) == 70 + 12 + 1
    compact(table, full=True)
    assert len(content(table)) == 70 + 12 + 1


def test_rows_go_by_the_count_of_their_partition(catalog: Catalog, spark: SparkSession) -> None:
    tables = keyed(catalog, "db.spark", bucket="2"), keyed(catalog, "db.local", bucket="2")
    for table in tables:
        table.write(rows(table, [*events(0, 40), *events(0, 40, day="b")]))
        table.upkeep.run(table.upkeep.plan_rescale(5, [{"day": "a"}]))
    on_spark, local = tables
    new = [*events(20, 60, v="n"), *events(20, 60, day="b", v="n"), *events(0, 9, day="c")]
    frame = dataframe(spark, on_spark, rows(on_spark, new))
    on_spark.commit(on_spark.stage(frame))
    local.write(rows(local, new))
    assert by_bucket(on_spark) == by_bucket(local)
    assert content(on_spark) == content(local)
    # One file a bucket: all rows of a bucket went to one task.
    assert len(on_spark.at().files()) == len(local.at().files())


def test_a_rescale_on_spark_is_that_of_this_process(catalog: Catalog, spark: SparkSession) -> None:
    tables = keyed(catalog, "db.spark", bucket="2"), keyed(catalog, "db.local", bucket="2")
    for table in tables:
        table.write(rows(table, [*events(0, 40), *events(0, 40, day="b")]))
        table.write(rows(table, events(10, 50, v="new")))
    on_spark, local = tables
    result = on_spark.upkeep.run(on_spark.upkeep.plan_rescale(6), SparkEngine(spark))
    assert result.partitions == 2
    local.upkeep.run(local.upkeep.plan_rescale(6))
    assert by_bucket(on_spark) == by_bucket(local)
    with pytest.raises(BucketCountChanged, match="6 buckets"):
        on_spark.stage(dataframe(spark, on_spark, rows(on_spark, events(0, 1))))
    reopened = catalog.table(on_spark.name)
    frame = dataframe(spark, reopened, rows(reopened, events(0, 60, v="z")))
    reopened.commit(reopened.stage(frame))
    assert len(content(reopened)) == 60 + 40
    assert_only_reachable_files(reopened)


def test_postponed_rows_are_staged_and_get_their_buckets_on_spark(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = keyed(catalog, bucket="-2", postpone__default_bucket_num="3")
    for version in ("first", "second"):
        new = rows(table, [*events(0, 30, v=version), *events(0, 9, day="b", v=version)])
        table.commit(table.stage(dataframe(spark, table, new).repartition(2)))
    assert content(table) == []
    result = table.upkeep.run(table.upkeep.plan_postpone_compact(), SparkEngine(spark))
    assert result.partitions == 2
    assert len(content(table)) == 39
    assert {v[:6] for v in values_of(table, "v")} == {"second"}
