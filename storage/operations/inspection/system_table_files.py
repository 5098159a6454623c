"""Rows of the system tables about the files of one state: data files, manifests, indexes."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.inspection.system_table_history import Row, View
from lakewright.storage.operations.inspection.system_table_text import (
    key_text,
    map_text,
    partition_text,
    row_text,
    stored_text,
    value_text,
)
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.live_files import (
    grouped_by_bucket,
    index_entries,
    live_entries,
)
from lakewright.storage.spec.cast_mode import CastMode, cast_mode
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.snapshot import Snapshot


def data_file_rows(view: View) -> Iterator[Row]:
    """Data files by partition, bucket and level, with their bounds."""
    files, snapshot = view.files, view.snapshot
    texts = _BoundTexts(files)
    for place, group in grouped_by_bucket(live_entries(files, snapshot)).items():
        folder = partition_text(files.partitions.of_entry(group[0]))
        ordered = sorted(
            (entry.file for entry in group),
            key=lambda file: (file.level, file.min_sequence_number, file.file_name),
        )
        for file in ordered:
            path = file.external_path or _shown(files, files.readable_path(place, file))
            nulls, low, high = texts.of(file)
            yield (
                folder,
                place.bucket,
                path,
                file.file_name.rsplit(".", 1)[-1],
                file.schema_id,
                file.level,
                file.row_count,
                file.file_size,
                key_text(file.min_key, files.schema.key_fields),
                key_text(file.max_key, files.schema.key_fields),
                nulls,
                low,
                high,
                file.min_sequence_number,
                file.max_sequence_number,
                file.creation_time,
                file.delete_row_count,
                None if file.file_source is None else file.file_source.name,
                file.first_row_id,
                None if file.write_cols is None else list(file.write_cols),
            )


def _shown(files: TableFiles, path: str) -> str:
    """A path as Java prints it: with the store's scheme, except on a local disk."""
    uri = files.fs.uri(path)
    return path if uri.startswith("file:") else uri


class _BoundTexts:
    """Null counts and bounds of files' columns, under the names of the table's schema."""

    def __init__(self, files: TableFiles) -> None:
        self._schemas = FileSchemas(files)
        self._nulls_more = cast_mode(files.schema, table=files.name) is CastMode.EXPLICIT_NULL

    def of(self, file: DataFileMeta) -> tuple[str, str, str]:
        nulls: dict[str, str] = {}
        low: dict[str, str] = {}
        high: dict[str, str] = {}
        for field, bounds in self._bounds(file):
            nulls[field.name] = "null" if bounds.null_count is None else str(bounds.null_count)
            low[field.name] = stored_text(bounds.minimum, field)
            high[field.name] = stored_text(bounds.maximum, field)
        return map_text(nulls), map_text(low), map_text(high)

    def _bounds(self, file: DataFileMeta) -> Iterator[tuple[DataField, Bounds]]:
        known = self._schemas.bounds_of(file)
        mapping = self._schemas.mapping_of(file)
        bounds = mapping.bounds(known, file.row_count)
        for column in mapping.columns.values():
            old = None if column.stored is None else known.get(column.stored.name)
            # Bounds of another type have no text in this type, and its casts may make more nulls.
            count = None if old is None or self._nulls_more else old.null_count
            unbounded = Bounds(None, None, count, file.row_count)
            yield column.field, bounds.get(column.field.name, unbounded)


def manifest_rows(view: View) -> Iterator[Row]:
    """Manifests in the order of the snapshot's lists."""
    files, snapshot = view.files, view.snapshot
    for name in () if snapshot is None else snapshot.manifest_lists:
        for meta in files.manifests.read_list(name):
            fields = files.partitions.keys_of_manifest(meta).fields
            yield (
                meta.file_name,
                meta.file_size,
                meta.num_added_files,
                meta.num_deleted_files,
                meta.schema_id,
                row_text(meta.partition_stats.min_values, fields),
                row_text(meta.partition_stats.max_values, fields),
                None,
                None,
            )


def partition_rows(view: View) -> Iterator[Row]:
    """Partitions with their sums."""
    files, snapshot = view.files, view.snapshot
    groups: dict[Partition, list[ManifestEntry]] = {}
    for entry in live_entries(files, snapshot):
        partition = files.partitions.as_named(entry.partition, entry.file.schema_id)
        groups.setdefault(partition, []).append(entry)
    deleted = _deleted_rows(files, snapshot)
    rows = []
    for partition, entries in groups.items():
        created, total_buckets = max(
            (entry.file.creation_time or 0, entry.total_buckets) for entry in entries
        )
        # During a change of keys, files of one partition have several rows.
        counts = [deleted.get(row, 0) for row in {entry.partition for entry in entries}]
        rows.append(
            (
                _partition_path(partition),
                sum(entry.file.row_count for entry in entries),
                sum(entry.file.file_size for entry in entries),
                len(entries),
                created or None,
                None,
                None,
                None,
                None,
                total_buckets,
                False,
                None if None in counts else sum(count or 0 for count in counts),
            )
        )
    yield from sorted(rows, key=lambda row: row[0])


def _partition_path(partition: Partition) -> str:
    """`k1=v1/k2=v2` without escapes: a text for people, not a path."""
    default = partition.keys.default_name
    return "/".join(
        f"{field.name}={default if value is None else value_text(value, field)}"
        for field, value in zip(partition.keys.fields, partition.values, strict=True)
    )


def _deleted_rows(files: TableFiles, snapshot: Snapshot | None) -> dict[bytes, int | None]:
    """Deleted rows by partition; None if a deletion vector has no count."""
    found: dict[bytes, int | None] = {}
    for entry in index_entries(files, snapshot):
        for vector in entry.file.deletion_vectors or ():
            known, count = found.get(entry.partition, 0), vector.cardinality
            found[entry.partition] = None if known is None or count is None else known + count
    return found


def bucket_rows(view: View) -> Iterator[Row]:
    """Buckets with their sums."""
    files, snapshot = view.files, view.snapshot
    rows = []
    for place, entries in grouped_by_bucket(live_entries(files, snapshot)).items():
        created = max(entry.file.creation_time or 0 for entry in entries)
        rows.append(
            (
                partition_text(files.partitions.of_entry(entries[0])),
                place.bucket,
                sum(entry.file.row_count for entry in entries),
                sum(entry.file.file_size for entry in entries),
                len(entries),
                created or None,
            )
        )
    yield from sorted(rows, key=lambda row: row[:2])


def table_index_rows(view: View) -> Iterator[Row]:
    """Index files: deletion vectors, and key hashes of dynamic buckets."""
    files, snapshot = view.files, view.snapshot
    live = {entry.partition: entry.file.schema_id for entry in live_entries(files, snapshot)}
    for entry in index_entries(files, snapshot):
        # An index entry names no schema: use the partition of the data files beside it.
        schema_id = live.get(entry.partition, files.schema.id)
        vectors = entry.file.deletion_vectors
        ranges = None
        if vectors is not None:
            ranges = [
                {
                    "f0": vector.data_file,
                    "f1": vector.offset,
                    "f2": vector.length,
                    "_CARDINALITY": vector.cardinality,
                }
                for vector in vectors
            ]
        yield (
            partition_text(files.partitions.of_row(entry.partition, schema_id)),
            entry.bucket,
            entry.file.index_type,
            entry.file.file_name,
            entry.file.file_size,
            entry.file.row_count,
            ranges,
            None,
            None,
            None,
            None,
        )
