"""A table as of a moment: the snapshot is chosen once, and every question is about it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidPredicate, InvalidRequestError, SnapshotNotFound
from lakewright.storage.table_at import TableAt
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import EVENTS, compact, events, new_table, rows, values_of
from tests.support.tables.environment import FixedEnv


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Three snapshots, of one, two and three rows, a day each."""
    table = new_table(catalog, EVENTS, partitions=["day"], keys=["day", "id"])
    for number, day in enumerate("abc"):
        table.write(rows(table, events(number, number + 1, day=day)))
    return table


def test_every_question_is_answered_of_the_snapshot_that_was_chosen(table: Table) -> None:
    table.history.create_tag("second", snapshot=2)
    for at in (table.at(snapshot=2), table.at(tag="second"), table.at(version="second")):
        assert values_of(at, "id") == [0, 1]
        assert at.snapshot is not None
        assert at.snapshot.id == 2
        assert len(at.files()) == at.inspect.files().num_rows == 2
        assert [each.spec for each in at.partitions()] == [{"day": "a"}, {"day": "b"}]
        assert at.lookup(pa.table({"day": ["a", "c"], "id": [0, 2]})).num_rows == 1
        assert sum(part.num_rows for part in at.scan().batches()) == 2
        assert at.statistics() is None


def test_the_latest_state_stays_what_it_was_when_it_was_asked_for(table: Table) -> None:
    latest = table.at()
    table.write(rows(table, events(7, 9, day="z")))
    assert values_of(latest, "id") == [0, 1, 2]
    assert len(latest.partitions()) == 3
    assert values_of(table, "id") == [0, 1, 2, 7, 8]


def test_a_snapshot_is_looked_for_once_and_no_more(table: Table) -> None:
    watching, fs = watched(table)
    at = watching.at(snapshot=2)
    chosen = [call.path for call in fs.calls if "/snapshot/" in call.path]
    assert chosen
    at.read()
    at.files("day = 'a'")
    at.partitions()
    assert [call.path for call in fs.calls if "/snapshot/" in call.path] == chosen


def test_a_time_is_milliseconds_or_a_moment_in_any_zone(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    first = table.history.snapshots()[0].time_millis
    env.clock.advance(60_000)
    table.write(rows(table, events(1, 2)))
    moment = dt.datetime.fromtimestamp(first / 1000, dt.UTC)
    elsewhere = moment.astimezone(dt.timezone(dt.timedelta(hours=9)))
    for time in (first, moment, elsewhere, moment.replace(tzinfo=None)):
        assert values_of(table.at(time=time), "id") == [0]
    with pytest.raises(SnapshotNotFound, match="no snapshot at or before"):
        table.at(time=first - 1)


def test_two_moments_at_once_are_refused_by_name(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="snapshot and tag are given"):
        table.at(snapshot=1, tag="x")


def test_a_table_without_commits_has_no_rows_at_any_time(catalog: Catalog) -> None:
    empty = new_table(catalog)
    for at in (empty.at(), empty.at(time=0)):
        assert at.snapshot is None
        assert at.read().num_rows == 0
        assert at.files() == at.partitions() == ()
        assert at.statistics() is None


# --- filters as text ----------------------------------------------------------------------------


def test_a_filter_is_text_or_what_such_a_text_stands_for(table: Table) -> None:
    from lakewright.storage.sql import parse_where

    text = "day IN ('a', 'b') AND id > 0"
    for where in (text, parse_where(text, table.schema)):
        assert table.read(where, ["id"]).to_pylist() == [{"id": 1}]
        assert len(table.at().files(where)) == 2
    text = "day IN ('a', 'b')"
    for where in (text, parse_where(text, table.schema)):
        assert [each.spec["day"] for each in table.at().partitions(where)] == ["a", "b"]
    assert table.read(where="day <> 'b'", columns=["id"], limit=1).num_rows == 1


def test_a_filter_of_changes_and_of_system_tables_is_text_too(table: Table) -> None:
    changed = table.read_changes(0, 3, where="day = 'c'", columns=["id"]).to_pylist()
    assert changed == [{"_rowkind": "+I", "id": 2}]
    assert table.inspect.snapshots("snapshot_id = 2").num_rows == 1
    assert table.inspect.files(where="level > 0").num_rows == 0


def test_a_filter_is_read_against_the_columns_of_its_moment(table: Table, catalog: Catalog) -> None:
    compact(table, full=True)
    asked: tuple[Table | TableAt, ...] = (table, table.at(snapshot=1))
    for at in asked:
        with pytest.raises(InvalidPredicate, match="there is no dey; did you mean day"):
            at.read("dey = 'a'")
    with pytest.raises(InvalidPredicate, match="there is no day"):
        table.inspect.snapshots("day = 'a'")


def test_a_time_may_be_iso_text_and_nothing_else(table: Table) -> None:
    snapshot = table.at().snapshot
    assert snapshot is not None
    later = dt.datetime.fromtimestamp(snapshot.time_millis / 1000 + 1, dt.UTC)
    for text in (later.isoformat(), later.isoformat()[:19], "2999-01-01"):
        assert table.at(time=text).snapshot == snapshot
    for wrong in ("yesterday", 1.5, dt.date(2024, 1, 1)):
        with pytest.raises(InvalidRequestError, match="is no time; give a datetime, ISO text"):
            table.at(time=wrong)  # type: ignore[arg-type]


def test_one_text_is_no_list_of_columns(table: Table, catalog: Catalog) -> None:
    key = pa.table({"day": ["a"], "id": [0]})
    plain = new_table(catalog, EVENTS, name="db.plain", options={"bucket": "-1"})
    staged = plain.stage(rows(plain, events(0, 1)))
    asked: list[Callable[[], object]] = [
        lambda: table.read(columns="id"),
        lambda: table.at(snapshot=1).scan(columns="id"),
        lambda: table.lookup(key, columns="id"),
        lambda: table.read_changes(1, 2, columns="id"),
        lambda: table.upkeep.plan_analyze(columns="id"),
        lambda: plain.read_staged(staged, columns="id"),
        lambda: plain.upkeep.plan_sort_compact(by="id"),
        lambda: catalog.create_table("db.new", {"id": "INT"}, primary_keys="id"),
    ]
    for ask in asked:
        with pytest.raises(InvalidRequestError, match=r"is the text 'id'; give a list: \['id'\]"):
            ask()
    plain.abort(staged)
