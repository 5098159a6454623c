"""Partitions whose changes are not tracked: nothing is told of them, and all is read."""

from __future__ import annotations

import logging

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog, SetOption, Table
from lakewright.storage.errors import InvalidOption
from lakewright.storage.operations.changes.stream_plan import plan_stream
from tests.support.tables.builders import compact, events, new_table, rows

pytestmark = pytest.mark.mission("MT6", "MT7", "SQ17", "RS24")

OFF = "ALTER TABLE db.t PARTITION (day='b') SET 'change-tracking' = 'false'"
ON = "ALTER TABLE db.t PARTITION (day='b') SET ('change-tracking' = 'true')"


def changed_days(table: Table, start: int, end: int, **read: str) -> set[str]:
    return set(table.read_changes(start, end, **read).column("day").to_pylist())


def write_both(table: Table, v: str) -> None:
    table.write(rows(table, [*events(0, 3, v=v), *events(0, 3, day="b", v=v)]))


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_no_changelog_is_written_of_them_and_no_reader_of_changes_sees_them(
    catalog: Catalog, producer: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"bucket": "1", "changelog-producer": producer}
    table = new_table(catalog, partitions=["day"], keys=["day", "id"], options=options)
    write_both(table, "first")
    compact(table, full=True)
    session, first = Session(catalog), table.history.snapshots()[-1].id
    assert session.sql(OFF).message == "changes of db.t in day='b' are not tracked; schema 1"
    table = catalog.table("db.t")
    write_both(table, "second")
    compact(table, full=True)
    second = table.history.snapshots()[-1].id
    told = sum(each.changelog_record_count or 0 for each in table.history.snapshots()[-2:])
    assert told in (3, 6)
    assert changed_days(table, first, second) == {"a"}
    assert table.read().num_rows == 6
    assert "second0" in table.read(where="day = 'b'").column("v").to_pylist()
    plan_stream(table.table_files, first, second)
    session.sql(ON)
    table = catalog.table("db.t")
    write_both(table, "third")
    compact(table, full=True)
    third = table.history.snapshots()[-1].id
    assert changed_days(table, second, third) == {"a", "b"}
    assert changed_days(table, first, second) == {"a"}


def test_of_appended_rows_readers_say_what_they_pass_over(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    write_both(new_table(catalog, partitions=["day"]), "first")
    Session(catalog).sql(OFF)
    table = catalog.table("db.t")
    write_both(table, "second")
    with caplog.at_level(logging.WARNING):
        assert changed_days(table, 1, 2, mode="delta") == {"a"}
    assert "changes of db.t in day=b are passed over: change tracking is off there" in caplog.text
    assert changed_days(table, 1, 2, mode="diff") == {"a", "b"}
    Session(catalog).sql(ON)
    assert "lakewright.change-tracking.off" not in catalog.table("db.t").schema.options
    assert changed_days(catalog.table("db.t"), 1, 2, mode="delta") == {"a"}


def test_streams_that_tell_overwrites_pass_them_over_too(catalog: Catalog) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "streaming-read-overwrite": "true"}
    table = new_table(catalog, partitions=["day"], keys=["day", "id"], options=options)
    write_both(table, "first")
    Session(catalog).sql(OFF)
    table = catalog.table("db.t")
    table.write(
        rows(table, [*events(0, 3, v="x"), *events(0, 3, day="b", v="x")]), mode="overwrite"
    )
    of = table.table_files.partitions
    splits = plan_stream(table.table_files, 1, 2).splits
    assert {of.of_row(each.after[0].partition).spec["day"] for each in splits} == {"a"}


def test_a_list_that_is_none_is_refused(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    with pytest.raises(InvalidOption, match="is no list of partitions"):
        table.alter(SetOption("lakewright.change-tracking.off", "day=b"))
