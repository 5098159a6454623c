"""The one door through which files of a table are deleted."""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.env import FileSystem


def delete_files(fs: FileSystem, paths: Iterable[str]) -> int:
    """Delete files that nothing refers to, in order; how many were still there."""
    return sum(fs.delete(path) for path in paths)


def drop_table_files(fs: FileSystem, root: str) -> None:
    """Delete everything of a table that is being dropped."""
    fs.delete_tree(root)


def drop_branch_files(fs: FileSystem, metadata_root: str) -> None:
    """Delete everything of a branch that is its own; data files are shared."""
    fs.delete_tree(metadata_root)


def remove_empty_folders(fs: FileSystem, folders: Iterable[str], *, below: str) -> int:
    """Remove folders that hold nothing any more, and then their empty parents below a root."""
    removed = 0
    for folder in sorted(set(folders), reverse=True):
        current = folder
        while current.startswith(below + "/") and fs.remove_empty_dir(current):
            removed += 1
            current = current.rsplit("/", 1)[0]
    return removed
