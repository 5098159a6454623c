"""A store in which the metadata files of a record can still be read, after their deletion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewright.storage.env import FileStatus
from lakewright.storage.files.read_only_files import ReadOnlyFiles


@dataclass(frozen=True)
class RecordedFiles(ReadOnlyFiles):
    """The store under it, and in front of that some files that it may have no more."""

    recorded: Mapping[str, bytes] = field(default_factory=dict)

    def read_bytes(self, path: str) -> bytes:
        data = self.recorded.get(path)
        return self.under.read_bytes(path) if data is None else data

    def exists(self, path: str) -> bool:
        return path in self.recorded or self.under.exists(path)

    def list_dir(self, path: str) -> list[FileStatus]:
        listed = self.under.list_dir(path)
        there = {each.path for each in listed}
        gone = [each for each in self.recorded if each.rpartition("/")[0] == path]
        new = (FileStatus(each, len(self.recorded[each]), 0) for each in gone if each not in there)
        return [*listed, *new]
