"""Files of a format table's registry of partitions: `registry-1`, …; the highest number counts."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.env import FileSystem
from lakewright.storage.files.paths import TablePaths, numbered


@dataclass(frozen=True, slots=True)
class PartitionRegistryStore:
    """Creates and reads the files; a file never changes."""

    fs: FileSystem
    paths: TablePaths

    def numbers(self) -> list[int]:
        """Numbers of the files that are there, in order."""
        listed = self.fs.list_dir(f"{self.paths.upkeep_dir}/partitions")
        found = (numbered(status.name, "registry-") for status in listed)
        return sorted(number for number in found if number is not None)

    def path(self, number: int) -> str:
        return f"{self.paths.upkeep_dir}/partitions/registry-{number}"

    def read(self, number: int) -> bytes:
        """The content of one file.

        Raises:
            FileMissing: the file was deleted, so later ones exist.
        """
        return self.fs.read_bytes(self.path(number))

    def put(self, number: int, data: bytes) -> bool:
        """Create a file; False if one of its number exists."""
        return self.fs.put_if_absent(self.path(number), data)
