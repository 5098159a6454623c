"""`lakewright analyze`: what it prints, and what it leaves."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright


def filled(catalog: Catalog) -> Table:
    table = new_table(catalog, keys=("id",), options={"bucket": "1"})
    table.write(rows(table, events(0, 30)))
    table.write(rows(table, events(0, 10, v="new")))
    return table


@pytest.mark.mission("FS19")
def test_statistics_are_printed_and_published(catalog: Catalog, lakewright: Lakewright) -> None:
    table = filled(catalog)
    ended = lakewright(catalog, "analyze", "db.t")
    assert ended.lines[0].startswith("db.t: 30 rows, about ")
    assert "statistics of snapshot 2 committed as snapshot 3" in ended.lines[0]
    by_name = {line.split()[0]: line.split()[1:] for line in ended.lines[2:]}
    assert by_name["id"] == ["30", "0", "0", "29", "8", "8"]
    assert by_name["day"] == ["1", "0", "a", "a", "1", "1"]
    assert by_name["v"][:4] == ["30", "0", "new0", "v29"]
    assert len(table.history.snapshots()) == 3
    (row,) = lakewright(catalog, "inspect", "db.t", "statistics", "--format", "json").json_lines
    assert row["mergedRecordCount"] == 30


def test_a_script_gets_the_figures(catalog: Catalog, lakewright: Lakewright) -> None:
    filled(catalog)
    found = lakewright(catalog, "analyze", "db.t", "--columns", "v,id", "--format", "json").json
    assert (found["table"], found["snapshot_id"]) == ("db.t", 3)
    assert found["exact_columns"] == ["v", "id"]
    assert [each["name"] for each in found["statistics"]["columns"]] == ["v", "id"]
    assert found["statistics"]["columns"][1]["maximum"] == "29"


def test_rows_alone_are_counted_when_no_column_is_wanted(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    filled(catalog)
    ended = lakewright(catalog, "analyze", "db.t", "--columns", "")
    assert len(ended.lines) == 1
    assert ended.lines[0].startswith("db.t: 30 rows")


def test_an_estimate_is_marked_as_one(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 20_000)))
    ended = lakewright(catalog, "analyze", "db.t")
    by_name = {line.split()[0]: line.split()[1] for line in ended.lines[2:]}
    assert by_name["id"].startswith("~")
    assert by_name["day"] == "1"


def test_a_dry_run_says_what_would_be_read_and_commits_nothing(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = filled(catalog)
    ended = lakewright(catalog, "analyze", "db.t", "--dry-run")
    assert ended.lines[0] == "db.t, snapshot 2: snapshot 2 has no statistics"
    assert ended.lines[1].startswith("  would read 2 files, ")
    assert ended.lines[1].endswith("40 rows in files")
    assert ended.lines[2] == "  columns: id, day, v"
    found = lakewright(catalog, "analyze", "db.t", "--dry-run", "--format", "json").json
    assert (found["rows"], found["columns"]) == (40, ["id", "day", "v"])
    assert len(table.history.snapshots()) == 2


def test_a_table_without_rows_has_nothing_to_analyze(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog)
    ended = lakewright(catalog, "analyze", "db.t")
    assert ended.lines == ["db.t: the table has no snapshot, so there is nothing to analyze"]
    assert lakewright(catalog, "analyze", "db.t", "--format", "json").json["statistics"] is None
    assert table.history.snapshots() == ()


def test_a_column_that_is_none_is_refused(catalog: Catalog, lakewright: Lakewright) -> None:
    filled(catalog)
    ended = lakewright(catalog, "analyze", "db.t", "--columns", "nope", code=2)
    assert "no column 'nope'; there are id, day, v" in ended.err
