"""System tables: a table's metadata as rows, by the names, columns and order of the format.

They are read from metadata alone, but for `audit_log`, which holds the table's rows
with what each does to its key, deletions included that no compaction has ended yet.
A partition is printed as `{v1, v2}`, in `partitions` as `k1=v1/k2=v2`; times are UTC.

Source: Paimon, classes of `table.system`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.codec.column_stats import file_bounds
from lakewright.storage.codec.schema_json import field_to_json
from lakewright.storage.codec.statistics_json import column_statistics_text
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.metadata_stores import SchemaStore
from lakewright.storage.files.statistics_store import StatisticsStore
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.incremental import (
    ChangePlan,
    ChangeReader,
    plan_audit_log,
)
from lakewright.storage.operations.row_kinds import ROW_KIND_COLUMN
from lakewright.storage.operations.scan import (
    grouped_by_bucket,
    index_entries,
    live_entries,
)
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot, parse_data_type
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.partition import partition_text
from lakewright.storage.spec.predicate import Bounds, Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import Value

AUDIT_LOG = "audit_log"
# What `audit_log` calls the column that says what a row does to its key.
ROW_KIND_NAME = "rowkind"

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _View:
    """A table, and the snapshot that rows about its files are as of."""

    files: TableFiles
    snapshot: Snapshot | None


@dataclass(frozen=True, slots=True)
class SystemTable:
    """One system table: its columns, and what makes its rows."""

    fields: tuple[DataField, ...]
    rows: Callable[[_View], Iterable[Row]]


def system_table_names() -> tuple[str, ...]:
    """Every system table there is."""
    return tuple(sorted((*_TABLES, AUDIT_LOG)))


def check_system_table(files: TableFiles, name: str) -> None:
    """Whether there is a system table of that name.

    Raises:
        InvalidRequestError: there is none; the message lists those there are.
    """
    if name not in system_table_names():
        raise InvalidRequestError(
            f"{files.name} has no system table {name!r}; there are "
            f"{', '.join(system_table_names())}"
        )


def system_table_schema(files: TableFiles, name: str) -> TableSchema:
    """The columns of a system table, as a schema that filters are read against.

    Raises:
        InvalidRequestError: there is no system table of that name.
    """
    check_system_table(files, name)
    if name != AUDIT_LOG:
        fields = _TABLES[name].fields
    else:
        kind = DataField(-1, ROW_KIND_NAME, parse_data_type("STRING NOT NULL"))
        fields = (kind, *files.schema.fields)
    return TableSchema(id=0, fields=fields, highest_field_id=len(fields))


def read_system_table(
    files: TableFiles, name: str, snapshot: Snapshot | None, predicate: Predicate | None = None
) -> pa.Table:
    """A system table as of a snapshot; what does not depend on one is as it is now.

    Raises:
        InvalidRequestError: there is no system table of that name.
    """
    schema = system_table_schema(files, name)
    arrow_schema = to_arrow_schema(schema.fields)
    if name == AUDIT_LOG:
        plan = plan_audit_log(files, snapshot)
        parts = list(audit_log_rows(files, plan))
        nullable = pa.schema([field.with_nullable(True) for field in arrow_schema])
        rows = pa.concat_tables([nullable.empty_table(), *(part.cast(nullable) for part in parts)])
    else:
        listed = list(_TABLES[name].rows(_View(files, snapshot)))
        columns = [
            pa.array([row[index] for row in listed], field.type)
            for index, field in enumerate(arrow_schema)
        ]
        rows = pa.table(columns, schema=arrow_schema)
    return keep_matching(rows, predicate, schema)


def audit_log_rows(files: TableFiles, plan: ChangePlan) -> Iterator[pa.Table]:
    """The rows of `audit_log` piece by piece; of other changes too, when a plan says so."""
    reader = ChangeReader(files, columns=None, predicate=None)
    names = [
        ROW_KIND_NAME if each == ROW_KIND_COLUMN else each for each in reader.arrow_schema.names
    ]
    for split in plan.splits:
        for rows in reader.read(split):
            yield rows.rename_columns(names)


# --- text -------------------------------------------------------------------------------------


def _value_text(value: Value, field: DataField) -> str:
    """A value cast to text, as SQL prints it."""
    if value is None:
        return "null"
    if isinstance(field.type, AtomicType) and field.type.root is TypeRoot.TIME:
        assert isinstance(value, int)
        seconds, millis = divmod(value, 1000)
        text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"{text}.{millis:03d}" if millis else text
    return partition_text(value, field, legacy_name=False) or ""


def _row_text(data: bytes, fields: Sequence[DataField]) -> str:
    values = decode_row(data, [field.type for field in fields])
    texts = (_value_text(value, field) for value, field in zip(values, fields, strict=True))
    return "{" + ", ".join(texts) + "}"


def _stored_text(value: Value, field: DataField) -> str:
    """A value as what is stored: dates and times as numbers, bytes in hexadecimal."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return partition_text(value, field) or ""


def _key_text(key: bytes, fields: Sequence[DataField]) -> str | None:
    if not fields:
        return None
    values = decode_row(key, [field.type for field in fields])
    texts = (_stored_text(value, field) for value, field in zip(values, fields, strict=True))
    return "[" + ", ".join(texts) + "]"


def _map_text(texts: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}={texts[name]}" for name in sorted(texts)) + "}"


def _flat_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# --- history ----------------------------------------------------------------------------------


def _snapshots(view: _View) -> Iterator[Row]:
    files = view.files
    for each in reversed(list(files.snapshots.newest_first())):
        yield (
            each.id,
            each.schema_id,
            each.commit_user,
            each.commit_identifier,
            each.commit_kind.value,
            each.time_millis,
            each.base_manifest_list,
            each.delta_manifest_list,
            each.changelog_manifest_list,
            each.total_record_count,
            each.delta_record_count,
            each.changelog_record_count,
            each.watermark,
            each.next_row_id,
            each.operation,
            each.writer_version,
        )


def _schemas(view: _View) -> Iterator[Row]:
    files = view.files
    for schema_id in files.schemas.ids():
        schema = files.schemas.read(schema_id)
        yield (
            schema.id,
            _flat_json([field_to_json(field) for field in schema.fields]),
            _flat_json(schema.partition_keys),
            _flat_json(schema.primary_keys),
            _flat_json(dict(schema.options)),
            schema.comment or None,
            schema.time_millis,
        )


def _options(view: _View) -> Iterator[Row]:
    yield from view.files.schema.options.items()


def _tags(view: _View) -> Iterator[Row]:
    files = view.files
    for name, tag in sorted(files.references.tags().items()):
        yield (
            name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            tag.snapshot.time_millis,
            tag.snapshot.total_record_count,
            tag.create_time,
            None if tag.time_retained_ms is None else _duration_text(tag.time_retained_ms),
        )


def _duration_text(millis: int) -> str:
    """An ISO duration in hours, minutes and seconds: `PT72H`, `PT1M30.5S`."""
    seconds, fraction = divmod(millis, 1000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if fraction:
        text += f"{seconds}.{fraction:03d}".rstrip("0") + "S"
    elif seconds or not text:
        text += f"{seconds}S"
    return f"PT{text}"


def _branches(view: _View) -> Iterator[Row]:
    files = view.files
    for name, paths in sorted(files.references.branches().items()):
        if SchemaStore(files.fs, paths).ids():
            # The copy of the first schema is the first file that a branch gets.
            yield name, min(each.modified_ms for each in files.fs.list_dir(paths.schema_dir))


def _consumers(view: _View) -> Iterator[Row]:
    yield from sorted(view.files.references.consumers().items())


def _statistics(view: _View) -> Iterator[Row]:
    files, snapshot = view.files, view.snapshot
    if snapshot is None or snapshot.statistics is None:
        return
    found = StatisticsStore(files.fs, files.paths, files.env).read(snapshot.statistics)
    yield (
        found.snapshot_id,
        found.schema_id,
        found.merged_record_count,
        found.merged_record_size,
        column_statistics_text(found),
    )


def _aggregation_fields(view: _View) -> Iterator[Row]:
    files = view.files
    functions: dict[str, list[tuple[str, str]]] = {}
    for option, value in files.schema.options.items():
        kind, *rest = option.split(".")
        if kind == "fields" and len(rest) > 1:
            functions.setdefault(rest[0], []).append((option, value))
    for field in files.schema.fields:
        found = functions.get(field.name, [])
        yield (
            field.name,
            str(field.type),
            "[" + ", ".join(value for _, value in found) + "]",
            "[" + ", ".join(option for option, _ in found) + "]",
            field.description,
        )


# --- files ------------------------------------------------------------------------------------


def _files(view: _View) -> Iterator[Row]:
    files, snapshot = view.files, view.snapshot
    texts = _BoundTexts(files)
    for (partition, bucket), group in grouped_by_bucket(live_entries(files, snapshot)).items():
        folder = _row_text(partition, files.schema.partition_fields)
        ordered = sorted(
            (entry.file for entry in group),
            key=lambda file: (file.level, file.min_sequence_number, file.file_name),
        )
        for file in ordered:
            path = file.external_path or files.fs.uri(files.data_file_path(partition, bucket, file))
            nulls, low, high = texts.of(file)
            yield (
                folder,
                bucket,
                path,
                file.file_name.rsplit(".", 1)[-1],
                file.schema_id,
                file.level,
                file.row_count,
                file.file_size,
                _key_text(file.min_key, files.schema.key_fields),
                _key_text(file.max_key, files.schema.key_fields),
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


class _BoundTexts:
    """Null counts and bounds of files' columns, under the names of the table's schema."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._schemas: dict[int, TableSchema] = {files.schema.id: files.schema}

    def of(self, file: DataFileMeta) -> tuple[str, str, str]:
        nulls: dict[str, str] = {}
        low: dict[str, str] = {}
        high: dict[str, str] = {}
        for field, bounds in self._bounds(file):
            nulls[field.name] = "null" if bounds.null_count is None else str(bounds.null_count)
            low[field.name] = _stored_text(bounds.minimum, field)
            high[field.name] = _stored_text(bounds.maximum, field)
        return _map_text(nulls), _map_text(low), _map_text(high)

    def _bounds(self, file: DataFileMeta) -> Iterator[tuple[DataField, Bounds]]:
        if file.schema_id not in self._schemas:
            self._schemas[file.schema_id] = self._files.schemas.read(file.schema_id)
        written_with = self._schemas[file.schema_id]
        known = file_bounds(file, written_with)
        by_id = {field.id: field for field in written_with.fields}
        for field in self._files.schema.fields:
            old = by_id.get(field.id)
            if old is None:
                # The file predates the column, so all its rows hold null there.
                yield field, Bounds(None, None, file.row_count, file.row_count)
                continue
            bounds = known.get(old.name, Bounds(None, None, None, file.row_count))
            if old.type != field.type:
                # Bounds of another type say nothing in the text of this one.
                bounds = Bounds(None, None, bounds.null_count, file.row_count)
            yield field, bounds


def _manifests(view: _View) -> Iterator[Row]:
    files, snapshot = view.files, view.snapshot
    fields = files.schema.partition_fields
    for name in () if snapshot is None else snapshot.manifest_lists:
        for meta in files.manifests.read_list(name):
            yield (
                meta.file_name,
                meta.file_size,
                meta.num_added_files,
                meta.num_deleted_files,
                meta.schema_id,
                _row_text(meta.partition_stats.min_values, fields),
                _row_text(meta.partition_stats.max_values, fields),
                None,
                None,
            )


def _partitions(view: _View) -> Iterator[Row]:
    files, snapshot = view.files, view.snapshot
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in live_entries(files, snapshot):
        groups.setdefault(entry.partition, []).append(entry)
    deleted = _deleted_rows(files, snapshot)
    rows = []
    for partition, entries in groups.items():
        created, total_buckets = max(
            (entry.file.creation_time or 0, entry.total_buckets) for entry in entries
        )
        rows.append(
            (
                _partition_path(files, partition),
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
                deleted.get(partition, 0),
            )
        )
    yield from sorted(rows, key=lambda row: row[0])


def _partition_path(files: TableFiles, partition: bytes) -> str:
    """`k1=v1/k2=v2`, nothing escaped: a text to read, not a path."""
    values = files.partition_values(partition)
    return "/".join(
        f"{field.name}="
        + (files.options.partition_default_name if value is None else _value_text(value, field))
        for field, value in zip(files.schema.partition_fields, values, strict=True)
    )


def _deleted_rows(files: TableFiles, snapshot: Snapshot | None) -> dict[bytes, int | None]:
    """Rows that deletion vectors name, by partition; None where one does not say how many."""
    found: dict[bytes, int | None] = {}
    for entry in index_entries(files, snapshot):
        for vector in entry.file.deletion_vectors or ():
            known, count = found.get(entry.partition, 0), vector.cardinality
            found[entry.partition] = None if known is None or count is None else known + count
    return found


def _buckets(view: _View) -> Iterator[Row]:
    files, snapshot = view.files, view.snapshot
    fields = files.schema.partition_fields
    rows = []
    for (partition, bucket), entries in grouped_by_bucket(live_entries(files, snapshot)).items():
        created = max(entry.file.creation_time or 0 for entry in entries)
        rows.append(
            (
                _row_text(partition, fields),
                bucket,
                sum(entry.file.row_count for entry in entries),
                sum(entry.file.file_size for entry in entries),
                len(entries),
                created or None,
            )
        )
    yield from sorted(rows, key=lambda row: row[:2])


def _table_indexes(view: _View) -> Iterator[Row]:
    files, snapshot = view.files, view.snapshot
    for entry in index_entries(files, snapshot):
        vectors = entry.file.deletion_vectors
        ranges = None
        if vectors is not None:
            ranges = [
                {
                    "f0": each.data_file,
                    "f1": each.offset,
                    "f2": each.length,
                    "_CARDINALITY": each.cardinality,
                }
                for each in vectors
            ]
        yield (
            _row_text(entry.partition, files.schema.partition_fields),
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


def _columns(**types: str) -> tuple[DataField, ...]:
    return tuple(
        DataField(index, name, parse_data_type(text))
        for index, (name, text) in enumerate(types.items())
    )


_TEXT = "STRING NOT NULL"
_NUMBER = "BIGINT NOT NULL"
_TIME = "TIMESTAMP(3) NOT NULL"

_TABLES: dict[str, SystemTable] = {
    "snapshots": SystemTable(
        _columns(
            snapshot_id=_NUMBER,
            schema_id=_NUMBER,
            commit_user=_TEXT,
            commit_identifier=_NUMBER,
            commit_kind=_TEXT,
            commit_time=_TIME,
            base_manifest_list=_TEXT,
            delta_manifest_list=_TEXT,
            changelog_manifest_list="STRING",
            total_record_count="BIGINT",
            delta_record_count="BIGINT",
            changelog_record_count="BIGINT",
            watermark="BIGINT",
            next_row_id="BIGINT",
            operation="STRING",
            writer_version="STRING",
        ),
        _snapshots,
    ),
    "schemas": SystemTable(
        _columns(
            schema_id=_NUMBER,
            fields=_TEXT,
            partition_keys=_TEXT,
            primary_keys=_TEXT,
            options=_TEXT,
            comment="STRING",
            update_time=_TIME,
        ),
        _schemas,
    ),
    "options": SystemTable(_columns(key=_TEXT, value=_TEXT), _options),
    "files": SystemTable(
        _columns(
            partition="STRING",
            bucket="INT NOT NULL",
            file_path=_TEXT,
            file_format=_TEXT,
            schema_id=_NUMBER,
            level="INT NOT NULL",
            record_count=_NUMBER,
            file_size_in_bytes=_NUMBER,
            min_key="STRING",
            max_key="STRING",
            null_value_counts=_TEXT,
            min_value_stats=_TEXT,
            max_value_stats=_TEXT,
            min_sequence_number="BIGINT",
            max_sequence_number="BIGINT",
            creation_time="TIMESTAMP(3)",
            deleteRowCount="BIGINT",
            file_source="STRING",
            first_row_id="BIGINT",
            write_cols="ARRAY<STRING>",
        ),
        _files,
    ),
    "manifests": SystemTable(
        _columns(
            file_name=_TEXT,
            file_size=_NUMBER,
            num_added_files=_NUMBER,
            num_deleted_files=_NUMBER,
            schema_id=_NUMBER,
            min_partition_stats="STRING",
            max_partition_stats="STRING",
            min_row_id="BIGINT",
            max_row_id="BIGINT",
        ),
        _manifests,
    ),
    "partitions": SystemTable(
        _columns(
            partition="STRING",
            record_count=_NUMBER,
            file_size_in_bytes=_NUMBER,
            file_count=_NUMBER,
            last_update_time="TIMESTAMP(3)",
            created_at="TIMESTAMP(3)",
            created_by="STRING",
            updated_by="STRING",
            options="STRING",
            total_buckets="INT NOT NULL",
            done="BOOLEAN NOT NULL",
            deleted_record_count="BIGINT",
        ),
        _partitions,
    ),
    "buckets": SystemTable(
        _columns(
            partition="STRING",
            bucket="INT NOT NULL",
            record_count=_NUMBER,
            file_size_in_bytes=_NUMBER,
            file_count=_NUMBER,
            last_update_time="TIMESTAMP(3)",
        ),
        _buckets,
    ),
    "tags": SystemTable(
        _columns(
            tag_name=_TEXT,
            snapshot_id=_NUMBER,
            schema_id=_NUMBER,
            commit_time=_TIME,
            record_count="BIGINT",
            create_time="TIMESTAMP(3)",
            time_retained="STRING",
        ),
        _tags,
    ),
    "branches": SystemTable(_columns(branch_name=_TEXT, create_time=_TIME), _branches),
    "consumers": SystemTable(_columns(consumer_id=_TEXT, next_snapshot_id=_NUMBER), _consumers),
    "statistics": SystemTable(
        _columns(
            snapshot_id=_NUMBER,
            schema_id=_NUMBER,
            mergedRecordCount="BIGINT",
            mergedRecordSize="BIGINT",
            colstat="STRING",
        ),
        _statistics,
    ),
    "aggregation_fields": SystemTable(
        _columns(
            field_name=_TEXT,
            field_type=_TEXT,
            function="STRING",
            function_options="STRING",
            comment="STRING",
        ),
        _aggregation_fields,
    ),
    "table_indexes": SystemTable(
        _columns(
            partition="STRING",
            bucket="INT NOT NULL",
            index_type=_TEXT,
            file_name=_TEXT,
            file_size=_NUMBER,
            row_count=_NUMBER,
            dv_ranges=(
                "ARRAY<ROW<f0 STRING NOT NULL, f1 INT NOT NULL, f2 INT NOT NULL, "
                "_CARDINALITY BIGINT> NOT NULL>"
            ),
            row_range_start="BIGINT",
            row_range_end="BIGINT",
            index_field_id="INT",
            index_field_name="STRING",
        ),
        _table_indexes,
    ),
}
