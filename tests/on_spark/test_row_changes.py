"""Deletes and updates in Spark's tasks leave the rows that they leave in this process."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog, LocalEngine
from lakewright.storage.spark import SparkEngine
from tests.on_spark.test_write import KINDS, twins
from tests.support.tables.builders import compact, content, events, rows
from tests.support.tables.invariants import assert_only_reachable_files


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [each for each in KINDS if "postpone" not in each])
@pytest.mark.mission("MT18")
def test_changes_in_tasks_leave_the_rows_of_changes_in_this_process(
    catalog: Catalog, spark: SparkSession, kind: str
) -> None:
    tables = twins(catalog, kind)
    for table, engine in zip(tables, (SparkEngine(spark), LocalEngine()), strict=True):
        for day in ("a", "b"):
            table.write(rows(table, events(0, 30, day=day)))
        compact(table, full=True)
        assert table.delete("id < 10", engine=engine).deleted == 20
        assert table.update({"v": "v || '!'"}, "id > 20", engine=engine).updated == 18
        assert_only_reachable_files(table)
    assert content(tables[0]) == content(tables[1])
