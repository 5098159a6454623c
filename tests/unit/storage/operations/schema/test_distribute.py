"""Other bucket keys for a table with rows: every row of every state that is kept is found."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import Catalog, Table, TableDistribution
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.errors import (
    CommitConflictError,
    SchemaMoved,
    UnavailableError,
    UnsupportedError,
)
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import content, events, expire, new_table, rows
from tests.support.tables.meddling import Meddling

COLUMNS = {"id": "BIGINT", "day": "STRING", "k": "INT", "v": "STRING"}
BY_K = TableDistribution.of_hash(["k"], 3)
ONE = TableDistribution.of_unknown(1)


def made(catalog: Catalog, buckets: int = 1, *, keyed: bool = True) -> Table:
    """Two partitions of three commits; of a keyed table, rows are replaced and deleted."""
    table = new_table(
        catalog,
        COLUMNS,
        partitions=["day"],
        keys=["day", "k", "id"] if keyed else (),
        options={"bucket": str(buckets), "bucket-key": "id"},
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
    options, scan = table.options, table.scan()
    fields = table.schema.fields_of(options.bucket_keys)
    for split in scan.splits:
        for found in scan.reader.read(split):
            buckets = buckets_of(found, fields, options.bucket, options.bucket_function)
            assert set(buckets.tolist()) <= {split.bucket}


def assert_found(table: Table, expected: list[str]) -> None:
    assert content(table) == expected
    for where, text in (*((f"k = {k}", f'"k": {k},') for k in range(5)), ("id = 4", '"id": 4,')):
        assert content(table, where=where) == [each for each in expected if text in each]


@pytest.mark.mission("BK8", "BK18", "SQ15")
@pytest.mark.parametrize("keyed", [True, False])
def test_rows_of_one_bucket_move_to_buckets_of_other_keys(catalog: Catalog, keyed: bool) -> None:
    table = made(catalog, keyed=keyed)
    before, last = content(table), table.table_files.snapshots.latest_id()
    assert last is not None
    moved = table.distribute(BY_K)
    assert moved.distribution == BY_K
    assert {each.total_buckets for each in moved.at().files()} == {3}
    assert_found(catalog.table("db.t"), before)
    assert_in_its_bucket(moved)
    moved.write(rows(moved, numbered(0, 2, v="later")))
    assert_in_its_bucket(moved)
    assert moved.read().num_rows == len(before) + (0 if keyed else 2)
    if keyed:
        found = moved.lookup(rows(moved, numbered(0, 2)).select(["day", "k", "id"]))
        assert sorted(found.column("v").to_pylist()) == ["later0", "later1"]
    # The past is read, and comes back.
    then = moved.at(snapshot=last)
    for k in range(5):
        assert content(then, where=f"k = {k}") == [each for each in before if f'"k": {k},' in each]
    moved.history.rollback(snapshot=last, grace_ms=0)
    assert_found(catalog.table("db.t"), before)


@pytest.mark.mission("BK8")
def test_what_lies_in_buckets_of_the_former_keys_is_in_the_way_until_it_is_gone(
    catalog: Catalog,
) -> None:
    table = made(catalog, 3)
    before = content(table)
    table.history.create_tag("t", snapshot=2)
    with pytest.raises(UnsupportedError, match=r"by other bucket keys \(id\) in new partitions"):
        table.distribute(BY_K)
    table = table.distribute(ONE)
    assert table.distribution == TableDistribution.of_hash(["id"], 1)
    with pytest.raises(UnsupportedError, match="in snapshot 1, in which clients would"):
        table.distribute(BY_K)
    expire(table)
    with pytest.raises(UnsupportedError, match="in tag t"):
        table.distribute(BY_K)
    table.history.delete_tags("t", grace_ms=0)
    table.history.create_branch("b", snapshot=table.table_files.snapshots.latest_id())
    with pytest.raises(UnsupportedError, match="in branch b"):
        table.distribute(BY_K)
    table.history.delete_branch("b", grace_ms=0)
    assert_found(table.distribute(BY_K), before)


def test_a_writer_that_knew_the_former_keys_is_refused(catalog: Catalog) -> None:
    old = made(catalog, 3)
    staged = old.stage(rows(old, numbered(50, 60)))
    one = old.distribute(ONE)
    expire(one)
    moved = one.distribute(BY_K)
    before = content(moved)
    with pytest.raises(SchemaMoved, match=r"the keys of db\.t changed"):
        moved.commit(staged)
    with pytest.raises(SchemaMoved, match=r"db\.t has other bucket keys now"):
        old.write(rows(old, numbered(50, 60, day="c")))
    moved.abort(staged)
    assert content(moved) == before


@pytest.mark.parametrize("fail_at", range(1, 10, 2))
def test_a_run_that_stops_leaves_every_row_and_the_next_one_goes_on(
    catalog: Catalog, fail_at: int
) -> None:
    table = made(catalog)
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


def test_a_partition_that_others_write_meanwhile_moves_the_next_time(catalog: Catalog) -> None:
    table = made(catalog)

    def write() -> None:
        table.write(rows(table, numbered(70, 80)))

    with pytest.raises((CommitConflictError, SchemaMoved)):
        table.distribute(BY_K, Meddling(before=write))
    now = catalog.table("db.t")
    before = content(now)
    assert_found(now.distribute(BY_K), before)
    assert_in_its_bucket(catalog.table("db.t"))
