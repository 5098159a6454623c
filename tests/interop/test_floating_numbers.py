"""Partitions and bounds of floating numbers mean to us what they mean to Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog
from tests.interop.test_we_read_theirs import create_theirs
from tests.oracles.client import JavaOracle
from tests.support.tables.builders import content, new_table, rows

FIVE = [(0.0, "plus"), (-0.0, "minus"), (float("nan"), "nan"), (1.5, "some"), (-2.5, "less")]


def theirs(catalog: Catalog, java: JavaOracle, table: str) -> list[tuple[str, str]]:
    return sorted((repr(row["p"]), row["v"]) for row in java.read(catalog.root, table))


@pytest.mark.parametrize("named", [0.0, -0.0, float("nan"), 1.5])
def test_an_overwrite_of_a_partition_does_what_javas_does(
    catalog: Catalog, java: JavaOracle, named: float
) -> None:
    given: list[dict[str, Any]] = [
        {"p": "NaN" if p != p else p, "v": v}  # noqa: PLR0124  # NaN alone differs from itself
        for p, v in FIVE
    ]
    ours = create_theirs(catalog, java, {"p": "DOUBLE", "v": "STRING"}, partitions=("p",))
    java.write(catalog.root, "db.t", given)
    ours.write(pa.table({"v": ["new"]}), mode="overwrite", partition={"p": named})
    name = "NaN" if named != named else named  # noqa: PLR0124
    java.create(
        catalog.root,
        "db.u",
        {"p": "DOUBLE", "v": "STRING"},
        partition_keys=["p"],
        options={"bucket": "-1"},
    )
    java.write(catalog.root, "db.u", given)
    java.write(catalog.root, "db.u", [{"p": name, "v": "new"}], overwrite={"p": str(name)})
    assert content(catalog.table("db.t")) == content(catalog.table("db.u"))
    assert theirs(catalog, java, "db.t") == theirs(catalog, java, "db.u")


# Every release of Java prints these alike; before 19 it has its own texts of 1e-323 and 2e23.
NUMBERS = [5e-324, 0.001, 9.9e-4, 123456.789, 9999999.0, 1e7, -1e20, 1.5e-40, 1e6]


@pytest.mark.parametrize(
    ("kind", "numbers"), [("DOUBLE", NUMBERS), ("FLOAT", [2**-149, 3.4028235e38, 0.1, 1e6, 1e7])]
)
def test_our_folders_of_numbers_are_those_of_java(
    catalog: Catalog, java: JavaOracle, kind: str, numbers: list[float]
) -> None:
    theirs = create_theirs(catalog, java, {"p": kind, "v": "STRING"}, partitions=("p",))
    java.write(catalog.root, "db.t", [{"p": each, "v": "java"} for each in numbers])
    folders = sorted(each.name for each in Path(theirs.table_files.paths.root).glob("p=*"))
    assert len(folders) == len(numbers)
    theirs.write(rows(theirs, [{"p": each, "v": "ours"} for each in numbers]))
    assert sorted(each.name for each in Path(theirs.table_files.paths.root).glob("p=*")) == folders


@pytest.mark.parametrize("given", [[0.0, -0.0], [-0.0, 0.0], [0.0], [-0.0]])
def test_java_passes_over_no_file_with_the_zero_it_looks_for(
    catalog: Catalog, java: JavaOracle, given: list[float]
) -> None:
    table = new_table(catalog, {"x": "DOUBLE"})
    table.write(rows(table, [{"x": x} for x in given]))
    for zero in set(map(repr, given)):
        found = java.read(catalog.root, "db.t", where=[("x", "=", float(zero))])
        assert zero in [repr(row["x"]) for row in found]
