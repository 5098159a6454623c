"""What writes, compactions and statistics change of a snapshot; `commit_loop` commits it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lakewright.storage.errors import CommitOutcomeUnknownError, SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_conflicts import (
    check_schema,
    check_staged_files,
    still_applies,
)
from lakewright.storage.operations.commit.commit_loop import commit_change
from lakewright.storage.operations.commit.restamp import RestampedWrite, stem_of
from lakewright.storage.operations.state.live_files import LiveFiles, index_entries
from lakewright.storage.operations.state.named_partitions import is_named
from lakewright.storage.spec.commit import (
    Change,
    CommitMessage,
    CommitResult,
    Committable,
    OverwriteScope,
    StagedWrite,
    WriteMode,
)
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot

# From buckets to those of them that their worker must leave to others.
GivenUp = Callable[[Collection[tuple[bytes, int]]], Collection[tuple[bytes, int]]]


def commit_write(files: TableFiles, staged: StagedWrite) -> CommitResult:
    """Publish a staged write.

    Raises:
        CommitConflictError: the table changed so that the rows no longer fit; nothing is
            published, and the staged files are still there to abort or to stage again.
        CommitOutcomeUnknownError: the store failed at the decisive moment.
    """
    check_schema(files, staged)
    write = RestampedWrite(files, staged)

    def build(latest: Snapshot | None, live_files: LiveFiles) -> Change | None:
        check_staged_files(files, staged)
        return _change_of_write(files, write.on_top_of(latest, live_files), latest, live_files)

    committable = Committable(
        user=staged.commit_user,
        identifier=staged.commit_identifier,
        kind=CommitKind.APPEND if staged.mode is WriteMode.APPEND else CommitKind.OVERWRITE,
        base_id=staged.base_snapshot_id,
        base_commit=staged.base_commit,
        added_files=frozenset(
            stem_of(file.file_name) for message in staged.messages for file in message.new_files
        ),
    )
    try:
        result = commit_change(files, build, committable)
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        write.give_up()
        raise
    write.settle()
    return result


def _change_of_write(
    files: TableFiles, staged: StagedWrite, latest: Snapshot | None, live_files: LiveFiles
) -> Change | None:
    messages = staged.messages
    added = [entry for each in messages for entry in each.entries(each.new_files)]
    removed: list[ManifestEntry] = []
    removed_indexes = [entry for each in messages for entry in each.removed_index_entries]
    scope = staged.overwrite
    if scope is not None:
        if scope.dynamic and not added:
            return None
        removed = _entries_in_scope(files, live_files, latest, scope, added)
        removed_indexes = _indexes_in_scope(files, latest, scope, added)
    return Change(
        entries=[*removed, *added],
        changelog=[entry for each in messages for entry in each.entries(each.changelog_files)],
        new_indexes=[entry for each in messages for entry in each.new_index_entries],
        removed_indexes=removed_indexes,
        watermark=staged.watermark,
    )


def commit_compaction(
    files: TableFiles,
    messages: Sequence[CommitMessage],
    *,
    user: str,
    base_snapshot_id: int,
    whole_partitions: bool = False,
    kind: CommitKind = CommitKind.COMPACT,
    given_up: GivenUp | None = None,
) -> tuple[CommitResult, tuple[CommitMessage, ...]]:
    """Publish rewritten files; what was rewritten in vain comes back.

    A bucket whose files somebody else replaced meanwhile is left out and the
    rest is published, so that maintenance never fails for one bucket. With
    `whole_partitions` the other buckets of its partition are left out too: for
    rewrites that move rows between buckets, which are of kind OVERWRITE where they
    change how many there are. What `given_up` says at the last moment is left out likewise.
    """
    lost: list[CommitMessage] = []

    def build(latest: Snapshot | None, live_files: LiveFiles) -> Change | None:
        partitions = {message.partition for message in messages}
        live = {entry.identity for entry in live_files.entries(latest, partitions=partitions)}
        indexes = set(index_entries(files, latest))
        beaten = {
            (message.partition, message.bucket)
            for message in messages
            if not still_applies(message, live, indexes)
        }
        if given_up is not None:
            beaten.update(given_up({message.place for message in messages}))
        if whole_partitions:
            torn = {partition for partition, _ in beaten}
            beaten = {
                place for place in (message.place for message in messages) if place[0] in torn
            }
        lost[:] = [message for message in messages if message.place in beaten]
        kept = [message for message in messages if message.place not in beaten]
        return Change(
            entries=[entry for message in kept for entry in message.compacted_entries],
            changelog=[
                entry for message in kept for entry in message.entries(message.compact_changelog)
            ],
            new_indexes=[entry for message in kept for entry in message.new_index_entries],
            removed_indexes=[entry for message in kept for entry in message.removed_index_entries],
        )

    result = commit_change(
        files,
        build,
        Committable(
            user=user,
            identifier=BATCH_COMMIT_IDENTIFIER,
            kind=kind,
            base_id=base_snapshot_id,
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

    def build(latest: Snapshot | None, _: LiveFiles) -> Change | None:
        if files.schemas.latest(table=files.name).id != files.schema.id:
            raise SchemaMoved(
                f"the schema of {files.name} changed while it was analyzed; analyze it again",
                table=files.name,
            )
        return None if latest is None else Change(statistics=statistics)

    return commit_change(
        files,
        build,
        Committable(
            user=user,
            identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.ANALYZE,
            base_id=base_snapshot_id,
        ),
    )


def _entries_in_scope(
    files: TableFiles,
    live_files: LiveFiles,
    latest: Snapshot | None,
    scope: OverwriteScope,
    added: Sequence[ManifestEntry],
) -> list[ManifestEntry]:
    """Removals of every live file that an overwrite replaces."""
    partitions = _partitions_in_scope(scope, added)
    return [
        entry.removed()
        for entry in live_files.entries(latest, partitions=partitions)
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
    return is_named(files, partition, [dict(scope.spec)])
