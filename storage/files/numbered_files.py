"""Files `<prefix>1`, `<prefix>2`, … of one folder, each created once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.files.paths import numbered


@dataclass(frozen=True, slots=True)
class NumberedFiles:
    """Creates and reads the files; a file never changes."""

    fs: FileSystem
    folder: str
    prefix: str

    def listing(self) -> list[FileStatus]:
        return self.fs.list_dir(self.folder)

    def numbers(self, listing: Sequence[FileStatus]) -> list[int]:
        """Numbers of the files in a listing, in order."""
        found = (numbered(status.name, self.prefix) for status in listing)
        return sorted(number for number in found if number is not None)

    def path(self, number: int) -> str:
        return f"{self.folder}/{self.prefix}{number}"

    def put(self, number: int, data: bytes) -> bool:
        """Create a file; False if one of its number exists."""
        return self.fs.put_if_absent(self.path(number), data)
