"""An exchange beside other verbs, and what follows a stopped one: no row is lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    PartitionExists,
    SchemaMoved,
    StalePlan,
)
from lakewright.storage.operations.commit.commit_loop import commit_change
from lakewright.storage.spec.commit import Change, Committable
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles, interrupted, over
from tests.support.tables.builders import (
    compact,
    content,
    events,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.invariants import assert_only_reachable_files
from tests.unit.storage.operations.partitions.test_drop_partitions import KINDS
from tests.unit.storage.operations.partitions.test_exchange_partition import (
    HOURLY,
    A,
    pair,
    puts_snapshot_of,
)

WRITES_KINDS = ["append", "bucketed", "dynamic", "keyed", "vectors"]


def everything(*tables: Table) -> list[str]:
    return sorted(each for table in tables for each in content(table))


def ids(*tables: Table, **read: Any) -> list[int]:
    return sorted(n for table in tables for n in table.read(**read)["id"].to_pylist())


def exchange_stopped(table: Table, source: Table) -> None:
    """An exchange that dies after the commit in the target, before the one in the source."""

    def die(call: Call) -> None:
        if puts_snapshot_of(source)(call):
            raise Crashed

    dying = over(table, WatchedFiles(table.table_files.fs, before=die))
    with pytest.raises(Crashed):
        dying.upkeep.exchange_partition("db.staged", A)


def after_copies(table: Table, source: Table, act: Callable[[], object]) -> Table:
    """The table, on which others act once the copies are committed and the source is opened."""
    put, done = [], []

    def look(call: Call) -> None:
        if puts_snapshot_of(table)(call):
            put.append(call)
        elif put and not done and call.path.startswith(source.table_files.paths.root):
            done.append(call)
            act()

    return over(table, WatchedFiles(table.table_files.fs, before=look))


def assert_clean(*tables: Table) -> None:
    """What died left files that orphan removal finds; all others are reachable."""
    for table in tables:
        remove_orphans(table)
        assert_only_reachable_files(table)


REMOVALS: dict[str, Callable[[Table], object]] = {
    "a drop": lambda table: table.upkeep.drop_partitions("day = 'a'"),
    "a rollback": lambda table: table.history.rollback(snapshot=1, grace_ms=0),
}


@pytest.mark.sampled(each="kind")
@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize("kind", WRITES_KINDS)
def test_a_partition_whose_copies_were_removed_stays_in_the_source(
    catalog: Catalog, kind: str, removal: str
) -> None:
    table, source = pair(catalog, kind)
    table.write(rows(table, events(9, 10, day="c")))
    due = everything(table, source)
    remove = REMOVALS[removal]
    slow = after_copies(table, source, lambda: remove(catalog.table("db.t")))
    with pytest.raises(StalePlan, match=r"nothing was dropped in db\.staged.*exchange again"):
        slow.upkeep.exchange_partition("db.staged", A)
    assert everything(table, source) == due
    # The way on that the message names.
    table.upkeep.exchange_partition("db.staged", A)
    assert everything(table, source) == due
    assert content(source, where="day = 'a'") == []
    assert_clean(table, source)


def test_each_attempt_to_drop_in_the_source_looks_for_the_copies(catalog: Catalog) -> None:
    table, source = pair(catalog)
    late = rows(source, events(7, 8, day="b"))
    due = everything(table, source)

    def act() -> None:
        # The commit in the source loses its race, and goes on with another attempt.
        source.write(late)
        catalog.table("db.t").upkeep.drop_partitions("day = 'a'")

    slow, _ = interrupted(table, when=puts_snapshot_of(source), meanwhile=act)
    with pytest.raises(StalePlan, match=r"nothing was dropped in db\.staged"):
        slow.upkeep.exchange_partition("db.staged", A)
    assert len(everything(table, source)) == len(due) + 1
    assert set(everything(table, source)) > set(due)


@pytest.mark.parametrize("act", ["a compaction", "a write", "both"])
def test_copies_that_others_compact_or_write_to_between_the_commits_are_no_loss(
    catalog: Catalog, act: str
) -> None:
    table, source = pair(catalog)
    due, late = ids(source), rows(table, events(70, 71, day="a"))

    def do() -> None:
        if act != "a compaction":
            table.write(late)
        if act != "a write":
            compact(table, full=True)

    slow = after_copies(table, source, do)
    if act == "a write":
        slow.upkeep.exchange_partition("db.staged", A)
    else:
        with pytest.raises(StalePlan, match=r"removed copied files.*drop the partition in db\.st"):
            slow.upkeep.exchange_partition("db.staged", A)
        source.upkeep.drop_partitions("day = 'a'")
    assert ids(table, source) == sorted([*due, *([] if act == "a compaction" else [70])])
    assert_clean(table, source)


def moved_on(catalog: Catalog) -> Table:
    catalog.table("db.third").upkeep.exchange_partition("db.t", A)
    return catalog.table("db.third")


def renamed(catalog: Catalog) -> Table:
    catalog.table("db.t").upkeep.rename_partition({"day": "a"}, {"day": "z"})
    return catalog.table("db.t")


def dropped(catalog: Catalog) -> Table:
    catalog.table("db.t").upkeep.drop_partitions("day = 'a'")
    return catalog.table("db.t")


@pytest.mark.sampled(each="kind")
@pytest.mark.parametrize("next_act", [moved_on, renamed, dropped])
@pytest.mark.parametrize("kind", WRITES_KINDS)
def test_rows_that_another_call_moved_do_not_come_again(
    catalog: Catalog, kind: str, next_act: Callable[[Catalog], Table]
) -> None:
    table, source = pair(catalog, kind)
    third = new_table(catalog, name="db.third", partitions=("day",), **KINDS[kind])
    due = [] if next_act is dropped else ids(source, where="day = 'a'")

    def overtake() -> None:
        catalog.table("db.t").upkeep.exchange_partition("db.staged", A)
        next_act(catalog)

    slow, _ = interrupted(table, when=puts_snapshot_of(table), meanwhile=overtake)
    with pytest.raises(StalePlan, match=r"nothing was committed to db\.t$"):
        slow.upkeep.exchange_partition("db.staged", A)
    assert ids(table, third) == due
    assert ids(source, where="day = 'a'") == []
    for each in (table, source, third):
        assert_only_reachable_files(each)


@pytest.mark.parametrize("kind", WRITES_KINDS)
def test_a_stopped_exchange_goes_on_after_the_table_got_more_rows(
    catalog: Catalog, kind: str
) -> None:
    table, source = pair(catalog, kind)
    exchange_stopped(table, source)
    table.write(rows(table, events(2, 9, day="a", v="new")))
    due, others = content(table), content(source, where="day = 'b'")
    table.upkeep.exchange_partition("db.staged", A)
    assert (content(table), content(source)) == (due, others)
    assert_clean(table, source)


def follow(told: str, table: Table, source: Table) -> None:
    """What the refusal says, to the letter."""
    assert "lakewright lease list db.t" in told
    here, there = content(table, where="day = 'a'"), content(source, where="day = 'a'")
    lacking = list(there)
    for each in here:
        if each in lacking:
            lacking.remove(each)
    if lacking and len(there) - len(lacking) == len(here):
        assert "if db.staged has all rows of db.t, drop it in db.t and exchange again" in told
        table.upkeep.drop_partitions("day = 'a'")
        table.upkeep.exchange_partition("db.staged", A)
        return
    assert "INSERT into db.t only the rows that it lacks, and drop the partition in db.st" in told
    missing = [json.loads(each) for each in lacking]
    if missing:
        table.write(rows(table, missing))
    source.upkeep.drop_partitions("day = 'a'")


@pytest.mark.parametrize("own", [False, True], ids=["a compaction", "rows of its own"])
def test_copies_that_were_compacted_are_refused_with_a_way_that_keeps_each_row_once(
    catalog: Catalog, own: bool
) -> None:
    source = new_table(catalog, name="db.staged", partitions=("day",))
    for first in (0, 5):
        source.write(rows(source, events(first, first + 5)))
    table = new_table(catalog, partitions=("day",))
    exchange_stopped(table, source)
    source.write(rows(source, events(20, 21)))
    if own:
        table.write(rows(table, events(30, 31)))
    compact(table, full=True)
    with pytest.raises(PartitionExists) as told:
        table.upkeep.exchange_partition("db.staged", A)
    follow(str(told.value), table, source)
    assert ids(table, source) == [*range(10), 20, *([30] if own else [])]
    assert content(source, where="day = 'a'") == []
    assert_clean(table, source)


def delete_file(table: Table) -> None:
    """A copy-on-write DELETE of another client that matches all rows of the first file."""
    first = table.at().files()[0]
    commit_change(
        table.table_files,
        lambda _: Change(entries=[first.removed()]),
        Committable(
            user="delete",
            kind=CommitKind.OVERWRITE,
            base_id=table.history.snapshots()[-1].id,
        ),
    )


@pytest.mark.parametrize("grows", [False, True], ids=["as it was", "with more rows"])
def test_a_copied_file_that_was_deleted_does_not_come_back_by_itself(
    catalog: Catalog, grows: bool
) -> None:
    source = new_table(catalog, name="db.staged", partitions=("day",))
    for first in (0, 5):
        source.write(rows(source, events(first, first + 5)))
    table = new_table(catalog, partitions=("day",))
    exchange_stopped(table, source)
    delete_file(table)
    if grows:
        source.write(rows(source, events(20, 21)))
    left = ids(table)
    assert len(left) == 5
    with pytest.raises(PartitionExists, match=r"not those of db\.staged"):
        table.upkeep.exchange_partition("db.staged", A)
    assert ids(table) == left
    assert len(ids(source)) == 10 + grows
    # To keep it as it is.
    if grows:
        table.write(source.read(where="id = 20"))
    source.upkeep.drop_partitions("day = 'a'")
    assert ids(table, source) == [*left, *([20] if grows else [])]
    assert_clean(table, source)


def test_rows_of_the_targets_own_outlive_the_way_out_of_other_keys(catalog: Catalog) -> None:
    source = new_table(catalog, HOURLY, name="db.staged", partitions=("dt", "hh"))
    given = [{"dt": "a", "hh": 7, "id": n, "v": "x"} for n in (1, 2)]
    source.write(rows(source, given))
    table = new_table(catalog, HOURLY, partitions=("dt", "hh"))
    own = rows(table, [{"dt": "a", "hh": 7, "id": 9, "v": "own"}])
    asked = [{"dt": "a", "hh": 7}]

    def act() -> None:
        table.write(own)
        catalog.table("db.staged").upkeep.respec(["dt"])

    slow, _ = interrupted(table, when=puts_snapshot_of(source), meanwhile=act)
    with pytest.raises(SchemaMoved, match=r"has all rows of db\.t.*INSERT into"):
        slow.upkeep.exchange_partition("db.staged", asked)
    # The source lacks a row of the target: it is inserted, and the partition dropped here.
    catalog.table("db.staged").write(own)
    table.upkeep.drop_partitions(partitions=asked)
    table.upkeep.respec(["dt"])
    table = catalog.table("db.t")
    table.upkeep.exchange_partition("db.staged", [{"dt": "a"}])
    assert ids(table, catalog.table("db.staged")) == [1, 2, 9]
