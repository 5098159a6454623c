"""Pending batches: staged writes that are kept until whoever numbers the batches says "commit".

A writer that hears only later whether a batch is complete, as one does that writes checkpoint by
checkpoint, keeps each staged batch beside the table. After a restart it commits every batch up to
the last complete one, in order, and each once; all batches that are not committed yet are kept,
not only the last. The removal of orphans leaves their files alone for as long as they are.

Source: seed document 001, "snapshotState" and "notifyCheckpointComplete" of its streaming sink.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from lakewright.storage.errors import FileMissing, InvalidRequestError, StorageError
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit import commit_write
from lakewright.storage.operations.references.sweep import abort_staged
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.write.write import partition_writes
from lakewright.storage.spec.commit import CommitResult, StagedWrite
from lakewright.storage.spec.snapshot import BATCH_COMMIT_IDENTIFIER


def keep_pending(files: TableFiles, staged: StagedWrite) -> StagedWrite:
    """Keep a staged batch until it is committed or aborted; the one that counts.

    Of two that a user stages under one identifier the first that is kept counts; the files of the
    other are deleted.

    Raises:
        InvalidRequestError: it has no identifier that tells it from its user's other batches.
    """
    if staged.commit_identifier == BATCH_COMMIT_IDENTIFIER:
        raise InvalidRequestError(
            f"a write to {files.name} that is kept needs a commit_identifier, by which it is found "
            "again; stage it with one that grows from batch to batch of its commit_user"
        )
    path = files.paths.pending(staged.commit_user, staged.commit_identifier)
    # What is kept counts on its files, which tasks may have written a moment ago.
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


def pending_batches(files: TableFiles, user: str | None = None) -> tuple[StagedWrite, ...]:
    """Batches of a user that are kept, by their identifiers; without one of all users.

    Raises:
        CorruptionError: the file of one cannot be read.
    """
    found = []
    for path in files.pending.files(user):
        # Another process may be done with it meanwhile.
        with suppress(FileMissing):
            found.append(files.pending.read(path))
    found.sort(key=lambda staged: (staged.commit_user, staged.commit_identifier))
    return tuple(_whole(files, staged) for staged in found)


def commit_pending(
    files: TableFiles, user: str, *, up_to: int | None = None
) -> tuple[CommitResult, ...]:
    """Commit a user's batches in order, up to an identifier or all; one result for each.

    Raises:
        CommitConflictError: the table changed so that rows of a batch fit no more. Those before
            it are committed; it and those after it are kept.
        CommitOutcomeUnknownError: the store failed at a decisive moment; the next call finds out.
    """
    results = []
    for staged in pending_batches(files, user):
        if up_to is not None and staged.commit_identifier > up_to:
            break
        result = commit_write(files, staged)
        # The commit stands. What is not cleaned up is found committed by the next call.
        with suppress(StorageError):
            if result.already_committed or result.snapshot is None:
                # What an earlier try published is left alone.
                abort_staged(files, staged)
            _forget(files, staged)
        results.append(result)
    return tuple(results)


def abort_pending(files: TableFiles, staged: StagedWrite) -> int:
    """Delete the files of a staged write that was maybe kept, unless published; how many went."""
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
