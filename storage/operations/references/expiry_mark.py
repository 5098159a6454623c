"""The mark of an expiry at work: nothing before its snapshot is whole, whatever EARLIEST says.

Two expiries that begin alike both look at EARLIEST and then set it, and the nearer one may be the
last to do so. Then snapshots that the further one is taking seem to be kept. So each expiry leaves
a mark before it sets EARLIEST, looks for marks of others once it has, and takes its mark away when
the snapshots are gone. Whoever makes something of a snapshot looks for marks after EARLIEST, and
last whether the snapshot is there. A mark tells of the snapshot it was made for, and means nothing
once that is another one or none.
"""

from __future__ import annotations

from contextlib import suppress

from lakewright.storage.errors import FileMissing, SnapshotNotFound
from lakewright.storage.files.paths import numbered
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.spec.snapshot import Snapshot


def put_expiry_mark(files: TableFiles, end: Snapshot) -> None:
    """Say that the snapshots before one are being taken."""
    files.fs.replace(files.paths.expiry_mark(end.id), end.delta_manifest_list.encode())


def marked_as_expiring(files: TableFiles, *, after_id: int) -> int | None:
    """The last snapshot after one that an expiry is taking everything before; None if none is.

    One that died tells so too, until an expiry goes as far.
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
    """Take away the mark of an expiry that is done, and those of any that went less far."""
    done = [files.paths.expiry_mark(each) for each in _marks(files) if each <= end_id]
    delete_files(files.fs, done)
    remove_empty_folders(files.fs, [files.paths.expiry_mark_dir], below=files.paths.root)


def _marks(files: TableFiles) -> list[int]:
    names = (status.name for status in files.fs.list_dir(files.paths.expiry_mark_dir))
    return sorted(number for name in names if (number := numbered(name, "before-")) is not None)
