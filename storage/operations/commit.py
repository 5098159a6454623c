"""The one door through which a table gets a new snapshot.

1. Look whether an earlier try has committed the same (user, identifier) already.
2. Read the latest snapshot and work out what changes it.
3. Check that against what is live: everything removed must be there.
4. Write the base list (merged manifests), the delta manifest and its list, those of
   the changelog and the index manifest where they are new.
5. Create snapshot-N only if it is absent. Lost: clean up, wait a little, from 1.
   Unknown: look whether it is ours, and never delete what it may name.
6. Update the hints.

Source: Paimon specification, chapter Snapshot; `FileStoreCommitImpl`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.errors import (
    BucketCountChanged,
    CommitOutcomeUnknownError,
    FilesGone,
    IndexMoved,
    KeyRangesOverlap,
    RetriesExhausted,
    SchemaMoved,
    SnapshotNotFound,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sections import first_overlap
from lakewright.storage.operations.delete_files import delete_files
from lakewright.storage.operations.merge_manifests import merge_manifests
from lakewright.storage.operations.scan import (
    grouped_by_bucket,
    index_entries,
    key_decoder,
    live_entries,
    snapshot_manifests,
)
from lakewright.storage.spec.commit import (
    CommitMessage,
    CommitResult,
    OverwriteScope,
    StagedWrite,
    WriteMode,
)
from lakewright.storage.spec.index import DeletionVectorRange, IndexEntry, IndexFileMeta
from lakewright.storage.spec.manifest import (
    DataFileMeta,
    EntryIdentity,
    FileKind,
    ManifestEntry,
    fold_entries,
)
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    FIRST_SNAPSHOT_ID,
    CommitKind,
    Snapshot,
)

_FIRST_WAIT_MS = 10
_LONGEST_WAIT_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class Committable:
    """Who commits what kind of change; `checked_from` is where looking for itself begins.

    Commits outside of a series may share a user, so they are told apart by the files they add.
    """

    user: str
    identifier: int
    kind: CommitKind
    checked_from: int | None
    added_files: frozenset[str] = frozenset()

    @property
    def in_series(self) -> bool:
        """Whether the identifier names one commit among others of its user."""
        return self.identifier != BATCH_COMMIT_IDENTIFIER


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a commit does to the state it finds."""

    entries: Sequence[ManifestEntry] = ()
    changelog: Sequence[ManifestEntry] = ()
    new_indexes: Sequence[IndexEntry] = ()
    removed_indexes: Sequence[IndexEntry] = ()
    statistics: str | None = None
    watermark: int | None = None

    @property
    def is_empty(self) -> bool:
        parts = (self.entries, self.changelog, self.new_indexes, self.removed_indexes)
        return not any(parts) and self.statistics is None


# From the latest snapshot to what changes it; None when there is nothing to change.
BuildChange = Callable[[Snapshot | None], Change | None]


def find_committed(
    files: TableFiles, user: str, identifier: int, kind: CommitKind | None = None
) -> Snapshot | None:
    """The snapshot that a (user, identifier) made, None if there is none any more or yet.

    Identifiers of one user increase, so the search ends at a smaller one.
    """
    for snapshot in files.snapshots.newest_first():
        if snapshot.commit_user != user:
            continue
        if snapshot.commit_identifier == identifier and kind in (None, snapshot.commit_kind):
            return snapshot
        if snapshot.commit_identifier < identifier:
            return None
    return None


def commit_write(files: TableFiles, staged: StagedWrite) -> CommitResult:
    """Publish a staged write.

    Raises:
        CommitConflictError: the table changed so that the rows no longer fit; nothing is
            published, and the staged files are still there to abort or to stage again.
        CommitOutcomeUnknownError: the store failed at the decisive moment.
    """
    _check_schema(files, staged)
    added = [entry for message in staged.messages for entry in _added(message)]
    changelog = [
        entry for message in staged.messages for entry in _entries(message, message.changelog_files)
    ]
    new_indexes = [entry for message in staged.messages for entry in _new_indexes(message)]
    replaced = [entry for message in staged.messages for entry in _removed_indexes(message)]
    scope = staged.overwrite

    def build(latest: Snapshot | None) -> Change | None:
        _check_staged_files(files, staged)
        removed: list[ManifestEntry] = []
        removed_indexes = replaced
        if scope is not None:
            if scope.dynamic and not added:
                return None
            removed = _entries_in_scope(files, latest, scope, added)
            removed_indexes = _indexes_in_scope(files, latest, scope, added)
        return Change(
            entries=[*removed, *added],
            changelog=changelog,
            new_indexes=new_indexes,
            removed_indexes=removed_indexes,
            watermark=staged.watermark,
        )

    return _commit(
        files,
        build,
        Committable(
            user=staged.commit_user,
            identifier=staged.commit_identifier,
            kind=CommitKind.APPEND if staged.mode is WriteMode.APPEND else CommitKind.OVERWRITE,
            checked_from=staged.base_snapshot_id,
            added_files=frozenset(entry.file.file_name for entry in added),
        ),
    )


def commit_compaction(
    files: TableFiles,
    messages: Sequence[CommitMessage],
    *,
    user: str,
    base_snapshot_id: int,
    whole_partitions: bool = False,
    kind: CommitKind = CommitKind.COMPACT,
) -> tuple[CommitResult, tuple[CommitMessage, ...]]:
    """Publish rewritten files; what was rewritten in vain comes back.

    A bucket whose files somebody else replaced meanwhile is left out and the
    rest is published, so that maintenance never fails for one bucket. With
    `whole_partitions` the other buckets of its partition are left out too: for
    rewrites that move rows between buckets, which are of kind OVERWRITE where they
    change how many there are.
    """
    lost: list[CommitMessage] = []

    def build(latest: Snapshot | None) -> Change | None:
        partitions = {message.partition for message in messages}
        live = {entry.identity for entry in live_entries(files, latest, partitions=partitions)}
        indexes = set(index_entries(files, latest))
        beaten = {
            (message.partition, message.bucket)
            for message in messages
            if not _still_applies(message, live, indexes)
        }
        if whole_partitions:
            torn = {partition for partition, _ in beaten}
            beaten = {place for place in map(_place, messages) if place[0] in torn}
        lost[:] = [message for message in messages if _place(message) in beaten]
        kept = [message for message in messages if _place(message) not in beaten]
        return Change(
            entries=[entry for message in kept for entry in _compacted(message)],
            changelog=[
                entry for message in kept for entry in _entries(message, message.compact_changelog)
            ],
            new_indexes=[entry for message in kept for entry in _new_indexes(message)],
            removed_indexes=[entry for message in kept for entry in _removed_indexes(message)],
        )

    result = _commit(
        files,
        build,
        Committable(
            user=user,
            identifier=BATCH_COMMIT_IDENTIFIER,
            kind=kind,
            checked_from=base_snapshot_id,
        ),
    )
    return result, tuple(lost)


def commit_statistics(
    files: TableFiles, statistics: str, *, user: str, base_snapshot_id: int
) -> CommitResult:
    """Publish a statistics file that is written already, on top of whatever is latest.

    Raises:
        SchemaMoved: the schema changed since, so that the statistics speak of other columns.
    """

    def build(latest: Snapshot | None) -> Change | None:
        if files.schemas.latest(table=files.name).id != files.schema.id:
            raise SchemaMoved(
                f"the schema of {files.name} changed while it was analyzed; analyze it again",
                table=files.name,
            )
        return None if latest is None else Change(statistics=statistics)

    return _commit(
        files,
        build,
        Committable(
            user=user,
            identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.ANALYZE,
            checked_from=base_snapshot_id,
        ),
    )


def _place(message: CommitMessage) -> tuple[bytes, int]:
    return message.partition, message.bucket


def _still_applies(
    message: CommitMessage, live: Collection[EntryIdentity], indexes: Collection[IndexEntry]
) -> bool:
    """Whether what a rewrite replaces is still there, as it was read, and its index its own."""
    before = _entries(message, message.compact_before)
    removed = _removed_indexes(message)
    return (
        all(entry.identity in live for entry in before)
        and _replaces_own_indexes(_new_indexes(message), removed, indexes)
        and _knows_deletions(message, indexes)
        and _marks_live_files(message, live)
    )


def _knows_deletions(message: CommitMessage, indexes: Collection[IndexEntry]) -> bool:
    """Whether the rows now gone from files written anew are those that were left out.

    A rewrite replaces the index files of every vector that it applied.
    """
    moved = {file.file_name for file in message.compact_after}
    rewritten = {file.file_name for file in message.compact_before} - moved
    present = [entry.file for entry in indexes if _place(message) == entry.place[:2]]
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
    """Whether the files whose rows a new index takes out were not written anew meanwhile."""
    marked = {
        vector.data_file for index in message.new_indexes for vector in index.deletion_vectors or ()
    }
    if not marked:
        return True
    there = {file.file_name for file in message.compact_after}
    there |= {each.file_name for each in live if (each.partition, each.bucket) == _place(message)}
    return marked <= there


def _replaces_own_indexes(
    new: Collection[IndexEntry], removed: Collection[IndexEntry], present: Collection[IndexEntry]
) -> bool:
    """Whether index files to remove are present, and new ones do not join others of their place."""
    if not set(removed) <= set(present):
        return False
    left = {entry.place for entry in present if entry not in removed}
    return not any(entry.place in left for entry in new)


def _compacted(message: CommitMessage) -> list[ManifestEntry]:
    removed = [entry.removed() for entry in _entries(message, message.compact_before)]
    return [*removed, *_entries(message, message.compact_after)]


def _new_indexes(message: CommitMessage) -> list[IndexEntry]:
    return _index_entries(message, message.new_indexes)


def _removed_indexes(message: CommitMessage) -> list[IndexEntry]:
    return _index_entries(message, message.removed_indexes)


def _index_entries(message: CommitMessage, metas: Iterable[IndexFileMeta]) -> list[IndexEntry]:
    return [
        IndexEntry(partition=message.partition, bucket=message.bucket, file=file) for file in metas
    ]


def _entries(message: CommitMessage, metas: Iterable[DataFileMeta]) -> list[ManifestEntry]:
    return [
        ManifestEntry(
            kind=FileKind.ADD,
            partition=message.partition,
            bucket=message.bucket,
            total_buckets=message.total_buckets,
            file=file,
        )
        for file in metas
    ]


def _added(message: CommitMessage) -> list[ManifestEntry]:
    return _entries(message, message.new_files)


def _entries_in_scope(
    files: TableFiles,
    latest: Snapshot | None,
    scope: OverwriteScope,
    added: Sequence[ManifestEntry],
) -> list[ManifestEntry]:
    """Removals of every live file that an overwrite replaces."""
    partitions = _partitions_in_scope(scope, added)
    return [
        entry.removed()
        for entry in live_entries(files, latest, partitions=partitions)
        if _in_scope(files, scope, entry.partition)
    ]


def _indexes_in_scope(
    files: TableFiles,
    latest: Snapshot | None,
    scope: OverwriteScope,
    added: Sequence[ManifestEntry],
) -> list[IndexEntry]:
    """Index files of every bucket that an overwrite replaces."""
    partitions = _partitions_in_scope(scope, added)
    return [
        entry
        for entry in index_entries(files, latest)
        if (partitions is None or entry.partition in partitions)
        and _in_scope(files, scope, entry.partition)
    ]


def _partitions_in_scope(
    scope: OverwriteScope, added: Sequence[ManifestEntry]
) -> set[bytes] | None:
    return {entry.partition for entry in added} if scope.dynamic else None


def _in_scope(files: TableFiles, scope: OverwriteScope, partition: bytes) -> bool:
    keys = files.schema.partition_keys
    values = dict(zip(keys, files.partition_values(partition), strict=True))
    return all(values[name] == value for name, value in scope.spec)


def _check_schema(files: TableFiles, staged: StagedWrite) -> None:
    if staged.schema_id == files.schema.id:
        return
    written_with = files.schemas.read(staged.schema_id)
    if (written_with.partition_keys, written_with.primary_keys) != (
        files.schema.partition_keys,
        files.schema.primary_keys,
    ):
        raise SchemaMoved(
            f"the keys of {files.name} changed between schema {staged.schema_id}, which the rows "
            f"were staged with, and schema {files.schema.id}; stage the rows again",
            table=files.name,
        )


def _check_staged_files(files: TableFiles, staged: StagedWrite) -> None:
    """Whether the files are still there; what deletes staged files deletes all, so one tells."""
    for message in staged.messages:
        for file in message.new_files:
            path = files.data_file_path(message.partition, message.bucket, file)
            if not files.fs.exists(path):
                raise FilesGone(
                    f"data file {path} of a staged write to {files.name} is there no more: the "
                    "write was aborted, or committed and rolled back or expired since; look "
                    "whether its rows are there, and stage them again if not",
                    table=files.name,
                )
            return


# --- the loop ---------------------------------------------------------------------------------


def _commit(files: TableFiles, build: BuildChange, committable: Committable) -> CommitResult:
    checked_from = committable.checked_from
    for attempt in range(files.options.commit_max_retries + 1):
        earlier = _committed_before(files, committable, checked_from)
        if earlier is not None:
            return CommitResult(snapshot=earlier, attempts=attempt, already_committed=True)
        latest = files.snapshots.latest()
        change = build(latest)
        if change is None or change.is_empty:
            return CommitResult(snapshot=None, attempts=attempt)
        _check_conflicts(files, latest, change, committable)
        snapshot = _try_commit(files, latest, change, committable)
        if snapshot is not None:
            return CommitResult(snapshot=snapshot, attempts=attempt + 1)
        checked_from = None if latest is None else latest.id
        wait = min(_LONGEST_WAIT_MS, _FIRST_WAIT_MS * 2**attempt)
        files.env.sleep_ms(wait * (0.5 + files.env.jitter()))
    raise RetriesExhausted(
        f"commit to {files.name} by {committable.user} lost the race for the next snapshot "
        f"{files.options.commit_max_retries + 1} times; try again, or raise commit.max-retries",
        table=files.name,
    )


def _committed_before(
    files: TableFiles, committable: Committable, checked_from: int | None
) -> Snapshot | None:
    """A snapshot that an earlier try of the same commit made."""
    if committable.in_series:
        return find_committed(files, committable.user, committable.identifier, committable.kind)
    latest_id = files.snapshots.latest_id()
    if latest_id is None:
        return None
    for snapshot_id in range(latest_id, (checked_from or FIRST_SNAPSHOT_ID - 1), -1):
        try:
            snapshot = files.snapshots.read(snapshot_id)
        except SnapshotNotFound:
            return None
        same = (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind) == (
            committable.user,
            committable.identifier,
            committable.kind,
        )
        if same and _adds(files, snapshot, committable.added_files):
            return snapshot
    return None


def _adds(files: TableFiles, snapshot: Snapshot, names: frozenset[str]) -> bool:
    """Whether a snapshot added one of the files, or there are none to look for."""
    metas = files.manifests.read_list(snapshot.delta_manifest_list) if names else ()
    return not names or any(
        entry.kind is FileKind.ADD and entry.file.file_name in names
        for entry in files.manifests.entries(metas)
    )


def _try_commit(
    files: TableFiles,
    latest: Snapshot | None,
    change: Change,
    committable: Committable,
) -> Snapshot | None:
    """One attempt; None if another commit took the id, and then nothing of this one is left."""
    written: list[str] = []
    try:
        snapshot = _write_manifests(files, latest, change, committable, written)
    except BaseException:
        _clean_up(files, written)
        raise
    try:
        # The answer alone proves nothing: a request that was sent twice finds its own file, and
        # writers of the format that rename over a file can replace a snapshot just made.
        files.snapshots.put_snapshot(snapshot)
        ours = _is_ours(files, snapshot)
    except StorageError as error:
        ours = _created_after_all(files, snapshot, error)
    if ours and not _base_stands(files, latest):
        delete_files(files.fs, [files.paths.snapshot(snapshot.id)])
        ours = False
    if not ours:
        _clean_up(files, written)
        return None
    # The commit stands whatever becomes of the hints, which may always be wrong.
    with suppress(StorageError):
        files.snapshots.hint_latest(snapshot.id)
        if latest is None:
            files.snapshots.hint_earliest(snapshot.id)
    return snapshot


def _base_stands(files: TableFiles, base: Snapshot | None) -> bool:
    """Whether the history still leads to the snapshot that a commit was built on.

    A rollback may have taken it away, and what it names, while the commit was written. An
    expiry may have too, but then nothing is left before it.
    """
    if base is None:
        return True
    try:
        return files.snapshots.read(base.id).delta_manifest_list == base.delta_manifest_list
    except SnapshotNotFound:
        return not any(each < base.id for each in files.snapshots.ids())


def _write_manifests(
    files: TableFiles,
    latest: Snapshot | None,
    change: Change,
    committable: Committable,
    written: list[str],
) -> Snapshot:
    """Write all that the new snapshot names, recording each name in `written`."""
    compression = files.options.manifest_compression
    merged = merge_manifests(files, snapshot_manifests(files, latest) if latest else ())
    written += [meta.file_name for meta in merged.written]
    base, base_size = files.manifests.write_list(merged.metas, compression=compression)
    written.append(base)
    delta, delta_size = _write_entries(files, change.entries, written)
    changelog, changelog_size = None, None
    if change.changelog:
        changelog, changelog_size = _write_entries(files, change.changelog, written)
    index_manifest = _write_index_manifest(files, latest, change, written)
    delta_rows = sum(
        entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        for entry in change.entries
    )
    schema_id = files.schemas.latest(table=files.name).id
    return Snapshot(
        id=FIRST_SNAPSHOT_ID if latest is None else latest.id + 1,
        schema_id=schema_id,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_size,
        changelog_manifest_list=changelog,
        changelog_manifest_list_size=changelog_size,
        changelog_record_count=sum(entry.file.row_count for entry in change.changelog),
        index_manifest=index_manifest,
        commit_user=committable.user,
        commit_identifier=committable.identifier,
        commit_kind=committable.kind,
        time_millis=files.env.now_ms(),
        total_record_count=(0 if latest is None else latest.total_record_count) + delta_rows,
        delta_record_count=delta_rows,
        watermark=_later(change.watermark, None if latest is None else latest.watermark),
        statistics=change.statistics or _inherited_statistics(latest, schema_id),
    )


def _write_entries(
    files: TableFiles, entries: Sequence[ManifestEntry], written: list[str]
) -> tuple[str, int]:
    """A manifest list over one manifest of the entries, or over none; its name and size."""
    compression = files.options.manifest_compression
    metas = []
    if entries:
        metas.append(
            files.manifests.write_manifest(
                entries,
                schema_id=files.schema.id,
                partition_fields=files.schema.partition_fields,
                compression=compression,
            )
        )
        written.append(metas[0].file_name)
    name, size = files.manifests.write_list(metas, compression=compression)
    written.append(name)
    return name, size


def _write_index_manifest(
    files: TableFiles, latest: Snapshot | None, change: Change, written: list[str]
) -> str | None:
    """The index manifest after the change: the latest one's name if nothing in it changes."""
    if set(change.new_indexes) == set(change.removed_indexes):
        return None if latest is None else latest.index_manifest
    removed = set(change.removed_indexes)
    kept = [entry for entry in index_entries(files, latest) if entry not in removed]
    entries = [*kept, *change.new_indexes]
    if not entries:
        return None
    name = files.manifests.write_index_manifest(
        entries, compression=files.options.manifest_compression
    )
    written.append(name)
    return name


def _later(watermark: int | None, present: int | None) -> int | None:
    known = [each for each in (watermark, present) if each is not None]
    return max(known, default=None)


def _inherited_statistics(latest: Snapshot | None, schema_id: int) -> str | None:
    return latest.statistics if latest is not None and latest.schema_id == schema_id else None


def _clean_up(files: TableFiles, written: Sequence[str]) -> None:
    delete_files(files.fs, [files.paths.manifest(name) for name in written])


def _created_after_all(files: TableFiles, snapshot: Snapshot, error: StorageError) -> bool:
    """Whether a create that failed took effect nevertheless."""
    try:
        if files.snapshots.exists(snapshot.id):
            return _is_ours(files, snapshot)
    except StorageError:
        pass
    raise CommitOutcomeUnknownError(
        f"the store failed while snapshot {snapshot.id} of {files.name} was created: {error}; "
        f"look for commit user {snapshot.commit_user}, identifier {snapshot.commit_identifier}, "
        "before trying again",
        table=files.name,
    ) from error


def _is_ours(files: TableFiles, snapshot: Snapshot) -> bool:
    return files.snapshots.read(snapshot.id).delta_manifest_list == snapshot.delta_manifest_list


# --- conflicts --------------------------------------------------------------------------------


def _check_conflicts(
    files: TableFiles,
    latest: Snapshot | None,
    change: Change,
    committable: Committable,
) -> None:
    """Whether the change still applies to the latest snapshot.

    Raises:
        FilesGone: a file to remove is not live any more.
        IndexMoved: an index file to replace was replaced by somebody else.
        BucketCountChanged: a partition would hold files of two bucket counts.
        KeyRangesOverlap: two files of one deeper level would hold the same keys.
    """
    _check_indexes(files, latest, change)
    entries = change.entries
    fixed_buckets = files.options.bucket_mode is BucketMode.FIXED
    if not entries or (committable.kind is CommitKind.APPEND and not fixed_buckets):
        return
    partitions = {entry.partition for entry in entries}
    live = live_entries(files, latest, partitions=partitions)
    merged = fold_entries([*live, *entries])
    gone = [entry for entry in merged.values() if entry.kind is FileKind.DELETE]
    if gone:
        raise FilesGone(
            f"commit to {files.name} on top of snapshot {latest.id if latest else 'none'} "
            f"conflicts: bucket {gone[0].bucket} of partition "
            f"{files.partition_spec(gone[0].partition)} no longer holds {gone[0].file.file_name} "
            f"(and {len(gone) - 1} more); plan again from the latest snapshot",
            table=files.name,
        )
    _check_bucket_counts(files, merged.values())
    if files.schema.is_keyed:
        _check_key_ranges(files, merged.values())


def _check_indexes(files: TableFiles, latest: Snapshot | None, change: Change) -> None:
    if not change.new_indexes and not change.removed_indexes:
        return
    present = index_entries(files, latest)
    if not _replaces_own_indexes(change.new_indexes, change.removed_indexes, present):
        first = [*change.new_indexes, *change.removed_indexes][0]
        raise IndexMoved(
            f"another writer changed the {first.file.index_type} index of bucket {first.bucket} in "
            f"partition {files.partition_spec(first.partition)} of {files.name} meanwhile; such a "
            "table takes one writer at a time: stage the rows again",
            table=files.name,
        )


def _check_bucket_counts(files: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    counts: dict[bytes, set[int]] = defaultdict(set)
    for entry in entries:
        if entry.total_buckets > 0:
            counts[entry.partition].add(entry.total_buckets)
    for partition, found in counts.items():
        if len(found) > 1:
            spec = files.partition_spec(partition)
            raise BucketCountChanged(
                f"commit to {files.name} would leave partition {spec} with files of "
                f"{' and '.join(map(str, sorted(found)))} buckets; overwrite the partition to "
                "change its bucket count",
                table=files.name,
            )


def _check_key_ranges(files: TableFiles, entries: Iterable[ManifestEntry]) -> None:
    decode = key_decoder(files.schema)
    for (partition, bucket), group in grouped_by_bucket(entries).items():
        levels: dict[int, list[DataFileMeta]] = defaultdict(list)
        for entry in group:
            if entry.file.level > 0:
                levels[entry.file.level].append(entry.file)
        for level, metas in levels.items():
            pair = first_overlap(metas, decode)
            if pair is not None:
                raise KeyRangesOverlap(
                    f"commit to {files.name} would leave {pair[0].file_name} and "
                    f"{pair[1].file_name} with common keys in level {level} of bucket {bucket}, "
                    f"partition {files.partition_spec(partition)}; plan again from the latest "
                    "snapshot",
                    table=files.name,
                )
