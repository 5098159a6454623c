"""What Hive's metastore is told of a schema."""

from __future__ import annotations

import pytest

from lakewright.storage import Column, SchemaSpec, parse_data_type
from lakewright.storage.spec.hive_table import hive_table, hive_type
from lakewright.storage.spec.schema import TableSchema, new_schema
from tests.support.tables.builders import spec


def schema(given: SchemaSpec) -> TableSchema:
    return new_schema(given, time_millis=0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("BOOLEAN NOT NULL", "boolean"),
        ("DECIMAL(10, 2)", "decimal(10,2)"),
        ("CHAR(255)", "char(255)"),
        ("CHAR(256)", "string"),
        ("VARCHAR(65535)", "varchar(65535)"),
        ("VARCHAR(65536)", "string"),
        ("STRING", "string"),
        ("VARBINARY(9)", "binary"),
        ("TIME(3)", "string"),
        ("TIMESTAMP(9)", "timestamp"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "timestamp with local time zone"),
        ("MULTISET<STRING>", "map<string,int>"),
        ("ROW<a INT, b ARRAY<MAP<STRING, DATE>>>", "struct<a:int,b:array<map<string,date>>>"),
    ],
)
def test_a_type_is_told_by_its_name_in_hive(text: str, told: str) -> None:
    assert hive_type(parse_data_type(text)) == told


def test_columns_are_told_in_order_with_comments_of_one_line_that_fit() -> None:
    columns = (
        Column("Id", parse_data_type("INT"), comment="one\nline"),
        Column("v", parse_data_type("INT"), comment="x" * 300),
        Column("w", parse_data_type("INT")),
    )
    found = hive_table(schema(SchemaSpec(columns=columns))).columns
    assert [(each.name, each.comment) for each in found] == [
        ("id", "one line"),
        ("v", "x" * 252 + "..."),
        ("w", None),
    ]


def test_keys_are_parameters_and_partition_keys_of_hive_only_if_an_option_says_so() -> None:
    columns = {"id": "INT", "day": "DATE"}
    given = spec(columns, keys=["id", "day"], partitions=["day"], options={"my.note": "x"})
    told = hive_table(schema(given))
    assert told.parameters == {
        "my.note": "x",
        "primary-key": "id,day",
        "partition": "day",
        "bucket-key": "id",
        "table_type": "PAIMON",
        "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
    }
    assert [each.name for each in told.columns] == ["id", "day"]
    assert told.partition_columns == ()
    options = {"metastore.partitioned-table": "true"}
    told = hive_table(schema(spec(columns, partitions=["day"], options=options)))
    assert [each.name for each in told.columns] == ["id"]
    assert [each.name for each in told.partition_columns] == ["day"]
