"""Cast modes in Spark: the same rows, errors and counts as in this process."""

from __future__ import annotations

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from lakewright.storage import Catalog, ChangeType, SetOption, Table
from lakewright.storage.errors import UnfitValues
from lakewright.storage.spark import SparkEngine
from lakewright.storage.spec.cast_mode import CAST_MODE
from tests.on_spark.test_altered_tables import uses_own_reader
from tests.on_spark.test_read import frame_content
from tests.support.tables.builders import ANY_LOSS, content, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files


def table_of(catalog: Catalog, mode: str) -> Table:
    table = new_table(catalog, {"k": "INT", "n": "BIGINT"}, options={CAST_MODE: mode})
    for first in (0, 200):
        table.write(rows(table, [{"k": first + each, "n": first + each} for each in range(3)]))
    return table.alter(ChangeType("n", "TINYINT"), rules=ANY_LOSS)


@pytest.mark.mission("SE41")
def test_spark_reads_null_where_a_value_does_not_fit(catalog: Catalog, spark: SparkSession) -> None:
    table = table_of(catalog, "explicit-null")
    # Spark's own cast would wrap the numbers around.
    assert uses_own_reader(table, spark)
    assert frame_content(table.to_spark(spark), table) == content(table)
    assert table.to_spark(spark, where="n IS NULL").count() == 3
    assert table.to_spark(spark, where="n IS NOT NULL").count() == 3
    assert table.to_spark(spark, where="n < 0").count() == 0
    scan, changes = table.scan(where="n IS NULL"), table.scan_changes(1, 2)
    assert (scan.to_spark(spark).count(), scan.nulled_values) == (3, {"n": 3})
    assert (changes.to_spark(spark).count(), changes.nulled_values) == (3, {"n": 3})
    result = table.upkeep.compact(full=True, min_files=2, engine=SparkEngine(spark))
    assert result.nulled_values == 3
    assert sorted(table.read().column("n").to_pylist(), key=str) == [0, 1, 2, None, None, None]


@pytest.mark.mission("SE40")
def test_spark_fails_where_a_value_does_not_fit(catalog: Catalog, spark: SparkSession) -> None:
    table = table_of(catalog, "explicit-fail")
    with pytest.raises(PythonException, match="such as 200; write these rows again"):
        table.to_spark(spark).collect()
    with pytest.raises(UnfitValues, match=r"3 of the 3 rows of data file .* such as 200"):
        table.upkeep.compact(full=True, min_files=2, engine=SparkEngine(spark))
    assert_only_reachable_files(table)
    # The end reads each table; in this mode it would fail.
    table.alter(SetOption(CAST_MODE, "explicit-null"), rules=ANY_LOSS)
