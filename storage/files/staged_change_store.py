"""Records of a staged change of partition keys.

    <table>/.lakewright/respec/change-<n>             the change, and the process that stages it
    <table>/.lakewright/respec/staged-<n>-<change>.<id>   partitions that this process has staged

The greatest number counts. Files never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.codec.staged_change_json import (
    decode_change,
    decode_partitions,
    encode_change,
    encode_partitions,
)
from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import FileMissing
from lakewright.storage.files.paths import TablePaths, numbered, whole_number
from lakewright.storage.files.put_files import put_new
from lakewright.storage.spec.staged_change import StagedChange, StagedPartition

_CHANGE = "change-"
_STAGED = "staged-"


@dataclass(frozen=True, slots=True)
class StagedChangeStore:
    """Creates and reads records."""

    fs: FileSystem
    paths: TablePaths

    def listed(self) -> list[FileStatus]:
        """All records."""
        found = self.fs.list_dir(self.paths.staged_change_dir)
        return [each for each in found if each.name.startswith((_CHANGE, _STAGED))]

    def numbers(self) -> list[int]:
        """The numbers of the changes that have a record, ascending."""
        found = (numbered(each.name, _CHANGE) for each in self.listed())
        return sorted(each for each in found if each is not None)

    def change(self, number: int) -> StagedChange | None:
        """The change of a number; None if it ended since it was listed.

        Raises:
            CorruptionError: the record is damaged.
            UnsupportedError: a later version of lakewright wrote it.
        """
        path = self.paths.staged_change(number)
        with suppress(FileMissing):
            return decode_change(self.fs.read_bytes(path), name=path)
        return None

    def latest(self) -> StagedChange | None:
        """The change that counts; None if no change is staged.

        Raises:
            CorruptionError: its record is damaged.
            UnsupportedError: a later version of lakewright wrote it.
        """
        found = map(self.change, reversed(self.numbers()))
        return next((each for each in found if each is not None), None)

    def put_change(self, number: int, change: StagedChange) -> bool:
        """Create the record of a change; False if the number is taken."""
        # The id of a change is unique, so equal bytes are ours, and the answer was lost.
        return put_new(self.fs, self.paths.staged_change(number), encode_change(change))

    def put_partitions(
        self, number: int, change_id: str, record_id: str, partitions: Iterable[StagedPartition]
    ) -> None:
        """Create a record of partitions that a change has staged."""
        path = self.paths.staged_partitions(number, f"{change_id}.{record_id}")
        self.fs.put_if_absent(path, encode_partitions(partitions))

    def records(self) -> dict[str, tuple[int, str]]:
        """Paths of the records of staged partitions, with the numbers and ids of their changes.

        A process that was taken over may leave a record whose number another change has by now.
        """
        found = {}
        for status in self.listed():
            text, _, rest = status.name.removeprefix(_STAGED).partition("-")
            number = whole_number(text) if status.name.startswith(_STAGED) else None
            if number is not None:
                found[status.path] = number, rest.partition(".")[0]
        return found

    def counted(self, changes: Mapping[int, StagedChange]) -> dict[str, int]:
        """Paths of the records of these changes, with their numbers."""
        return {
            path: number
            for path, (number, change_id) in self.records().items()
            if number in changes and changes[number].id == change_id
        }

    def read(self, path: str) -> tuple[StagedPartition, ...]:
        """The partitions of a record; none if it is gone.

        Raises:
            CorruptionError: the record is damaged.
            UnsupportedError: a later version of lakewright wrote it.
        """
        with suppress(FileMissing):
            return decode_partitions(self.fs.read_bytes(path), name=path)
        return ()
