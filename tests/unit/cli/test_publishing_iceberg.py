"""`lakewright publish-iceberg`: what it prints, and what `show` says of Iceberg readers."""

from __future__ import annotations

from lakewright.storage import Catalog
from tests.support.tables.builders import compact, events, new_table, rows
from tests.support.tables.iceberg import assert_seen_alike
from tests.unit.cli.conftest import Lakewright


def seen(lakewright: Lakewright, catalog: Catalog) -> str:
    lines = lakewright(catalog, "show", "db.t").lines
    found = [line.partition("Iceberg readers")[2].strip() for line in lines]
    return next((line for line in found if line), "")


def test_what_waits_is_printed_published_and_shown(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog)
    for number in range(2):
        table.write(rows(table, events(number, number + 1)))
    assert seen(lakewright, catalog) == ""
    dry = lakewright(catalog, "publish-iceberg", "db.t", "--dry-run")
    assert dry.lines[0] == "db.t: Iceberg readers see nothing; 2 snapshots to publish, up to 2"
    ended = lakewright(catalog, "publish-iceberg", "db.t")
    assert ended.lines[0].startswith(
        "db.t: Iceberg readers see snapshot 2; 2 snapshots published, with 2 files"
    )
    assert_seen_alike(table)
    assert seen(lakewright, catalog).startswith("see snapshot 2, at file:///")
    again = lakewright(catalog, "publish-iceberg", "db.t", "--format", "json").json
    assert (again["seen_snapshot"], again["waiting"]) == (2, 0)
    table.write(rows(table, events(2, 3)))
    assert "and no commit of the last" in seen(lakewright, catalog)


def test_the_age_of_what_readers_see_of_a_primary_key_table_is_shown(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    options = {"metadata.iceberg.storage": "table-location", "bucket": "1"}
    table = new_table(catalog, keys=("id",), options=options)
    table.write(rows(table, events(0, 2)))
    assert "of the last full compaction, before any" in seen(lakewright, catalog)
    compact(table, full=True)
    assert seen(lakewright, catalog).endswith("ago")
    found = lakewright(catalog, "show", "db.t", "--format", "json").json
    assert found["health"]["iceberg"]["shows_merged"] is True
