"""Tells a reader that its snapshot expired, or that the owner of a file changed it.

A reader takes no lock. Retention, a tag or a consumer keeps the files of its snapshot. A reader
that is too slow finds a file missing, in any engine and at any step; the error then names the
expired snapshot. Files that were taken over where they lie stay their owner's, who may delete them
or write over them; then the error names the repair of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewright.storage.errors import CorruptionError, FileMissing, SnapshotNotFound, StorageError
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.options import BucketMode


@contextmanager
def told_if_expired(
    files: TableFiles, *snapshot_ids: int | None, changes: bool = False
) -> Iterator[None]:
    """Turn an error for a missing file into `SnapshotNotFound` if the snapshot expired.

    If the snapshot still exists, the error stays as it is, but for a lost file, since a later read
    helps no more then, and for a damaged file that was taken over. With `changes` the reader reads
    the changes of the commit, which a tag does not keep but a changelog does.

    Raises:
        CorruptionError: a file contradicts its metadata.
        FileMissing: a file of a snapshot that still exists is lost.
        SnapshotNotFound: one of the snapshots expired or was rolled back.
    """
    try:
        yield
    except (CorruptionError, FileMissing) as error:
        there = _ids_there(files, changes=changes)
        gone = [
            snapshot_id
            for snapshot_id in snapshot_ids
            if snapshot_id is not None and snapshot_id not in there
        ]
        known = [snapshot_id for snapshot_id in snapshot_ids if snapshot_id is not None]
        if not gone and isinstance(error, FileMissing) and known and "path" in error.details:
            raise FileMissing(
                f"{error.details['path']} is missing though snapshot {known[-1]} of {files.name} "
                "names it, which has not expired; restore the file from a copy, or roll back to "
                f"the last snapshot without it{_if_deleted(files, error)}",
                path=error.details["path"],
            ) from error
        if not gone and isinstance(error, CorruptionError) and _is_of_others(files, error):
            raise type(error)(
                f"{error.message}; the file lies outside of the table, and its owner may have "
                f"written over it: `lakewright repair-partitions {files.name}` tells such files "
                "and the way to take them over again",
                **error.details,
            ) from error
        if not gone:
            raise
        ids = files.snapshots.ids()
        range_text = f"from {ids[0]} to {ids[-1]}" if ids else "none"
        raise SnapshotNotFound(
            f"snapshot {gone[0]} of {files.name} expired while it was read; read one of the "
            f"snapshots that exist now ({range_text}), and keep a snapshot for a longer read by "
            "a tag or a consumer",
            snapshot_id=gone[0],
        ) from error


def _if_deleted(files: TableFiles, error: FileMissing) -> str:
    if not _is_of_others(files, error):
        return ""
    return (
        "; it lies outside of the table: if its owner deleted it, `lakewright repair-partitions "
        f"{files.name} --mode drop` drops its rows from the latest snapshot"
    )


def _is_of_others(files: TableFiles, error: StorageError) -> bool:
    """Whether the file of an error is one that the table took over where it lies."""
    path = error.details.get("path")
    # Other tables take no files over, and a repair refuses them.
    takes = not files.schema.is_keyed and files.options.bucket_mode is BucketMode.UNAWARE
    return takes and isinstance(path, str) and files.is_foreign_uri(external_uri(files.fs, path))


def _ids_there(files: TableFiles, *, changes: bool) -> set[int]:
    """Ids of the existing snapshots, and of those that a tag or a changelog keeps readable."""
    if changes:
        others = set(files.references.changelog_ids())
    else:
        others = {tag.snapshot.id for tag in files.references.tags().values()}
    return others.union(files.snapshots.ids())
