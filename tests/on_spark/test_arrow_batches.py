"""Rows go to Python in batches that their number bounds, where that is safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog
from lakewright.storage.spark.arrow_batches import batches_by_rows, gathered
from tests.support.tables.builders import new_table

RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = 30_000


def batches(spark: SparkSession) -> list[int]:
    """How many rows the batches have in which Spark gives Python a task's rows, at most."""

    def count(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            yield pa.record_batch([pa.array([batch.num_rows])], names=["rows"])

    wide = spark.range(0, ROWS, 1, 1).selectExpr("id", "repeat('x', 1000) AS s")
    found = wide.repartition(1).mapInArrow(count, "rows bigint").collect()
    return sorted({row["rows"] for row in found}, reverse=True)


@pytest.mark.parametrize(
    ("types", "most"),
    [
        ({"id": "BIGINT", "s": "VARCHAR(100)"}, 10_000),
        ({"id": "BIGINT", "s": "STRING"}, 2_048),
        ({"id": "BIGINT", "s": "ARRAY<STRING>"}, 2_048),
        ({"id": "BIGINT", "s": "BYTES"}, None),
        ({"id": "BIGINT", "s": "ROW<a INT, b MAP<STRING, BYTES>>"}, None),
    ],
)
def test_the_types_of_a_table_say_how_many_rows_a_batch_has(
    catalog: Catalog, spark: SparkSession, types: dict[str, str], most: int | None
) -> None:
    table = catalog.create_table("db.t", types)
    before = batches(spark)
    with batches_by_rows(spark, table.schema.fields):
        inside = batches(spark)
    assert inside[0] == most if most else inside == before
    assert batches(spark) == before


@pytest.mark.parametrize(("name", "value"), [(RECORDS, "12000"), (BYTES, "1000000")])
def test_a_limit_that_the_session_sets_stays(
    catalog: Catalog, spark: SparkSession, name: str, value: str
) -> None:
    table = catalog.create_table("db.t", {"id": "BIGINT", "s": "STRING"})
    session = spark.newSession()
    session.conf.set(name, value)
    before = batches(session)
    with batches_by_rows(session, table.schema.fields):
        inside = batches(session)
    assert inside == before


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
