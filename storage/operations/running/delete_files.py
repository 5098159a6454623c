"""Deletes files of a table; no other module deletes them.

A power loss must not restore a reference to a deleted file. So all earlier changes of the store are
made durable before the deletion, and the deletion is durable before the call returns.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.paths import TablePaths


def delete_files(fs: FileSystem, paths: Iterable[str]) -> int:
    """Delete unreferenced files in order; returns how many existed."""
    going = list(paths)
    if not going:
        return 0
    fs.make_all_durable(going[0])
    count = sum(fs.delete(path) for path in going)
    fs.make_durable(going)
    return count


def take_files(fs: FileSystem, paths: Iterable[str]) -> dict[str, bytes]:
    """Delete files in order; returns what those held that this process deleted."""
    going = list(paths)
    taken: dict[str, bytes] = {}
    if going:
        fs.make_all_durable(going[0])
    for path in going:
        # Another process may delete the file before this one reads it, or after.
        with suppress(FileMissing):
            data = fs.read_bytes(path)
            if fs.delete(path):
                taken[path] = data
    if taken:
        fs.make_durable(list(taken))
    return taken


def discard_files(fs: FileSystem, paths: Iterable[str]) -> int:
    """Delete files that were never referenced, in order; returns how many existed.

    A file that a power loss restores is an orphan, so nothing is flushed.
    """
    return sum(fs.delete(path) for path in paths)


def drop_table_files(fs: FileSystem, root: str) -> None:
    """Delete everything of a table that is being dropped.

    The schemas are deleted first: without a schema the table does not exist, so no process reads
    half of it. The snapshots are deleted last: they mark an unfinished drop.
    """
    paths = TablePaths(root)
    schemas = [paths.schema(each) for each in SchemaStore(fs, paths).ids()]
    # A power loss may restore any file of a batch, and an older schema must not become the latest.
    delete_files(fs, schemas[:-1])
    delete_files(fs, schemas[-1:])
    folders = [f"{root}/{name}" for name in fs.list_subdirs(root)]
    others = [folder for folder in folders if folder != paths.snapshot_dir]
    for folder in others:
        fs.delete_tree(folder)
    fs.make_durable(others)
    fs.delete_tree(root)
    fs.make_durable([root])


def is_half_dropped(fs: FileSystem, root: str) -> bool:
    """Whether the folder holds the remains of an unfinished drop."""
    paths = TablePaths(root)
    return bool(fs.list_dir(paths.snapshot_dir)) and not SchemaStore(fs, paths).ids()


def drop_branch_files(fs: FileSystem, metadata_root: str) -> None:
    """Delete the metadata of a branch; its data files are shared with the table."""
    fs.delete_tree(metadata_root)
    fs.make_durable([metadata_root])


def remove_empty_folders(fs: FileSystem, folders: Iterable[str], *, below: str) -> None:
    """Remove empty folders, then their empty parents below a root."""
    for folder in sorted(set(folders), reverse=True):
        current = folder
        while current.startswith(below + "/") and fs.remove_empty_dir(current):
            current = current.rsplit("/", 1)[0]


def remove_empty_tree(fs: FileSystem, folder: str) -> None:
    """Remove a folder and those in it, as far as no file lies there."""
    for name in fs.list_subdirs(folder):
        remove_empty_tree(fs, f"{folder}/{name}")
    fs.remove_empty_dir(folder)
