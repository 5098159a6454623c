"""`lakewright inspect`: system tables and changes as text, and what is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import compact, events, new_table, rows
from tests.unit.cli.conftest import Lakewright


def filled(catalog: Catalog) -> Table:
    table = new_table(catalog, keys=("id",), options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(1, 2, v="new")))
    compact(table, full=True)
    table.write(rows(table, [{"id": 0}], ["-D"]))
    table.history.create_tag("old", snapshot=1)
    table.history.create_tag("new", snapshot=4)
    return table


@pytest.mark.mission("FS1")
def test_a_system_table_is_printed_in_each_format(catalog: Catalog, lakewright: Lakewright) -> None:
    filled(catalog)
    found = lakewright(catalog, "inspect", "db.t", "snapshots", "--format", "json").json_lines
    assert [row["snapshot_id"] for row in found] == [1, 2, 3, 4]
    assert found[0]["commit_time"].startswith("2024-01-01T00:00:00.")
    table = lakewright(catalog, "inspect", "db.t", "tags")
    assert table.lines[0].split()[:2] == ["tag_name", "snapshot_id"]
    assert table.lines[-1] == "(2 rows)"
    csv = lakewright(catalog, "inspect", "db.t", "consumers", "--format", "csv")
    assert csv.lines == ["consumer_id,next_snapshot_id"]


def test_rows_are_filtered_and_counted(catalog: Catalog, lakewright: Lakewright) -> None:
    filled(catalog)
    arguments = ["inspect", "db.t", "snapshots", "--format", "json"]
    where = ["--where", "commit_kind = 'APPEND'"]
    found = lakewright(catalog, *arguments, *where).json_lines
    assert [row["snapshot_id"] for row in found] == [1, 2, 4]
    found = lakewright(catalog, *arguments, *where, "--limit", "1").json_lines
    assert [row["snapshot_id"] for row in found] == [1]
    refused = lakewright(catalog, *arguments, "--where", "id = 1", code=2)
    assert "snapshot_id" in refused.err


def test_an_earlier_state_is_inspected_by_snapshot_and_by_tag(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    filled(catalog)
    for when in (["--snapshot", "1"], ["--tag", "old"]):
        (file,) = lakewright(
            catalog, "inspect", "db.t", "files", *when, "--format", "json"
        ).json_lines
        assert (file["record_count"], file["level"]) == (3, 0)
    gone = lakewright(catalog, "inspect", "db.t", "files", "--tag", "older", code=3)
    assert "new, old" in gone.err or "old, new" in gone.err


def changed(ended: Any) -> list[tuple[str, int, Any]]:
    return sorted((row["rowkind"], row["id"], row["v"]) for row in ended.json_lines)


def test_the_audit_log_shows_deletions(catalog: Catalog, lakewright: Lakewright) -> None:
    filled(catalog)
    arguments = ["inspect", "db.t", "audit_log", "--format", "json"]
    found = changed(lakewright(catalog, *arguments))
    assert found == [("+I", 1, "new1"), ("+I", 2, "v2"), ("-D", 0, None)]
    found = changed(lakewright(catalog, *arguments, "--where", "rowkind = '-D'"))
    assert found == [("-D", 0, None)]


@pytest.mark.mission("CN20")
def test_changes_between_two_states_are_printed(catalog: Catalog, lakewright: Lakewright) -> None:
    table = filled(catalog)
    arguments = ["inspect", "db.t", "audit_log", "--format", "json"]
    delta = [("+I", 1, "new1"), ("-D", 0, None)]
    difference = [("+I", 1, "new1"), ("-D", 0, "v0")]
    assert changed(lakewright(catalog, *arguments, "--between", "1,4")) == delta
    assert changed(lakewright(catalog, *arguments, "--between", "old, new", "--mode", "delta")) == (
        delta
    )
    for bounds in (["--between", "old,new"], ["--between", "1,4", "--mode", "diff"]):
        found = changed(lakewright(catalog, *arguments, *bounds))
        assert [row[:2] for row in found] == [row[:2] for row in difference]
    times = [
        dt.datetime.fromtimestamp(each.time_millis / 1000, dt.UTC).isoformat()
        for each in table.history.snapshots()
    ]
    between = ["--between-times", f"{times[0]},{times[1]}"]
    assert changed(lakewright(catalog, *arguments, *between)) == [("+I", 1, "new1")]
    limited = lakewright(catalog, *arguments, "--between", "0,4", "--limit", "2")
    assert len(limited.json_lines) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["file"], 2, "no system table 'file'; there are aggregation_fields"),
        (["audit_log", "--between", "4,1"], 2, "name the earlier one first"),
        (["audit_log", "--between", "1,9"], 3, "snapshots 1 to 4"),
        (["audit_log", "--between", "old,older"], 3, "no tag 'older'"),
        (["audit_log", "--between", "1"], 2, "'1' is not of the form A,B"),
        (["audit_log", "--between-times", "monday,friday"], 2, "'monday' is not a time"),
        (["files", "--between", "1,4"], 2, "rows of audit_log, not of files"),
        (["audit_log", "--mode", "diff"], 2, "name them with --between"),
        (["audit_log", "--between", "1,4", "--mode", "changelog"], 2, "writes no changelogs"),
        (["files", "--snapshot", "9"], 3, "there are 1 to 4"),
    ],
)
def test_what_cannot_be_is_refused(
    catalog: Catalog, lakewright: Lakewright, arguments: list[str], code: int, message: str
) -> None:
    filled(catalog)
    ended = lakewright(catalog, "inspect", "db.t", *arguments, code=code)
    assert ended.code == code
    assert message in ended.err
    assert ended.out == ""
