"""Reverts in dynamic buckets: each key stays in one bucket, whatever is written afterwards."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import NotRevertible
from tests.support.histories.reverts import KINDS, VERBS, fill, made_by
from tests.support.stores.watched_files import interrupted, puts_snapshot
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.invariants import assert_keys_are_indexed, assert_only_reachable_files

DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}


def dynamic_table(catalog: Catalog, *days: str, name: str = "db.t") -> Table:
    """Five rows in two buckets of each day."""
    table = new_table(
        catalog, name=name, partitions=["day"], keys=["day", "id"], options=dict(DYNAMIC)
    )
    for day in days:
        table.write(rows(table, events(0, 5, day=day, v="first")))
    return table


def write(table: Table, first: int, last: int, v: str, day: str = "a") -> int:
    snapshot = table.write(rows(table, events(first, last, day=day, v=v))).snapshot
    assert snapshot is not None
    return snapshot.id


def values(table: Table, day: str = "a") -> list[tuple[int, str]]:
    found = table.read(where=f"day = '{day}'").to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


def overwrite(table: Table, ids: list[int], v: str) -> int:
    """The whole day a, with the keys in this order."""
    new = [{"id": each, "day": "a", "v": f"{v}{each}"} for each in ids]
    snapshot = table.write(rows(table, new), mode="overwrite").snapshot
    assert snapshot is not None
    return snapshot.id


def test_a_key_that_a_later_write_has_too_is_not_stored_twice(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    write(table, 1, 2, "x")
    taken_back = write(table, 2, 3, "x")
    write(table, 2, 3, "y")
    table.history.revert(taken_back)
    assert values(table) == [(1, "x1"), (2, "y2")]
    write(table, 3, 7, "z")
    write(table, 2, 3, "z")
    expected = [(1, "x1"), *((each, f"z{each}") for each in range(2, 7))]
    assert values(table) == expected
    compact(table, full=True)
    assert values(table) == expected


def test_a_partition_whose_first_write_is_taken_back_can_be_written_again(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    first = write(table, 0, 5, "x")
    later = write(table, 3, 4, "y")
    table.history.revert(first)
    assert values(table) == [(3, "y3")]
    write(table, 2, 6, "z")
    assert values(table) == [(2, "z2"), (3, "z3"), (4, "z4"), (5, "z5")]
    table.history.revert(later)
    assert values(table) == [(2, "z2"), (3, "z3"), (4, "z4"), (5, "z5")]


def test_a_partition_that_ends_empty_takes_another_one_in(catalog: Catalog) -> None:
    table = dynamic_table(catalog)
    table.history.revert(write(table, 0, 5, "x"))
    source = dynamic_table(catalog, "a", "b", name="db.source")
    expected = values(source)
    table.upkeep.exchange_partition("db.source", [{"day": "a"}])
    assert values(table) == expected
    write(table, 4, 9, "new")
    assert values(table) == [*expected[:4], *((each, f"new{each}") for each in range(4, 9))]


def test_a_writer_that_began_before_a_revert_adds_its_keys_once(catalog: Catalog) -> None:
    table = dynamic_table(catalog, "a")
    taken_back = write(table, 5, 8, "x")
    late, _ = interrupted(
        table, when=puts_snapshot, meanwhile=lambda: table.history.revert(taken_back)
    )
    write(late, 6, 9, "y")
    assert [each for each, _ in values(table)] == [0, 1, 2, 3, 4, 6, 7, 8]
    write(table, 5, 9, "z")
    assert values(table)[5:] == [(each, f"z{each}") for each in range(5, 9)]


def test_an_overwrite_comes_back_beside_later_rows_of_new_keys(catalog: Catalog) -> None:
    table = dynamic_table(catalog, "a")
    before = values(table)
    taken_back = overwrite(table, [0, 1, 2, 3, 4, 5], "over")
    write(table, 7, 8, "later")
    write(table, 1, 2, "later")
    table.history.revert(taken_back)
    expected = [before[0], (1, "later1"), *before[2:], (7, "later7")]
    assert values(table) == expected
    write(table, 0, 9, "z")
    assert values(table) == [(each, f"z{each}") for each in range(9)]


def test_an_overwrite_that_moved_keys_between_buckets_is_taken_back(catalog: Catalog) -> None:
    table = dynamic_table(catalog, "a")
    before = values(table)
    taken_back = overwrite(table, [4, 3, 2, 1, 0, 8, 9], "over")
    table.history.revert(taken_back)
    assert values(table) == before
    assert_keys_are_indexed(table)
    write(table, 0, 10, "z")
    assert values(table) == [(each, f"z{each}") for each in range(10)]


def test_a_later_row_whose_key_an_overwrite_moved_is_in_the_way_and_named(
    catalog: Catalog,
) -> None:
    table = dynamic_table(catalog, "a")
    before = values(table)
    taken_back = overwrite(table, [4, 3, 2], "over")
    later = write(table, 4, 5, "later")
    named = rf"snapshot {later} \(APPEND .*put keys of partition day=a into bucket 0"
    with pytest.raises(NotRevertible, match=named):
        table.history.plan_revert(taken_back)
    # That is the way out.
    table.history.revert(later)
    table.history.revert(taken_back)
    assert values(table) == before


def test_a_revert_that_loses_a_race_leaves_no_index_behind(catalog: Catalog) -> None:
    table = dynamic_table(catalog, "a")
    before = values(table)
    taken_back = overwrite(table, [0, 1, 2, 3, 4, 5], "over")
    late, _ = interrupted(table, when=puts_snapshot, meanwhile=lambda: write(table, 7, 9, "later"))
    late.history.revert(taken_back)
    assert values(table) == [*before, (7, "later7"), (8, "later8")]
    assert_only_reachable_files(table)


def test_rows_go_although_the_snapshot_before_them_expired(catalog: Catalog) -> None:
    table = dynamic_table(catalog, "a")
    before = values(table)
    added = write(table, 5, 9, "x")
    expire(table, keep=1)
    table.history.revert(added)
    assert values(table) == before
    write(table, 4, 6, "y")
    assert values(table) == [*before[:4], (4, "y4"), (5, "y5")]


@pytest.mark.parametrize("verb", ["compact", "drop", "rename", "overwrite a partition", "append"])
def test_upserts_find_all_keys_after_a_revert_and_its_revert(catalog: Catalog, verb: str) -> None:
    table = KINDS["dynamic"].table(catalog)
    fill(table)
    made = made_by(table, VERBS[verb])
    done = content(table)
    undo = table.history.revert(*made).snapshot
    assert undo is not None
    table.history.revert(undo.id)
    assert content(table) == done
    assert_keys_are_indexed(table)
    for day in "ab":
        table.write(rows(table, events(0, 9, day=day, v="last")))
        assert values(table, day) == [(each, f"last{each}") for each in range(9)]
