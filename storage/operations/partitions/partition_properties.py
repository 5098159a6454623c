"""Where the files of partitions lie, and their formats: what a metastore keeps of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProperties:
    """The properties of one partition.

    `location` is the folder for new files. `other_folders` hold files that were taken over or
    written under other partition keys. `compression` is that of new files; the files themselves
    have the `formats` and are read by the schemas with `schema_ids`.
    """

    location: str
    other_folders: tuple[str, ...]
    formats: tuple[str, ...]
    compression: str
    schema_ids: tuple[int, ...]


def partition_properties(
    files: TableFiles, snapshot: Snapshot | None, partitions: Sequence[Partition]
) -> dict[Partition, PartitionProperties]:
    """The properties of some partitions; reads their manifests and no data file."""
    rows = [partition.row for partition in partitions]
    found: dict[Partition, list[ManifestEntry]] = {partition: [] for partition in partitions}
    for entry in live_entries(files, snapshot, partitions=rows):
        found.setdefault(files.partitions.of_entry(entry), []).append(entry)
    return {partition: _properties(files, partition, found[partition]) for partition in partitions}


def _properties(
    files: TableFiles, partition: Partition, entries: Sequence[ManifestEntry]
) -> PartitionProperties:
    parts = (files.paths.root, files.options.data_file_directory, partition.path)
    location = "/".join(part for part in parts if part)
    folders = {files.readable_path(entry.place, entry.file).rpartition("/")[0] for entry in entries}
    return PartitionProperties(
        location=files.fs.uri(location),
        other_folders=tuple(
            files.fs.uri(folder)
            for folder in sorted(folders)
            if not f"{folder}/".startswith(f"{location}/")
        ),
        formats=tuple(sorted({format_of_path(entry.file.file_name) for entry in entries})),
        compression=files.options.file_compression,
        schema_ids=tuple(sorted({entry.file.schema_id for entry in entries})),
    )
