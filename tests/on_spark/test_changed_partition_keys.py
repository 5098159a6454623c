"""Partition keys that Spark changes: files split on it, and rows read by it afterwards."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog, LocalEngine
from lakewright.storage.spark import SparkEngine
from tests.support.tables.builders import comparable, content, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "primary key"])
@pytest.mark.mission("PT1", "PT2", "PT3")
def test_files_are_split_on_spark_as_in_this_process_and_read_there_afterwards(
    catalog: Catalog, spark: SparkSession, keyed: bool
) -> None:
    found = []
    for name, engine in (("db.spark", SparkEngine(spark)), ("db.local", LocalEngine())):
        table = new_table(
            catalog,
            COLUMNS,
            name=name,
            partitions=["dt"],
            keys=["dt", "hh", "id"] if keyed else [],
            options={"bucket": "2"} if keyed else {},
        )
        for day in ("a", "b/c"):
            given = [{"dt": day, "hh": n % 3, "id": n, "v": f"v{n}"} for n in range(12)]
            table.write(rows(table, given))
        due = content(table)
        for keys in (("dt", "hh"), ("dt",)):
            result = table.upkeep.respec(keys, engine=engine)
            assert result.schema.partition_keys == keys
            table = catalog.table(name)
            assert content(table) == due
            frame = table.to_spark(spark)
            assert comparable(frame.toArrow()) == due
            one = table.to_spark(spark, where="hh = 2 AND dt = 'a'")
            assert comparable(one.toArrow()) == content(table, where="hh = 2 AND dt = 'a'")
            assert one.count() == 4
            found.append(
                sorted(
                    (str(each.spec), each.row_count, each.file_count)
                    for each in table.at().partitions()
                )
            )
        assert_only_reachable_files(table)
    assert found[:2] == found[2:]
    assert [len(each) for each in found[:2]] == [6, 2]
