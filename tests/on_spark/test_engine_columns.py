"""What Spark adds to a table for itself stays in Spark: columns that it computes, and its types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from lakewright.storage import AddColumn, Catalog, DropColumn, RenameColumn, SetOption
from tests.support.tables.builders import new_table, rows

COLUMNS = {
    "k": "INT",
    "at": "TIMESTAMP(6)",
    "price": "INT",
    "r": "ROW<x INT, y STRING>",
    "l": "ARRAY<ROW<x INT>>",
}


@pytest.mark.mission("SE9")
def test_a_computed_column_and_a_watermark_change_without_a_schema_or_a_file(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, COLUMNS)
    table.write(rows(table, [{"k": 1, "price": 2}]))
    files = sorted(Path(catalog.root).rglob("*"))
    for factor, delay in ((2, "1 minute"), (3, "2 hours")):
        view = table.to_spark(spark).withColumn("total", f.col("price") * factor)
        view.withWatermark("at", delay).createOrReplaceTempView("with_total")
        assert [row.total for row in spark.sql("SELECT total FROM with_total").collect()] == [
            2 * factor
        ]
    assert sorted(Path(catalog.root).rglob("*")) == files
    assert catalog.table(table.name).schema == table.schema
    # Flink keeps those of its tables in options: a change is one of options, and of no column.
    computed = {"schema.5.name": "total", "schema.5.expr": "`price` * 2"}
    watermark = {"schema.watermark.0.rowtime": "at", "schema.watermark.0.strategy.expr": "`at`"}
    changes = [SetOption(*each) for each in (computed | watermark).items()]
    altered = table.alter(*changes)
    assert altered.schema.fields == table.schema.fields
    assert altered.schema.highest_field_id == table.schema.highest_field_id
    assert altered.read().equals(table.read())


@pytest.mark.mission("SE43")
def test_types_of_spark_and_arrow_hold_no_ids_and_rows_are_those_of_the_ids(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, COLUMNS)
    table.write(rows(table, [{"k": 1, "r": {"x": 1, "y": "a"}, "l": [{"x": 2}]}]))
    table = table.alter(
        RenameColumn("r.x", "z"),
        AddColumn("r.x", "INT"),
        DropColumn("price"),
        AddColumn("s", "INT"),
    )
    frame = table.to_spark(spark)
    assert list(_metadata(frame.schema.jsonValue())) == [{}] * 9
    row_type = pa.struct({"z": pa.int32(), "y": pa.string(), "x": pa.int32()})
    assert table.arrow_schema.field("r").type == table.read().schema.field("r").type == row_type
    (row,) = frame.collect()
    assert row.asDict(recursive=True) == {
        "k": 1,
        "at": None,
        "r": {"z": 1, "y": "a", "x": None},
        "l": [{"x": 2}],
        "s": None,
    }
    assert table.read().to_pylist() == [row.asDict(recursive=True)]


def _metadata(declared: Any) -> Any:
    """What Spark's JSON of a type says beside the types of its fields, at every depth."""
    if isinstance(declared, dict):
        if "metadata" in declared:
            yield declared["metadata"]
        for each in declared.values():
            yield from _metadata(each)
    elif isinstance(declared, list):
        for each in declared:
            yield from _metadata(each)
