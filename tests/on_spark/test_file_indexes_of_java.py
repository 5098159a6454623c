"""Tables whose files have indexes that Java wrote, and whose columns we alter.

A filter with all pruning on finds what the same filter finds in the full scan: in Arrow, in Spark,
and in Java, which reads the indexes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeType,
    DropColumn,
    RenameColumn,
    ResetOption,
    Table,
)
from lakewright.storage.spec.schema_change import SchemaChange
from tests.interop.test_we_read_theirs import create_theirs
from tests.on_spark.test_read import frame_content
from tests.oracles.client import JavaOracle
from tests.support.tables.builders import compact, content, rows
from tests.support.tables.invariants import assert_only_reachable_files

INDEXES = ("bloom-filter", "bitmap", "bsi", "range-bitmap")
# In the manifest, or in a file of its own beside the data file.
PLACES = {"embedded": "1 mb", "files": "1 b"}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
LITERALS = (0, 7, 1003, 2**31)
# Spark is asked less often: each question takes a second.
ASKED_OF_SPARK = {("=", 7), ("is null", None)}


def columns_option(index: str) -> str:
    return f"file-index.{index}.columns"


def changes_of(index: str) -> dict[str, tuple[SchemaChange, ...]]:
    """Each change of the column `a`; a column with an index is dropped without the index."""
    drop = (ResetOption(columns_option(index)), DropColumn("a"))
    return {
        "rename": (RenameColumn("a", "b"),),
        "rename and add": (RenameColumn("a", "b"), AddColumn("a", "INT")),
        "widen": (ChangeType("a", "BIGINT"),),
        "drop and add": (*drop, AddColumn("a", "INT")),
        "drop and widen another": (*drop, RenameColumn("c", "a"), ChangeType("a", "BIGINT")),
    }


def indexed(catalog: Catalog, java: JavaOracle, index: str, place: str) -> Table:
    table = create_theirs(
        catalog,
        java,
        {"k": "INT", "a": "INT", "c": "INT"},
        options={columns_option(index): "a", "file-index.in-manifest-threshold": PLACES[place]},
    )
    for first in (0, 1000):
        values = [None if at == 3 else first + at for at in range(8)]
        given = [{"k": first + at, "a": each, "c": -5} for at, each in enumerate(values)]
        java.write(catalog.root, table.name, given)
    return catalog.table(table.name)


def has_index(table: Table) -> Iterator[bool]:
    for entry in table.at().files():
        yield bool(entry.file.embedded_file_index) or any(
            name.endswith(".index") for name in entry.file.extra_files
        )


def conditions(table: Table) -> Iterator[tuple[str, str, int | None]]:
    for column in table.schema.field_names[1:]:
        for sign in OPERATORS:
            # A literal that no INT holds is one of a widened column alone.
            most = 2**63 if str(table.schema.field(column).type) == "BIGINT" else 2**31
            yield from ((column, sign, each) for each in LITERALS if each < most)
        yield from ((column, sign, None) for sign in ("is null", "is not null"))


def holds(value: int | None, sign: str, literal: int | None) -> bool:
    if literal is None:
        return (value is None) is (sign == "is null")
    return value is not None and OPERATORS[sign](value, literal)


def assert_filters_agree(
    catalog: Catalog, table: Table, java: JavaOracle, spark: SparkSession | None
) -> None:
    everything = table.read().to_pylist()
    for column, sign, literal in conditions(table):
        due = sorted(row["k"] for row in everything if holds(row[column], sign, literal))
        where = f"{column} {sign}" if literal is None else f"{column} {sign} {literal}"
        assert sorted(table.read(where).column("k").to_pylist()) == due, where
        if spark is not None and (sign, literal) in ASKED_OF_SPARK:
            found = frame_content(table.to_spark(spark, where=where), table)
            assert found == content(table, where=where), where
        condition = (column, sign) if literal is None else (column, sign, literal)
        theirs = java.read(catalog.root, table.name, where=[condition])
        assert sorted(row["k"] for row in theirs) == due, where


# The topmost varies first: each change has an index of another kind.
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("place", list(PLACES))
@pytest.mark.parametrize("change", list(changes_of("")))
@pytest.mark.sampled(1)
@pytest.mark.mission("SE14")
def test_filters_see_every_row_of_files_whose_indexes_were_written_before_an_alter(
    tmp_path: Path,
    spark: SparkSession,
    java_latest: JavaOracle,
    index: str,
    change: str,
    place: str,
) -> None:
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    table = indexed(catalog, java_latest, index, place)
    assert all(has_index(table))
    table = table.alter(*changes_of(index)[change])
    names = [name for name in table.schema.field_names if name != "k"]
    java_latest.write(catalog.root, table.name, [{"k": 5000, **dict.fromkeys(names, 7)}])
    assert_filters_agree(catalog, table, java_latest, spark if place == "embedded" else None)
    table.write(rows(table, [{"k": 5001, **dict.fromkeys(names, 1)}]))
    compact(table, full=True, min_files=2)
    assert_filters_agree(catalog, table, java_latest, None)
    assert_only_reachable_files(table)
