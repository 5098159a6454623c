"""`lakewright retention`: what other retention times would free, as people and programs read it."""

from __future__ import annotations

from lakewright.storage import Catalog
from tests.support.tables.builders import compact, events, new_table, rows
from tests.unit.cli.conftest import Lakewright


def test_each_age_is_a_row_and_nothing_is_written(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog, partitions=["day"])
    for number in range(4):
        table.write(rows(table, events(number, number + 1, day="a")))
    table.history.create_tag("q3", snapshot=2)
    compact(table, full=True)
    # The tables of these tests are of 2024, and the command reads the clock of today.
    said = lakewright(catalog, "retention", "db.t", "3d", "9999d", "--retain-min", "1")
    short, long = (line.split() for line in said.lines[2:4])
    assert (short[:3], long[:3]) == (["3d", "4", "1"], ["9999d", "0", "5"])
    assert "tag q3" in said.lines[2]
    assert "of 5 snapshots at least 1 are retained" in said.lines
    ages = lakewright(catalog, "retention", "db.t", "3d", "--retain-min", "1", "--format", "json")
    (row,) = ages.json
    assert (row["gone"], row["first_gone"], row["last_gone"]) == (4, 1, 4)
    assert row["bytes"] > 0
    assert row["held_by"][0]["name"] == "q3"
    assert len(table.history.snapshots()) == 5
