"""A dropped table comes back as it was, until its grace is over or another one has its name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidRequestError,
    NotRevertible,
    StalePlan,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.files.condemned_store import CondemnedStore
from lakewright.storage.files.local_files import LocalFiles
from tests.support.stores.watched_files import Crashed, Meanwhile, WatchedFiles
from tests.support.tables.builders import content, events, expire, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri
from tests.support.tables.invariants import assert_sound

HOUR = 3_600_000


def made(catalog: Catalog) -> Table:
    """A table with a history that has expired in part, tags, a branch and a consumer."""
    table = new_table(catalog, keys=("id",), options={"bucket": "1"})
    for first in range(4):
        table.write(rows(table, events(first, first + 3)))
    table.history.create_tag("kept", snapshot=2)
    table.history.create_branch("side", tag="kept")
    table.history.set_consumer("reader", 4)
    expire(table, keep=2, grace_ms=HOUR)
    return table


def files_of(catalog: Catalog) -> dict[str, bytes]:
    there = catalog.fs.list_tree(catalog.root)
    return {each.path: catalog.fs.read_bytes(each.path) for each in there}


@pytest.mark.mission("FS4", "FS10")
def test_a_dropped_table_is_seen_by_no_client_and_comes_back_byte_by_byte(
    any_catalog: Catalog,
) -> None:
    made(any_catalog)
    before = files_of(any_catalog)
    assert any_catalog.drop_table("db.t").grace_ms == HOUR
    assert any_catalog.list_tables("db") == ()
    left = {path.rsplit("/", 2)[1] for path in files_of(any_catalog)}
    assert not left & {"schema", "snapshot", "tag", "branch-side", "consumer"}
    (dropped,) = any_catalog.dropped_tables()
    assert (dropped.table, dropped.done) == ("db.t", True)
    assert dropped.until_ms - dropped.dropped_ms == HOUR
    table = any_catalog.undrop_table("db.t")
    assert files_of(any_catalog) == before
    assert any_catalog.dropped_tables() == ()
    # Its deletion of before can still be undone.
    (expiry,) = table.upkeep.condemned()
    table.upkeep.put_back(expiry.id)
    assert table.history.snapshots()[0].id == 1
    assert_sound(table)


def test_after_its_grace_nothing_is_left_of_it(any_catalog: Catalog) -> None:
    made(any_catalog)
    any_catalog.drop_table("db.t")
    assert any_catalog.collect_dropped_tables() == ()
    any_catalog.collect_dropped_tables("db", early=True)
    assert files_of(any_catalog) == {}
    with pytest.raises(TableNotFound, match=r"no dropped table db\.t can come back"):
        any_catalog.undrop_table("db.t")
    any_catalog.drop_database("db")
    made(any_catalog)
    any_catalog.drop_table("db.t", grace_ms=0)
    assert files_of(any_catalog) == {}


def test_a_table_in_its_place_is_another_and_the_former_goes_with_its_upkeep() -> None:
    # A store that moves no folder.
    any_catalog = Catalog.open(memory_uri(), env=FixedEnv())
    made(any_catalog)
    any_catalog.drop_table("db.t")
    second = new_table(any_catalog, partitions=("day",))
    assert (content(second), second.history.snapshots()) == ([], ())
    second.write(rows(second, events(0, 2)))
    with pytest.raises(AlreadyExistsError, match=r"db\.t exists; rename it first"):
        any_catalog.undrop_table("db.t")
    (former,) = second.upkeep.condemned()
    with pytest.raises(NotRevertible, match="another table has its name by now"):
        second.upkeep.put_back(former.id)
    with pytest.raises(UnsupportedError):
        any_catalog.rename_table("db.t", "db.u")
    second.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=0)
    assert second.upkeep.condemned() == (former,)
    # Dropped permanently, it takes nothing of the former with it.
    any_catalog.drop_table("db.t", grace_ms=0)
    first = any_catalog.undrop_table("db.t")
    assert len(content(first)) == 6
    assert_sound(first)
    any_catalog.drop_table("db.t")
    third = new_table(any_catalog, partitions=("day",))
    third.write(rows(third, events(0, 2)))
    third.upkeep.collect(early=True)
    assert third.upkeep.condemned() == ()
    assert any_catalog.collect_dropped_tables() == ()
    assert_sound(third)
    assert not [path for path in files_of(any_catalog) if "/.dropped/" in path]


def test_a_name_is_free_after_a_drop_and_its_dropped_tables_come_back_the_latest_first(
    catalog: Catalog,
) -> None:
    made(catalog)
    catalog.drop_table("db.t")
    second = new_table(catalog, name="db.u")
    second.write(rows(second, events(0, 2)))
    catalog.rename_table("db.u", "db.t")
    catalog.drop_table("db.t")
    latest, first = catalog.dropped_tables()
    assert (latest.table, first.table) == ("db.t", "db.t")
    assert len(content(catalog.undrop_table("db.t", record=first.record))) == 6
    catalog.drop_table("db.t")
    first, latest = catalog.dropped_tables()
    assert len(content(catalog.undrop_table("db.t", record=latest.record))) == 2
    catalog.rename_table("db.t", "db.u")
    assert len(content(catalog.undrop_table("db.t"))) == 6
    assert catalog.dropped_tables() == ()
    catalog.drop_table("db.t")
    catalog.drop_table("db.u")
    assert catalog.collect_dropped_tables(early=True) == ("db.t", "db.u")
    assert files_of(catalog) == {}


def test_a_writer_that_had_opened_it_loses_nothing_that_it_committed_meanwhile(
    catalog: Catalog,
) -> None:
    table = made(catalog)
    late = rows(table, events(50, 60))
    commits = Meanwhile(
        lambda call: call.name == "delete" and call.path.endswith("/schema-0"),
        lambda: table.write(late),
    )
    seen = WatchedFiles(catalog.fs, before=commits)
    Catalog(seen, catalog.root, catalog.env).drop_table("db.t")
    assert len(content(catalog.undrop_table("db.t"))) == 16


def test_what_could_not_come_back_is_dropped_for_good_alone(catalog: Catalog) -> None:
    table = made(catalog)
    schema = Path(table.table_files.paths.schema(0))
    schema.write_text("{")
    before = files_of(catalog)
    with pytest.raises(UnsupportedError, match=r"write DROP TABLE db\.t PURGE, or give grace_ms=0"):
        catalog.drop_table("db.t")
    assert files_of(catalog) == before
    catalog.drop_table("db.t", grace_ms=0)
    assert files_of(catalog) == {}


def test_a_database_with_a_dropped_table_stays_until_that_is_collected(catalog: Catalog) -> None:
    made(catalog)
    catalog.drop_table("db.t")
    with pytest.raises(InvalidRequestError, match=r"db\.t can still come back .*CASCADE"):
        catalog.drop_database("db")
    assert len(content(catalog.undrop_table("db.t"))) == 6


def test_files_that_another_client_took_are_named_and_nothing_comes_back(catalog: Catalog) -> None:
    made(catalog)
    catalog.drop_table("db.t")
    data = next(iter(Path(catalog.root).rglob("bucket-0/*")))
    data.unlink()
    with pytest.raises(NotRevertible, match=f"1 files that it needs are gone, .*{data.name}"):
        catalog.undrop_table("db.t")
    assert catalog.list_tables("db") == ()


@pytest.mark.parametrize("call", ["move_folder", "remove_empty_dir"])
def test_a_drop_or_a_return_that_dies_as_it_moves_the_folder_goes_on(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def dies(self: LocalFiles, *given: str) -> None:
        raise Crashed

    before = content(made(catalog))
    with monkeypatch.context() as patched, suppress(Crashed):
        patched.setattr(LocalFiles, "move_folder", dies)
        catalog.drop_table("db.t")
    assert [each.table for each in catalog.dropped_tables()] == ["db.t"]
    with monkeypatch.context() as patched, suppress(Crashed):
        patched.setattr(LocalFiles, call, dies)
        catalog.undrop_table("db.t")
    if not catalog.table_exists("db.t") or catalog.dropped_tables():
        catalog.undrop_table("db.t")
    assert content(catalog.table("db.t")) == before
    assert_sound(catalog.table("db.t"))


@pytest.mark.parametrize(
    ("name", "path"),
    [("list_tree", "/schema"), ("replace", ".json"), ("write_bytes", ".dropped/t")],
)
def test_of_two_drops_at_once_one_yields_and_the_table_comes_back_whole(
    any_catalog: Catalog, name: str, path: str
) -> None:
    before = content(made(any_catalog))
    refused: list[StalePlan] = []

    def drops() -> None:
        try:
            any_catalog.drop_table("db.t")
        except StalePlan as error:
            refused.append(error)

    at = Meanwhile(lambda call: call.name == name and call.path.endswith(path), drops)
    seen = WatchedFiles(any_catalog.fs, before=at)
    try:
        Catalog(seen, any_catalog.root, any_catalog.env).drop_table("db.t")
    except StalePlan as error:
        refused.append(error)
    assert len(refused) == 1
    assert [each.table for each in any_catalog.dropped_tables()] == ["db.t"]
    assert content(any_catalog.undrop_table("db.t")) == before
    assert any_catalog.dropped_tables() == ()
    assert_sound(any_catalog.table("db.t"))


def test_a_table_made_in_the_place_as_the_folder_moves_stays_and_so_does_the_dropped_one(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, moves = content(made(catalog)), LocalFiles.move_folder

    def after_another(self: LocalFiles, path: str, to: str) -> None:
        monkeypatch.undo()
        table = new_table(catalog)
        table.write(rows(table, events(50, 60)))
        moves(self, path, to)

    monkeypatch.setattr(LocalFiles, "move_folder", after_another)
    catalog.drop_table("db.t")
    assert len(content(catalog.table("db.t"))) == 10
    catalog.drop_table("db.t", grace_ms=0)
    assert content(catalog.undrop_table("db.t")) == before
    assert_sound(catalog.table("db.t"))


def test_files_of_a_table_that_is_made_as_another_is_dropped_are_not_taken_for_its_own() -> None:
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    before = content(made(catalog))

    def makes() -> None:
        table = new_table(catalog)
        for first in (50, 60):
            table.write(rows(table, events(first, first + 5)))

    at = Meanwhile(lambda call: call.name == "list_tree" and call.path.endswith("/t"), makes)
    Catalog(WatchedFiles(catalog.fs, before=at), catalog.root, catalog.env).drop_table("db.t")
    table = catalog.table("db.t")
    table.upkeep.compact(full=True)
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=0)
    expire(table, keep=1, grace_ms=0)
    catalog.drop_table("db.t", grace_ms=0)
    assert content(catalog.undrop_table("db.t")) == before


def test_a_change_of_columns_that_a_drop_overtakes_is_dropped_too(any_catalog: Catalog) -> None:
    table = made(any_catalog)
    at = Meanwhile(
        lambda call: call.name == "delete" and call.path.endswith("/schema-0"),
        lambda: table.alter(AddColumn("late", "BIGINT")),
    )
    Catalog(WatchedFiles(any_catalog.fs, before=at), any_catalog.root, any_catalog.env).drop_table(
        "db.t"
    )
    assert any_catalog.list_tables("db") == ()
    back = any_catalog.undrop_table("db.t")
    assert (len(content(back)), back.schema.field_names[-1]) == (6, "late")


def test_what_is_damaged_or_strange_hides_no_other_dropped_table(catalog: Catalog) -> None:
    made(catalog)
    catalog.drop_table("db.t")
    new_table(catalog, name="db.u")
    catalog.drop_table("db.u")
    dropped = Path(catalog.root) / "db.db/.dropped"
    (dropped / ".u.1.tmp").write_text("")
    next(dropped.glob("t.*/.lakewright/condemned/*.json")).write_text("{")
    assert [each.table for each in catalog.dropped_tables()] == ["db.u"]
    with pytest.raises(CorruptionError, match="does not say what is marked for deletion"):
        catalog.collect_dropped_tables(early=True)
    assert catalog.dropped_tables() == ()


def test_an_earlier_table_of_a_name_comes_back_by_its_record(catalog: Catalog) -> None:
    before = content(made(catalog))
    catalog.drop_table("db.t")
    new_table(catalog)
    catalog.drop_table("db.t")
    first = min(each.record for each in catalog.dropped_tables())
    assert content(catalog.undrop_table("db.t", record=first)) == before


def test_a_return_that_stops_after_its_move_is_still_listed(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(made(catalog))
    catalog.drop_table("db.t")

    def dies(self: LocalFiles, *given: object) -> None:
        raise Crashed

    with monkeypatch.context() as patched, suppress(Crashed):
        patched.setattr(LocalFiles, "replace", dies)
        catalog.undrop_table("db.t")
    assert [each.table for each in catalog.dropped_tables()] == ["db.t"]
    assert content(catalog.undrop_table("db.t")) == before


def test_a_rewrite_of_a_table_that_is_dropped_meanwhile_says_so(catalog: Catalog) -> None:
    table = made(catalog)
    plan = table.upkeep.plan_compact(full=True)
    catalog.drop_table("db.t")
    with pytest.raises(TableNotFound):
        table.upkeep.run(plan)


def test_a_writer_that_takes_its_uncommitted_files_away_hinders_no_return(
    any_catalog: Catalog,
) -> None:
    table = made(any_catalog)
    before = content(table)
    path = f"{table.table_files.paths.root}/bucket-0/data-uncommitted.parquet"
    any_catalog.fs.write_bytes(path, b"rows")
    any_catalog.drop_table("db.t")
    (left,) = [p for p in files_of(any_catalog) if p.endswith("data-uncommitted.parquet")]
    any_catalog.fs.delete(left)
    assert content(any_catalog.undrop_table("db.t")) == before


def test_a_write_after_a_drop_fails_and_the_table_comes_back(any_catalog: Catalog) -> None:
    table = made(any_catalog)
    before, late = content(table), rows(table, events(50, 60))
    any_catalog.drop_table("db.t")
    with pytest.raises(TableNotFound):
        table.write(late)
    assert content(any_catalog.undrop_table("db.t")) == before


def test_a_return_that_died_is_not_collected_and_goes_on(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(made(catalog))
    catalog.drop_table("db.t")
    with monkeypatch.context() as patched, suppress(Crashed):

        def dies(self: CondemnedStore, *given: object) -> None:
            raise Crashed

        patched.setattr(CondemnedStore, "replace", dies)
        catalog.undrop_table("db.t")
    for path in Path(catalog.root).rglob("*"):
        os.utime(path, ns=(0, 0))
    assert catalog.collect_dropped_tables() == ()
    assert content(catalog.undrop_table("db.t")) == before


@pytest.mark.parametrize("follows", [True, False])
def test_a_writer_that_knows_no_schema_hinders_no_return_and_keeps_what_follows_the_table(
    any_catalog: Catalog, follows: bool
) -> None:
    catalog = any_catalog
    table = made(catalog)
    other = new_table(catalog, name="db.other", keys=("id",), options={"bucket": "1"})
    for number in range(9):
        other.write(rows(other, events(number, number + 1)))
    before = content(table)
    if follows:
        table.write(rows(table, events(70, 72)))
    ids = [each.id for each in table.history.snapshots()]
    fs, paths = catalog.fs, table.table_files.paths
    late = paths.snapshot(ids[-1] if follows else 1)
    data = fs.read_bytes(late if follows else other.table_files.paths.snapshot(1))
    if follows:
        # As if it came after the drop.
        fs.delete(late)
        table.table_files.snapshots.hint_latest(ids[-2])
    catalog.drop_table("db.t")
    fs.replace(late, data)
    fs.replace(paths.latest_hint, late.rpartition("-")[2].encode())
    back = catalog.undrop_table("db.t")
    assert len(content(back)) == len(before) + (2 if follows else 0)
    assert [each.id for each in back.history.snapshots()] == ids
    assert_sound(back)
