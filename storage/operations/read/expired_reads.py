"""Tells a reader that its snapshot expired.

A reader takes no lock. Retention, a tag or a consumer keeps the files of its snapshot. A reader
that is too slow finds a file missing, in any engine and at any step; the error then names the
expired snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewright.storage.errors import CorruptionError, FileMissing, SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles


@contextmanager
def told_if_expired(
    files: TableFiles, *snapshot_ids: int | None, changes: bool = False
) -> Iterator[None]:
    """Turn an error for a missing file into `SnapshotNotFound` if the snapshot expired.

    If the snapshot still exists, the error stays as it is, but for a lost file: then a later read
    helps no more. With `changes` the reader reads the changes of the commit, which a tag does not
    keep but a changelog does.

    Raises:
        FileMissing: a file of a snapshot that still exists is lost.
        SnapshotNotFound: one of the snapshots expired or was rolled back.
    """
    try:
        yield
    except (CorruptionError, FileMissing) as error:
        there = _ids_there(files, changes=changes)
        gone = [each for each in snapshot_ids if each is not None and each not in there]
        known = [each for each in snapshot_ids if each is not None]
        if not gone and isinstance(error, FileMissing) and known and "path" in error.details:
            raise FileMissing(
                f"{error.details['path']} is missing though snapshot {known[-1]} of {files.name} "
                "names it, which has not expired; restore the file from a copy, or roll back to "
                "the last snapshot without it",
                table=files.name,
                path=error.details["path"],
            ) from error
        if not gone:
            raise
        ids = files.snapshots.kept_ids()
        range_text = f"from {ids[0]} to {ids[-1]}" if ids else "none"
        raise SnapshotNotFound(
            f"snapshot {gone[0]} of {files.name} expired while it was read; read one of the "
            f"snapshots that exist now ({range_text}), and keep a snapshot for a longer read by "
            "a tag or a consumer",
            table=files.name,
            snapshot_id=gone[0],
        ) from error


def _ids_there(files: TableFiles, *, changes: bool) -> set[int]:
    """Ids of the existing snapshots, and of those that a tag or a changelog keeps readable."""
    if changes:
        others = set(files.references.changelog_ids())
    else:
        others = {tag.snapshot.id for tag in files.references.tags().values()}
    return others.union(files.snapshots.kept_ids())
