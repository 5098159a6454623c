"""The one door through which files of a table are deleted."""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.env import FileSystem
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import TablePaths


def delete_files(fs: FileSystem, paths: Iterable[str]) -> int:
    """Delete files that nothing refers to, in order; how many were still there."""
    return sum(fs.delete(path) for path in paths)


def drop_table_files(fs: FileSystem, root: str) -> None:
    """Delete everything of a table that is being dropped.

    Its schemas go first, the oldest before the others: without them there is no table, and nobody
    reads half of one. Its snapshots go last: they tell that there is something left to drop.
    """
    paths = TablePaths(root)
    schema_ids = SchemaStore(fs, paths).ids()
    delete_files(fs, [paths.schema(schema_id) for schema_id in schema_ids])
    for name in fs.list_subdirs(root):
        if f"{root}/{name}" != paths.snapshot_dir:
            fs.delete_tree(f"{root}/{name}")
    fs.delete_tree(root)


def is_half_dropped(fs: FileSystem, root: str) -> bool:
    """Whether a table was being dropped here, and is not a table any more."""
    paths = TablePaths(root)
    return bool(fs.list_dir(paths.snapshot_dir)) and not SchemaStore(fs, paths).ids()


def drop_branch_files(fs: FileSystem, metadata_root: str) -> None:
    """Delete everything of a branch that is its own; data files are shared."""
    fs.delete_tree(metadata_root)


def remove_empty_folders(fs: FileSystem, folders: Iterable[str], *, below: str) -> None:
    """Remove folders that hold nothing any more, and then their empty parents below a root."""
    for folder in sorted(set(folders), reverse=True):
        current = folder
        while current.startswith(below + "/") and fs.remove_empty_dir(current):
            current = current.rsplit("/", 1)[0]
