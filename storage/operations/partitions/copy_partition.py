"""Copies the files of partitions into another table, under names that tell their origin.

A copy belongs to its table alone, so neither an expiry nor a drop of the other table loses rows. A
name has the id of the run that copied, so no run writes over the files of another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from lakewright.storage.errors import CorruptionError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.state.live_files import grouped_by_bucket
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexEntry, IndexFileMeta
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.partition import Place

_CHUNK_BYTES = 8 << 20
_COPY = re.compile(r"copy-[0-9a-f-]+-of-(.+)")


def origin_of(name: str) -> str:
    """The name of the first file that a file is a copy of; its own if it is none."""
    found = _COPY.fullmatch(name)
    return name if found is None else found[1]


@dataclass(frozen=True, slots=True)
class CopyRun:
    """One run that copies from a table to another; `schema_ids` are the other's by this one's."""

    source: TableFiles
    target: TableFiles
    run_id: str
    schema_ids: dict[int, int]

    def copied_messages(
        self, entries: Sequence[ManifestEntry], indexes: Sequence[IndexEntry]
    ) -> list[CommitMessage]:
        """Copy the files of partitions, and describe them as files of the target.

        Raises:
            CorruptionError: a file is not as long as its metadata says.
        """
        groups = grouped_by_bucket(entries)
        messages = [
            self._message(place, group, [each for each in indexes if each.place == place])
            for place, group in groups.items()
        ]
        copies = [
            pair
            for message, group in zip(messages, groups.values(), strict=True)
            for pair in self._copies(message, group)
        ]
        names = {self._name(each.file.file_name): each.file for each in indexes}
        copies += [
            (self.source.paths.index(file.file_name), self.target.paths.index(name), file.file_size)
            for name, file in names.items()
        ]
        map_concurrently(self.target.env, lambda copy: self._copy(*copy), copies)
        return messages

    def _message(
        self, place: Place, entries: Sequence[ManifestEntry], indexes: Sequence[IndexEntry]
    ) -> CommitMessage:
        return CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=entries[0].total_buckets,
            new_files=tuple(self._data_file(entry.file) for entry in entries),
            new_indexes=tuple(self._index(entry.file) for entry in indexes),
        )

    def _data_file(self, file: DataFileMeta) -> DataFileMeta:
        return replace(
            file,
            file_name=self._name(file.file_name),
            extra_files=tuple(map(self._name, file.extra_files)),
            schema_id=self.schema_ids[file.schema_id],
        )

    def _index(self, file: IndexFileMeta) -> IndexFileMeta:
        vectors = file.deletion_vectors
        renamed = vectors and tuple(
            replace(each, data_file=self._name(each.data_file)) for each in vectors
        )
        return replace(file, file_name=self._name(file.file_name), deletion_vectors=renamed)

    def _name(self, name: str) -> str:
        return f"copy-{self.run_id}-of-{origin_of(name)}"

    def _copies(
        self, message: CommitMessage, entries: Sequence[ManifestEntry]
    ) -> list[tuple[str, str, int | None]]:
        """Path, path of the copy, and length of each file, which extra files do not tell."""
        found: list[tuple[str, str, int | None]] = []
        for entry, new in zip(message.entries(message.new_files), entries, strict=True):
            paths = zip(self.source.entry_paths(new), self.target.entry_paths(entry), strict=True)
            sizes = (new.file.file_size, *(None for _ in new.file.extra_files))
            found += [(*pair, size) for pair, size in zip(paths, sizes, strict=True)]
        return found

    def _copy(self, path: str, to: str, size: int | None) -> None:
        copied = 0
        with (
            self.source.fs.open_input(path) as given,
            closing(self.target.fs.open_output(to)) as taken,
        ):
            for chunk in iter(partial(given.read, _CHUNK_BYTES), b""):
                taken.write(chunk)
                copied += len(chunk)
        if size is not None and copied != size:
            raise CorruptionError(
                f"{path} of {self.source.name} has {copied} bytes, and its metadata says {size}; "
                "nothing was exchanged",
                table=self.source.name,
                path=path,
            )
