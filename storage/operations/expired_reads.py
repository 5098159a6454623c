"""Telling a reader that the snapshot it reads has gone.

A reader takes no lock: the files of its snapshot stay while the table's retention, a tag or a
consumer keeps it. One that was too slow finds a file missing, at any place and whatever engine
reads; what it is told is the one thing it needs to know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewright.storage.errors import CorruptionError, FileMissing, SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles


@contextmanager
def told_if_expired(files: TableFiles, *snapshot_ids: int | None) -> Iterator[None]:
    """Turn what fails since a snapshot went while it was read into that news.

    What is missing though its snapshot is there stays the error that it is.

    Raises:
        SnapshotNotFound: one of the snapshots expired, or was rolled back.
    """
    try:
        yield
    except (CorruptionError, FileMissing) as error:
        gone = [each for each in snapshot_ids if each is not None and not _is_there(files, each)]
        if not gone:
            raise
        ids = files.snapshots.kept_ids()
        there = f"from {ids[0]} to {ids[-1]}" if ids else "none"
        raise SnapshotNotFound(
            f"snapshot {gone[0]} of {files.name} expired while it was read; read again, of the "
            f"snapshots there are now, which are {there}, or protect what is read for longer with "
            "a tag or a consumer",
            table=files.name,
            snapshot_id=gone[0],
        ) from error


def _is_there(files: TableFiles, snapshot_id: int) -> bool:
    """Whether a snapshot is whole, or what a tag or a changelog keeps of it."""
    if snapshot_id in files.snapshots.kept_ids():
        return True
    tagged = {tag.snapshot.id for tag in files.references.tags().values()}
    return snapshot_id in tagged or snapshot_id in files.references.changelog_ids()
