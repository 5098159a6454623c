"""Checks that rows which were written under an older schema still have a meaning in the table.

A writer keeps the schema that it began with, and another client may alter the table meanwhile.
Readers find columns by their ids, so added, dropped, renamed and moved columns and implicit casts
keep every row valid. A column that must not be null now, or that got a type by an explicit cast,
may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakewright.storage.codec.column_stats import file_bounds
from lakewright.storage.errors import SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import path_text
from lakewright.storage.spec.schema_mapping import (
    ArrayMapping,
    CastValues,
    FieldMapping,
    MapMapping,
    RowMapping,
    TypeMapping,
    schema_mapping,
)


def check_rows_fit(files: TableFiles, schema: TableSchema, written: Iterable[DataFileMeta]) -> None:
    """Check new data files against the latest schema.

    Raises:
        SchemaMoved: rows may not fit a column that was altered since they were written.
    """
    changes: dict[int, tuple[TableSchema, _Changes]] = {}
    for file in written:
        if file.schema_id == schema.id:
            continue
        if file.schema_id not in changes:
            old = files.at_schema(file.schema_id).schema
            changes[file.schema_id] = old, _changes(old, schema)
        old, found = changes[file.schema_id]
        bounds = file_bounds(file, old) if found.required else {}
        for name in found.required:
            nulls = bounds[name].null_count if name in bounds else None
            if nulls != 0:
                told = "may hold null" if nulls is None else f"hold null {nulls} times"
                _refuse(files, schema, file, f"column {name} is NOT NULL now, and they {told}")
        for cast in found.casts:
            _refuse(files, schema, file, cast)


@dataclass(frozen=True, slots=True)
class _Changes:
    """Columns, by the names of files, that must not be null now; explicit casts, in words."""

    required: tuple[str, ...]
    casts: tuple[str, ...]


def _changes(old: TableSchema, new: TableSchema) -> _Changes:
    columns = schema_mapping(old.fields, new.fields).columns.values()
    return _Changes(
        required=tuple(
            column.stored.name
            for column in columns
            if column.stored is not None
            and column.stored.type.nullable
            and not column.field.type.nullable
        ),
        casts=tuple(cast for column in columns for cast in _casts_of(column, ())),
    )


def _casts_of(column: FieldMapping, above: tuple[str, ...]) -> Iterator[str]:
    yield from _casts(column.values, (*above, column.field.name))


def _casts(values: TypeMapping, path: tuple[str, ...]) -> Iterator[str]:
    match values:
        case CastValues(stored=stored, read=read):
            if cast_rule(stored, read).cast is not Cast.IMPLICIT:
                yield f"column {path_text(path)} was cast explicitly from {stored} to {read}"
        case RowMapping(members=members):
            for member in members:
                yield from _casts_of(member, path)
        case ArrayMapping(element=element):
            yield from _casts(element, (*path, "element"))
        case MapMapping(key=key, value=value):
            yield from _casts(key, (*path, "key"))
            yield from _casts(value, (*path, "value"))


def _refuse(files: TableFiles, schema: TableSchema, file: DataFileMeta, reason: str) -> None:
    raise SchemaMoved(
        f"rows for {files.name} were written under schema {file.schema_id}, and the table has "
        f"schema {schema.id} now: {reason}; stage the rows again",
        table=files.name,
    )
