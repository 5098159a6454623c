"""The one door through which files of a table are deleted.

A power loss must not bring back what refers to a file that is gone. So all that others have done
so far is durable before anything goes, and that it is gone is durable before the caller goes on.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.env import FileSystem
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import TablePaths


def delete_files(fs: FileSystem, paths: Iterable[str]) -> int:
    """Delete files that nothing refers to any more, in order; how many were still there."""
    going = list(paths)
    if not going:
        return 0
    fs.make_all_durable(going[0])
    count = sum(fs.delete(path) for path in going)
    fs.make_durable(going)
    return count


def discard_files(fs: FileSystem, paths: Iterable[str]) -> int:
    """Delete files that nothing has ever referred to, in order; how many were still there.

    One that a power loss brings back is an orphan, so nothing is flushed.
    """
    return sum(fs.delete(path) for path in paths)


def drop_table_files(fs: FileSystem, root: str) -> None:
    """Delete everything of a table that is being dropped.

    Its schemas go first, the oldest before the others: without them there is no table, and nobody
    reads half of one. Its snapshots go last: they tell that there is something left to drop.
    """
    paths = TablePaths(root)
    for schema_id in SchemaStore(fs, paths).ids():
        # One by one: a power loss between two that go together may leave any of them.
        delete_files(fs, [paths.schema(schema_id)])
    folders = [f"{root}/{name}" for name in fs.list_subdirs(root)]
    others = [folder for folder in folders if folder != paths.snapshot_dir]
    for folder in others:
        fs.delete_tree(folder)
    fs.make_durable(others)
    fs.delete_tree(root)
    fs.make_durable([root])


def is_half_dropped(fs: FileSystem, root: str) -> bool:
    """Whether a table was being dropped here, and is not a table any more."""
    paths = TablePaths(root)
    return bool(fs.list_dir(paths.snapshot_dir)) and not SchemaStore(fs, paths).ids()


def drop_branch_files(fs: FileSystem, metadata_root: str) -> None:
    """Delete everything of a branch that is its own; data files are shared."""
    fs.delete_tree(metadata_root)
    fs.make_durable([metadata_root])


def remove_empty_folders(fs: FileSystem, folders: Iterable[str], *, below: str) -> None:
    """Remove folders that hold nothing any more, and then their empty parents below a root."""
    for folder in sorted(set(folders), reverse=True):
        current = folder
        while current.startswith(below + "/") and fs.remove_empty_dir(current):
            current = current.rsplit("/", 1)[0]
