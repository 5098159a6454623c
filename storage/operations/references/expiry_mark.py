"""The mark of an expiry under way: no snapshot before the mark's snapshot is complete.

EARLIEST alone does not say this. If two expiries start together, the one with the smaller range
may set EARLIEST last. Then snapshots that the other one deletes seem to be kept. So each expiry
writes a mark before it sets EARLIEST, and deletes the mark after the snapshots. A process that
makes a tag, branch or rollback of a snapshot reads EARLIEST, then the marks, then the snapshot.

A mark holds the name of its snapshot's delta manifest list. It is void once another snapshot, or
none, has that id.
"""

from __future__ import annotations

from contextlib import suppress

from lakewright.storage.errors import FileMissing, SnapshotNotFound
from lakewright.storage.files.paths import numbered
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.spec.snapshot import Snapshot


def put_expiry_mark(files: TableFiles, end: Snapshot) -> None:
    """Mark that an expiry deletes the snapshots before `end`."""
    files.fs.replace(files.paths.expiry_mark(end.id), end.delta_manifest_list.encode())


def marked_as_expiring(files: TableFiles, *, after_id: int) -> int | None:
    """The highest valid mark above an id; None if there is none.

    The mark of a dead expiry counts too, until another expiry goes as far.
    """
    for snapshot_id in reversed(_marks(files)):
        if snapshot_id <= after_id:
            return None
        with suppress(FileMissing, SnapshotNotFound):
            mark = files.fs.read_bytes(files.paths.expiry_mark(snapshot_id))
            if files.snapshots.read(snapshot_id).delta_manifest_list.encode() == mark:
                return snapshot_id
    return None


def end_expiry_marks(files: TableFiles, end_id: int) -> None:
    """Delete the mark of a finished expiry, and the marks of those that went less far."""
    done = [files.paths.expiry_mark(each) for each in _marks(files) if each <= end_id]
    delete_files(files.fs, done)
    remove_empty_folders(files.fs, [files.paths.expiry_mark_dir], below=files.paths.root)


def _marks(files: TableFiles) -> list[int]:
    names = (status.name for status in files.fs.list_dir(files.paths.expiry_mark_dir))
    return sorted(number for name in names if (number := numbered(name, "before-")) is not None)
