"""Changing partition keys of tables with dynamic buckets, whose keys are in hash indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, SchemaMoved, UnsupportedError
from lakewright.storage.operations.state.assign_buckets import BucketChooser, hash_indexes
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.spec import supported_options
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles, looked_at, over
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files, assert_readable_history
from tests.support.tables.late_commits import commit_late
from tests.unit.storage.operations.respec.test_keyed import WAYS, by_day, event, found, respec

pytestmark = pytest.mark.mission("PT1")

DYNAMIC = {"dynamic-bucket.target-row-num": "3"}


def assert_indexed(table: Table) -> None:
    """Each bucket with files has one index, and no hash is in two buckets of a partition."""
    files = table.table_files
    snapshot = files.snapshots.latest()
    indexes = hash_indexes(index_entries(files, snapshot))
    held = {(each.partition, each.bucket) for each in table.at().files()}
    slots = [(each.partition, each.bucket) for each in chain.from_iterable(indexes.values())]
    assert len(set(slots)) == len(slots)
    assert held <= set(slots)
    keys = len(table.schema.partition_keys)
    for row, entries in indexes.items():
        assert len(files.partitions.of_row(row).values) == keys
        hashes = Counter(h for e in entries for h in files.indexes.read_hash_index(e.file).tolist())
        assert set(hashes.values()) == {1}


@pytest.mark.sampled(2)
@pytest.mark.mission("PT2", "PT3", "PT4", "SE6", "SE15", "SE16")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_rows_stay_and_each_later_row_finds_the_bucket_of_its_key(
    catalog: Catalog, way: Sequence[tuple[str, ...]]
) -> None:
    table = by_day(catalog, buckets=-1, **DYNAMIC)
    due = content(table)
    for number, keys in enumerate(way):
        plan = table.upkeep.plan_respec(keys)
        table = respec(catalog, table, *keys)
        assert content(table) == due
        assert_indexed(table)
        assert len(table.at().files()) <= plan.files_after
        buckets = Counter((e.partition, e.bucket) for e in table.at().files())
        assert len(buckets) > len(table.at().partitions())
        assert_readable_history(table, mixed=False)
        again = [event(day, 1, n, v=f"after {number}") for day in "ab" for n in range(5)]
        table.write(rows(table, [*again, event("c", 9, number)]))
        assert [each["v"] for each in found(table, "a", 1, 2)] == [f"after {number}"]
        assert len(content(table)) == len(due) + 1
        due = content(table)
        assert_indexed(table)
    compact(table, full=True)
    assert content(table) == due
    expire(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["finer", "coarser"])
def test_a_rollback_takes_it_back(catalog: Catalog, keys: tuple[str, ...]) -> None:
    table = by_day(catalog, buckets=-1, **DYNAMIC)
    due, last = content(table), table.history.snapshots()[-1].id
    table = respec(catalog, table, *keys)
    table.write(rows(table, [event("z", 8, 9)]))
    table.history.rollback(snapshot=last, grace_ms=0)
    table = catalog.table(table.name)
    assert table.schema.partition_keys == ("dt",)
    assert content(table) == due
    assert_indexed(table)
    table.write(rows(table, [event("a", 1, 2, v="later")]))
    assert len(content(table)) == len(due)
    remove_orphans(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keys", [("dt", "hh"), (), ("hh",)], ids=str)
def test_a_write_after_a_change_that_died_replaces_the_rows_of_its_keys(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table = by_day(catalog, buckets=-1, **DYNAMIC)
    due = content(table)

    def dies(call: Call) -> None:
        if call.name == "put_if_absent" and "/schema/schema-" in call.path:
            raise Crashed

    with suppress(Crashed):
        over(table, WatchedFiles(table.table_files.fs, before=dies)).upkeep.respec(keys)
    table = catalog.table(table.name)
    assert table.schema.partition_keys == ("dt",)
    again = [each | {"v": "new"} for each in table.read().to_pylist()]
    table.write(rows(table, again))
    table = catalog.table(table.name)
    assert len(content(table)) == len(due)
    assert {each["v"] for each in table.read().to_pylist()} == {"new"}
    assert_indexed(table)
    remove_orphans(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keys", [("dt", "hh"), (), ("hh",)], ids=str)
def test_a_write_after_a_rollback_into_a_change_replaces_the_rows_of_its_keys(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table = by_day(catalog, buckets=-1, **DYNAMIC)
    due, last = content(table), table.history.snapshots()[-1].id
    table = respec(catalog, table, *keys)
    during = [each.id for each in table.history.snapshots() if each.id > last][:-1]
    for snapshot in reversed(during):
        table.history.rollback(snapshot=snapshot, grace_ms=0)
        table = catalog.table(table.name)
        again = [each | {"v": f"at {snapshot}"} for each in table.read().to_pylist()]
        table.write(rows(table, again))
        table = catalog.table(table.name)
        assert {each["v"] for each in table.read().to_pylist()} == {f"at {snapshot}"}
        assert len(content(table)) == len(due)
        assert_indexed(table)


@pytest.mark.parametrize("keys", [("dt", "hh"), (), ("hh",)], ids=str)
def test_late_rows_go_to_the_buckets_of_their_keys(catalog: Catalog, keys: tuple[str, ...]) -> None:
    table = opened = by_day(catalog, buckets=-1, **DYNAMIC)
    due = content(table)
    given = [event(day, 2, n, v="late") for day in "abc" for n in range(3, 9)]
    late = table.stage(rows(table, given))
    table = respec(catalog, table, *keys)
    commit_late(opened, late)
    with pytest.raises(UnsupportedError, match=r"lakewright respec db\.t --keys"):
        table.write(rows(table, given))
    table.upkeep.respec(keys)
    assert table.upkeep.plan_respec(keys).changes_nothing
    assert_indexed(table)
    moved = content(table)
    # Of both days two rows are replaced, and four are new; of the third day all six are.
    assert len(moved) == len(due) + 2 * 4 + 6
    table.write(rows(table, [{**each, "v": "after"} for each in given]))
    assert len(content(table)) == len(moved)
    assert found(table, "b", 2, 4)[0]["v"] == "after"
    # Snapshots of late files are refused, also later.
    expire(table)
    remove_orphans(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
@pytest.mark.parametrize("step", ["snapshot", "schema"])
@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["finer", "coarser"])
@pytest.mark.sampled(each="step, dies")
def test_rows_that_another_client_commits_while_keys_change_keep_their_buckets(
    catalog: Catalog, keys: tuple[str, ...], step: str, dies: bool
) -> None:
    table = by_day(catalog, buckets=-1, **DYNAMIC)
    due = content(table)
    given = [event("a", 2, n, v="late") for n in range(2, 9)]
    late = table.stage(rows(table, given))
    opened, before = table, len(table.history.snapshots())

    def look(call: Call) -> None:
        nonlocal late
        is_step = call.changes and f"/{step}/{step}-" in call.path
        is_bridged = len(catalog.table(table.name).history.snapshots()) > before
        if late is not None and is_step and is_bridged:
            commit_late(opened, late)
            late = None
            if dies:
                files.dead = True
                raise Crashed

    files = WatchedFiles(catalog.fs, after=looked_at(look))
    with suppress(Crashed):
        replace(catalog, fs=files).table(table.name).upkeep.respec(keys)
    assert late is None
    now = catalog.table(table.name)
    now.upkeep.respec(keys)
    now = catalog.table(table.name)
    assert now.schema.partition_keys == keys
    assert_indexed(now)
    # 2, 3 and 4 are replaced.
    assert len(content(now)) == len(due) + 4
    now.write(rows(now, [{**each, "v": "after"} for each in given]))
    assert len(content(now)) == len(due) + 4
    expire(now)
    remove_orphans(now)
    assert_only_reachable_files(now)


# --- rows that move between partitions ----------------------------------------------------------

CROSSING = {"dt": "STRING", "id": "BIGINT NOT NULL", "v": "STRING"}


def crossing(catalog: Catalog) -> Table:
    """A table of ids that became one by day, though the day is not in its primary key."""
    options = {"bucket": "-1", **DYNAMIC}
    table = new_table(catalog, CROSSING, keys=["id"], options=options)
    table.write(rows(table, [order("ab"[n % 2], n) for n in range(10)]))
    table.upkeep.respec(["dt"], primary_key=["id"])
    return catalog.table(table.name)


def order(day: str | None, number: int, v: str = "x") -> dict[str, object]:
    return {"dt": day, "id": number, "v": v}


@contextmanager
def writing_across() -> Iterator[None]:
    """Writes that are those of a client which does not look into other partitions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supported_options, "_refuse_cross_partition", lambda *_: None)
        patch.setattr(BucketChooser, "_check_indexed", lambda *_: None)
        yield


def test_a_key_beside_the_primary_key_must_be_asked_for_and_goes_again(catalog: Catalog) -> None:
    table = crossing(catalog)
    assert table.schema.crosses_partitions
    due = content(table)
    assert len(due) == 10
    assert len(table.at().partitions()) == 2
    files = table.table_files
    assert hash_indexes(index_entries(files, files.snapshots.latest())) == {}
    with pytest.raises(UnsupportedError, match="may move between partitions"):
        table.write(rows(table, [order("a", 1)]))
    last = table.history.snapshots()[-1].id
    table = respec(catalog, table)
    assert not table.schema.crosses_partitions
    assert content(table) == due
    assert_indexed(table)
    with pytest.raises(InvalidRequestError, match=r"--primary-key id,dt\).*--primary-key id\)"):
        table.upkeep.plan_respec(["dt"])
    table.write(rows(table, [order("b", 2), order("c", 77)]))
    assert len(content(table)) == 11
    table.history.rollback(snapshot=last, grace_ms=0)
    table = catalog.table(table.name)
    assert table.schema.crosses_partitions
    assert content(table) == due
    remove_orphans(table)
    assert_only_reachable_files(table)


def test_a_change_to_keys_beside_the_primary_key_that_died_is_ended_by_the_next(
    catalog: Catalog,
) -> None:
    table = respec(catalog, crossing(catalog))
    due = content(table)

    def die(call: Call) -> None:
        if call.changes and "/schema/schema-" in call.path:
            files.dead = True
            raise Crashed

    files = WatchedFiles(catalog.fs, after=looked_at(die))
    with pytest.raises(Crashed):
        replace(catalog, fs=files).table(table.name).upkeep.respec(["dt"], primary_key=["id"])
    now = catalog.table(table.name)
    assert now.schema.crosses_partitions
    assert content(now) == due
    now.upkeep.respec(["dt"])
    assert content(now) == due
    assert len(now.at().partitions()) == 2
    assert now.upkeep.plan_respec(["dt"]).changes_nothing
    remove_orphans(now)
    assert_only_reachable_files(now)


def test_rows_of_one_primary_key_in_several_partitions_are_refused_with_their_number(
    catalog: Catalog,
) -> None:
    table = crossing(catalog)
    with writing_across():
        table.write(rows(table, [order("b", 2), order("b", 4), order("c", 2)]))
    for keys in ([], ["dt", "v"]):
        with pytest.raises(
            InvalidRequestError,
            match=r"5 rows of db\.t share 2 values of the primary key \(id\), such as \{'id': [24]",
        ):
            table.upkeep.plan_respec(keys)


def test_late_rows_of_a_table_whose_rows_move_are_refused_with_the_way_back(
    catalog: Catalog,
) -> None:
    table = opened = crossing(catalog)
    with writing_across():
        late = table.stage(rows(table, [order("b", 2)]))
    table = respec(catalog, table)
    due, last = content(table), table.history.snapshots()[-1].id
    commit_late(opened, late)
    with pytest.raises(UnsupportedError, match="which the primary key \\(id\\) lacks"):
        table.upkeep.respec([])
    table.history.rollback(snapshot=last, grace_ms=0)
    assert content(catalog.table(table.name)) == due
    remove_orphans(table)


@pytest.mark.parametrize("dies", [False, True], ids=["goes on", "dies"])
def test_rows_that_move_while_their_keys_change_bring_the_former_keys_back(
    catalog: Catalog, dies: bool
) -> None:
    table = opened = crossing(catalog)
    with writing_across():
        late = table.stage(rows(table, [order("a", 2), order("c", 77)]))
    schemas: list[int] = []

    def look(call: Call) -> None:
        if not (call.changes and "/schema/schema-" in call.path):
            return
        schemas.append(catalog.table(table.name).schema.id)
        # The second schema is the copy of the present one, the third has the new keys.
        if catalog.table(table.name).schema.partition_keys == () and len(schemas) < 4:
            schemas.extend([0] * 4)
            commit_late(opened, late)
            if dies:
                files.dead = True
                raise Crashed

    files = WatchedFiles(catalog.fs, after=looked_at(look))
    with suppress(Crashed):
        replace(catalog, fs=files).table(table.name).upkeep.respec([])
    now = catalog.table(table.name)
    if dies:
        with pytest.raises(SchemaMoved, match="open the table and plan again"):
            now.upkeep.respec([])
        now = catalog.table(table.name)
        assert now.schema.partition_keys == ("dt",)
        assert now.read("id = 77").num_rows == 1
        now.upkeep.respec([])
        now = catalog.table(table.name)
    assert now.schema.partition_keys == ()
    assert now.read("id = 77").num_rows == 1
    assert now.read("id = 2").num_rows == 1
    assert_indexed(now)
    expire(now)
    remove_orphans(now)
    assert_only_reachable_files(now)
