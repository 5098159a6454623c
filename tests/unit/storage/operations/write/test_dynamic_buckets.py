"""Dynamic buckets: where new keys go, that known ones stay, and one writer at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.bucket_hash import hashes_of
from lakewright.storage.errors import (
    CorruptionError,
    IndexMoved,
    InvalidOption,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.operations.state.assign_buckets import DynamicPartition
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.supported_options import Use, check_supported
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    spec,
    values_of,
    with_options,
)
from tests.support.tables.invariants import assert_only_reachable_files

DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}


def dynamic_table(catalog: Catalog, *, name: str = "db.t", **options: str) -> Table:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    settings = {**DYNAMIC, **{f"dynamic-bucket.{key}": value for key, value in named.items()}}
    return new_table(catalog, name=name, partitions=["day"], keys=["day", "id"], options=settings)


def indexes(table: Table) -> list[IndexEntry]:
    return list(index_entries(table.table_files, table.history.latest_snapshot()))


def buckets_of_keys(table: Table, day: str = "a") -> dict[int, set[int]]:
    """The keys of each bucket, by the data files themselves."""
    found: dict[int, set[int]] = {}
    for split in table.scan().plan.splits:
        for meta in split.files:
            path = table.table_files.data_file_path(split.place, meta)
            held = pq.read_table(path, columns=["id", "day"], partitioning=None)
            ids = {row["id"] for row in held.to_pylist() if row["day"] == day}
            if ids:
                found.setdefault(split.bucket, set()).update(ids)
    return found


def hashes(table: Table, ids: list[int]) -> list[int]:
    found = hashes_of(pa.table({"id": pa.array(ids, pa.int64())}), table.schema.key_fields)
    return sorted(found.tolist())


def test_new_keys_fill_a_bucket_and_then_the_next_and_stay_there(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, events(0, 5)))
    assert buckets_of_keys(table) == {0: {0, 1, 2}, 1: {3, 4}}
    # Known keys stay, and new ones fill up what is not full yet.
    table.write(rows(table, events(2, 8, v="new")))
    assert buckets_of_keys(table) == {0: {0, 1, 2}, 1: {3, 4, 5}, 2: {6, 7}}
    assert values_of(table, "v") == ["new2", "new3", "new4", "new5", "new6", "new7", "v0", "v1"]
    assert {entry.total_buckets for entry in table.at().files()} == {-1}
    compact(table, full=True)
    table.write(rows(table, events(0, 9, v="again")))
    expire(table)
    assert buckets_of_keys(table) == {0: {0, 1, 2}, 1: {3, 4, 5}, 2: {6, 7, 8}}
    assert values_of(table, "v") == [f"again{number}" for number in range(9)]


def test_the_index_of_a_bucket_holds_the_hashes_of_its_keys(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, events(0, 4)))
    table.write(rows(table, [*events(4, 5), *events(0, 1, day="b")]))
    found = {
        (table.table_files.partitions.of_row(entry.partition).spec["day"], entry.bucket): entry.file
        for entry in indexes(table)
    }
    assert {place: index.row_count for place, index in found.items()} == {
        ("a", 0): 3,
        ("a", 1): 2,
        ("b", 0): 1,
    }
    held = table.table_files.indexes.read_hash_index(found["a", 1])
    assert sorted(held.tolist()) == hashes(table, [3, 4])
    data = table.table_files.fs.read_bytes(table.table_files.paths.index(found["a", 1].file_name))
    assert len(data) == found["a", 1].file_size == 8
    assert sorted(np.frombuffer(data, ">i4").tolist()) == hashes(table, [3, 4])


def test_a_write_of_known_keys_leaves_the_index_as_it_is(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, events(0, 4)))
    before = table.history.latest_snapshot()
    table.write(rows(table, events(1, 4), ["-D", "+I", "+U"]))
    after = table.history.latest_snapshot()
    assert before is not None
    assert after is not None
    assert after.index_manifest == before.index_manifest
    # A deleted key keeps its bucket.
    table.write(rows(table, events(1, 2, v="back")))
    assert buckets_of_keys(table) == {0: {0, 1, 2}, 1: {3}}
    assert values_of(table, "v") == ["back1", "v0", "v2", "v3"]


@pytest.mark.parametrize(
    ("options", "later"),
    [
        ({"initial_buckets": "2", "target_row_num": "100"}, 40),
        # Full buckets take more when there may be no others.
        ({"max_buckets": "2", "target_row_num": "5"}, 50),
    ],
    ids=["begin with several", "have no others"],
)
def test_partitions_have_as_many_buckets_as_the_table_says(
    catalog: Catalog, options: dict[str, str], later: int
) -> None:
    table = dynamic_table(catalog, **options)
    table.write(rows(table, events(0, 40)))
    found = buckets_of_keys(table)
    assert set(found) == {0, 1}
    assert min(len(held) for held in found.values()) > 10
    table.write(rows(table, events(0, later, v="x")))
    assert table.read().num_rows == later
    again = buckets_of_keys(table)
    assert all(set(found[bucket]) <= set(again[bucket]) for bucket in (0, 1))
    assert set(again) == {0, 1}


def test_two_writers_at_once_do_not_both_win(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, events(0, 2)))
    first = table.stage(rows(table, events(2, 4, v="first")))
    second = table.stage(rows(table, events(3, 5, v="second")))
    table.commit(first)
    with pytest.raises(IndexMoved, match=r"bucket \d in partition day=a of db.t"):
        table.commit(second)
    table.abort(second)
    assert_only_reachable_files(table)
    table.write(rows(table, events(3, 5, v="second")))
    assert values_of(table, "v") == ["first2", "second3", "second4", "v0", "v1"]


def test_two_first_writers_of_a_bucket_do_not_both_win(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    staged = [table.stage(rows(table, events(n, n + 1))) for n in range(2)]
    table.commit(staged[0])
    with pytest.raises(IndexMoved, match="one writer at a time"):
        table.commit(staged[1])
    table.abort(staged[1])
    assert values_of(table, "id") == [0]


def test_writers_of_different_partitions_are_not_in_each_others_way(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    staged = [table.stage(rows(table, events(0, 4, day=day))) for day in "ab"]
    for each in staged:
        table.commit(each)
    assert table.read().num_rows == 8


def test_rows_for_buckets_that_an_overwrite_took_away_are_refused(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, events(0, 6)))
    late = table.stage(rows(table, events(4, 5, v="late")))
    table.write(rows(table, events(4, 6, v="over")), mode="overwrite")
    # Key 4 moved to bucket 0, so the late row for bucket 1 would double it.
    with pytest.raises(IndexMoved):
        table.commit(late)
    table.abort(late)
    assert values_of(table, "v") == ["over4", "over5"]


def test_giving_up_a_write_of_known_keys_keeps_the_index(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, events(0, 2)))
    assert table.abort(table.stage(rows(table, events(0, 2, v="no")))) == 1
    table.write(rows(table, events(0, 2, v="yes")))
    assert values_of(table, "v") == ["yes0", "yes1"]


def test_an_overwrite_gives_keys_their_buckets_anew(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, [*events(0, 7), *events(0, 2, day="b")]))
    table.write(rows(table, events(5, 9, v="over")), mode="overwrite")
    assert buckets_of_keys(table) == {0: {5, 6, 7}, 1: {8}}
    assert sorted((each.bucket, each.file.row_count) for each in indexes(table)) == [
        (0, 2),
        (0, 3),
        (1, 1),
    ]
    expire(table)
    table.write(rows(table, [*events(5, 10, v="z"), *events(1, 2, day="b", v="z")]))
    assert table.read().num_rows == 7


def test_an_index_that_is_missing_or_cut_short_is_refused(unchecked_catalog: Catalog) -> None:
    table = dynamic_table(unchecked_catalog)
    table.write(rows(table, events(0, 2)))
    (entry,) = indexes(table)
    path = table.table_files.paths.index(entry.file.file_name)
    data = table.table_files.fs.read_bytes(path)
    before = content(table)
    for damage in (
        lambda: table.table_files.fs.replace(path, data[:5]),
        lambda: table.table_files.fs.delete(path),
    ):
        damage()
        with pytest.raises(CorruptionError, match=entry.file.file_name):
            table.write(rows(table, events(0, 1)))
        assert content(table) == before
    # Overwriting needs no index, and makes one.
    table.write(rows(table, events(0, 2)), mode="overwrite")
    table.write(rows(table, events(0, 2, v="x")))
    assert values_of(table, "v") == ["x0", "x1"]


def test_a_bucket_without_an_index_is_refused(unchecked_catalog: Catalog) -> None:
    table = dynamic_table(unchecked_catalog)
    staged = table.stage(rows(table, events(0, 2)))
    bare = tuple(replace(message, new_indexes=()) for message in staged.messages)
    table.commit(replace(staged, messages=bare))
    with pytest.raises(
        CorruptionError, match=r"bucket 0 of partition .* has data files and no hash"
    ):
        table.write(rows(table, events(0, 1)))
    # Other partitions go on.
    table.write(rows(table, events(0, 1, day="b")))


def test_keys_that_may_move_between_partitions_are_refused_for_writing(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    crossing = replace(table.schema, primary_keys=("id",))
    with pytest.raises(UnsupportedError, match="'day' is not in the primary key"):
        check_supported(crossing, Use.WRITE, table="db.t")
    check_supported(crossing, Use.READ, table="db.t")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max-buckets", "0"),
        ("max-buckets", "-2"),
        ("target-row-num", "0"),
        ("initial-buckets", "0"),
    ],
)
def test_numbers_that_cannot_be_are_refused(catalog: Catalog, name: str, value: str) -> None:
    wanted = spec(
        {"id": "INT"}, keys=["id"], options={"bucket": "-1", f"dynamic-bucket.{name}": value}
    )
    with pytest.raises(InvalidOption, match=f"dynamic-bucket.{name}={value}"):
        catalog.create_table("db.t", wanted)


def test_a_table_without_a_primary_key_has_no_dynamic_buckets(catalog: Catalog) -> None:
    table = new_table(catalog, options={"bucket": "-1"})
    table.write(rows(table, events(0, 2)))
    assert indexes(table) == []


def test_a_partition_ends_at_the_last_number_there_is() -> None:
    partition = DynamicPartition(table="db.t", target_rows=1, max_buckets=None, lanes=1)
    partition.counts = dict.fromkeys(range(2**15 - 1), 1)
    with pytest.raises(StorageError, match=r"raise dynamic-bucket\.target-row-num"):
        partition.assign(np.array([1], dtype=np.int32))


# --- against a plain reading of the rules ---------------------------------------------------------


class OneByOne:
    """The rules row by row: a known hash stays, else the first bucket of its lane with room."""

    def __init__(self, target: int, limit: int | None, lanes: int) -> None:
        self.target, self.limit, self.lanes = target, limit, lanes
        self.buckets: dict[int, int] = {}
        self.counts: dict[int, int] = {}

    def assign(self, value: int) -> int | None:
        """The bucket; None where all that may be are full."""
        if value in self.buckets:
            return self.buckets[value]
        lane = abs(int(np.fmod(value, self.lanes)))
        for bucket in range(lane, self.limit or 10_000, self.lanes):
            if self.counts.get(bucket, 0) < self.target:
                self.counts[bucket] = self.counts.get(bucket, 0) + 1
                self.buckets[value] = bucket
                return bucket
        return None


@given(
    batches=st.lists(st.lists(st.integers(-60, 60), min_size=1, max_size=40), max_size=5),
    target=st.integers(1, 9),
    lanes=st.integers(1, 4),
    limit=st.none() | st.integers(4, 8),
)
def test_rows_go_where_the_rules_put_them_one_by_one(
    batches: list[list[int]], target: int, lanes: int, limit: int | None
) -> None:
    plain = OneByOne(target, limit, lanes)
    partition = DynamicPartition(table="t", target_rows=target, max_buckets=limit, lanes=lanes)
    overflowed: dict[int, int] = {}
    for batch in batches:
        found = partition.assign(np.array(batch, dtype=np.int32)).tolist()
        for value, bucket in zip(batch, found, strict=True):
            expected = overflowed.get(value, plain.assign(value))
            if expected is None:
                assert limit is not None
                assert bucket < limit
                overflowed[value] = bucket
            else:
                assert bucket == expected
        # What a bucket gained is what its index must be written for.
        for bucket in partition.grown:
            assert len(partition.hashes_of_bucket(bucket))


def test_loading_an_index_goes_on_where_it_ended() -> None:
    def loaded(held: dict[int, Any]) -> DynamicPartition:
        partition = DynamicPartition(table="t", target_rows=2, max_buckets=None, lanes=1)
        partition.load({bucket: np.array(each, np.int32) for bucket, each in held.items()})
        return partition

    partition = loaded({0: [5, -7], 1: [9]})
    assert partition.assign(np.array([9, 5, 100, 200, -7, 100], np.int32)).tolist() == [
        1,
        0,
        1,
        2,
        0,
        1,
    ]
    assert partition.grown == {1, 2}
    assert loaded({}).assign(np.array([3], np.int32)).tolist() == [0]


def test_other_options_than_those_of_the_table_do_not_move_known_keys(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, events(0, 6)))
    found = buckets_of_keys(table)
    other = with_options(table, dynamic_bucket__initial_buckets="4")
    other.write(rows(table, events(0, 6, v="x")))
    assert buckets_of_keys(table) == found
    assert table.read().num_rows == 6


@pytest.mark.parametrize("fail_at", range(1, 7))
def test_a_store_that_fails_leaves_neither_rows_nor_indexes(catalog: Catalog, fail_at: int) -> None:
    table = dynamic_table(catalog)
    table.write(rows(table, events(0, 2)))
    before = content(table)
    broken, _ = watched(
        table, fail_at=fail_at, counts=lambda call: call.name in ("open_output", "write_bytes")
    )
    with pytest.raises(UnavailableError):
        broken.write(rows(table, [*events(1, 5), *events(0, 1, day="b")]))
    assert content(table) == before
    assert_only_reachable_files(table)
