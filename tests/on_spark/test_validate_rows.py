"""Sampling stored rows in Spark tasks: the profiles are those of the local engine."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakewright.storage import Catalog, ChangeType, RenameColumn
from lakewright.storage.spark import SparkEngine
from tests.support.tables.builders import ANY_LOSS, new_table, rows


def test_spark_tasks_profile_what_this_process_profiles(
    spark: SparkSession, catalog: Catalog
) -> None:
    options = {"lakewright.cast-mode": "explicit"}
    table = new_table(catalog, {"k": "INT", "v": "STRING"}, options=options)
    for text in ("1", "many"):
        table.write(rows(table, [{"k": 300, "v": text}]))
    table = table.alter(RenameColumn("k", "key"), ChangeType("v", "INT"), rules=ANY_LOSS)
    plan = table.upkeep.plan_validate_rows()
    local, in_tasks = (table.upkeep.run(plan, engine) for engine in (None, SparkEngine(spark)))
    assert in_tasks == local
    assert [each.error is None for each in local.profiles].count(False) == 1
