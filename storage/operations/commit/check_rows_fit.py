"""Checks that rows which were written under an older schema still have a meaning in the table.

A writer keeps the schema that it began with, and another client may alter the table meanwhile.
Readers find columns by their ids, so added, dropped, renamed and moved columns and casts that lose
nothing keep every row valid. A column that must not be null now, or that got a type by an explicit
cast, may not. After an implicit cast with a loss, the bounds of the file must prove that all of its
values survive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakewright.storage.codec.cast_survival import known_loss
from lakewright.storage.codec.column_stats import file_bounds
from lakewright.storage.errors import SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.cast_mode import CastMode, cast_mode
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.data_types import ArrayType, AtomicType, DataType, MapType, RowType
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_casts import casts_of
from lakewright.storage.spec.schema_mapping import schema_mapping


def check_rows_fit(files: TableFiles, schema: TableSchema, written: Iterable[DataFileMeta]) -> None:
    """Check new data files against the latest schema.

    Raises:
        SchemaMoved: rows may not fit a column that was altered since they were written.
    """
    changes: dict[int, tuple[TableSchema, _Changes]] = {}
    mode = cast_mode(schema, table=files.name)
    for file in written:
        if file.schema_id == schema.id:
            continue
        if file.schema_id not in changes:
            old = files.at_schema(file.schema_id).schema
            changes[file.schema_id] = old, _changes(old, schema, mode)
        old, found = changes[file.schema_id]
        if old.has_primary_key != schema.has_primary_key:
            _refuse(files, schema, file, "only one of the two has a primary key")
        for column in found.unknown:
            _refuse(files, schema, file, f"{column}, and the rows may hold null there")
        bounds = file_bounds(file, old) if found.required or found.casts else {}
        for name in found.required:
            nulls = bounds[name].null_count if name in bounds else None
            if nulls != 0:
                told = "may hold null" if nulls is None else f"hold null {nulls} times"
                _refuse(files, schema, file, f"column {name} is NOT NULL now, and they {told}")
        for cast in found.casts:
            if not cast.keeps_all(file, bounds):
                _refuse(files, schema, file, cast.told)


def may_refuse_rows(old: TableSchema, new: TableSchema, *, table: str) -> bool:
    """Whether rows of one schema may have no meaning in a later one, whatever they hold."""
    changes = _changes(old, new, cast_mode(new, table=table))
    return bool(changes.required or changes.unknown or changes.casts)


@dataclass(frozen=True, slots=True)
class _LossyCast:
    """A cast of a column, or of a part of one, that may lose values; `column` is a file's name."""

    column: str
    is_whole_column: bool
    path: str
    stored: DataType
    read: DataType
    loss: str | None

    @property
    def told(self) -> str:
        types = f"from {self.stored} to {self.read}"
        if self._is_explicit:
            return f"column {self.path} was cast explicitly {types}"
        return f"column {self.path} was cast {types} ({self.loss}), and the rows may hold such"

    @property
    def _is_explicit(self) -> bool:
        return cast_rule(self.stored, self.read).cast is not Cast.IMPLICIT

    def keeps_all(self, file: DataFileMeta, bounds: Mapping[str, Bounds]) -> bool:
        """Whether it is certain that no value of a file is lost."""
        if file.write_cols is not None and self.column not in file.write_cols:
            return True
        stored, read = self.stored, self.read
        if self._is_explicit or not isinstance(stored, AtomicType):
            return False
        if not isinstance(read, AtomicType):
            return False
        if stored.root.is_text and read.root.is_text and stored.length <= read.length:
            # Only the blanks at the end differ.
            return True
        known = bounds.get(self.column)
        if self.is_whole_column:
            return known_loss(known, stored, read).is_none
        return known is not None and known.all_null


@dataclass(frozen=True, slots=True)
class _Changes:
    """What rows of an older schema may not fit.

    `required` are columns, by the names of files, that must not be null now. `unknown` are in
    words: parts that must not be null and that no statistics describe.
    """

    required: tuple[str, ...]
    unknown: tuple[str, ...]
    casts: tuple[_LossyCast, ...]


def _changes(old: TableSchema, new: TableSchema, mode: CastMode) -> _Changes:
    columns = schema_mapping(old.fields, new.fields).columns.values()
    return _Changes(
        required=tuple(
            column.stored.name
            for column in columns
            if column.stored is not None
            and column.stored.type.nullable
            and not column.field.type.nullable
        ),
        unknown=tuple(
            f"column {column.field.name} is new and NOT NULL"
            if column.stored is None
            else f"a part of column {column.field.name} is NOT NULL now"
            for column in columns
            if (column.stored is None and not column.field.type.nullable)
            or (column.stored is not None and _is_tighter(column.stored.type, column.field.type))
        ),
        casts=tuple(
            _LossyCast(
                column=column.stored.name,
                is_whole_column=isinstance(column.stored.type, AtomicType),
                path=path,
                stored=stored,
                read=read,
                loss=rule.loss_in(mode),
            )
            for column in columns
            if column.stored is not None
            for path, stored, read in casts_of(column)
            if (rule := cast_rule(stored, read)).cast is not Cast.IMPLICIT or rule.loss is not None
        ),
    )


def _is_tighter(old: DataType, new: DataType) -> bool:
    """Whether a part inside of a type may be null in the old type and not in the new one."""
    match old, new:
        case RowType(fields=before), RowType(fields=after):
            stored = {field.id: field.type for field in before}
            return any(_refuses_null(stored.get(field.id), field.type) for field in after)
        case ArrayType(element=before), ArrayType(element=after):
            return _refuses_null(before, after)
        case MapType(key=old_key, value=before), MapType(key=new_key, value=after):
            return _refuses_null(before, after) or _is_tighter(old_key, new_key)
    return False


def _refuses_null(old: DataType | None, new: DataType) -> bool:
    if old is None:
        return not new.nullable
    return (old.nullable and not new.nullable) or _is_tighter(old, new)


def _refuse(files: TableFiles, schema: TableSchema, file: DataFileMeta, reason: str) -> None:
    raise SchemaMoved(
        f"rows for {files.name} were written under schema {file.schema_id}, and the table has "
        f"schema {schema.id} now: {reason}; stage the rows again"
    )
