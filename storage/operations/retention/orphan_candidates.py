"""The files of a table that may be orphans, in little memory.

A table has as many old files as its history has, and nearly all of them are kept. So their paths
go to the machine's own disk, and memory holds nine bytes for each: a number of 64 bits and a mark.
Two paths may have the same number: if a root keeps one of them, the other one stays too, until
another process finds it, which numbers paths differently.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import UnavailableError
from lakewright.storage.operations.references.numbered import Numbered


@dataclass
class OrphanCandidates:
    """Files by path below their table; those that a root keeps are taken out."""

    _listing: IO[str]
    _numbers: array[int] = field(default_factory=lambda: array("q"))
    _known: Numbered = field(default_factory=Numbered)
    _kept: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def add(self, path: str, status: FileStatus) -> None:
        """Add a file, before any is taken out.

        Raises:
            UnavailableError: the disk is full or failed.
        """
        with _on_disk():
            self._listing.write(f"{json.dumps([path, status.size, status.modified_ms])}\n")
        self._numbers.append(hash(path))

    def keep(self, paths: Iterable[str]) -> None:
        """Take files out."""
        self._sort()
        self._kept[self._known.places(paths)] = True

    def take(self, without_names: Collection[str] = ()) -> Iterator[FileStatus]:
        """The files that are left, as often as they were added, without those of some names.

        Raises:
            UnavailableError: the disk failed.
        """
        self._sort()
        with _on_disk():
            self._listing.seek(0)
            for line in self._listing:
                path, size, modified_ms = json.loads(line)
                at = self._known.place(path)
                if (
                    at is not None
                    and not self._kept[at]
                    and path.rpartition("/")[2] not in without_names
                ):
                    yield FileStatus(path, size, modified_ms)

    def _sort(self) -> None:
        if self._numbers:
            self._known = Numbered.of_numbers(self._numbers)
            self._kept = np.zeros(len(self._known), bool)
            self._numbers = array("q")


@contextmanager
def orphan_candidates() -> Iterator[OrphanCandidates]:
    """No candidates at first; at the end of the `with` block their file is deleted."""
    with _on_disk():
        listing = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # closed below
    try:
        yield OrphanCandidates(listing)
    finally:
        # On a full disk the end of the file cannot be written either, and no reader needs it.
        with suppress(OSError):
            listing.close()


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"the listing of a table cannot be kept on this machine's own disk: {error}; free some "
            "space, or point TMPDIR at another disk"
        ) from error
