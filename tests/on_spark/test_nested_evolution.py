"""Members of rows that changed after files were written, in DataFrames and in Spark's rewrites."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from lakewright.storage import Catalog
from lakewright.storage.spark import SparkEngine
from tests.on_spark.test_read import frame_content
from tests.support.tables.builders import content, new_table, rows
from tests.support.values.evolution import CHANGES, CONTAINERS, altered, by_id, with_changed_members

_KINDS = ("row", "array", "map_value", "map_of_arrays_in_row")
_CHANGES = ("rename", "drop_and_add", "swap", "add")
COLUMNS = {f"{kind}_{each}": (kind, each) for kind in _KINDS for each in _CHANGES}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("file_format", "keyed"), [("parquet", False), ("orc", False), ("avro", True)]
)
def test_spark_reads_and_rewrites_members_by_id(
    catalog: Catalog, spark: SparkSession, file_format: str, keyed: bool
) -> None:
    columns = {name: CONTAINERS[kind][0] for name, (kind, _) in COLUMNS.items()}
    options = {"file.format": file_format, **({"bucket": "1"} if keyed else {})}
    table = new_table(
        catalog, {"k": "INT", **columns}, keys=["k"] if keyed else [], options=options
    )
    members = [{"a": 1, "b": 2, "t": 0}, {"a": None, "b": 3, "t": None}]
    values = {name: CONTAINERS[kind][1](members) for name, (kind, _) in COLUMNS.items()}
    table.write(rows(table, [{"k": 1, **values}, {"k": 2}]))
    changes = {name: CHANGES[change] for name, (_, change) in COLUMNS.items()}
    changed = altered(catalog, table, lambda schema: with_changed_members(schema, changes))
    later = {
        new.name: by_id(values.get(old.name), old.type, new.type)
        for old, new in zip(table.schema.fields, changed.schema.fields, strict=True)
    }
    changed.write(rows(changed, [{**later, "k": 3}]))
    due = content(changed)
    # Spark's own reader takes the file of the current schema, ours the older one.
    assert frame_content(changed.to_spark(spark), changed) == due
    frame: Any = changed.to_spark(spark).filter("k < 3")
    renamed = frame.select("k", f.col("row_swap.a").alias("a"), f.col("row_rename.c").alias("c"))
    assert sorted(map(tuple, renamed.collect())) == [(1, 2, 1), (2, None, None)]
    changed.upkeep.run(changed.upkeep.plan_compact(full=True, min_files=2), SparkEngine(spark))
    assert {entry.file.schema_id for entry in changed.at().files()} == {1}
    assert content(changed) == due
    assert frame_content(changed.to_spark(spark), changed) == due
