"""Validates stored rows under the current schema, on a sample of the files of each schema version.

1. Plan: take the live files of the latest snapshot by the schema that they were written with, and
   choose some of each. Each snapshot gives another sample, so repeated runs see other files.
2. Run: tasks of an engine read the first rows of each file, as they are stored and as the current
   schema reads them, and profile each part of a column. Rows that a deletion vector names are
   left out; rows of key-value files count before merging.

Nothing is written. What a profile must hold is judged by the caller.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.cast_survival import lost_values
from lakewright.storage.errors import StalePlan, StorageError, UnavailableError
from lakewright.storage.files.data_file import Reading
from lakewright.storage.files.data_files import read_footer, read_rows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import COUNT, option
from lakewright.storage.operations.schema.part_values import null_count, values_of
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.latest import planned_snapshot
from lakewright.storage.operations.state.live_files import (
    deletions_by_bucket,
    index_entries,
    live_entries,
)
from lakewright.storage.spec.arguments import whole_number
from lakewright.storage.spec.cast_mode import CastMode, cast_mode
from lakewright.storage.spec.changed_parts import ChangedPart, changed_parts
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.schema_change import path_text
from lakewright.storage.spec.shown import Shown

_TASKS = 64
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A schema version that live files use, and how many of them and of their rows."""

    schema_id: int
    files: int
    rows: int


@dataclass(frozen=True, slots=True)
class SampledFile:
    """A live file of the sample; `partition` is its folder."""

    schema_id: int
    partition: str
    file: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRowsPlan(Plan["ValidateRowsResult"]):
    """The files whose first rows are read, and all schema versions in use."""

    table: str
    snapshot_id: int | None
    schema_id: int
    rows_per_file: int
    versions: tuple[StoredVersion, ...]
    files: tuple[SampledFile, ...]

    @property
    def work_bytes(self) -> int | None:
        return self.bytes

    @property
    def bytes(self) -> int:
        """About how much is read."""
        return sum(
            file.size_bytes * min(file.rows, self.rows_per_file) // max(1, file.rows)
            for file in self.files
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProfile:
    """What the sampled rows of a file hold in a column, or in a part of one.

    `held` is the kind of type in the file, and `declared` that of its schema. `nulls` counts nulls
    that the current schema refuses, `lost` the values that change as they are read, with `loss` in
    words and an example.
    """

    column: str
    held: str | None = None
    declared: str | None = None
    nulls: int = 0
    lost: int = 0
    loss: str | None = None
    example: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProfile:
    """The sampled rows of a file; `error` says why they cannot be read under the current schema."""

    file: SampledFile
    rows_in_file: int | None
    rows_read: int
    parts: tuple[PartProfile, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRowsResult(Shown):
    """The profiles of all sampled files, in the order of the plan."""

    schema_id: int
    profiles: tuple[FileProfile, ...]


@dataclass(frozen=True)
class ValidateRowsOptions:
    """How much is read."""

    files_per_version: int = option(COUNT, 2, "How many files of each schema version are read.")
    rows_per_file: int = option(
        COUNT, 1000, "How many rows of each file are read, from its beginning."
    )


def plan_validate_rows(files: TableFiles, options: ValidateRowsOptions) -> ValidateRowsPlan:
    """Choose files of every schema version that the latest snapshot uses.

    Raises:
        InvalidRequestError: a number is not a whole one, or below 1.
    """
    files_per_version = whole_number(options.files_per_version, "files_per_version", minimum=1)
    rows_per_file = whole_number(options.rows_per_file, "rows_per_file", minimum=1)
    snapshot = files.snapshots.latest()
    by_version: dict[int, list[ManifestEntry]] = {}
    for entry in live_entries(files, snapshot):
        by_version.setdefault(entry.file.schema_id, []).append(entry)
    chosen = [
        entry
        for _, entries in sorted(by_version.items())
        for entry in sorted(entries, key=partial(_lot, snapshot.id if snapshot else 0))[
            :files_per_version
        ]
    ]
    return ValidateRowsPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        schema_id=files.schema.id,
        rows_per_file=rows_per_file,
        versions=tuple(
            StoredVersion(schema_id, len(entries), sum(each.file.row_count for each in entries))
            for schema_id, entries in sorted(by_version.items())
        ),
        files=tuple(_sampled(files, entry) for entry in chosen),
    )


def _lot(snapshot_id: int, entry: ManifestEntry) -> tuple[int, str]:
    name = entry.file.file_name
    return zlib.crc32(f"{snapshot_id}/{name}".encode()), name


def _sampled(files: TableFiles, entry: ManifestEntry) -> SampledFile:
    file = entry.file
    partition = files.partitions.of_entry(entry).path
    return SampledFile(file.schema_id, partition, file.file_name, file.row_count, file.file_size)


# --- run ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    """A file to read, in its bucket."""

    sampled: SampledFile
    split: DataSplit


def run_validate_rows(
    files: TableFiles, plan: ValidateRowsPlan, engine: Engine
) -> ValidateRowsResult:
    """Read and profile the planned files.

    Raises:
        StalePlan: the snapshot of the plan is expired, or holds other files.
    """
    files = files.reading_once().at_schema(plan.schema_id)
    tasks = _tasks(files, plan)
    groups = [tasks[at :: min(_TASKS, len(tasks))] for at in range(min(_TASKS, len(tasks)))]
    found = engine.map(partial(profile_files, files, plan.rows_per_file), groups)
    by_name = {profile.file.file: profile for group in found for profile in group}
    return ValidateRowsResult(
        schema_id=plan.schema_id, profiles=tuple(by_name[file.file] for file in plan.files)
    )


def _tasks(files: TableFiles, plan: ValidateRowsPlan) -> list[_Task]:
    if plan.snapshot_id is None:
        return []
    snapshot = planned_snapshot(files, plan.snapshot_id)
    live = {entry.file.file_name: entry for entry in live_entries(files, snapshot)}
    vectors = deletions_by_bucket(index_entries(files, snapshot))
    tasks = []
    for sampled in plan.files:
        entry = live.get(sampled.file)
        if entry is None or _sampled(files, entry) != sampled:
            raise StalePlan(
                f"the plan names file {sampled.file}, which snapshot {snapshot.id} of "
                f"{files.name} does not hold like that; plan again"
            )
        split = DataSplit(
            partition=entry.partition,
            bucket=entry.bucket,
            files=(entry.file,),
            merge=False,
            deletions=vectors.get(entry.place, ()),
        )
        tasks.append(_Task(sampled, split))
    return tasks


def profile_files(
    files: TableFiles, rows_per_file: int, tasks: Sequence[_Task]
) -> list[FileProfile]:
    """The profiles of some files: the work of one task."""
    files = files.reading_once()
    schemas = FileSchemas(files)
    return [_profile(files, schemas, rows_per_file, task) for task in tasks]


def _profile(
    files: TableFiles, schemas: FileSchemas, rows_per_file: int, task: _Task
) -> FileProfile:
    file, fields = task.split.files[0], files.schema.fields
    path = files.readable_path(task.split.place, file)
    rows_in_file: int | None = None
    rows_read, error = 0, None
    parts: list[PartProfile] = []
    try:
        rows_in_file = read_footer(files.fs, path).row_count
        stored_fields = _fields_of(schemas, file)
        names = [field.name for field in stored_fields]
        reading = Reading(of_table=True)
        held = _first(read_rows(files.fs, path, names, batch_rows=rows_per_file, reading=reading))
        if held is not None:
            parts += _types(stored_fields, held.schema)
        own = FileRows(files.at_schema(file.schema_id), stored_fields)
        stored = _first(own.rows(task.split, file, batch_rows=rows_per_file))
        if stored is not None:
            rows_read = stored.num_rows
            mode = cast_mode(files.schema, table=files.name)
            changed = list(changed_parts(stored_fields, fields))
            parts += [_loss(stored, part, mode) for part in changed if part.cast is not None]
            parts += [_nulls(stored, part) for part in changed if _is_inner_null(part)]
        current = FileRows(files, fields, shown=True)
        read = _first(current.rows(task.split, file, batch_rows=rows_per_file))
        if read is not None:
            parts += [
                PartProfile(column=path_text([each.name]), nulls=read.column(each.name).null_count)
                for each in fields
                if not each.type.nullable
            ]
    except UnavailableError:
        raise
    except StorageError as failure:
        error = failure.message
    return FileProfile(
        file=task.sampled,
        rows_in_file=rows_in_file,
        rows_read=rows_read,
        parts=tuple(parts),
        error=error,
    )


def _fields_of(schemas: FileSchemas, file: DataFileMeta) -> tuple[DataField, ...]:
    fields = schemas.schema_of(file).fields
    if file.write_cols is None:
        return fields
    return tuple(field for field in fields if field.name in file.write_cols)


def _first(pieces: Iterator[pa.Table]) -> pa.Table | None:
    """The first rows; None of a file without any."""
    with closing(pieces):  # type: ignore[type-var]  # generators, as all readers are
        return next(pieces, None)


# --- what the rows hold --------------------------------------------------------------------------


def _types(fields: Sequence[DataField], held: pa.Schema) -> list[PartProfile]:
    return [
        PartProfile(
            column=path_text([field.name]),
            held=_kind(held.field(field.name).type),
            declared=_kind(to_arrow_type(field.type)),
        )
        for field in fields
    ]


def _kind(arrow: pa.DataType) -> str:
    """A type as far as all file formats can tell it: they differ in widths and units."""
    if pa.types.is_integer(arrow) or pa.types.is_time(arrow):
        return "whole number"
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return "text"
    if pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow):
        return "bytes"
    for is_kind, name in (
        (pa.types.is_floating, "floating number"),
        (pa.types.is_timestamp, "timestamp"),
        (pa.types.is_struct, "row"),
        (pa.types.is_list, "array"),
        (pa.types.is_map, "map"),
    ):
        if is_kind(arrow):
            return name
    return str(arrow)


def _loss(stored: pa.Table, part: ChangedPart, mode: CastMode) -> PartProfile:
    assert part.cast is not None
    count, example = 0, None
    for values in values_of(stored, part):
        gone = values.filter(lost_values(values, *part.cast))
        count += len(gone)
        if len(gone) and example is None:
            example = repr(gone[0].as_py())[:_MOST_SHOWN]
    old, new = part.cast
    return PartProfile(
        column=path_text(part.path),
        lost=count,
        loss=f"{old} to {new}: {part.loss_in(mode)}",
        example=example,
    )


def _is_inner_null(part: ChangedPart) -> bool:
    return part.refuses_null and not part.is_column


def _nulls(stored: pa.Table, part: ChangedPart) -> PartProfile:
    nulls = sum(null_count(values, part) for values in values_of(stored, part))
    return PartProfile(column=path_text(part.path), nulls=nulls)
