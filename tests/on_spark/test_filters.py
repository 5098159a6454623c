"""A filter keeps in Spark the rows that it keeps in Arrow, whatever the zone and the value."""

from __future__ import annotations

import itertools
from decimal import Decimal
from functools import reduce
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.spec.predicate import And, Leaf, Not, Operator, Or, Predicate
from lakewright.storage.spec.values import Value, from_python
from lakewright.storage.sql.where import parse_where
from tests.support.tables.builders import new_table

NAN, INF = float("nan"), float("inf")
MOMENTS = [
    "2024-03-31T01:30:00",
    "2024-03-31T02:30:00",
    "2024-10-27T02:30:00.123456",
    "2024-11-03T01:30:00",
    "2024-03-10T02:30:00",
    "1969-12-31T23:59:59.999999",
    "1970-01-01T00:00:00",
    "1883-11-18T12:00:00",
    "1582-10-15T00:00:00",
    "1582-10-14T23:59:59",
    "1582-10-04T00:00:00",
    "0999-12-31T01:02:03",
    "0001-01-01T00:00:00",
    "9999-12-31T23:59:59.999999",
]
IN_MILLIS = [text[:23] for text in MOMENTS]
# 64 bits of nanoseconds reach no further.
FINE = [
    "2024-10-27T02:30:00.123456789",
    "1969-12-31T23:59:59.999999999",
    "1970-01-01T00:00:00.000000001",
]
VALUES: dict[str, list[Any]] = {
    "TIMESTAMP(6)": MOMENTS,
    "TIMESTAMP(3)": IN_MILLIS,
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": MOMENTS,
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": IN_MILLIS,
    "TIMESTAMP(9)": [*FINE, "2024-10-27T02:30:00.123456788", "1969-12-31T23:59:59.999999"],
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": [*FINE, "2024-10-27T02:30:00.123456790"],
    "DATE": [
        "2024-01-02",
        "1970-01-01",
        "1582-10-15",
        "1582-10-14",
        "1582-10-04",
        "0999-02-28",
        "0001-01-01",
        "9999-12-31",
    ],
    "TIME(3)": ["00:00:00", "13:45:00.001", "23:59:59.999"],
    "DOUBLE": [NAN, INF, -INF, 0.0, -0.0, 1.5, -2.5, 1e300],
    "FLOAT": [NAN, INF, -INF, 0.0, -0.0, 0.1, -2.5],
    "DECIMAL(38, 10)": [
        Decimal("-9999999999999999999999999999.9999999999"),
        Decimal("0E-10"),
        Decimal("1.5"),
    ],
    "DECIMAL(5, 2)": [Decimal("1.20"), Decimal("-999.99"), Decimal("0.00")],
    "BIGINT": [-(2**63), -1, 0, 2**63 - 1],
    "TINYINT": [-128, 0, 127],
    "INT": [1, 2],
    "BOOLEAN": [True, False],
    "STRING": ["", "a", "ä中\U0001f600", "a\0b", "'\"\\", "z" * 40],
    "BYTES": [b"", b"\x00", b"\x7f", b"\xff\x00"],
}
COMPARED = [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]


def filled(catalog: Catalog, kind: str, *, keyed: bool) -> tuple[Table, list[Value]]:
    """A table with every value of a type, and null, twice: two files that overlap."""
    settings: dict[str, Any] = {"keys": ["k"], "options": {"bucket": "1"}} if keyed else {}
    table = new_table(catalog, {"k": "INT", "c": kind}, **settings)
    field = table.schema.field("c")
    stored = [from_python(value, field.type) for value in VALUES[kind]]
    held = arrow_of(table, [*stored, None])
    table.write(held)
    table.write(held)
    return table, stored


def arrow_of(table: Table, stored: list[Value]) -> pa.Table:
    """Rows that hold values as the format stores them, those too that Python has none for."""
    field = table.schema.field("c")
    column = pa.concat_arrays([pa.repeat(scalar_of(value, field.type), 1) for value in stored])
    return pa.table({"k": pa.array(range(len(stored)), pa.int32()), "c": column})


def filters(stored: list[Value]) -> list[Predicate]:
    found: list[Predicate] = [
        Leaf("c", operator, (value,)) for operator in COMPARED for value in stored
    ]
    found += [Leaf("c", Operator.IN, (value, stored[0])) for value in stored]
    # As many as Spark looks up in a set.
    found += [Leaf("c", Operator.IN, tuple(itertools.islice(itertools.cycle(stored[:2]), 12)))]
    found += [
        Not(Leaf("c", Operator.IN, (stored[0], None))),
        Not(Leaf("c", Operator.LT, (stored[-1],))),
    ]
    found += [And((Leaf("c", Operator.GE, (stored[0],)), Leaf("k", Operator.GT, (0,))))]
    found += [Or((Leaf("c", Operator.IS_NULL), Leaf("c", Operator.EQ, (stored[-1],))))]
    return found


def check(spark: SparkSession, table: Table, every: list[Predicate]) -> None:
    """Hold what Spark keeps against what Arrow keeps, all filters in one query."""
    parts = [
        table.to_spark(spark, where, ["k"]).selectExpr("k", f"{number} AS n")
        for number, where in enumerate(every)
    ]
    found = reduce(DataFrame.unionByName, parts).toArrow().to_pydict()
    kept: dict[int, list[int]] = {number: [] for number in range(len(every))}
    for key, number in zip(found["k"], found["n"], strict=True):
        kept[number].append(key)
    for number, where in enumerate(every):
        expected = table.read(where, ["k"]).column("k").to_pylist()
        assert sorted(kept[number]) == sorted(expected), where


@pytest.mark.parametrize("kind", list(VALUES))
@pytest.mark.sampled(3)
def test_a_filter_keeps_the_rows_that_arrow_keeps(
    catalog: Catalog, spark: SparkSession, kind: str
) -> None:
    table, stored = filled(catalog, kind, keyed=False)
    every = filters(stored)
    check(spark, table, Random(kind).sample(every, min(5, len(every))))


@pytest.mark.deep
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.parametrize("kind", list(VALUES))
def test_every_filter_keeps_the_rows_that_arrow_keeps(
    catalog: Catalog, any_spark: SparkSession, kind: str, keyed: bool
) -> None:
    table, stored = filled(catalog, kind, keyed=keyed)
    every = filters(stored)
    for first in range(0, len(every), 40):
        check(any_spark, table, every[first : first + 40])


def test_timestamps_keep_the_microsecond_that_they_are_in(
    catalog: Catalog, spark: SparkSession
) -> None:
    """Also before 1970, and where they are nested."""
    kind = "TIMESTAMP(9)"
    columns = {"t": kind, "a": f"ARRAY<{kind}>", "m": f"MAP<INT, {kind}>", "r": f"ROW<t {kind}>"}
    table = new_table(catalog, columns)
    nanos = [-1, -999, -1000, -1001, 0, 999, 1000, None]
    moments = pa.array(nanos, pa.int64()).cast(pa.timestamp("ns"))
    lists = pa.ListArray.from_arrays(pa.array(range(9), pa.int32()), moments)
    keys = pa.array([1] * 8, pa.int32())
    maps = pa.MapArray.from_arrays(pa.array(range(9), pa.int32()), keys, moments)
    members = pa.StructArray.from_arrays([moments], ["t"])
    held = pa.table({"t": moments, "a": lists, "m": maps, "r": members})
    table.write(held)
    found = table.to_spark(spark).toArrow()
    expected = [None if each is None else each // 1000 for each in nanos]
    assert found.column("t").cast(pa.int64()).to_pylist() == expected
    inner = found.column("a").combine_chunks().values, found.column("r").combine_chunks().field(0)
    assert [each.cast(pa.int64()).to_pylist() for each in inner] == [expected, expected]
    values = found.column("m").combine_chunks().items
    assert values.cast(pa.int64()).to_pylist() == expected


def test_a_column_that_spark_has_not_may_be_filtered_by(
    catalog: Catalog, spark: SparkSession
) -> None:
    table, _ = filled(catalog, "TIME(3)", keyed=False)
    where = parse_where("c > TIME '13:00:00'", table.schema)
    found = table.to_spark(spark, where, ["k"]).collect()
    assert sorted(row["k"] for row in found) == [1, 1, 2, 2]


def test_very_many_literals_are_looked_up_where_the_rows_are_read(
    catalog: Catalog, spark: SparkSession
) -> None:
    """As expressions of Spark they would take minutes."""
    table, stored = filled(catalog, "BIGINT", keyed=False)
    where = Leaf("c", Operator.IN, (*stored[1:], *range(100, 50_000)))
    found = table.to_spark(spark, where, ["k"]).collect()
    assert sorted(row["k"] for row in found) == [1, 1, 2, 2, 3, 3]


def test_the_audit_log_is_filtered_by_the_nanosecond(catalog: Catalog, spark: SparkSession) -> None:
    table, stored = filled(catalog, "TIMESTAMP(9)", keyed=True)
    schema = table.inspect.table_schema("audit_log")
    for value in stored:
        where = And((Leaf("c", Operator.EQ, (value,)), Leaf("rowkind", Operator.EQ, ("+I",))))
        frame = table.inspect.to_spark(spark, "audit_log", where)
        expected = table.inspect.table("audit_log", where).column("k").to_pylist()
        assert [row["k"] for row in frame.collect()] == expected != []
    assert schema.field_names == ("rowkind", "k", "c")


def test_a_system_tables_own_times_are_told_alike(catalog: Catalog, spark: SparkSession) -> None:
    table, _ = filled(catalog, "INT", keyed=True)
    for name in ("snapshots", "files", "partitions", "schemas"):
        ours = table.inspect.table(name)
        schema = table.inspect.table_schema(name)
        frame = table.inspect.to_spark(spark, name)
        times = [each.name for each in schema.fields if "TIMESTAMP" in str(each.type)]
        found = frame.select(times).toArrow()
        for each in times:
            expected = ours.column(each).cast(pa.timestamp("us")).to_pylist()
            assert found.column(each).to_pylist() == expected != []
