"""Which files of a plan Spark's own Parquet reader can read, and which columns it reads there.

The answer comes from the columns of manifests: of files with equal schemas and columns, one becomes
an object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from lakewright.storage.codec.arrow_timestamps import holds_moments
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.split_columns import FilesOfFolder, SplitColumns
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.spark.spark_types import reads_natively
from lakewright.storage.spec.cast_rules import cast_rule
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.file_format import PARQUET
from lakewright.storage.spec.file_names import written_pattern
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.schema_mapping import CastValues, SameValues, TypeMapping

# The columns of a file that hold the needed columns, in their order; None where it has no such
# column.
StoredColumns: TypeAlias = tuple[DataField | None, ...]


def divided(
    files: TableFiles,
    columns: SplitColumns,
    needed: Sequence[DataField],
    *,
    takes_path: Callable[[str], object] | None,
) -> tuple[Mapping[StoredColumns, Sequence[FilesOfFolder]], Sequence[DataSplit]]:
    """The files for Spark's own reader, by the columns to read there, and the splits for ours.

    `takes_path` says which paths Spark takes; it takes all if there is no such function.
    """
    at = _plain_files(files, columns, needed)
    native: dict[StoredColumns, Sequence[FilesOfFolder]] = {}
    taken = np.zeros(len(columns), bool)
    for stored, indexes in _by_stored_columns(files, columns, at, needed).items():
        chosen = at[indexes]
        folders = columns.folders(files, chosen)
        if takes_path is not None:
            paths = (path for folder in folders for path in folder.paths)
            chosen = chosen[[bool(takes_path(path)) for path in paths]]
            folders = columns.folders(files, chosen)
        if folders:
            native[stored] = folders
            taken[chosen] = True
    others = columns.splits_of(np.flatnonzero(~taken))
    return native, [replace(split, files=planned) for split, planned in others]


def _plain_files(
    files: TableFiles, columns: SplitColumns, needed: Sequence[DataField]
) -> np.ndarray:
    """The Parquet files that are read as they are: not merged, and without deleted rows."""
    merged = np.array([split.merge for split in columns.splits], bool)
    at = np.flatnonzero(~merged[columns.split_of])
    plain = columns.are_parquet(at)
    named = np.flatnonzero(~plain)
    plain[named] = [format_of_path(name) == PARQUET for name in columns.names(at[named])]
    plain[plain] = _have_all_rows(columns, at[plain])
    # Other writers may leave partition columns out, which Spark would read as null, and may count
    # days in another calendar, of which Spark knows its own marks alone.
    has_moments = any(holds_moments(to_arrow_type(field.type)) for field in needed)
    if not files.schema.is_keyed and (files.schema.partition_keys or has_moments):
        pattern = written_pattern(files.options.data_file_prefix)
        plain[plain] = columns.names_match(pattern, at[plain])
    if not files.schema.is_keyed and files.schema.partition_keys:
        plain[plain] = _are_in_table(files, columns, at[plain])
    found: np.ndarray = at[plain]
    return found


def _have_all_rows(columns: SplitColumns, at: np.ndarray) -> np.ndarray:
    """Whether no row of a file is deleted; Spark's Parquet reader knows no deletion vectors."""
    found = np.ones(len(at), bool)
    bounds = np.searchsorted(at, columns.bounds).tolist()
    for index, split in enumerate(columns.splits):
        if split.deletions:
            gone = {where.data_file for _, where in split.deletions}
            there = slice(bounds[index], bounds[index + 1])
            found[there] = [name not in gone for name in columns.names(at[there])]
    return found


def _are_in_table(files: TableFiles, columns: SplitColumns, at: np.ndarray) -> np.ndarray:
    found = np.ones(len(at), bool)
    for index, uri in columns.places(at).items():
        found[index] = not files.is_foreign_uri(uri)
    return found


def _by_stored_columns(
    files: TableFiles, columns: SplitColumns, at: np.ndarray, needed: Sequence[DataField]
) -> Mapping[StoredColumns, np.ndarray]:
    """Which of some files Spark can read, by the columns to read there, in the order of files."""
    schemas = FileSchemas(files)
    known: dict[tuple[int, tuple[str, ...] | None], StoredColumns | None] = {}
    found: dict[StoredColumns, list[np.ndarray]] = {}
    for file, indexes in columns.kinds(at):
        written = (file.schema_id, file.write_cols)
        if written not in known:
            known[written] = _stored_columns(schemas, file, needed)
        stored = known[written]
        if stored is not None:
            found.setdefault(stored, []).append(indexes)
    return {stored: np.sort(np.concatenate(parts)) for stored, parts in found.items()}


def _stored_columns(
    schemas: FileSchemas, file: DataFileMeta, needed: Sequence[DataField]
) -> StoredColumns | None:
    """Where a file holds the needed columns; None if Spark cannot read them as they are."""
    names = [field.name.casefold() for field in schemas.schema_of(file).fields]
    if len(set(names)) < len(names):
        # Spark does not tell them apart.
        return None
    mapping = schemas.mapping_of(file).columns
    columns = [mapping[field.id] for field in needed]
    found = [column.stored for column in columns]
    same = all(
        column.stored is None or (_spark_values(column.values) and reads_natively(column.stored))
        for column in columns
    )
    # Spark counts the rows of files by a column.
    return tuple(found) if same and (any(found) or not needed) else None


def _spark_values(values: TypeMapping) -> bool:
    """Whether Spark gives the values of a column: as stored, or by a cast that changes none.

    Other casts are ours, because Spark's differ from those of Paimon in Java.
    """
    match values:
        case CastValues(stored=AtomicType() as stored, read=AtomicType() as read):
            numbers = _is_number(stored) and _is_number(read)
            texts = stored.root is read.root is TypeRoot.VARCHAR
            return (numbers or texts) and cast_rule(stored, read).loss is None
    return isinstance(values, SameValues)


def _is_number(data_type: AtomicType) -> bool:
    root = data_type.root
    return root.is_integer or root.is_floating or root is TypeRoot.DECIMAL
