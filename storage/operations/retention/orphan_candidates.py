"""The files of a table that may be orphans, in little memory.

A table has as many old files as its history has, and nearly all of them are kept. So their paths
go to the machine's own disk, and memory holds a number of 64 bits for each. Two paths may have the
same number: if a root keeps one of them, the other one stays too, until another process finds it,
which numbers paths differently.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import UnavailableError


@dataclass
class OrphanCandidates:
    """Files by path below their table; those that a root keeps are taken out."""

    _listing: IO[str]
    _left: set[int] = field(default_factory=set)

    def add(self, path: str, status: FileStatus) -> None:
        """Add a file.

        Raises:
            UnavailableError: the disk is full or failed.
        """
        with _on_disk():
            self._listing.write(f"{json.dumps([path, status.size, status.modified_ms])}\n")
        self._left.add(hash(path))

    def keep(self, paths: Iterable[str]) -> None:
        """Take files out."""
        self._left.difference_update(map(hash, paths))

    def take(self, without_names: Collection[str] = ()) -> Iterator[FileStatus]:
        """The files that are left, as often as they were added, without those of some names.

        Raises:
            UnavailableError: the disk failed.
        """
        with _on_disk():
            self._listing.seek(0)
            for line in self._listing:
                path, size, modified_ms = json.loads(line)
                is_left = hash(path) in self._left
                if is_left and path.rpartition("/")[2] not in without_names:
                    yield FileStatus(path, size, modified_ms)


@contextmanager
def orphan_candidates() -> Iterator[OrphanCandidates]:
    """No candidates at first; at the end of the `with` block their file is deleted."""
    with ExitStack() as opened:
        with _on_disk():
            listing = opened.enter_context(TemporaryFile("w+", encoding="utf-8"))
        yield OrphanCandidates(listing)


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"the listing of a table cannot be kept on this machine's own disk: {error}; free some "
            "space, or point TMPDIR at another disk"
        ) from error
