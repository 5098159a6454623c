"""Dates and timestamps far from today in the files of Java: read as Java reads them, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, ChangeType, Table
from lakewright.storage.errors import UnfitValues
from lakewright.storage.operations.rewrite import copied_parts
from tests.interop.test_data_formats import texts
from tests.interop.test_they_read_ours import as_read_by
from tests.interop.test_we_read_theirs import create_theirs
from tests.oracles.client import JavaOracle, LatestJavaOracle
from tests.support.tables.builders import compact, content

FINE, LOCAL = "TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE"
# Java stores those before 1970 with negative nanoseconds of the next day.
NEAR = [
    "1677-09-22T00:00:00.000000000",
    "1890-05-05T05:05:05.123456789",
    "1969-12-31T23:59:59.999999999",
    "1970-01-01T00:00:00.000000000",
    "2024-02-29T12:00:00.000000001",
    "2262-04-11T23:47:16.854775807",
]
FAR = "9999-12-31T00:00:00.000000000"


def moments(values: list[str]) -> list[dict[str, Any]]:
    """Each value in all columns of `COLUMNS`."""
    return [
        {
            "k": number,
            "t": value,
            "l": f"{value}Z",
            "r": {"t": value, "n": number},
            "a": [value, None],
        }
        for number, value in enumerate(values)
    ]


COLUMNS = {"k": "INT", "t": FINE, "l": LOCAL, "r": f"ROW<t {FINE}, n INT>", "a": f"ARRAY<{FINE}>"}


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_fine_timestamps_of_java_are_read_and_kept_to_the_nanosecond(
    catalog: Catalog, java_latest: LatestJavaOracle, keyed: bool
) -> None:
    options = {"bucket": "1"} if keyed else {}
    keys = ("k",) if keyed else ()
    table = create_theirs(catalog, java_latest, COLUMNS, keys=keys, options=options)
    given = moments(NEAR)
    for part in (given[:4], given[2:]):
        java_latest.write(catalog.root, table.name, part)
    due = texts(given if keyed else given[:4] + given[2:])
    assert as_read_by(java_latest, catalog, table) == due
    assert content(table) == due
    for number, value in enumerate(NEAR):
        where = f"t = TIMESTAMP '{value.replace('T', ' ')}'"
        assert {row["k"] for row in table.read(where).to_pylist()} == {number}
    compact(table, full=True)
    assert content(table) == due
    assert as_read_by(java_latest, catalog, table) == due


def one_far(catalog: Catalog, java: JavaOracle, *, keyed: bool, **options: str) -> Table:
    """Three files, each with a far value, and a fine one before 1970."""
    columns = {"k": "INT", "t": FINE, "s": "STRING"}
    options = {"bucket": "1", **options} if keyed else options
    keys = ("k",) if keyed else ()
    table = create_theirs(catalog, java, columns, keys=keys, options=options)
    for first in (0, 10, 20):
        given = [
            {"k": first, "t": FAR, "s": "far"},
            {"k": first + 1, "t": NEAR[2], "s": "fine"},
            {"k": first + 2, "t": None, "s": "none"},
        ]
        java.write(catalog.root, table.name, given)
    return table


READS: dict[str, Callable[[Table], object]] = {
    "a read": lambda table: table.read(),
    "a read in batches": lambda table: list(table.scan().batches()),
    "a filter": lambda table: table.read("t > TIMESTAMP '2100-01-01 00:00:00'"),
    "statistics": lambda table: table.upkeep.analyze(),
}
REWRITES: dict[str, Callable[[Table], object]] = {
    "a compaction": lambda table: table.upkeep.compact(full=True),
    "a deletion": lambda table: table.delete("k = 1"),
    "an update": lambda table: table.update({"s": "'new'"}, "k = 1"),
}


def sorted_by_time(table: Table) -> object:
    return table.upkeep.sort_compact(["t"])


def rescaled(table: Table) -> object:
    return table.upkeep.rescale(2)


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_a_far_moment_in_a_fine_column_is_refused_by_name_and_nothing_is_written(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, keyed: bool
) -> None:
    catalog = unchecked_catalog
    table = one_far(catalog, java_latest, keyed=keyed)
    due = as_read_by(java_latest, catalog, table)
    assert len(due) == 9
    live = table.at().files()
    before = sorted(Path(catalog.root).rglob("bucket-*/*"))
    # A rescale changes the table's option first, so it is the last one.
    last = {"a rescale": rescaled} if keyed else {"a sorting": sorted_by_time}
    for name, attempt in {**READS, **REWRITES, **last}.items():
        with pytest.raises(UnfitValues) as caught:
            attempt(table)
        text = str(caught.value)
        assert "column t of data file" in text, name
        assert "9999-12-31 00:00:00" in text, name
        assert "to TIMESTAMP(6)" in text, name
    assert table.at().files() == live
    assert sorted(Path(catalog.root).rglob("bucket-*/*")) == before
    assert as_read_by(java_latest, catalog, table) == due
    # What does not need the column is read.
    assert table.read(columns=["k", "s"]).num_rows == 9
    assert table.read("k > 100").num_rows == 0


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_a_coarser_column_holds_what_the_fine_one_does_not(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, keyed: bool
) -> None:
    """The way out that the error names; digits are left out as in Java."""
    catalog = unchecked_catalog
    table = one_far(catalog, java_latest, keyed=keyed)
    table = table.alter(ChangeType("t", "TIMESTAMP(6)"))
    due = as_read_by(java_latest, catalog, table)
    assert content(table) == due
    assert sum("9999-12-31T00:00:00.000000" in each for each in due) == 3
    assert sum("1969-12-31T23:59:59.999999" in each for each in due) == 3
    assert table.read("t > TIMESTAMP '2100-01-01 00:00:00'").num_rows == 3
    compact(table, full=True)
    assert content(table) == due
    assert as_read_by(java_latest, catalog, table) == due


def test_copied_row_groups_keep_what_this_reader_does_not_hold(
    unchecked_catalog: Catalog, java_latest: LatestJavaOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied_parts, "_LEAST_GROUP_BYTES", 1)
    catalog = unchecked_catalog
    # Java has no bounds of such columns, which a joined file would have to have.
    table = one_far(catalog, java_latest, keyed=False, **{"metadata.stats-mode": "none"})
    due = as_read_by(java_latest, catalog, table)
    before = len(table.at().files())
    compact(table, full=True)
    assert len(table.at().files()) < before
    assert as_read_by(java_latest, catalog, table) == due


OLD = ["0002-01-01", "1500-02-28", "1582-10-04", "1582-10-15", "1899-12-31", "9999-12-31"]


@pytest.mark.parametrize("client", ["java", "java_latest"])
@pytest.mark.parametrize("format_name", ["parquet", "orc", "avro"])
def test_old_days_are_read_as_java_reads_them(
    request: pytest.FixtureRequest, catalog: Catalog, client: str, format_name: str
) -> None:
    """The ORC files of Java are marked with another calendar than that of their days."""
    java: JavaOracle = request.getfixturevalue(client)
    columns = {"d": "DATE", "t": "TIMESTAMP(6)", "z": "TIMESTAMP(3)", "m": "MAP<DATE, DATE>"}
    options = {"file.format": format_name}
    table = create_theirs(catalog, java, columns, options=options)
    given = [
        {
            "d": day,
            "t": f"{day}T12:34:56.000000",
            "z": f"{day}T00:00:00.000000",
            "m": [[day, day]],
        }
        for day in OLD
    ]
    java.write(catalog.root, table.name, given)
    assert content(table) == as_read_by(java, catalog, table)
    days = [str(each) for each in table.read(columns=["d"]).column("d").to_pylist()]
    assert days == OLD
    if format_name != "orc":
        # Timestamps in ORC are read by Java as others than it wrote.
        assert content(table) == texts(given)
