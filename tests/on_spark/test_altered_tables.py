"""Tables that were altered, in Spark: which files Spark reads itself, and what they hold."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
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
from lakewright.storage.spec.data_types import STRING
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
    "widen": (ChangeType("b", "BIGINT"),),
    "move": (MoveColumn("r", Position(Side.FIRST)),),
    "all": (
        DropColumn("b"),
        RenameColumn("a", "b"),
        AddColumn("a", "DATE"),
        MoveColumn("k", Position(Side.LAST)),
    ),
}
SLOW: dict[str, tuple[SchemaChange, ...]] = {
    "type": (ChangeType("b", "FLOAT"),),
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
@pytest.mark.sampled(1)
def test_spark_reads_files_of_older_schemas_and_by_itself_where_values_stayed_the_same(
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


# The least, the greatest and other values of a type, and a wider type.
WIDENED = {
    ("TINYINT", "SMALLINT"): [-128, 127],
    ("SMALLINT", "INT"): [-(2**15), 2**15 - 1],
    ("INT", "BIGINT"): [-(2**31), 2**31 - 1],
    ("INT", "DOUBLE"): [-(2**31), 2**31 - 1],
    ("SMALLINT", "FLOAT"): [-(2**15), 2**15 - 1],
    ("FLOAT", "DOUBLE"): [math.nan, -0.0, math.inf, 1.1, 3.4e38, 1e-45],
    ("DECIMAL(9, 2)", "DECIMAL(18, 2)"): [Decimal("-9999999.99"), Decimal("9999999.99")],
    ("DECIMAL(9, 2)", "DECIMAL(38, 10)"): [Decimal("-9999999.99"), Decimal("9999999.99")],
    ("INT", "DECIMAL(12, 2)"): [-(2**31), 2**31 - 1],
    ("VARCHAR(3)", "STRING"): ["", "abc"],
}


@pytest.mark.deep
def test_spark_widens_values_as_we_do(catalog: Catalog, spark: SparkSession) -> None:
    columns = {f"c{number}": old for number, (old, _) in enumerate(WIDENED)}
    table = new_table(catalog, {"k": "INT", **columns})
    most = max(map(len, WIDENED.values()))
    held = [
        {"k": at}
        | {f"c{n}": values[at] for n, values in enumerate(WIDENED.values()) if at < len(values)}
        for at in range(most)
    ]
    table.write(rows(table, [*held, {"k": most}]))
    table = table.alter(*(ChangeType(f"c{n}", new) for n, (_, new) in enumerate(WIDENED)))
    assert not uses_own_reader(table, spark)
    assert frame_content(table.to_spark(spark), table) == content(table)
    for name in columns:
        some = ("= 'abc'", "> ''") if table.schema.field(name).type == STRING else ("> 0", "<= 127")
        for where in (*(f"{name} {each}" for each in some), f"{name} IS NULL"):
            found = frame_content(table.to_spark(spark, where=where), table)
            assert found == content(table, where=where), where
