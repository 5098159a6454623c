"""Other bucket keys for a table with rows: every row is found, before, amid and afterwards."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from lakewright.storage import Catalog, Table, TableDistribution
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.errors import (
    CommitConflictError,
    NotRevertible,
    SchemaMoved,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.meddling import Meddling

COLUMNS = {"id": "BIGINT", "day": "STRING", "k": "INT", "v": "STRING"}
BY_K = TableDistribution.of_hash(["k"], 3)


def made(catalog: Catalog, *, keyed: bool, **options: str) -> Table:
    """Two partitions of three commits; of a keyed table, rows are replaced and deleted."""
    table = new_table(
        catalog,
        COLUMNS,
        partitions=["day"],
        keys=["day", "k", "id"] if keyed else (),
        options={"bucket": "3", "bucket-key": "id", **options},
    )
    for number in range(3):
        table.write(rows(table, [*numbered(number, 30, v=f"{number}-"), *numbered(0, 9, day="b")]))
    if keyed:
        table.write(rows(table, numbered(3, 6), ["-D"] * 3))
    return table


def numbered(first: int, last: int, **said: Any) -> list[dict[str, Any]]:
    return [{**each, "k": each["id"] % 5} for each in events(first, last, **said)]


def assert_in_its_bucket(table: Table) -> None:
    """Every row lies in the bucket of its bucket keys."""
    options = table.options
    fields = table.schema.fields_of(options.bucket_keys)
    scan = table.scan()
    for split in scan.splits:
        for found in scan.reader.read(split):
            buckets = buckets_of(found, fields, options.bucket, options.bucket_function)
            assert set(buckets.tolist()) <= {split.bucket}


def assert_found(table: Table, expected: list[str]) -> None:
    assert content(table) == expected
    for k in range(5):
        there = [each for each in expected if f'"k": {k},' in each]
        assert content(table, where=f"k = {k}") == there
    for number in (0, 4, 29):
        there = [each for each in expected if f'"id": {number},' in each]
        assert content(table, where=f"id = {number}") == there


@pytest.mark.mission("BK8", "BK18", "SQ15")
@pytest.mark.parametrize("keyed", [True, False])
def test_rows_move_to_buckets_of_other_keys_and_every_row_is_found(
    catalog: Catalog, keyed: bool
) -> None:
    table = made(catalog, keyed=keyed)
    before = content(table)
    moved = table.distribute(BY_K)
    assert moved.distribution == BY_K
    assert_found(moved, before)
    assert_found(catalog.table("db.t"), before)
    assert {each.total_buckets for each in moved.at().files()} == {3}
    assert_in_its_bucket(moved)
    assert_only_reachable_files(moved)
    moved.write(rows(moved, numbered(0, 2, v="later")))
    assert_in_its_bucket(moved)
    assert moved.read().num_rows == len(before) + (0 if keyed else 2)
    if keyed:
        found = moved.lookup(rows(moved, numbered(0, 2)).select(["day", "k", "id"]))
        assert sorted(found.column("v").to_pylist()) == ["later0", "later1"]


@pytest.mark.parametrize("keyed", [True, False])
def test_the_past_is_read_as_it_was_and_does_not_come_back(catalog: Catalog, keyed: bool) -> None:
    table = made(catalog, keyed=keyed)
    before, last = content(table), table.table_files.snapshots.latest_id()
    assert last is not None
    moved = table.distribute(BY_K)
    then = moved.at(snapshot=last)
    assert content(then) == before
    for k in range(5):
        assert content(then, where=f"k = {k}") == [each for each in before if f'"k": {k},' in each]
    if keyed:
        found = then.lookup(rows(moved, numbered(7, 9)).select(["day", "k", "id"]))
        assert found.num_rows == 2
    with pytest.raises(UnsupportedError, match="before the table got its bucket keys"):
        moved.history.plan_rollback(snapshot=last)
    with pytest.raises(NotRevertible, match="the table has got other bucket keys since"):
        moved.history.plan_revert(last)
    with pytest.raises(UnsupportedError, match="got other bucket keys amid these changes"):
        moved.read_changes(last - 1, last)


def test_rows_that_were_staged_before_are_refused(catalog: Catalog) -> None:
    table = made(catalog, keyed=True)
    staged = table.stage(rows(table, numbered(50, 60)))
    moved = table.distribute(BY_K)
    before = content(moved)
    with pytest.raises(SchemaMoved, match=r"the keys of db\.t changed"):
        moved.commit(staged)
    with pytest.raises(SchemaMoved, match=r"db\.t has other bucket keys now"):
        table.write(rows(table, numbered(50, 60, day="c")))
    table.abort(staged)
    assert content(moved) == before


@pytest.mark.parametrize("fail_at", range(1, 12, 2))
def test_a_run_that_stops_leaves_every_row_and_the_next_one_goes_on(
    catalog: Catalog, fail_at: int
) -> None:
    table = made(catalog, keyed=True)
    before = content(table)
    broken, seen = watched(
        table,
        fail_at=fail_at,
        counts=lambda call: call.name == "open_output" or "/schema/schema-" in call.path,
    )
    with pytest.raises(UnavailableError):
        broken.distribute(BY_K)
    assert seen.failed is not None
    now = catalog.table("db.t")
    assert_found(now, before)
    assert_found(now.distribute(BY_K), before)
    assert_in_its_bucket(catalog.table("db.t"))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_others_that_write_meanwhile_are_refused_or_kept(catalog: Catalog, at: int) -> None:
    table = made(catalog, keyed=True)
    rounds = iter(range(99))
    refused: list[StorageError] = []

    def write() -> None:
        if next(rounds) == at:
            for each in (table, catalog.table("db.t")):
                try:
                    each.write(rows(each, numbered(70, 80, day="c")))
                except StorageError as error:
                    refused.append(error)

    before = content(table)
    with suppress(CommitConflictError):
        table.distribute(BY_K, Meddling(before=write))
    now = catalog.table("db.t").distribute(BY_K)
    added = [] if len(refused) == 2 else content(now, where="day = 'c'")
    assert_found(now, sorted([*before, *added]))
    assert len(added) in (0, 10)
    assert_in_its_bucket(now)


def test_a_branch_and_pending_batches_rule_other_bucket_keys_out(catalog: Catalog) -> None:
    table = made(catalog, keyed=True)
    table.keep_pending(table.stage(rows(table, numbered(50, 60)), commit_identifier=1))
    with pytest.raises(UnsupportedError, match="1 pending batches"):
        table.distribute(BY_K)
    for each in table.pending_batches():
        table.abort(each)
    table.history.create_branch("b")
    with pytest.raises(UnsupportedError, match="delete it first"):
        table.distribute(BY_K)
    assert catalog.table("db.t").schema == table.schema
    # Another number of buckets alone concerns neither.
    assert table.distribute(TableDistribution.of_unknown(2)).options.bucket == 2
