"""Conflict checks: whether a staged write or a rewrite still fits the latest snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from lakewright.storage.errors import (
    BucketCountChanged,
    CorruptionError,
    FilesGone,
    IndexMoved,
    KeyRangesOverlap,
    SchemaMoved,
    StalePlan,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sections import first_overlap
from lakewright.storage.operations.read.column_files import with_newer_files
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.operations.state.live_files import grouped_by_bucket
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.bucketing import have_same_bucket_keys
from lakewright.storage.spec.commit import Change, CommitMessage, Committable, StagedWrite
from lakewright.storage.spec.index import DeletionVectorRange, IndexEntry, IndexFileMeta
from lakewright.storage.spec.manifest import (
    DataFileMeta,
    EntryIdentity,
    FileKind,
    ManifestEntry,
    fold_entries,
)
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

# For more files than this in one folder, the committer lists the folder instead of each file.
_ASKED_ONE_BY_ONE = 4


def check_schema(files: TableFiles, staged: StagedWrite) -> None:
    """Check that rows staged with another schema still belong to their partitions and buckets.

    Raises:
        SchemaMoved: the primary, partition or bucket keys changed since the staging.
    """
    if staged.schema_id == files.schema.id:
        return
    written_with = files.schemas.read(staged.schema_id)
    if (written_with.partition_keys, written_with.primary_keys) != (
        files.schema.partition_keys,
        files.schema.primary_keys,
    ) or not have_same_bucket_keys(written_with, files.schema):
        raise SchemaMoved(
            f"the keys of {files.name} changed between schema {staged.schema_id}, which the rows "
            f"were staged with, and schema {files.schema.id}; stage the rows again"
        )


def check_rows_of_base(files: TableFiles, staged: StagedWrite, latest: Snapshot | None) -> None:
    """Check that the table has the rows that it had at the base of a staged write.

    Raises:
        StalePlan: a commit since then may have changed rows.
    """
    for snapshot in () if latest is None else files.snapshots.back_from(latest):
        if snapshot.delta_manifest_list == staged.base_commit:
            return
        is_beyond = snapshot.id <= (staged.base_snapshot_id or 0)
        if is_beyond or snapshot.commit_kind not in (CommitKind.COMPACT, CommitKind.ANALYZE):
            raise StalePlan(
                f"{files.name} changed after snapshot {staged.base_snapshot_id or 0}, whose rows "
                f"were read to replace it: {snapshot.commit_user} committed snapshot {snapshot.id} "
                f"({snapshot.commit_kind.value}) since; nothing was written, run the statement "
                "again"
            )


def check_staged_files(files: TableFiles, staged: StagedWrite) -> None:
    """Check that every staged file still exists; orphan removal may have deleted only older ones.

    Raises:
        FilesGone: a file is missing.
    """
    by_folder: dict[str, set[str]] = defaultdict(set)
    for path in (path for message in staged.messages for path in files.written_paths(message)):
        folder, _, name = path.rpartition("/")
        by_folder[folder].add(name)
    for folder, names in by_folder.items():
        missing = sorted(_missing(files, folder, names))
        if missing:
            raise FilesGone(
                f"file {folder}/{missing[0]} of a staged write to {files.name} is there no more: "
                "the write was aborted, committed and rolled back or expired, or took longer than "
                "removals of orphans wait; look whether its rows are there, and stage them again "
                "if not"
            )


def _missing(files: TableFiles, folder: str, names: Collection[str]) -> set[str]:
    if len(names) <= _ASKED_ONE_BY_ONE:
        return {name for name in names if not files.fs.exists(f"{folder}/{name}")}
    return set(names) - {status.name for status in files.fs.list_dir(folder)}


def still_applies(
    message: CommitMessage, live: Collection[EntryIdentity], indexes: Collection[IndexEntry]
) -> bool:
    """Whether a rewrite applies without a conflict.

    The files it replaces must be live, with the deletions that it read. The index files it
    replaces must be present, and its new index files must not join others in the same bucket.
    """
    before = message.entries(message.compact_before)
    removed = message.removed_index_entries
    return (
        all(entry.identity in live for entry in before)
        and _replaces_own_indexes(message.new_index_entries, removed, indexes)
        and _knows_deletions(message, indexes)
        and _marks_live_files(message, live)
    )


def _knows_deletions(message: CommitMessage, indexes: Collection[IndexEntry]) -> bool:
    """Whether the rewritten files have the same deletion vectors as when the rewrite read them.

    A rewrite replaces the index files of every deletion vector that it applied.
    """
    moved = {file.file_name for file in message.compact_after}
    rewritten = {file.file_name for file in message.compact_before} - moved
    present = [entry.file for entry in indexes if message.place == entry.place]
    return _vectors_of(rewritten, present) == _vectors_of(rewritten, message.removed_indexes)


def _vectors_of(
    names: Collection[str], indexes: Iterable[IndexFileMeta]
) -> set[tuple[str, DeletionVectorRange]]:
    return {
        (index.file_name, vector)
        for index in indexes
        for vector in index.deletion_vectors or ()
        if vector.data_file in names
    }


def _marks_live_files(message: CommitMessage, live: Collection[EntryIdentity]) -> bool:
    """Whether every data file that a new deletion vector refers to is still live."""
    marked = {
        vector.data_file for index in message.new_indexes for vector in index.deletion_vectors or ()
    }
    if not marked:
        return True
    there = {file.file_name for file in message.compact_after}
    there |= {each.file_name for each in live if (each.partition, each.bucket) == message.place}
    return marked <= there


def _replaces_own_indexes(
    new: Collection[IndexEntry], removed: Collection[IndexEntry], present: Collection[IndexEntry]
) -> bool:
    """Whether removed index files are present, and each new one has its slot to itself."""
    if not set(removed) <= set(present):
        return False
    left = {entry.slot for entry in present if entry not in removed}
    return not any(entry.slot in left for entry in new)


def check_conflicts(state: TableState, change: Change, committable: Committable) -> None:
    """Check that the change still applies to the latest state.

    Raises:
        FilesGone: a file to remove is no longer live.
        IndexMoved: another commit replaced an index file that this change replaces.
        BucketCountChanged: a partition would hold files of two bucket counts.
        KeyRangesOverlap: two files of one level above 0 would have overlapping key ranges.
        StalePlan: files would hold columns of some common rows, but not of the same.
    """
    files, latest = state.files, state.snapshot
    _check_indexes(state, change)
    entries = change.entries
    fixed_buckets = files.options.bucket_mode is BucketMode.FIXED
    if not entries or (committable.kind is CommitKind.APPEND and not fixed_buckets):
        return
    partitions = {entry.partition for entry in entries}
    if change.base is None:
        live = state.entries_of(partitions)
    else:
        live = [each for each in change.base.entries if each.partition in partitions]
    merged = fold_entries([*live, *entries])
    gone = [entry for entry in merged.values() if entry.kind is FileKind.DELETE]
    if gone:
        raise FilesGone(
            f"commit to {files.name} on top of snapshot {latest.id if latest else 'none'} "
            f"conflicts: bucket {gone[0].bucket} of "
            f"{files.partitions.of_entry(gone[0]).named} no longer holds {gone[0].file.file_name} "
            f"(and {len(gone) - 1} more); plan again from the latest snapshot"
        )
    _check_bucket_counts(files, merged.values())
    if files.schema.is_keyed:
        _check_key_ranges(files, merged.values())
    if files.options.data_evolution_enabled:
        _check_row_ranges(files, merged.values())


def _check_indexes(state: TableState, change: Change) -> None:
    if not change.new_indexes and not change.removed_indexes:
        return
    files = state.files
    if not _replaces_own_indexes(change.new_indexes, change.removed_indexes, state.indexes):
        first = [*change.new_indexes, *change.removed_indexes][0]
        named = files.partitions.of_row(first.partition).named
        raise IndexMoved(
            f"another writer changed the {first.file.index_type} index of bucket {first.bucket} in "
            f"{named} of {files.name} meanwhile; such a "
            "table takes one writer at a time: stage the rows again"
        )


def _check_bucket_counts(files: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    counts: dict[bytes, dict[int, ManifestEntry]] = defaultdict(dict)
    for entry in entries:
        if entry.total_buckets > 0:
            counts[entry.partition][entry.total_buckets] = entry
    for found in counts.values():
        if len(found) > 1:
            named = files.partitions.of_entry(next(iter(found.values()))).named
            raise BucketCountChanged(
                f"commit to {files.name} would leave {named} with files of "
                f"{' and '.join(map(str, sorted(found)))} buckets; overwrite the partition to "
                "change its bucket count"
            )


def _check_row_ranges(files: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    """Check that files hold the same rows, or none in common: a column may be newer meanwhile."""
    for group in grouped_by_bucket(entries).values():
        # New rows get ids that no others have.
        numbered = (entry.file for entry in group if entry.file.first_row_id is not None)
        try:
            with_newer_files(numbered, table=files.name)
        except CorruptionError as error:
            raise StalePlan(
                f"commit to {files.name} conflicts: in {files.partitions.of_entry(group[0]).named} "
                f"{error.message}, since another commit updated columns of rows that this one "
                "joins; plan again from the latest snapshot"
            ) from error


def _check_key_ranges(files: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    decode = key_decoder(files.schema)
    for place, group in grouped_by_bucket(entries).items():
        levels: dict[int, list[DataFileMeta]] = defaultdict(list)
        for entry in group:
            if entry.file.level > 0:
                levels[entry.file.level].append(entry.file)
        for level, metas in levels.items():
            pair = first_overlap(metas, decode)
            if pair is not None:
                named = files.partitions.of_entry(group[0]).named
                raise KeyRangesOverlap(
                    f"commit to {files.name} would leave {pair[0].file_name} and "
                    f"{pair[1].file_name} with common keys in level {level} of bucket "
                    f"{place.bucket}, {named}; plan again from the latest snapshot"
                )
