"""The one door through which a table gets a new snapshot.

1. Look whether an earlier try has committed the same (user, identifier) already.
2. Read the latest snapshot and work out the entries that change it.
3. Check them against what is live: everything removed must be there.
4. Write the base list (merged manifests), the delta manifest and its list.
5. Create snapshot-N only if it is absent. Lost: clean up, wait a little, from 1.
   Unknown: look whether it is ours, and never delete what it may name.
6. Update the hints.

Source: Paimon specification, chapter Snapshot; `FileStoreCommitImpl`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.errors import (
    BucketCountChanged,
    CommitOutcomeUnknownError,
    FilesGone,
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
from lakewright.storage.spec.manifest import (
    DataFileMeta,
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


# From the latest snapshot to the entries of the delta; None when there is nothing to change.
BuildEntries = Callable[[Snapshot | None], list[ManifestEntry] | None]


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
    scope = staged.overwrite

    def build(latest: Snapshot | None) -> list[ManifestEntry] | None:
        if scope is None:
            return added or None
        if scope.dynamic and not added:
            return None
        removed = _entries_in_scope(files, latest, scope, added)
        return [*removed, *added] or None

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
    files: TableFiles, messages: Sequence[CommitMessage], *, user: str, base_snapshot_id: int
) -> tuple[CommitResult, tuple[CommitMessage, ...]]:
    """Publish rewritten files; what was rewritten in vain comes back.

    A bucket whose files somebody else replaced meanwhile is left out and the
    rest is published, so that maintenance never fails for one bucket.
    """
    lost: list[CommitMessage] = []

    def build(latest: Snapshot | None) -> list[ManifestEntry] | None:
        partitions = {message.partition for message in messages}
        live = {entry.identity for entry in live_entries(files, latest, partitions=partitions)}
        entries: list[ManifestEntry] = []
        lost.clear()
        for message in messages:
            before = [entry.removed() for entry in _entries(message, message.compact_before)]
            if all(entry.identity in live for entry in before):
                entries += [*before, *_entries(message, message.compact_after)]
            else:
                lost.append(message)
        return entries or None

    result = _commit(
        files,
        build,
        Committable(
            user=user,
            identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.COMPACT,
            checked_from=base_snapshot_id,
        ),
    )
    return result, tuple(lost)


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
    partitions = {entry.partition for entry in added} if scope.dynamic else None
    fixed = dict(scope.spec)
    keys = files.schema.partition_keys
    removed = []
    for entry in live_entries(files, latest, partitions=partitions):
        values = dict(zip(keys, files.partition_values(entry.partition), strict=True))
        if all(values[name] == value for name, value in fixed.items()):
            removed.append(entry.removed())
    return removed


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


# --- the loop ---------------------------------------------------------------------------------


def _commit(files: TableFiles, build: BuildEntries, committable: Committable) -> CommitResult:
    checked_from = committable.checked_from
    for attempt in range(files.options.commit_max_retries + 1):
        earlier = _committed_before(files, committable, checked_from)
        if earlier is not None:
            return CommitResult(snapshot=earlier, attempts=attempt, already_committed=True)
        latest = files.snapshots.latest()
        entries = build(latest)
        if entries is None:
            return CommitResult(snapshot=None, attempts=attempt)
        _check_conflicts(files, latest, entries, committable)
        snapshot = _try_commit(files, latest, entries, committable)
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
    entries: list[ManifestEntry],
    committable: Committable,
) -> Snapshot | None:
    """One attempt; None if another commit took the id, and then nothing of this one is left."""
    written: list[str] = []
    try:
        snapshot = _write_manifests(files, latest, entries, committable, written)
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
    if not ours:
        _clean_up(files, written)
        return None
    # The commit stands whatever becomes of the hints, which may always be wrong.
    with suppress(StorageError):
        files.snapshots.hint_latest(snapshot.id)
        if latest is None:
            files.snapshots.hint_earliest(snapshot.id)
    return snapshot


def _write_manifests(
    files: TableFiles,
    latest: Snapshot | None,
    entries: list[ManifestEntry],
    committable: Committable,
    written: list[str],
) -> Snapshot:
    """Write all that the new snapshot names, recording each name in `written`."""
    options, store = files.options, files.manifests
    merged = merge_manifests(files, snapshot_manifests(files, latest) if latest else ())
    written += [meta.file_name for meta in merged.written]
    base, base_size = store.write_list(merged.metas, compression=options.manifest_compression)
    written.append(base)
    delta_manifest = store.write_manifest(
        entries,
        schema_id=files.schema.id,
        partition_fields=files.schema.partition_fields,
        compression=options.manifest_compression,
    )
    written.append(delta_manifest.file_name)
    delta, delta_size = store.write_list([delta_manifest], compression=options.manifest_compression)
    written.append(delta)
    delta_rows = sum(
        entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        for entry in entries
    )
    schema_id = files.schemas.ids()[-1]
    return Snapshot(
        id=FIRST_SNAPSHOT_ID if latest is None else latest.id + 1,
        schema_id=schema_id,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_size,
        index_manifest=None if latest is None else latest.index_manifest,
        commit_user=committable.user,
        commit_identifier=committable.identifier,
        commit_kind=committable.kind,
        time_millis=files.env.now_ms(),
        total_record_count=(0 if latest is None else latest.total_record_count) + delta_rows,
        delta_record_count=delta_rows,
        watermark=None if latest is None else latest.watermark,
        statistics=(
            latest.statistics if latest is not None and latest.schema_id == schema_id else None
        ),
    )


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
    entries: Sequence[ManifestEntry],
    committable: Committable,
) -> None:
    """Whether the entries still apply to the latest snapshot.

    Raises:
        FilesGone: a file to remove is not live any more.
        BucketCountChanged: a partition would hold files of two bucket counts.
        KeyRangesOverlap: two files of one deeper level would hold the same keys.
    """
    fixed_buckets = files.options.bucket_mode is BucketMode.FIXED
    if committable.kind is CommitKind.APPEND and not fixed_buckets:
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
    if files.schema.has_primary_key:
        _check_key_ranges(files, merged.values())


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
