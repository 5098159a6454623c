"""Names of the files of writes that are repeated: how a repeated write finds what it did before.

A name holds a digest of the writer's name, the number of the write, and which of how many files it
is. All files of a write are its end; some of them are a write that died while it published.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakewright.storage.env import FileStatus
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec
from lakewright.storage.operations.format_tables.partition_folders import (
    folders_on_disk,
    list_data_files,
)
from lakewright.storage.spec.partition import Partition


@dataclass(frozen=True, slots=True)
class NamedWrite:
    """A write by its writer, and its number among the writes of that one."""

    user: str
    identifier: int

    def file_stem(self, part: int, count: int) -> str:
        """The name of a file without its ending."""
        return f"data-{_digest(self.user)}-{self.identifier}-{part}-{count}"


@dataclass(frozen=True, slots=True)
class EarlierWrite:
    """Files that a write has published, each with its partition, and how many it had."""

    files: tuple[tuple[Partition, FileStatus], ...]
    count: int

    @property
    def is_whole(self) -> bool:
        return len(self.files) == self.count


def earlier_write(files: TableFiles, spec: FormatSpec, write: NamedWrite) -> EarlierWrite | None:
    """What an earlier try of a write has published, None if nothing."""
    found = [
        (partition, status, count)
        for identifier, count, partition, status in _named(files, spec, write.user)
        if identifier == write.identifier
    ]
    if not found:
        return None
    return EarlierWrite(tuple((a, b) for a, b, _ in found), found[0][2])


def written_by(files: TableFiles, spec: FormatSpec, user: str) -> frozenset[int]:
    """The numbers of the writes of which files are published."""
    return frozenset(identifier for identifier, *_ in _named(files, spec, user))


def _named(
    files: TableFiles, spec: FormatSpec, user: str
) -> Iterator[tuple[int, int, Partition, FileStatus]]:
    wanted = re.compile(rf"data-{_digest(user)}-(\d+)-\d+-(\d+)\.[^.]+")
    for partition, status in _all_files(files, spec):
        match = wanted.fullmatch(status.name)
        if match is not None:
            yield int(match[1]), int(match[2]), partition, status


def _all_files(files: TableFiles, spec: FormatSpec) -> Iterable[tuple[Partition, FileStatus]]:
    return list_data_files(files, spec, folders_on_disk(files, spec))


def _digest(user: str) -> str:
    return hashlib.sha256(user.encode()).hexdigest()[:32]
