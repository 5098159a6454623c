"""Files that are written whole, and unless they are there already."""

from __future__ import annotations

from lakewright.storage.env import FileSystem


def put_new(fs: FileSystem, path: str, data: bytes) -> bool:
    """Create a file; False if it exists.

    A file that appears meanwhile with the same bytes is ours: the store's answer was lost, and the
    client sent the request again.
    """
    if fs.exists(path):
        return False
    return fs.put_if_absent(path, data) or fs.read_bytes(path) == data


def set_content(fs: FileSystem, path: str, data: bytes) -> None:
    """Write a file unless it has that content."""
    if not fs.exists(path) or fs.read_bytes(path) != data:
        fs.replace(path, data)
