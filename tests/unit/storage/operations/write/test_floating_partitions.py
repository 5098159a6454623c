"""Partitions, keys and bounds of floating numbers: 0.0, -0.0 and NaN are values of their own.

The format keeps partitions and keys by their bytes, so 0.0 and -0.0 are two of them. A filter
compares as SQL does, where both are one.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRows
from lakewright.storage.operations.read.lookup import lookup
from lakewright.storage.spec.predicate import Leaf, Operator
from tests.support.tables.builders import compact, new_table, rows

NAN = float("nan")
# What a processor makes of 0.0 / 0.0; Java and Python write the one without the sign.
NEGATIVE_NAN = struct.unpack("<d", bytes.fromhex("000000000000f8ff"))[0]
COLUMNS = {"p": "DOUBLE", "v": "STRING"}
FIVE = [(0.0, "plus"), (-0.0, "minus"), (NAN, "nan"), (1.5, "some"), (None, "null")]


def filled(catalog: Catalog, **options: str) -> Table:
    table = new_table(catalog, COLUMNS, partitions=["p"], options=options)
    table.write(rows(table, [{"p": p, "v": v} for p, v in FIVE]))
    return table


def values(table: Table, **read: Any) -> list[str]:
    return sorted(table.read(**read).column("v").to_pylist())


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize(("named", "replaced"), [(0.0, "plus"), (-0.0, "minus"), (NAN, "nan")])
def test_an_overwrite_of_a_partition_replaces_the_one_named(
    catalog: Catalog, named: float, replaced: str, kind: str
) -> None:
    table = new_table(catalog, {**COLUMNS, "p": kind}, partitions=["p"])
    table.write(rows(table, [{"p": p, "v": v} for p, v in FIVE]))
    table.write(pa.table({"v": ["new"]}), mode="overwrite", partition={"p": named})
    assert values(table) == sorted({"plus", "minus", "nan", "some", "null"} - {replaced} | {"new"})


@pytest.mark.parametrize("named", [0.0, -0.0, NAN])
def test_rows_may_hold_the_partition_that_they_are_written_for(
    catalog: Catalog, named: float
) -> None:
    table = filled(catalog)
    given = rows(table, [{"p": named, "v": "new"}])
    table.write(given, mode="overwrite", partition={"p": named})
    assert "new" in values(table)
    assert len(values(table)) == len(FIVE)


def test_rows_of_the_other_zero_are_refused(catalog: Catalog) -> None:
    table = filled(catalog)
    given = rows(table, [{"p": -0.0, "v": "new"}])
    with pytest.raises(InvalidRows, match=r"partition p=0\.0, and rows hold \[-0\.0\]"):
        table.write(given, mode="overwrite", partition={"p": 0.0})


def test_a_dynamic_overwrite_replaces_the_partitions_that_it_writes(catalog: Catalog) -> None:
    table = filled(catalog)
    given = rows(table, [{"p": 0.0, "v": "new"}, {"p": NAN, "v": "new"}])
    table.write(given, mode="overwrite", dynamic=True)
    assert values(table) == ["minus", "new", "new", "null", "some"]


def test_a_partition_of_nan_is_one_whatever_the_bits_of_the_nan(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, partitions=["p"])
    table.write(pa.table({"p": np.array([NEGATIVE_NAN, NAN]), "v": ["a", "b"]}))
    table.write(pa.table({"p": np.array([NAN, NEGATIVE_NAN]), "v": ["c", "d"]}))
    assert [each.row_count for each in table.at().partitions()] == [4]
    table.write(pa.table({"v": ["new"]}), mode="overwrite", partition={"p": NEGATIVE_NAN})
    assert values(table) == ["new"]


@pytest.mark.parametrize(("named", "other"), [(0.0, -0.0), (-0.0, 0.0), (NAN, 1.5)])
def test_upkeep_of_a_partition_leaves_the_others_alone(
    catalog: Catalog, named: float, other: float
) -> None:
    table = filled(catalog)
    table.write(rows(table, [{"p": p, "v": v} for p, v in FIVE]))
    planned = table.upkeep.plan_compact([{"p": named}], full=True)
    assert [repr(task.partition["p"]) for task in planned.tasks] == [repr(named)]
    before = values(table)
    compact(table, [{"p": named}], full=True)
    files = {repr(each.spec["p"]): each.file_count for each in table.at().partitions()}
    assert (files[repr(named)], files[repr(other)]) == (1, 2)
    assert values(table) == before
    sorted_plan = table.upkeep.plan_sort_compact(by=["v"], partitions=[{"p": named}])
    assert [repr(task.partition["p"]) for task in sorted_plan.tasks] == [repr(named)]


@pytest.mark.parametrize(("bucket", "zero"), [("1", -0.0), ("-2", 0.0)])
def test_a_rescale_of_one_zero_leaves_the_other_alone(
    catalog: Catalog, bucket: str, zero: float
) -> None:
    keyed = {"keys": ["p", "v"], "options": {"bucket": bucket}}
    table = new_table(catalog, COLUMNS, partitions=["p"], **keyed)
    table.write(rows(table, [{"p": p, "v": v} for p, v in FIVE if p is not None]))
    upkeep, at = table.upkeep, [{"p": zero}]
    plan = upkeep.plan_rescale(2, at) if bucket == "1" else upkeep.plan_postpone_compact(at)
    assert [repr(task.partition["p"]) for task in plan.tasks] == [repr(zero)]
    if bucket == "1":
        table.upkeep.run(plan)
        assert values(table) == ["minus", "nan", "plus", "some"]


def test_a_filter_compares_as_sql_does(catalog: Catalog) -> None:
    table = filled(catalog)
    for named in (0.0, -0.0):
        assert values(table, where=Leaf("p", Operator.EQ, (named,))) == ["minus", "plus"]
        assert values(table, where=Leaf("p", Operator.IN, (named, 7.0))) == ["minus", "plus"]
    for nan in (NAN, NEGATIVE_NAN):
        assert values(table, where=Leaf("p", Operator.EQ, (nan,))) == ["nan"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("buckets", ["1", "8", "-1"])
def test_a_filter_on_a_key_finds_both_zeros_in_whatever_bucket(
    catalog: Catalog, buckets: str, kind: str
) -> None:
    table = new_table(catalog, {"k": kind, "v": "STRING"}, keys=["k"], options={"bucket": buckets})
    held = [(0.0, "plus"), (-0.0, "minus"), (NAN, "nan"), (1.5, "some")]
    for k, v in held:
        table.write(rows(table, [{"k": k, "v": v}]))
    for compacted in (False, True):
        if compacted:
            compact(table, full=True)
        assert values(table) == ["minus", "nan", "plus", "some"]
        for zero in (0.0, -0.0):
            assert values(table, where=Leaf("k", Operator.EQ, (zero,))) == ["minus", "plus"]
            assert values(table, where=Leaf("k", Operator.IN, (zero, 9.0))) == ["minus", "plus"]
        assert values(table, where=Leaf("k", Operator.EQ, (NAN,))) == ["nan"]
        for k, v in held:
            found = lookup(table.table_files, pa.table({"k": [k]}), table.history.latest_snapshot())
            assert found.rows.column("v").to_pylist() == [v]


@pytest.mark.parametrize("given", [[-0.0, 0.0], [0.0, -0.0], [0.0], [-0.0]])
def test_bounds_of_a_file_hold_both_zeros(catalog: Catalog, given: list[float]) -> None:
    """Clients that take -0.0 for less than 0.0 would pass over a file bounded by one of them."""
    table = new_table(catalog, {"x": "DOUBLE"})
    table.write(rows(table, [{"x": x} for x in given]))
    (entry,) = table.at().files()
    stats = entry.file.value_stats
    low, high = (struct.unpack("<d", row[12:20])[0] for row in (stats.min_values, stats.max_values))
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)
