"""Builds changes by writes, rewrites, manifests and statistics; `commit_loop` commits them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    SchemaMoved,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_conflicts import (
    check_rows_of_base,
    check_schema,
    check_staged_files,
    still_applies,
)
from lakewright.storage.operations.commit.commit_loop import commit_change
from lakewright.storage.operations.commit.restamp import RestampedWrite, stem_of
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import (
    Change,
    CommitMessage,
    CommitResult,
    Committable,
    OverwriteScope,
    StagedWrite,
    WriteMode,
)
from lakewright.storage.spec.manifest import ManifestEntry, ManifestFileMeta
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import CommitKind

# Takes buckets and returns those that the rewriting process gave up to other processes.
GivenUp = Callable[[Collection[Place]], Collection[Place]]
# Takes the manifests of the latest state, and returns those that are to replace them.
BuildManifests = Callable[[Sequence[ManifestFileMeta]], Sequence[ManifestFileMeta]]


def commit_write(
    files: TableFiles,
    staged: StagedWrite,
    *,
    reads_base: bool = False,
    streams: Callable[[TableState], str | None] | None = None,
) -> CommitResult:
    """Publish a staged write; `streams` makes of the latest state where streams stand with it.

    If `streams` gives None, the table holds the write already, and nothing is published.

    With `reads_base` the rows were made of those that the table had at the base of the write. A
    write may also replace files, or mark rows of files as deleted; these must be as they were when
    the write read them.

    Raises:
        StalePlan: the files that the write replaces have changed.
        CommitConflictError: the table changed in a way that conflicts with the rows. Nothing is
            published. The staged files remain; the caller aborts the write or stages it again.
        CommitOutcomeUnknownError: the store failed while the snapshot was created.
    """
    files = files.reading_once()
    check_schema(files, staged)
    write = RestampedWrite(files, staged)
    changing = [each for each in staged.messages if each.changes_files]

    def build(state: TableState) -> Change | None:
        check_staged_files(files, staged)
        if reads_base:
            check_rows_of_base(files, staged, state.snapshot)
        if changing:
            _check_still_apply(state, changing)
        stand = None if streams is None else streams(state)
        if streams is not None and stand is None:
            return None
        change = _change_of_write(state, write.on_top_of(state))
        return change if stand is None else replace(change or Change(), streams=stand)

    appends = staged.mode is WriteMode.APPEND and not changing
    committable = Committable(
        user=staged.commit_user,
        identifier=staged.commit_identifier,
        kind=CommitKind.APPEND if appends else CommitKind.OVERWRITE,
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


def _check_still_apply(state: TableState, messages: Sequence[CommitMessage]) -> None:
    files = state.files
    live = {entry.identity for entry in state.entries_of(each.partition for each in messages)}
    indexes = set(state.indexes)
    beaten = [message for message in messages if not still_applies(message, live, indexes)]
    if beaten:
        place = beaten[0].place
        raise StalePlan(
            f"another commit changed files of {files.name} whose rows were to change, in bucket "
            f"{place.bucket} of {files.partitions.of_row(place.partition).named} and "
            f"{len(beaten) - 1} more; nothing was written, run it again"
        )


def _change_of_write(state: TableState, staged: StagedWrite) -> Change | None:
    files = state.files
    messages = staged.messages
    added = [entry for message in messages for entry in message.entries(message.new_files)]
    removed: list[ManifestEntry] = []
    removed_indexes = [entry for message in messages for entry in message.removed_index_entries]
    scope = staged.overwrite
    if scope is not None:
        if scope.dynamic and not added:
            return None
        rows = {entry.partition for entry in added} if scope.dynamic else None
        live = state.entries_of(rows)
        wanted = _replaced_partitions(files, scope, rows, live)
        removed = [entry.removed() for entry in live if wanted.takes(entry)]
        schema_ids = {entry.partition: entry.file.schema_id for entry in live}
        removed_indexes = [
            entry
            for entry in state.indexes
            if wanted.takes_row(entry.partition, schema_ids.get(entry.partition, files.schema.id))
        ]
    return Change(
        entries=[
            *removed,
            *(entry for message in messages for entry in message.compacted_entries),
            *added,
        ],
        changelog=[
            entry for message in messages for entry in message.entries(message.changelog_files)
        ],
        new_indexes=[entry for message in messages for entry in message.new_index_entries],
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
    """Publish rewritten files; return the result and the messages that were left out.

    A bucket is left out if another commit replaced its files since the plan, or if `given_up`
    names it at commit time. The other buckets are published, so that one conflict does not fail
    the whole run. With `whole_partitions` all buckets of such a partition are left out. Rewrites
    that move rows between buckets need this. They use kind OVERWRITE if they change the bucket
    count.
    """
    files = files.reading_once()
    lost: list[CommitMessage] = []

    def build(state: TableState) -> Change | None:
        live = {entry.identity for entry in state.entries_of(each.partition for each in messages)}
        indexes = set(state.indexes)
        beaten = {
            message.place for message in messages if not still_applies(message, live, indexes)
        }
        if given_up is not None:
            beaten.update(given_up({message.place for message in messages}))
        if whole_partitions:
            torn = {place.partition for place in beaten}
            beaten = {message.place for message in messages if message.partition in torn}
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
        files, build, Committable(user=user, kind=kind, base_id=base_snapshot_id)
    )
    return result, tuple(lost)


def commit_statistics(
    files: TableFiles, statistics: str, *, user: str, base_snapshot_id: int
) -> CommitResult:
    """Publish a statistics file that is already written, on top of the latest snapshot.

    Raises:
        SchemaMoved: the schema changed since, so the statistics may describe other columns.
    """

    def build(state: TableState) -> Change | None:
        if files.schemas.latest_id(table=files.name) != files.schema.id:
            raise SchemaMoved(
                f"the schema of {files.name} changed while it was analyzed; analyze it again"
            )
        return None if state.snapshot is None else Change(statistics=statistics)

    return commit_change(
        files, build, Committable(user=user, kind=CommitKind.ANALYZE, base_id=base_snapshot_id)
    )


def commit_manifests(
    files: TableFiles, build: BuildManifests, *, user: str, base_snapshot_id: int
) -> CommitResult:
    """Publish other manifests of the latest state, in a snapshot that changes no data.

    The manifests are written before. After a failure the caller deletes them, unless the outcome
    is unknown.
    """

    def change(state: TableState) -> Change | None:
        return None if state.snapshot is None else Change(manifests=build(state.manifests))

    return commit_change(
        files.reading_once(),
        change,
        Committable(user=user, kind=CommitKind.COMPACT, base_id=base_snapshot_id),
    )


def _replaced_partitions(
    files: TableFiles,
    scope: OverwriteScope,
    rows: Collection[bytes] | None,
    live: Sequence[ManifestEntry],
) -> PartitionFilter:
    """The partitions that an overwrite empties."""
    spec = dict(scope.spec)
    for entry in {each.file.schema_id: each for each in live}.values() if spec else ():
        keys = files.partitions.of_entry(entry).keys.names
        if not spec.keys() <= set(keys):
            raise UnsupportedError(
                f"an overwrite of {files.name} names the partition keys {', '.join(spec)}, and "
                f"data file {entry.file.file_name} was written under the keys "
                f"{', '.join(keys) or 'none'}; overwrite by keys that both have, or all of it"
            )
    return PartitionFilter(files, rows=rows, named=[spec] if spec else None)
