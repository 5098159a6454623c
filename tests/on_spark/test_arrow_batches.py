"""Rows go to Python in batches that their number bounds, where that is safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog
from lakewright.storage.spark.arrow_batches import batches_by_rows, gathered, may_go_by_rows
from tests.support.tables.builders import new_table
from tests.support.tables.invariants import assert_only_reachable_files

RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROWS = 30_000


def batches(spark: SparkSession) -> int:
    """How many rows the batches have in which Spark gives Python a task's rows, at most."""

    def count(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            yield pa.record_batch([pa.array([batch.num_rows])], names=["rows"])

    wide = spark.range(0, ROWS, 1, 1).selectExpr("id", "repeat('x', 1000) AS s")
    found = wide.repartition(1).mapInArrow(count, "rows bigint").collect()
    return max(row["rows"] for row in found)


def test_rows_bound_batches_inside_of_a_block_and_no_longer(spark: SparkSession) -> None:
    before = batches(spark)
    with batches_by_rows(spark):
        assert batches(spark) == 8_192
    assert batches(spark) == before
    with pytest.raises(ZeroDivisionError), batches_by_rows(spark):
        raise ZeroDivisionError
    assert batches(spark) == before


@pytest.mark.parametrize(
    ("shape", "may"),
    [
        ("id, 'x' AS s, current_date() AS d, 1.5 AS n", True),
        ("id, binary('x') AS s", False),
        ("id, array(1) AS s", False),
        ("id, named_struct('a', 1) AS s", False),
    ],
)
def test_the_columns_say_whether_rows_may_bound_batches(
    spark: SparkSession, shape: str, may: bool
) -> None:
    frame = spark.sql(f"SELECT {shape} FROM range(3)")
    assert may_go_by_rows(frame) is may


def test_functions_of_the_caller_in_python_keep_the_limit(spark: SparkSession) -> None:
    frame = spark.range(3).mapInArrow(lambda rows: rows, "id bigint")
    assert not may_go_by_rows(frame)


@pytest.mark.parametrize(("value", "may"), [("0", False), ("12000", False), ("500", True)])
def test_a_number_of_rows_that_the_session_sets_counts(
    spark: SparkSession, value: str, may: bool
) -> None:
    session = spark.newSession()
    session.conf.set(RECORDS, value)
    assert may_go_by_rows(session.range(3)) is may


def test_long_texts_are_written_with_the_limit_and_leave_nothing_else(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    long = "repeat('x', CASE WHEN id = 150 THEN 20000 ELSE 3 END)"
    frame = spark.range(0, 200, 1, 4).selectExpr("id", "'a' AS day", f"{long} AS v")
    assert may_go_by_rows(frame)
    table.write(frame)
    assert sorted(len(row["v"]) for row in table.read().to_pylist())[-2:] == [3, 20_000]
    assert len(table.at().files()) == 2
    assert_only_reachable_files(table)


def test_a_column_that_is_named_as_ours_is_written(catalog: Catalog, spark: SparkSession) -> None:
    columns = {"id": "BIGINT NOT NULL", "__lakewright_bucket": "BIGINT"}
    table = catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": "2"})
    table.write(spark.range(3).selectExpr("id", "id * 10 AS __lakewright_bucket"))
    assert sorted(row["__lakewright_bucket"] for row in table.read().to_pylist()) == [0, 10, 20]


def test_gathered_batches_have_the_same_rows_in_order() -> None:
    given = [
        pa.record_batch([pa.array(range(at, at + 2_000))], ["id"])
        for at in range(0, 200_000, 2_000)
    ]
    tables = list(gathered(iter(given)))
    assert [table.num_rows for table in tables] == [66_000, 66_000, 66_000, 2_000]
    assert pa.concat_tables(tables)["id"].to_pylist() == list(range(200_000))


@pytest.mark.parametrize(
    ("buckets", "partitions", "tasks"), [(2, (), 2), (5, (), 5), (3, ("day",), 3), (40, (), 8)]
)
def test_the_buckets_of_a_table_are_dealt_to_as_many_tasks(
    catalog: Catalog, spark: SparkSession, buckets: int, partitions: Sequence[str], tasks: int
) -> None:
    table = new_table(
        catalog,
        partitions=partitions,
        keys=[*partitions, "id"],
        options={"bucket": str(buckets)},
    )
    ids = range(2_000)
    new = pa.table({"id": ids, "day": ["one"] * 2_000, "v": [f"v{number}" for number in ids]})
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "100")
    table.write(session.createDataFrame(new))
    names = [entry.file.file_name for entry in table.at().files()]
    assert len(names) == buckets
    # The id of the write, with the first digits of a task's own id after it.
    assert len({name.split("-")[6] for name in names}) == tasks
