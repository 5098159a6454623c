"""Refuses symbolic links below the place of a table.

A write or a deletion through a link changes files elsewhere, and a listing that passes a link over
leaves out rows that other readers find. A link that leads to the place itself is its owner's
choice: it is followed.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import UnsupportedError


def check_no_links(links: Iterable[str], table: str) -> None:
    """Refuse symbolic links that a table would read, write or delete through.

    Raises:
        UnsupportedError: names the first one.
    """
    for link in links:
        raise UnsupportedError(
            f"{link} is a symbolic link, and {table} neither reads, writes nor deletes through one "
            "below its place; put what it leads to in its place (move or mount it there), or begin "
            "its name with an underscore, and readers pass over it",
            path=link,
        )


def check_is_no_link(fs: FileSystem, folder: str, table: str) -> None:
    """Refuse to delete a folder that is a symbolic link, before anything in it is deleted.

    Raises:
        UnsupportedError: it is one.
    """
    if folder in fs.list_links(folder.rpartition("/")[0]):
        raise UnsupportedError(
            f"{folder} is a symbolic link, and {table} would be deleted where it leads to; nothing "
            "was deleted; put the folder itself in its place, or delete the link and what it "
            "leads to by hand",
            path=folder,
        )
