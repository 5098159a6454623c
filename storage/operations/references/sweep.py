"""Deletes files of writes that will never be published.

Every deletion first reads the roots of main and all branches, and those of records of what was
condemned, which a verb may put back. So it never deletes a published file, even if the caller asks
for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from lakewright.storage.errors import CommitOutcomeUnknownError, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.keepers import Keepers, label_of
from lakewright.storage.operations.references.numbered import NumberedPaths
from lakewright.storage.operations.references.roots import all_roots
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.spec.commit import CommitMessage, StagedWrite

# The allowed clock difference between a writer, a committer and the store.
_CLOCKS_DIFFER_MS = 600_000


def abort_staged(files: TableFiles, staged: StagedWrite) -> int:
    """Delete the unpublished files of a staged write; return how many were deleted.

    Raises:
        CorruptionError: a snapshot since the staging cannot be read, so nothing is deleted.
    """
    return delete_unpublished(files, staged.messages, since_snapshot_id=staged.base_snapshot_id)


def delete_unpublished(
    files: TableFiles, messages: Sequence[CommitMessage], *, since_snapshot_id: int | None
) -> int:
    """Delete the new files that messages name, except those published since a snapshot."""
    paths = [
        files.data_file_path(message.place, file)
        for message in messages
        for file in message.written_files
    ] + [
        files.paths.index(index.file_name)
        for message in messages
        for index in message.new_indexes
        # An index that replaces itself existed before the message.
        if index not in message.removed_indexes
    ]
    made = [file.creation_time for message in messages for file in message.written_files]
    began_ms = min((time or 0 for time in made), default=0)
    return delete_but_published(files, paths, since_snapshot_id, began_ms)


def sweep(
    files: TableFiles,
    write_id: str,
    *,
    since_snapshot_id: int | None,
    but: Collection[str] = (),
) -> int:
    """Delete every unpublished file of a failed write; return how many were deleted.

    Files with the names `but` stay.

    This finds the files of dead tasks too, since file names carry the id of their write. It lists
    the whole table, so it is for failures only.
    """
    hidden = files.paths.upkeep_dir + "/"
    listed = files.fs.list_tree(files.paths.root)
    found = [
        each
        for each in listed
        if write_id in each.name and each.name not in but and not each.path.startswith(hidden)
    ]
    began_ms = min((each.modified_ms for each in found), default=0)
    paths = [each.path for each in found]
    return delete_but_published(files, paths, since_snapshot_id, began_ms)


def sweep_repeated(
    files: TableFiles,
    write_id: str,
    messages: Sequence[CommitMessage],
    *,
    since_snapshot_id: int | None,
) -> int:
    """Delete files of repeated task attempts whose results the write did not use.

    All attempts of a task write to the same buckets, so only their folders are listed. Orphan
    removal deletes what an attempt writes later, and what a failing store keeps.
    """
    named = {
        name
        for message in messages
        for file in message.written_files
        for name in (file.file_name, *file.extra_files)
    } | {index.file_name for message in messages for index in message.new_indexes}
    folders = {files.bucket_dir(message.place) for message in messages}
    if any(message.new_indexes for message in messages):
        folders.add(files.paths.index_dir)
    with suppress(StorageError):
        listed = [each for folder in sorted(folders) for each in files.fs.list_dir(folder)]
        found = [each for each in listed if write_id in each.name and each.name not in named]
        began_ms = min((each.modified_ms for each in found), default=0)
        paths = [each.path for each in found]
        return delete_but_published(files, paths, since_snapshot_id, began_ms)
    return 0


def sweep_after_failure(
    files: TableFiles,
    write_ids: Iterable[str],
    *,
    since_snapshot_id: int | None,
    but: Collection[str] = (),
) -> None:
    """Delete the files of failed writes; a store failure here does not hide why they failed."""
    for write_id in write_ids:
        with suppress(StorageError):
            sweep(files, write_id, since_snapshot_id=since_snapshot_id, but=but)


def delete_but_published(
    files: TableFiles, paths: Sequence[str], since_snapshot_id: int | None, began_ms: int
) -> int:
    """Delete files, except those that a commit since a snapshot or a time may have published."""
    if not paths:
        return 0
    # After a rollback new snapshots may have smaller ids, so their time decides as well.
    known = {
        label_of(root)
        for root in all_roots(files)
        if root.snapshot.id <= (since_snapshot_id or 0)
        and root.snapshot.time_millis < began_ms - _CLOCKS_DIFFER_MS
    }
    below = [path.removeprefix(f"{files.paths.root}/") for path in paths]
    keepers = Keepers(files, NumberedPaths.of(below), lambda: below, known=known, with_staged=False)
    keepers.look()
    kept = keepers.kept | keepers.recorded
    going = [path for path, each in zip(paths, below, strict=True) if each not in kept]
    return delete_files(files.fs, going)


@contextmanager
def swept_after_failure(
    files: TableFiles, write_ids: Iterable[str], since_snapshot_id: int | None
) -> Iterator[None]:
    """Delete the files of writes that fail inside; not where a commit may have been made."""
    try:
        yield
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        sweep_after_failure(files, write_ids, since_snapshot_id=since_snapshot_id)
        raise
