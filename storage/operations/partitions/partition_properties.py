"""Where the files of partitions lie, their formats, and what their columns hold.

That is what a metastore keeps of a partition. It comes from manifests alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import order_key, to_python


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """What the values of a column lie between, and how many are null; None is unknown.

    Rows are those in files, before versions of a key are merged. Bounds may be wider than the
    values, since a file may keep only the beginnings of texts.
    """

    name: str
    minimum: object
    maximum: object
    null_count: int | None


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
    columns: tuple[ColumnRange, ...]


def partition_properties(
    files: TableFiles, snapshot: Snapshot | None, partitions: Sequence[Partition]
) -> dict[Partition, PartitionProperties]:
    """The properties of some partitions; reads their manifests and no data file."""
    state = state_at(files, snapshot, takes=ANY_KEYS)
    # During a change of keys, files of a partition have several rows.
    rows = [each.row for each in partitions] if state.is_settled else None
    found: dict[Partition, list[ManifestEntry]] = {partition: [] for partition in partitions}
    for entry in state.entries_of(rows):
        partition = files.partitions.as_named(entry.partition, entry.file.schema_id)
        if partition in found:
            found[partition].append(entry)
    schemas = FileSchemas(files)
    return {
        partition: _properties(files, partition, found[partition], schemas)
        for partition in partitions
    }


def _properties(
    files: TableFiles, partition: Partition, entries: Sequence[ManifestEntry], schemas: FileSchemas
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
        columns=_ranges(files.schema.fields, [entry.file for entry in entries], schemas),
    )


def _ranges(
    fields: Sequence[DataField], metas: Sequence[DataFileMeta], schemas: FileSchemas
) -> tuple[ColumnRange, ...]:
    unknown = Bounds(None, None, None)
    each_file = [
        schemas.mapping_of(meta).bounds(schemas.bounds_of(meta), meta.row_count) for meta in metas
    ]
    return tuple(
        _range(field, [bounds.get(field.name, unknown) for bounds in each_file]) for field in fields
    )


def _range(field: DataField, bounds: Sequence[Bounds]) -> ColumnRange:
    held = [bound for bound in bounds if not bound.all_null]
    lows, highs = [each.minimum for each in held], [each.maximum for each in held]
    low = min(lows, key=order_key) if lows and None not in lows else None
    high = max(highs, key=order_key) if highs and None not in highs else None
    counts = [bound.null_count for bound in bounds]
    return ColumnRange(
        name=field.name,
        minimum=to_python(low, field.type),
        maximum=to_python(high, field.type),
        null_count=None if None in counts else sum(count for count in counts if count is not None),
    )
