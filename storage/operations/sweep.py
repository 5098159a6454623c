"""Cleaning up after a write that failed somewhere: its files all carry its id in their names."""

from __future__ import annotations

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.delete_files import delete_files


def sweep(files: TableFiles, write_id: str) -> int:
    """Delete every data file of an unpublished write; how many there were.

    The whole table is listed, so this is for failures, and only for an id that
    no commit has published.
    """
    prefix = f"{files.options.data_file_prefix}{write_id}"
    found = [
        each.path for each in files.fs.list_tree(files.paths.root) if each.name.startswith(prefix)
    ]
    return delete_files(files.fs, found)
