"""Copies data and index files under new names, within a table or into another one.

A copy belongs to its table and its snapshot alone, so no expiry or drop of what was copied loses
rows. Names have the id of the run that copied, so no run writes over the files of another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lakewright.storage.errors import CorruptionError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.state.live_files import grouped_by_bucket
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexEntry, IndexFileMeta
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry


@dataclass(frozen=True, slots=True)
class CopyRun:
    """One run that copies from a table to another, or within one.

    `name_of` names a copy. It changes the name of a data file and those of its extra files alike.
    `schema_ids` are the source's by the target's; without them both have the same schemas. With
    `beside`, a copy within a table lies where its file does, and otherwise in the folder of its
    partition.
    """

    source: TableFiles
    target: TableFiles
    name_of: Callable[[str], str]
    schema_ids: Mapping[int, int] | None = None
    beside: bool = False

    def copied_messages(
        self, entries: Sequence[ManifestEntry], indexes: Sequence[IndexEntry]
    ) -> list[CommitMessage]:
        """Copy the files of partitions, and describe them as messages of the target.

        Raises:
            CorruptionError: a file is not as long as its metadata says.
        """
        copies, copied_indexes = self.copied(entries, indexes)
        return [
            CommitMessage(
                partition=place.partition,
                bucket=place.bucket,
                total_buckets=group[0].total_buckets,
                new_files=tuple(entry.file for entry in group),
                new_indexes=tuple(
                    copied_index.file
                    for copied_index in copied_indexes
                    if copied_index.place == place
                ),
            )
            for place, group in grouped_by_bucket(copies).items()
        ]

    def copied(
        self, entries: Sequence[ManifestEntry], indexes: Sequence[IndexEntry]
    ) -> tuple[list[ManifestEntry], list[IndexEntry]]:
        """Copy files; deletion vectors of the copied data files refer to the copies.

        Raises:
            FileMissing: a file does not exist.
            CorruptionError: a file is not as long as its metadata says.
        """
        names = {entry.file.file_name for entry in entries}
        new = [replace(entry, file=self._data_file(entry.file)) for entry in entries]
        new_indexes = [replace(index, file=self._index(index.file, names)) for index in indexes]
        copies = [pair for each in zip(entries, new, strict=True) for pair in self._copies(*each)]
        paths = {
            each.file.file_name: (
                self.source.paths.index(each.file.file_name),
                self.target.paths.index(copy.file.file_name),
                each.file.file_size,
            )
            for each, copy in zip(indexes, new_indexes, strict=True)
        }
        copies += paths.values()
        map_concurrently(self.target.env, lambda copy: self._copy(*copy), copies)
        return new, new_indexes

    def _data_file(self, file: DataFileMeta) -> DataFileMeta:
        name = self.name_of(file.file_name)
        place = file.external_path if self.beside else None
        return replace(
            file,
            file_name=name,
            extra_files=tuple(map(self.name_of, file.extra_files)),
            schema_id=self.schema_ids[file.schema_id] if self.schema_ids else file.schema_id,
            external_path=None if place is None else f"{place.rpartition('/')[0]}/{name}",
        )

    def _index(self, file: IndexFileMeta, copied: Collection[str]) -> IndexFileMeta:
        vectors = file.deletion_vectors
        renamed = vectors and tuple(
            replace(vector, data_file=self.name_of(vector.data_file))
            if vector.data_file in copied
            else vector
            for vector in vectors
        )
        return replace(file, file_name=self.name_of(file.file_name), deletion_vectors=renamed)

    def _copies(
        self, entry: ManifestEntry, copy: ManifestEntry
    ) -> list[tuple[str, str, int | None]]:
        """Path, path of the copy, and length of each file, which extra files do not tell."""
        paths = zip(self.source.entry_paths(entry), self.target.entry_paths(copy), strict=True)
        sizes = (entry.file.file_size, *(None for _ in entry.file.extra_files))
        return [(*pair, size) for pair, size in zip(paths, sizes, strict=True)]

    def _copy(self, path: str, to: str, size: int | None) -> None:
        copied = self.source.fs.copy(path, to)
        if size is not None and copied != size:
            raise CorruptionError(
                f"{path} of {self.source.name} has {copied} bytes, and its metadata says {size}; "
                "nothing was published",
                path=path,
            )
