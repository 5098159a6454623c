"""Pending batches: staged writes that a writer keeps beside the table until it commits them.

A writer that works in checkpoints learns only later whether a batch is complete. It keeps each
staged batch until then. After a restart it commits all batches up to the last complete one, in
order, each exactly once. All uncommitted batches are kept, not only the last. Orphan removal does
not delete the files of a kept batch.

Source: seed document 001, "snapshotState" and "notifyCheckpointComplete" of its streaming sink.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    FileMissing,
    InvalidRequestError,
    StorageError,
)
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit import commit_write
from lakewright.storage.operations.references.sweep import abort_staged
from lakewright.storage.operations.references.tags import tag_what_is_due
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.write.write import partition_writes
from lakewright.storage.spec.arguments import text_argument, whole_or_none
from lakewright.storage.spec.commit import CommitResult, StagedWrite
from lakewright.storage.spec.snapshot import BATCH_COMMIT_IDENTIFIER


def keep_pending(files: TableFiles, staged: StagedWrite) -> StagedWrite:
    """Keep a staged batch until it is committed or aborted; return the batch that is kept.

    If the user already keeps a batch under this identifier, that batch remains, and the files of
    the new one are deleted.

    Raises:
        InvalidRequestError: the batch has no identifier of its own.
    """
    if staged.commit_identifier == BATCH_COMMIT_IDENTIFIER:
        raise InvalidRequestError(
            f"a write to {files.name} that is kept needs a commit_identifier, by which it is found "
            "again; stage it with one that grows from batch to batch of its commit_user"
        )
    path = files.paths.pending(staged.commit_user, staged.commit_identifier)
    # A kept batch must not outlive its files, which tasks may have written a moment ago.
    written = [each for message in staged.messages for each in files.written_paths(message)]
    files.fs.make_durable(written, below=files.paths.root)
    rounds = Rounds(files.name, "a batch was kept")
    while not files.pending.put(staged):
        rounds.begin()
        with suppress(FileMissing):
            earlier = files.pending.read(path)
            if earlier.write_id != staged.write_id:
                abort_staged(files, staged)
            return _whole(files, earlier)
    return staged


def commit_or_abort(
    files: TableFiles, staged: StagedWrite, *, reads_base: bool = False
) -> CommitResult:
    """Publish a staged write; its files are deleted if they are published by no snapshot.

    They stay if a snapshot may exist after a failure of the store. With `reads_base` the rows were
    made of those that the table had at the base of the write, and another commit of rows conflicts.
    """
    # What is published is asked anew before anything is deleted.
    now = replace(files, read_manifests=None)
    try:
        result = commit_write(files, staged, reads_base=reads_base)
        tag_what_is_due(now)
    except CommitOutcomeUnknownError:
        raise
    except StorageError:
        # A second failure of the store must not hide the first error.
        with suppress(StorageError):
            abort_pending(now, staged)
        raise
    if result.already_committed or result.snapshot is None:
        # The earlier commit stands, even if the deletion of this attempt's files fails.
        with suppress(StorageError):
            abort_pending(now, staged)
    return result


def pending_batches(files: TableFiles, user: str | None = None) -> tuple[StagedWrite, ...]:
    """Kept batches of one user, or of all users, sorted by user and identifier.

    Raises:
        CorruptionError: the file of a batch cannot be read.
    """
    if user is not None:
        text_argument(user, "commit_user")
    found = []
    for path in files.pending.files(user):
        # Another process may have committed or aborted the batch since the listing.
        with suppress(FileMissing):
            found.append(files.pending.read(path))
    found.sort(key=lambda staged: (staged.commit_user, staged.commit_identifier))
    return tuple(_whole(files, staged) for staged in found)


def commit_pending(
    files: TableFiles, user: str, *, up_to: int | None = None
) -> tuple[CommitResult, ...]:
    """Commit a user's batches in order, all or up to an identifier; return one result per batch.

    Raises:
        CommitConflictError: the table changed in a way that conflicts with a batch. Earlier
            batches are committed; this batch and later ones remain kept.
        CommitOutcomeUnknownError: the store failed while a snapshot was created. The next call
            finds out whether the batch was committed.
    """
    up_to = whole_or_none(up_to, "up_to")
    results = []
    for staged in pending_batches(files, user):
        if up_to is not None and staged.commit_identifier > up_to:
            break
        result = commit_write(files, staged)
        # The commit stands. If the cleanup fails, the next call finds the batch committed.
        with suppress(StorageError):
            if result.already_committed or result.snapshot is None:
                # This does not delete files that an earlier attempt published.
                abort_staged(files, staged)
            _forget(files, staged)
        results.append(result)
    return tuple(results)


def abort_pending(files: TableFiles, staged: StagedWrite) -> int:
    """Delete the unpublished files of a staged write and its kept batch; return the file count."""
    if staged.commit_identifier != BATCH_COMMIT_IDENTIFIER:
        with suppress(FileMissing):
            path = files.paths.pending(staged.commit_user, staged.commit_identifier)
            if files.pending.read(path).write_id == staged.write_id:
                _forget(files, staged)
    return abort_staged(files, staged)


def _forget(files: TableFiles, staged: StagedWrite) -> None:
    delete_files(files.fs, [files.paths.pending(staged.commit_user, staged.commit_identifier)])


def _whole(files: TableFiles, staged: StagedWrite) -> StagedWrite:
    return replace(staged, partitions=partition_writes(files, staged.messages))
