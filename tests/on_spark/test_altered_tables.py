"""Tables that were altered, in Spark: which files Spark reads itself, and what they hold."""

from __future__ import annotations

from collections import Counter
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    Side,
    Table,
)
from lakewright.storage.spec.schema_change import SchemaChange
from tests.on_spark.test_read import frame_content
from tests.support.tables.builders import content, new_table, rows

COLUMNS = {"k": "INT", "a": "STRING", "b": "INT", "c": "STRING", "r": "ROW<x INT, y INT>"}
FAST: dict[str, tuple[SchemaChange, ...]] = {
    "add": (AddColumn("d", "ARRAY<INT>"),),
    "drop": (DropColumn("a"),),
    "drop and add again": (DropColumn("c"), AddColumn("c", "STRING")),
    "rename": (RenameColumn("a", "aa"),),
    "swap": (RenameColumn("a", "t"), RenameColumn("c", "a"), RenameColumn("t", "c")),
    "move": (MoveColumn("r", Position(Side.FIRST)),),
    "all": (
        DropColumn("b"),
        RenameColumn("a", "b"),
        AddColumn("a", "DATE"),
        MoveColumn("k", Position(Side.LAST)),
    ),
}
SLOW: dict[str, tuple[SchemaChange, ...]] = {
    "type": (ChangeType("b", "BIGINT"),),
    "member": (RenameColumn("r.x", "z"),),
}


def altered(catalog: Catalog, changes: tuple[SchemaChange, ...]) -> Table:
    """A table with a file of the old schema and one of the new."""
    table = new_table(catalog, COLUMNS)
    old = [
        {"k": number, "a": f"a{number}", "b": number, "c": "c", "r": {"x": number, "y": None}}
        for number in range(4)
    ]
    table.write(rows(table, old))
    table = table.alter(*changes)
    table.write(rows(table, [{"k": 9}]))
    return table


def uses_own_reader(table: Table, spark: SparkSession) -> bool:
    """Whether a part of the DataFrame comes from our readers in Spark's tasks."""
    plan = table.to_spark(spark)._jdf.queryExecution().toString()
    return "MapInArrow" in plan


@pytest.mark.parametrize("case", [*FAST, *SLOW])
@pytest.mark.mission("SE8")
@pytest.mark.sampled(6)
def test_spark_reads_files_of_older_schemas_and_by_itself_where_columns_kept_their_types(
    catalog: Catalog, spark: SparkSession, case: str
) -> None:
    table = altered(catalog, FAST.get(case) or SLOW[case])
    assert frame_content(table.to_spark(spark), table) == content(table)
    assert uses_own_reader(table, spark) is (case in SLOW)
    first = table.schema.field_names[0]
    for where in ("k < 2", "k >= 2", f"{first} IS NULL", f"{first} IS NOT NULL"):
        found = frame_content(table.to_spark(spark, where=where), table)
        assert found == content(table, where=where), where
    # Each column alone, in one job.
    names = table.schema.field_names
    parts = [
        table.to_spark(spark, columns=[name], where="k <> 1").selectExpr(f"'{name}' AS name")
        for name in names
    ]
    found = reduce(DataFrame.union, parts).toArrow().column("name").to_pylist()
    assert Counter(found) == dict.fromkeys(names, 4)
