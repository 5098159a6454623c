"""Spark reads files that other systems wrote, with the partitions of their folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog
from lakewright.storage.spark import SparkEngine
from tests.on_spark.test_read import frame_content
from tests.support.tables.builders import content, new_table, rows
from tests.support.tables.landed import LANDED, land_days


@pytest.mark.parametrize("prefix", ["data-", "co", ""])
@pytest.mark.parametrize("copy", [False, True], ids=["where they lie", "copied"])
@pytest.mark.mission("PT20", "PT21")
@pytest.mark.sampled(2)
def test_spark_fills_in_the_partition(
    catalog: Catalog, spark: SparkSession, tmp_path: Path, copy: bool, prefix: str
) -> None:
    root = land_days(tmp_path / "landed", ["a", "b%2Fc"])
    options = {"data-file.prefix": prefix}
    table = new_table(catalog, LANDED, partitions=["day"], options=options)
    table.write(rows(table, [{"id": 90, "v": "own", "day": "z"}]))
    table.upkeep.add_partitions(str(root), copy_files=copy, age_ms=0)
    table = catalog.table("db.t")
    assert frame_content(table.to_spark(spark), table) == content(table)
    where = "day = 'b/c' AND id > 12"
    assert frame_content(table.to_spark(spark, where=where), table) == content(table, where=where)
    due = content(table)
    table.upkeep.compact(full=True, engine=SparkEngine(spark))
    assert frame_content(table.to_spark(spark), table) == due == content(table)
