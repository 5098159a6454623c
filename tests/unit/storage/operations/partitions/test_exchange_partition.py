"""Exchanging partitions: they move between tables, and no failure loses a row of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewright.storage import AddColumn, Catalog, SetOption, Table
from lakewright.storage.errors import (
    InvalidRequestError,
    PartitionExists,
    PartitionNotFound,
    SchemaMoved,
    StalePlan,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.operations.partitions.exchange_partition import ExchangePartitionPlan
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles, over
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.deleted_rows import delete_first_rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.unit.storage.operations.partitions.test_drop_partitions import KINDS

A: list[dict[str, object]] = [{"day": "a"}]


def pair(catalog: Catalog, kind: str = "append", **changes: Any) -> tuple[Table, Table]:
    """An empty table, and one with two partitions."""
    settings = KINDS[kind]
    source = new_table(catalog, name="db.staged", partitions=("day",), **settings)
    for number, day in enumerate("aab"):
        source.write(rows(source, events(number, number + 3, day=day, v=f"w{number}-")))
    if kind == "vectors":
        compact(source, full=True)
    if source.schema.has_primary_key:
        source.write(rows(source, events(1, 2, day="a"), ["-D"]))
    if kind == "vectors":
        compact(source, full=True)
    return new_table(catalog, partitions=("day",), **{**settings, **changes}), source


def puts_snapshot_of(table: Table) -> Callable[[Call], bool]:
    folder = table.table_files.paths.snapshot_dir
    return lambda call: call.name == "put_if_absent" and call.path.startswith(folder)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_rows_are_in_the_other_table_and_outlive_the_first(catalog: Catalog, kind: str) -> None:
    table, source = pair(catalog, kind)
    moved, stays = content(source, where="day = 'a'"), content(source, where="day = 'b'")
    result = table.upkeep.exchange_partition("db.staged", A)
    assert result.bytes_copied == sum(each.bytes for each in result.partitions) > 0
    assert content(table) == moved
    assert content(source) == stays
    # Neither an expiry nor a drop of the source takes anything of the rows.
    expire(source, keep=1)
    assert_only_reachable_files(source)
    catalog.drop_table("db.staged")
    assert content(table) == moved
    table.write(rows(table, events(2, 4, day="a", v="new")))
    if kind == "postponed":
        table.upkeep.postpone_compact()
    compact(table, full=True)
    expire(table, keep=1)
    assert_only_reachable_files(table)


def test_a_partition_goes_there_and_back(catalog: Catalog) -> None:
    table, source = pair(catalog)
    before = content(source)
    for _ in range(3):
        table.upkeep.exchange_partition("db.staged", A)
        source.upkeep.exchange_partition("db.t", A)
    assert content(source) == before
    names = [entry.file.file_name for entry in source.at().files()]
    assert max(map(len, names)) < 150


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (("db.none", A), TableNotFound, r"no table db\.none"),
        (("db.t", A), InvalidRequestError, "with itself"),
        (("staged", A), InvalidRequestError, "is not the name of a table"),
        (("db.../staged", A), InvalidRequestError, "is not the name of a table"),
        (("db.staged", []), InvalidRequestError, "say which partitions"),
        (("db.staged", [{"day": "z"}]), PartitionNotFound, "has no partition"),
        (("db.staged", [{"id": 1}]), InvalidRequestError, "'id' is not a partition key"),
    ],
)
def test_a_wrong_request_changes_neither_table(
    catalog: Catalog, asked: tuple[Any, Any], error: type[Exception], message: str
) -> None:
    table, source = pair(catalog)
    with pytest.raises(error, match=message):
        table.upkeep.exchange_partition(*asked)
    assert len(source.history.snapshots()) == 3
    assert table.history.latest_snapshot() is None


def test_a_partition_with_rows_of_its_own_is_not_replaced(catalog: Catalog) -> None:
    table, source = pair(catalog)
    table.write(rows(table, events(5, 6, day="a")))
    with pytest.raises(PartitionExists, match=r"not those of db\.staged; .*INSERT.*only.*nowhere"):
        table.upkeep.exchange_partition("db.staged", A)
    assert len(content(table)) == 1
    assert len(content(source)) == 9


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"keys": ("day", "id")}, "primary keys"),
        ({"partitions": ("day", "v")}, "partition keys"),
        ({"columns": {"id": "INT", "day": "STRING", "v": "STRING"}}, "columns"),
        ({"options": {"bucket": "2", "bucket-key": "id"}}, "options"),
    ],
)
def test_tables_of_other_schemas_exchange_nothing(
    catalog: Catalog, changes: dict[str, Any], what: str
) -> None:
    _, source = pair(catalog)
    other = new_table(catalog, name="db.other", **{"partitions": ("day",), **changes})
    with pytest.raises(InvalidRequestError, match=f"have other {what} "):
        other.upkeep.exchange_partition("db.staged", A)
    assert len(source.history.snapshots()) == 3


def test_tables_of_the_same_partition_keys_in_another_order_are_told_both_orders(
    catalog: Catalog,
) -> None:
    columns = {"id": "INT", "day": "STRING", "r": "STRING"}
    one, _ = (
        new_table(catalog, columns, name=f"db.{name}", partitions=keys)
        for name, keys in (("one", ("day", "r")), ("two", ("r", "day")))
    )
    with pytest.raises(InvalidRequestError, match=r"partition keys \(day, r against r, day\), and"):
        one.upkeep.exchange_partition("db.two", A)


def test_files_of_older_schemas_keep_their_columns(catalog: Catalog) -> None:
    table, source = pair(catalog)
    table, source = table.alter(AddColumn("w", "INT")), source.alter(AddColumn("w", "INT"))
    source.write(rows(source, [{"id": 9, "day": "a", "v": "x", "w": 1}]))
    moved = content(source, where="day = 'a'")
    table.upkeep.exchange_partition("db.staged", A)
    assert content(table) == moved


@pytest.mark.parametrize("which", ["the first commit", "the second commit"])
def test_after_a_crash_at_a_commit_another_call_ends_right(catalog: Catalog, which: str) -> None:
    table, source = pair(catalog)
    moved, stays = content(source, where="day = 'a'"), content(source, where="day = 'b'")
    fatal = puts_snapshot_of(table if which == "the first commit" else source)

    def die(call: Call) -> None:
        if fatal(call):
            raise Crashed

    dying = over(table, WatchedFiles(table.table_files.fs, before=die))
    with pytest.raises(Crashed):
        dying.upkeep.exchange_partition("db.staged", A)
    assert content(source, where="day = 'a'") == moved

    plan = table.upkeep.plan_exchange_partition("db.staged", A)
    assert plan.begun == (() if which == "the first commit" else ({"day": "a"},))
    result = table.upkeep.run(plan)
    assert (content(table), content(source)) == (moved, stays)
    assert (result.bytes_copied == 0) is (which == "the second commit")
    # What the dead process left behind is all there is to remove.
    remove_orphans(table)
    remove_orphans(source)


def test_rows_that_come_to_the_source_meanwhile_stay_there(catalog: Catalog) -> None:
    table, source = pair(catalog)
    late, done = rows(source, events(7, 8, day="a")), []

    def write(call: Call) -> None:
        if puts_snapshot_of(table)(call) and not done:
            done.append(source.write(late))

    seen = over(table, WatchedFiles(table.table_files.fs, before=write))
    with pytest.raises(StalePlan, match=r"nothing was dropped in db\.staged.*drop it in db\.t"):
        seen.upkeep.exchange_partition("db.staged", A)
    assert (len(content(table)), len(content(source))) == (6, 10)
    # The way out that the message names.
    table.upkeep.drop_partitions("day = 'a'")
    table.upkeep.exchange_partition("db.staged", A)
    assert (len(content(table)), len(content(source))) == (7, 3)


@pytest.mark.parametrize("which", ["the first commit", "the second commit"])
def test_two_calls_at_once_move_the_rows_once(catalog: Catalog, which: str) -> None:
    table, source = pair(catalog)
    moved, stays = content(source, where="day = 'a'"), content(source, where="day = 'b'")
    moment, done = puts_snapshot_of(table if which == "the first commit" else source), []

    def overtake(call: Call) -> None:
        if moment(call) and not done:
            done.append(call)
            table.upkeep.exchange_partition("db.staged", A)

    slow = over(table, WatchedFiles(table.table_files.fs, before=overtake))
    with pytest.raises(StalePlan):
        slow.upkeep.exchange_partition("db.staged", A)
    assert (content(table), content(source)) == (moved, stays)


MARKED = {"options": {"deletion-vectors.enabled": "true"}}


def begun(catalog: Catalog, settings: dict[str, Any], *, marks: bool) -> tuple[Table, Table]:
    """Two tables that both hold a partition, since an exchange died before the source changed."""
    source = new_table(catalog, name="db.staged", partitions=("day",), **settings)
    for day in "ab":
        source.write(rows(source, events(0, 5, day=day)))
    if marks:
        delete_first_rows(source)
    table = new_table(catalog, partitions=("day",), **settings)

    def die(call: Call) -> None:
        if puts_snapshot_of(source)(call):
            raise Crashed

    with pytest.raises(Crashed):
        over(table, WatchedFiles(table.table_files.fs, before=die)).upkeep.exchange_partition(
            "db.staged", A
        )
    assert content(table) == content(source, where="day = 'a'")
    return table, source


def write_more(table: Table) -> None:
    table.write(rows(table, events(3, 9, day="a", v="new")))


@pytest.mark.parametrize(
    ("settings", "marks", "change"),
    [
        ({}, False, write_more),
        (KINDS["dynamic"], False, write_more),
        (MARKED, False, delete_first_rows),
        (MARKED, True, delete_first_rows),
    ],
    ids=["rows", "rows of an indexed bucket", "first deleted rows", "further deleted rows"],
)
def test_after_a_crash_a_source_that_changed_is_not_dropped(
    catalog: Catalog, settings: dict[str, Any], marks: bool, change: Callable[[Table], object]
) -> None:
    table, source = begun(catalog, settings, marks=marks)
    change(source)
    moved = content(source, where="day = 'a'")
    with pytest.raises(PartitionExists, match=r"drop it in db\.t and exchange again"):
        table.upkeep.exchange_partition("db.staged", A)
    table.upkeep.drop_partitions("day = 'a'")
    table.upkeep.exchange_partition("db.staged", A)
    assert content(table) == moved
    assert content(source, where="day = 'a'") == []
    remove_orphans(source)


@pytest.mark.parametrize("marks", [False, True], ids=["the first", "further"])
def test_after_a_crash_rows_that_are_deleted_in_the_copies_stay_deleted(
    catalog: Catalog, marks: bool
) -> None:
    table, source = begun(catalog, MARKED, marks=marks)
    delete_first_rows(table, 2)
    here = content(table)
    if marks:
        with pytest.raises(PartitionExists, match=r"drop the partition in db\.staged"):
            table.upkeep.exchange_partition("db.staged", A)
        source.upkeep.drop_partitions("day = 'a'")
    else:
        table.upkeep.exchange_partition("db.staged", A)
    assert content(table) == here
    assert content(source, where="day = 'a'") == []
    remove_orphans(source)


def test_copies_that_are_compacted_before_a_plan_is_carried_out_make_it_stale(
    catalog: Catalog,
) -> None:
    table, source = begun(catalog, MARKED, marks=True)
    plan = table.upkeep.plan_exchange_partition("db.staged", A)
    compact(table, full=True)
    with pytest.raises(StalePlan, match=r"changes of its own.*plan again"):
        table.upkeep.run(plan)
    assert len(content(source, where="day = 'a'")) == 4
    remove_orphans(source)


def test_a_saved_plan_moves_what_it_shows(catalog: Catalog) -> None:
    table, source = pair(catalog)
    plan = ExchangePartitionPlan.from_json(
        table.upkeep.plan_exchange_partition("db.staged", A).to_json()
    )
    source.write(rows(source, events(7, 8, day="a")))
    with pytest.raises(StalePlan):
        table.upkeep.run(plan)
    assert content(table) == []


HOURLY = {"dt": "STRING", "hh": "INT", "id": "BIGINT", "v": "STRING"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "append": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "keyed": {"keys": ("dt", "hh", "id"), "options": {"bucket": "2"}},
}


def respecified(
    catalog: Catalog, name: str, layout: str, former: Sequence[str], first: int = 0
) -> Table:
    """A table whose files were written under other partition keys than it has now, `hh`."""
    table = new_table(catalog, HOURLY, name=name, partitions=former, **LAYOUTS[layout])
    hours = range(first, first + 2)
    given = [{"dt": d, "hh": h, "id": n, "v": d} for d in "ab" for h in hours for n in (1, 2)]
    table.write(rows(table, given))
    table.upkeep.respec(["hh"])
    table = catalog.table(name)
    if layout == "vectors":
        delete_first_rows(table)
    return table


@pytest.mark.sampled(each="layout")
@pytest.mark.parametrize("former", [("dt",), ("dt", "hh"), ()], ids=str)
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_tables_whose_keys_changed_exchange_both_ways(
    catalog: Catalog, layout: str, former: Sequence[str]
) -> None:
    table = respecified(catalog, "db.t", layout, former)
    source = respecified(catalog, "db.staged", layout, ("dt",), first=7)
    due = sorted(content(table) + content(source))
    for there, back, hour in ((table, source, 7), (source, table, 0), (source, table, 7)):
        there.upkeep.exchange_partition(back.name, [{"hh": hour}])
        for each in (table, source):
            # The copies lie in the table that has them, where nothing of the other looks.
            remove_orphans(each)
            assert_only_reachable_files(each)
        assert sorted(content(table) + content(source)) == due
    hours = [sorted(part.spec["hh"] for part in each.at().partitions()) for each in (table, source)]
    assert hours == [[1], [0, 7, 8]]
    expire(table)
    catalog.drop_table("db.t")
    expire(source)
    assert [row for row in due if '"hh": 1' not in row] == content(source)


def test_a_file_outside_of_the_source_is_not_exchanged(catalog: Catalog, tmp_path: Path) -> None:
    table, source = pair(catalog)
    (tmp_path / "there/day=c").mkdir(parents=True)
    taken = rows(source, events(0, 2, day="c")).drop_columns(["day"])
    pq.write_table(taken, tmp_path / "there/day=c/one.parquet")
    source.upkeep.add_partitions(str(tmp_path / "there"), age_ms=0)
    table = table.alter(SetOption("data-file.external-paths", f"file:{tmp_path}"))
    with pytest.raises(UnsupportedError, match=r"lies outside of db\.staged.*add-partitions"):
        table.upkeep.exchange_partition("db.staged", [{"day": "c"}])
    assert table.history.latest_snapshot() is None
    assert len(content(catalog.table("db.staged"), where="day = 'c'")) == 2


@pytest.mark.parametrize("layout", ["append", "vectors"])
def test_a_key_goes_after_an_exchange_without_a_compaction(catalog: Catalog, layout: str) -> None:
    settings = LAYOUTS[layout]
    source = new_table(catalog, HOURLY, name="db.staged", partitions=("dt", "hh"), **settings)
    for first in (1, 2):
        given = [{"dt": d, "hh": h, "id": first, "v": d} for d in "ab" for h in (7, 8)]
        source.write(rows(source, given))
    if layout == "vectors":
        delete_first_rows(source)
        source.write(rows(source, given))
    table = new_table(catalog, HOURLY, partitions=("dt", "hh"), **settings)
    due = content(source, where="dt = 'a'")
    # Copies of one file that went there and back are two files, of one origin.
    for hour, there, back in ((7, table, source), (7, source, table), (8, table, source)):
        there.upkeep.exchange_partition(back.name, [{"dt": "a", "hh": hour}])
    table.upkeep.exchange_partition("db.staged", [{"dt": "a", "hh": 7}])
    names = {each.file.file_name for each in table.at().files()}
    table.upkeep.respec(["dt"])
    table = catalog.table("db.t")
    assert {each.file.file_name for each in table.at().files()} == names
    assert content(table) == due
    table.upkeep.respec([])
    table = catalog.table("db.t")
    assert content(table) == content(table, where="dt = 'a'") == due
    expire(source)
    expire(table)
    assert_only_reachable_files(table)
    compact(table, full=True)
    assert content(table) == due


def test_a_copy_of_a_file_that_was_taken_over_does_not_tell_that_it_has_its_columns(
    catalog: Catalog, tmp_path: Path
) -> None:
    table, source = pair(catalog)
    (tmp_path / "there/day=c").mkdir(parents=True)
    taken = rows(source, events(0, 2, day="c")).drop_columns(["day"])
    pq.write_table(taken, tmp_path / "there/day=c/one.parquet")
    source.upkeep.add_partitions(str(tmp_path / "there"), copy_files=True, age_ms=0)
    table.upkeep.exchange_partition("db.staged", [{"day": "c"}])
    due = content(table)
    with pytest.raises(UnsupportedError, match=r"1 data files .* taken over"):
        table.upkeep.plan_respec([])
    table.upkeep.run(table.upkeep.plan_sort_compact(["id"]))
    table.upkeep.respec([])
    assert content(catalog.table("db.t")) == due


@pytest.mark.parametrize("layout", ["append", "keyed"])
def test_an_exchange_whose_source_gets_other_keys_meanwhile_says_where_the_rows_are(
    catalog: Catalog, layout: str
) -> None:
    settings = LAYOUTS[layout]
    source = new_table(catalog, HOURLY, name="db.staged", partitions=("dt", "hh"), **settings)
    source.write(rows(source, [{"dt": d, "hh": 7, "id": 1, "v": d} for d in "ab"]))
    table = new_table(catalog, HOURLY, partitions=("dt", "hh"), **settings)
    due, done = content(source), []

    def change(call: Call) -> None:
        if puts_snapshot_of(table)(call) and not done:
            done.append(catalog.table("db.staged").upkeep.respec(["dt"]))

    asked = [{"dt": "a", "hh": 7}]
    seen = over(table, WatchedFiles(table.table_files.fs, before=change))
    with pytest.raises(SchemaMoved, match=r"copies .*db\.staged has all.*drop it in db\.t"):
        seen.upkeep.exchange_partition("db.staged", asked)
    assert content(catalog.table("db.staged")) == due
    # The way out that the message names.
    table.upkeep.drop_partitions(partitions=asked)
    table.upkeep.respec(["dt"])
    table = catalog.table("db.t")
    table.upkeep.exchange_partition("db.staged", [{"dt": "a"}])
    assert sorted(content(table) + content(catalog.table("db.staged"))) == due
    for name in ("db.t", "db.staged"):
        remove_orphans(catalog.table(name))


@pytest.mark.parametrize("layout", ["append", "keyed"])
def test_copies_that_are_the_only_rows_are_kept(catalog: Catalog, layout: str) -> None:
    settings = LAYOUTS[layout]
    source = new_table(catalog, HOURLY, name="db.staged", partitions=("dt", "hh"), **settings)
    source.write(rows(source, [{"dt": d, "hh": 7, "id": 1, "v": d} for d in "ab"]))
    table = new_table(catalog, HOURLY, partitions=("dt", "hh"), **settings)
    due, done = content(source), []
    asked = [{"dt": "a", "hh": 7}]

    def overtake(call: Call) -> None:
        if puts_snapshot_of(source)(call) and not done:
            done.append(catalog.table("db.t").upkeep.exchange_partition("db.staged", asked))
            catalog.table("db.staged").upkeep.respec(["dt"])

    seen = over(table, WatchedFiles(table.table_files.fs, before=overtake))
    with pytest.raises(SchemaMoved, match=r"compare.*what you drop may be nowhere else"):
        seen.upkeep.exchange_partition("db.staged", asked)
    assert done
    source = catalog.table("db.staged")
    assert content(source, where="dt = 'a'") == []
    assert sorted(content(catalog.table("db.t")) + content(source)) == due
    for name in ("db.t", "db.staged"):
        remove_orphans(catalog.table(name))
