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
def told_if_expired(
    files: TableFiles, *snapshot_ids: int | None, changes: bool = False
) -> Iterator[None]:
    """Turn what fails since a snapshot went while it was read into that news.

    What is missing though its snapshot is there stays the error that it is. With `changes` it is
    what the commit changed that is read, which outlives the snapshot in other ways than its state.

    Raises:
        SnapshotNotFound: one of the snapshots expired, or was rolled back.
    """
    try:
        yield
    except (CorruptionError, FileMissing) as error:
        there = _ids_there(files, changes=changes)
        gone = [each for each in snapshot_ids if each is not None and each not in there]
        if not gone:
            raise
        ids = files.snapshots.kept_ids()
        range_text = f"from {ids[0]} to {ids[-1]}" if ids else "none"
        raise SnapshotNotFound(
            f"snapshot {gone[0]} of {files.name} expired while it was read; read again, of the "
            f"snapshots there are now, which are {range_text}, or protect what is read for longer "
            "with a tag or a consumer",
            table=files.name,
            snapshot_id=gone[0],
        ) from error


def _ids_there(files: TableFiles, *, changes: bool) -> set[int]:
    """Snapshots that are whole, with those of which a tag or a changelog keeps what is read."""
    if changes:
        others = set(files.references.changelog_ids())
    else:
        others = {tag.snapshot.id for tag in files.references.tags().values()}
    return others.union(files.snapshots.kept_ids())
