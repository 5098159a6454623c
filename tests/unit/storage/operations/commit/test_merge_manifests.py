"""Manifest merging: fewer files, the same live entries, in an order that still merges."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import CorruptionError
from lakewright.storage.operations.commit.merge_manifests import merge_manifests
from lakewright.storage.operations.state.live_files import snapshot_manifests
from lakewright.storage.spec.manifest import (
    DataFileMeta,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    fold_entries,
)
from lakewright.storage.spec.partition import PartitionKeys
from tests.support.stores.watched_files import interrupted, puts_snapshot, watched
from tests.support.tables.builders import compact, content, events, new_table, rows, with_options
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri


def entry(number: int, kind: FileKind = FileKind.ADD) -> ManifestEntry:
    file = DataFileMeta(
        file_name=f"data-{number}.parquet",
        file_size=1,
        row_count=1,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
    )
    return ManifestEntry(kind=kind, partition=bytes(12), bucket=0, total_buckets=-1, file=file)


def test_an_add_and_its_delete_cancel_and_a_delete_alone_waits() -> None:
    first, second = entry(1), entry(2)
    assert list(fold_entries([first, second, first.removed()]).values()) == [second]
    assert list(fold_entries([first.removed()]).values()) == [first.removed()]
    with pytest.raises(CorruptionError, match=r"add data file data-1\.parquet twice"):
        fold_entries([first, first])


def test_a_file_at_another_level_is_another_entry() -> None:
    low = entry(1)
    high = replace(low, file=replace(low.file, level=5))
    assert list(fold_entries([low, low.removed(), high]).values()) == [high]
    assert list(fold_entries([low, high, low.removed()]).values()) == [high]


# Options that make every merge happen at once: minor ones, and full ones.
MINOR = {"manifest__merge_min_count": "2"}
BY_SIZE = {"manifest__target_file_size": "1 b"}
FULL = {"manifest__full_compaction_threshold_size": "1 b"}


def listed(table: Table) -> tuple[ManifestFileMeta, ...]:
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    return table.table_files.manifests.read_list(snapshot.base_manifest_list)


def test_manifests_pile_up_to_the_least_number_and_are_joined_then(catalog: Catalog) -> None:
    table = with_options(new_table(catalog), manifest__merge_min_count="4")
    counts = []
    for number in range(10):
        table.write(rows(table, events(number, number + 1)))
        counts.append(len(listed(table)))
    assert counts == [0, 1, 2, 3, 1, 2, 3, 1, 2, 3]
    assert table.read().num_rows == 10


def test_a_full_merge_leaves_no_trace_of_what_was_removed(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    for day in "ab":
        table.write(rows(table, events(0, 3, day=day)))
    for _ in range(3):
        table.write(rows(table, events(5, 6, day="a")), mode="overwrite")
    assert sum(meta.num_deleted_files for meta in listed(table)) == 2
    full = with_options(table, **FULL)
    full.write(rows(full, events(9, 10, day="c")))
    assert [(meta.num_added_files, meta.num_deleted_files) for meta in listed(full)] == [(2, 0)]
    assert content(full) == content(table)


def test_manifests_say_truly_what_is_in_them(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["day", "id"], partitions=["day"], options={"bucket": "3"})
    for day in ("a", "b", "c"):
        table.write(rows(table, events(0, 9, day=day)))
    compact(table, full=True)
    merged = with_options(table, **FULL)
    merged.write(rows(merged, events(20, 22, day="d")))
    snapshot = merged.history.latest_snapshot()
    assert snapshot is not None
    for meta in snapshot_manifests(merged.table_files, snapshot):
        entries = list(merged.table_files.manifests.read_manifest(meta.file_name))
        added = [each for each in entries if each.kind is FileKind.ADD]
        assert (meta.num_added_files, meta.num_deleted_files) == (
            len(added),
            len(entries) - len(added),
        )
        assert (meta.min_bucket, meta.max_bucket) == (
            min(each.bucket for each in entries),
            max(each.bucket for each in entries),
        )
        assert (meta.min_level, meta.max_level) == (
            min(each.file.level for each in entries),
            max(each.file.level for each in entries),
        )
        path = merged.table_files.paths.manifest(meta.file_name)
        assert meta.file_size == len(merged.table_files.fs.read_bytes(path))


STEPS = st.lists(
    st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1, max_size=4),
    min_size=1,
    max_size=8,
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [MINOR, BY_SIZE, FULL, {**MINOR, **FULL}], ids=str)
@settings(max_examples=40)
@given(steps=STEPS)
@pytest.mark.mission("FS14", "FS18", "SE35")
def test_merging_changes_no_live_entry(
    options: dict[str, str], steps: list[list[tuple[bool, int]]]
) -> None:
    table = with_options(new_table(Catalog.open(memory_uri(), env=FixedEnv())), **options)
    store = table.table_files.manifests
    live: set[int] = set()
    used: set[int] = set()
    metas: tuple[ManifestFileMeta, ...] = ()
    for step in steps:
        entries = []
        for adds, number in step:
            # A file is added once in its life.
            if adds and number not in used:
                used.add(number)
                live.add(number)
                entries.append(entry(number))
            elif not adds and number in live:
                live.discard(number)
                entries.append(entry(number, FileKind.DELETE))
        if entries:
            meta = store.write_manifest(
                entries, keys=PartitionKeys(0, ()), compression="null", written=[]
            )
            metas = (*metas, meta)
        before, written = metas, list[str]()
        metas = merge_manifests(table.table_files, before, written)
        assert {each.file_name for each in set(metas) - set(before)} == set(written)
        folded = fold_entries(store.entries(metas)).values()
        names = {f"data-{number}.parquet" for number in live}
        assert {each.file.file_name for each in folded if each.kind is FileKind.ADD} == names
        assert all(each.kind is FileKind.ADD for each in folded)


def test_a_committer_that_lost_twice_leaves_the_merge_to_later_commits(catalog: Catalog) -> None:
    table = new_table(catalog, options={"manifest.merge-min-count": "3"})

    def meanwhile() -> None:
        table.write(rows(table, events(50, 51)))

    for at in range(2):
        table.write(rows(table, events(at, at + 1)))
    seen, _ = interrupted(table, when=puts_snapshot, meanwhile=meanwhile, times=3)
    result = seen.write(rows(table, events(9, 10)))
    assert result.attempts == 4
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    kept = table.table_files.manifests.read_list(snapshot.base_manifest_list)
    before = table.table_files.snapshots.read(snapshot.id - 1)
    assert kept == snapshot_manifests(table.table_files, before)
    table.write(rows(table, events(10, 11)))
    assert len(content(table)) == 7


def test_a_merged_manifest_has_the_target_size_and_later_merges_leave_it_alone() -> None:
    target = 4 * 1024
    options = {
        "manifest.target-file-size": "4 kb",
        "manifest.full-compaction-threshold-size": "8 kb",
    }
    table = new_table(Catalog.open(memory_uri(), env=FixedEnv()), options=options)
    files = table.table_files
    metas = [
        files.manifests.write_manifest(
            list(map(entry, range(begin, begin + 100))),
            keys=PartitionKeys(0, ()),
            compression="zstandard",
            written=[],
        )
        for begin in range(0, 10_000, 100)
    ]

    merged = merge_manifests(files, metas, [])
    written: list[str] = []
    again = merge_manifests(files, merged, written)

    assert sum(meta.file_size < target for meta in merged) <= 1
    assert len(merged) > 3
    assert max(meta.file_size for meta in merged) < target + 1024
    assert (again, written) == (merged, [])


def test_a_full_merge_opens_only_manifests_that_it_may_have_to_change() -> None:
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table = with_options(
        new_table(catalog, partitions=["day"]), **FULL, manifest__target_file_size="1 b"
    )
    for day in "abc":
        table.write(rows(table, events(0, 3, day=day)))
    table.write(rows(table, events(5, 6, day="a")), mode="overwrite")
    latest = table.history.latest_snapshot()
    assert latest is not None
    metas = snapshot_manifests(table.table_files, latest)
    (deletes,) = (meta for meta in metas if meta.num_deleted_files)
    watching, _ = watched(table)
    files = watching.table_files

    written: list[str] = []
    merge_manifests(files, metas, written)

    calls = files.fs.calls  # type: ignore[attr-defined] # of a watched table
    opened = {call.path.rpartition("/")[2] for call in calls if call.name == "read_bytes"}
    assert written
    assert opened == {metas[0].file_name, deletes.file_name}
