"""Rewriting manifests: few, sorted, without deleted entries; the same rows, and then nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.column_stats import partition_stats
from lakewright.storage.errors import InvalidRequestError, StalePlan, VerificationFailed
from lakewright.storage.operations.rewrite import rewrite_manifests as verb
from lakewright.storage.operations.rewrite.manifest_layout import Fault, pick_manifests
from lakewright.storage.operations.rewrite.rewrite_manifests import RewriteManifestsPlan
from lakewright.storage.operations.state.live_files import live_entries, snapshot_manifests
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.commit import EncodedManifest
from lakewright.storage.spec.manifest import FileKind, ManifestFileMeta
from lakewright.storage.spec.predicate import Leaf, Operator
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import (
    Meanwhile,
    WatchedFiles,
    interrupted,
    over,
    puts_snapshot,
)
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    with_options,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

# No commit merges manifests by itself.
PILED = {"manifest.merge-min-count": "100000"}


def piled(catalog: Catalog, commits: int, days: str = "cab", **options: str) -> Table:
    """An append table of a file and a manifest for each commit, day after day in turns."""
    table = new_table(catalog, partitions=("day",), options={**PILED, **options})
    for at in range(commits):
        table.write(rows(table, events(at, at + 1, day=days[at % len(days)])))
    return table


def manifests(table: Table) -> tuple[ManifestFileMeta, ...]:
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    return snapshot_manifests(table.table_files, snapshot)


def held_days(table: Table) -> list[list[str]]:
    """The days of the entries of each manifest, in order."""
    files = table.table_files
    return [
        [str(files.partitions.of_entry(each).values[0]) for each in files.manifests.entries([meta])]
        for meta in manifests(table)
    ]


def test_many_manifests_become_one_sorted_by_partition_and_rows_stay(catalog: Catalog) -> None:
    table = piled(catalog, 9)
    before, last = content(table), table.history.latest_snapshot()

    plan = table.upkeep.plan_rewrite_manifests()
    result = table.upkeep.run(plan)

    assert (len(plan.manifests), plan.kept, plan.manifests_after) == (9, 0, 1)
    assert (result.manifests_before, result.manifests_after) == (9, 1)
    assert held_days(table) == [[*"aaabbbccc"]]
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    assert last is not None
    assert (snapshot.id, snapshot.commit_kind) == (10, CommitKind.COMPACT)
    assert (snapshot.delta_record_count, snapshot.total_record_count) == (0, 9)
    assert table.table_files.manifests.read_delta_list(snapshot) == ()
    assert (snapshot.statistics, snapshot.watermark) == (last.statistics, last.watermark)
    assert content(table) == before
    assert not table.upkeep.plan_rewrite_manifests().manifests


def test_entries_of_deleted_files_are_dropped(catalog: Catalog) -> None:
    table = piled(catalog, 6)
    compact(table, full=True)
    plan = table.upkeep.plan_rewrite_manifests()

    result = table.upkeep.run(plan)

    # Six files were added, three of them are left, and three deletions tell of it.
    assert (plan.entries_dropped, result.entries_dropped) == (12, 12)
    (meta,) = manifests(table)
    assert (meta.num_added_files, meta.num_deleted_files) == (3, 0)


def of_many_days(catalog: Catalog, commits: int) -> Table:
    """An append table of so many small files in each of 60 days."""
    options = {**PILED, "manifest.target-file-size": "50 kb", "manifest.compression": "none"}
    table = new_table(catalog, partitions=("day",), options=options)
    for at in range(commits):
        values = [{"id": at, "day": f"d{day:02}", "v": "v"} for day in range(60)]
        table.write(rows(table, values))
    return table


def test_manifests_get_the_target_size_and_a_filter_opens_few_of_them(catalog: Catalog) -> None:
    table = of_many_days(catalog, 12)
    wanted = PartitionFilter(table.table_files, predicate=Leaf("day", Operator.EQ, ("d30",)))
    assert all(map(wanted.may_hold, manifests(table)))

    plan = table.upkeep.plan_rewrite_manifests()
    result = table.upkeep.run(plan)

    sizes = [meta.file_size for meta in manifests(table)]
    assert all(50 * 1024 <= size < 2 * 50 * 1024 for size in sizes)
    assert len(sizes) == result.manifests_after > 1
    assert abs(plan.manifests_after - result.manifests_after) <= 1
    assert 0.7 < plan.bytes_after / result.bytes_after < 1.4
    assert sum(map(wanted.may_hold, manifests(table))) <= 2
    assert not table.upkeep.plan_rewrite_manifests().manifests


def picked(table: Table, *listed: tuple[int, str, str]) -> list[dict[str, str]]:
    """Runs among manifests of so many kilobytes from one day to another, where 8 are the target."""
    files = with_options(table, manifest__target_file_size="8 kb").table_files
    keys = files.partitions.keys
    metas = [
        ManifestFileMeta(
            file_name=f"{first}-{last}-{size}",
            file_size=size * 1024,
            num_added_files=2,
            num_deleted_files=0,
            partition_stats=partition_stats(
                [files.partitions.of_values([day]).row for day in (first, last)], keys.fields
            ),
            schema_id=0,
        )
        for size, first, last in listed
    ]
    sizes = {meta.file_name: float(meta.file_size) for meta in metas}
    runs = pick_manifests(files, metas, deleted=(), live_bytes=sizes, room=8 * 1024)
    return [{name: fault.value for name, fault in run.items()} for run in runs]


OVERLAPS, SMALL, JOINS = (each.value for each in (Fault.OVERLAPS, Fault.SMALL, Fault.NEIGHBOUR))


def test_only_small_overlapping_and_their_neighbours_are_picked(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=("day",))
    # Half of the target is enough, and manifests may share one day at their ends.
    assert picked(table, (4, "a", "c"), (9, "c", "c"), (9, "c", "d"), (20, "e", "f")) == []
    assert picked(table, (1, "a", "z")) == []
    assert picked(table, (9, "a", "b"), (9, "k", "l"), (1, "m", "m"), (9, "x", "y")) == [
        {"m-m-1": SMALL, "x-y-9": JOINS}
    ]
    assert picked(table, (9, "a", "b"), (7, "k", "l"), (1, "x", "y")) == [
        {"k-l-7": JOINS, "x-y-1": SMALL}
    ]
    assert picked(table, (9, "g", "k"), (9, "a", "c"), (9, "b", "d"), (9, "e", "f")) == [
        {"a-c-9": OVERLAPS, "b-d-9": OVERLAPS}
    ]
    assert picked(table, (9, "a", "z"), (9, "b", "c"), (9, "d", "e")) == [
        {"a-z-9": OVERLAPS, "b-c-9": OVERLAPS, "d-e-9": OVERLAPS}
    ]


def test_few_faults_wait_for_more(catalog: Catalog) -> None:
    table = piled(catalog, 5)
    assert not table.upkeep.plan_rewrite_manifests(min_count=6).manifests
    assert "fewer than 6" in table.upkeep.plan_rewrite_manifests(min_count=6).reason
    assert len(table.upkeep.plan_rewrite_manifests(min_count=5).manifests) == 5
    with pytest.raises(InvalidRequestError):
        table.upkeep.plan_rewrite_manifests(min_count="many")  # type: ignore[arg-type]


def test_a_table_without_snapshots_has_nothing_to_rewrite(catalog: Catalog) -> None:
    table = new_table(catalog)
    plan = table.upkeep.plan_rewrite_manifests()
    assert not plan.manifests
    assert table.upkeep.run(plan).snapshot is None


def test_rows_that_are_committed_meanwhile_stay(catalog: Catalog) -> None:
    table = piled(catalog, 4)

    def meanwhile() -> None:
        table.write(rows(table, events(50, 51, day="b")))
        compact(table, [{"day": "c"}], full=True)

    seen, _ = interrupted(table, when=puts_snapshot, meanwhile=meanwhile)
    result = seen.upkeep.rewrite_manifests()

    assert result.attempts == 2
    assert table.read().sort_by("id")["id"].to_pylist() == [0, 1, 2, 3, 50]


def test_a_rewrite_that_loses_writes_its_manifests_once(catalog: Catalog) -> None:
    table = piled(catalog, 6)

    def meanwhile() -> None:
        table.write(rows(table, events(50, 51, day="b")))

    other = Meanwhile(puts_snapshot, meanwhile)
    fs = WatchedFiles(table.table_files.fs, before=other)
    assert over(table, fs).upkeep.rewrite_manifests().attempts == 2

    names = [each.path.rpartition("/")[2] for each in fs.changes if each.name == "write_bytes"]
    kinds = Counter(name.startswith("manifest-list-") for name in names)
    # Each attempt has its own base list and delta list.
    assert kinds == {True: 4, False: 1}


def test_a_rewrite_whose_manifests_a_rollback_deleted_writes_them_again(catalog: Catalog) -> None:
    table = piled(catalog, 6)
    before, files = content(table), table.table_files
    known = {each.name for each in files.fs.list_dir(files.paths.manifest_dir)}

    def meanwhile() -> None:
        for each in files.fs.list_dir(files.paths.manifest_dir):
            if each.name not in known and "list" not in each.name:
                files.fs.delete(files.paths.manifest(each.name))
        table.write(rows(table, events(50, 51, day="b")))

    seen, _ = interrupted(table, when=puts_snapshot, meanwhile=meanwhile)
    assert seen.upkeep.rewrite_manifests().attempts == 2
    assert len(content(table)) == len(before) + 1


def test_a_plan_whose_manifests_another_merged_is_stale(catalog: Catalog) -> None:
    table = piled(catalog, 4)
    plan = table.upkeep.plan_rewrite_manifests()
    table.upkeep.rewrite_manifests()
    last = table.history.latest_snapshot()
    with pytest.raises(StalePlan, match="4 of 4 manifests"):
        table.upkeep.run(plan)
    assert table.history.latest_snapshot() == last


def without(plan: RewriteManifestsPlan, index: int) -> RewriteManifestsPlan:
    left = list(plan.manifests)
    del left[index]
    return replace(plan, manifests=tuple(left))


@pytest.mark.parametrize("index", range(7))
def test_a_plan_that_leaves_out_what_deletes_or_is_deleted_changes_no_row(
    catalog: Catalog, index: int
) -> None:
    table = piled(catalog, 6)
    compact(table, full=True)
    before = content(table)
    with suppress(StalePlan):
        table.upkeep.run(without(table.upkeep.plan_rewrite_manifests(), index))
    assert content(table) == before
    table.upkeep.rewrite_manifests()
    assert content(table) == before


@pytest.mark.parametrize("lost", ["an entry", "an entry on the way", "a manifest"])
def test_a_rewrite_that_would_lose_a_file_is_not_published(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    table = piled(catalog, 4)
    before, files = manifests(table), table.table_files
    listed = set(files.fs.list_dir(files.paths.manifest_dir))
    plan = table.upkeep.plan_rewrite_manifests()
    real = verb.sized_copies
    made = []

    def losing(files: Any, stored: Any, rows: Any) -> Iterator[EncodedManifest]:
        (all_of_them,) = real(files, stored, rows)
        (less,) = real(files, stored, rows[:-1])
        made.append(lost)
        if lost == "an entry":
            yield less
        elif lost == "an entry on the way":
            yield replace(all_of_them, data=less.data)

    monkeypatch.setattr(verb, "sized_copies", losing)
    with pytest.raises(VerificationFailed, match="nothing was published"):
        table.upkeep.run(plan)
    assert made
    assert manifests(table) == before
    assert set(files.fs.list_dir(files.paths.manifest_dir)) == listed


def test_an_expiry_afterwards_deletes_what_only_older_snapshots_need(catalog: Catalog) -> None:
    table = piled(catalog, 6)
    compact(table, full=True)
    table.upkeep.rewrite_manifests()
    before = content(table)
    expire(table)
    assert content(table) == before
    files = table.table_files
    names = {each.name for each in files.fs.list_dir(files.paths.manifest_dir)}
    assert {meta.file_name for meta in manifests(table)} <= names
    # A manifest and two lists.
    assert len(names) == 3


def test_bounds_of_several_columns_are_told_apart_by_the_first_that_differs(
    catalog: Catalog,
) -> None:
    columns = {"id": "BIGINT", "day": "STRING", "hour": "INT"}
    options = {**PILED, "manifest.target-file-size": "1 b"}
    table = new_table(catalog, columns, partitions=("day", "hour"), options=options)
    for hour in (2, None, 1):
        for day in ("b", None, "a"):
            table.write(rows(table, [{"id": 1, "day": day, "hour": hour}]))
    # Single files do not overlap, whatever their order.
    assert not table.upkeep.plan_rewrite_manifests().manifests
    both = [{"id": 2, "day": "a", "hour": hour} for hour in (1, 2)]
    table.write(rows(table, both))
    table.write(rows(table, [{"id": 3, "day": "a", "hour": 1}, {"id": 3, "day": "c", "hour": 1}]))
    plan = table.upkeep.plan_rewrite_manifests()
    # The last goes from a to c, past all other days but null.
    assert len(plan.manifests) == 8
    table.upkeep.run(plan)
    assert len(manifests(table)) == 13
    assert not table.upkeep.plan_rewrite_manifests().manifests


KINDS: dict[str, Callable[[Catalog, dict[str, str]], Table]] = {
    "append": lambda catalog, options: new_table(catalog, partitions=("day",), options=options),
    "plain": lambda catalog, options: new_table(catalog, options=options),
    "keyed": lambda catalog, options: new_table(
        catalog, partitions=("day",), keys=("day", "id"), options={**options, "bucket": "2"}
    ),
}


@settings(max_examples=20)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    target=st.sampled_from(["1 b", "2 kb", "4 kb", "8 mb"]),
    count=st.integers(2, 40),
    steps=st.lists(
        st.sampled_from(["a", "b", "c", "all", "compact", "drop", "rewrite"]), max_size=12
    ),
)
def test_after_any_history_the_same_files_are_live_and_nothing_is_left_to_rewrite(
    kind: str, target: str, count: int, steps: list[str]
) -> None:
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    options = {"manifest.target-file-size": target, "manifest.merge-min-count": str(count)}
    table = KINDS[kind](catalog, options)
    for at, step in enumerate(steps):
        match step:
            case "compact":
                compact(table, full=True)
            case "drop" if kind != "plain":
                table.upkeep.drop_partitions("day = 'a'", if_exists=True)
            case "rewrite":
                table.upkeep.rewrite_manifests()
            case _:
                days = "abc" if step == "all" else step[0]
                values = [row for day in days for row in events(at, at + 2, day=day)]
                table.write(rows(table, values))
    files, last = table.table_files, table.history.latest_snapshot()
    before = {each.identity: each for each in live_entries(files, last)}

    table.upkeep.rewrite_manifests()

    now = live_entries(files, table.history.latest_snapshot())
    assert {each.identity: each for each in now} == before
    assert not table.upkeep.plan_rewrite_manifests().manifests
    if last is not None:
        held = files.manifests.entries(manifests(table))
        assert all(each.kind is FileKind.ADD for each in held)


def test_commits_that_follow_leave_rewritten_manifests_alone(catalog: Catalog) -> None:
    table = of_many_days(catalog, 12)
    table.upkeep.rewrite_manifests()
    large = {meta.file_name for meta in manifests(table)}
    assert len(large) > 1
    merging = with_options(table, manifest__merge_min_count="2")
    for at in range(3):
        merging.write(rows(merging, events(at, at + 1, day="z")))
    assert large <= {meta.file_name for meta in manifests(merging)}


def test_many_small_manifests_that_delete_each_others_files_are_rewritten(catalog: Catalog) -> None:
    table = new_table(catalog, options=PILED)
    for number in range(30):
        table.write(rows(table, events(number, number + 1)), mode="overwrite")
    result = table.upkeep.rewrite_manifests()
    assert (result.manifests_before, result.manifests_after) == (30, 1)
    assert result.entries_dropped == 58
    assert content(table) == content(table.at(snapshot=30))
