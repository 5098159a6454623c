"""What differs between a table and its declaration, and whether declared rows fit the table.

A table drifts when its declaration is edited, and when another client alters it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import yaml

from lakewright.platform.tables.declarations import TableDeclaration, WriteKind
from lakewright.platform.tables.declared_changes import DeclaredChanges, declared_changes
from lakewright.storage import (
    ChangeComment,
    ChangeDefault,
    ChangeTableComment,
    DropColumn,
    MoveColumn,
    Table,
)
from lakewright.storage.codec.default_values import default_value
from lakewright.storage.errors import SchemaMoved, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.held_columns import held_columns
from lakewright.storage.spec.column_uses import uses_of
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import SchemaChange, path_of
from lakewright.storage.spec.schema_change_text import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDrift:
    """The changes that lead from a table to its declaration.

    `misfits` are the changes without which declared rows do not fit. `undeclared` are the columns
    that runs added by `evolve: additive`: they stay, and are to be declared.
    """

    table: str
    schema_id: int
    found: DeclaredChanges
    misfits: tuple[SchemaChange, ...]
    undeclared: tuple[DataField, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.found)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why declared rows do not fit the table, one line each; empty if they fit."""
        keys = () if self.found.keys is None else (str(self.found.keys),)
        return (*map(shown, self.misfits), *keys, *self.found.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """What a run writes: its mode, and its partitions; None for those that turn up."""

    kind: WriteKind
    partitions: tuple[Mapping[str, object], ...] | None = None


def schema_drift(
    declaration: TableDeclaration, table: Table, writing: Writing | None = None
) -> SchemaDrift:
    """How a table differs from its declaration; nothing is written.

    Without a run, the misfits are those by which every run in the declared mode is refused.
    """
    found = declared_changes(declaration, table.schema)
    writing = writing or Writing(kind=declaration.write_kind, partitions=())
    left_out = _left_out(found, writing, table.table_files)
    return SchemaDrift(
        table=table.name,
        schema_id=table.schema.id,
        found=found,
        misfits=tuple(
            change
            for change in found.changes
            if not _is_harmless(change, table) and change not in left_out
        ),
        undeclared=declaration.undeclared(table.schema),
    )


def lines_to_declare(fields: Sequence[DataField]) -> list[str]:
    """The lines of `columns` that declare some columns of a table."""
    lines = []
    for field in fields:
        line: dict[str, str] = {"name": field.name, "type": str(field.type)}
        if field.description is not None:
            line["comment"] = field.description
        if field.default_value is not None:
            line["default"] = field.default_value
        text = yaml.safe_dump(
            line, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9
        )
        lines.append(f"- {text.strip()}")
    return lines


def check_other_columns(declaration: TableDeclaration, table: Table, writing: Writing) -> None:
    """Check once more, before rows are committed, the columns that they do not give.

    Another client may have added a column since the table was opened, and values to one. What else
    it changed does not matter: readers map staged files from the schema they were written with.

    Raises:
        SchemaMoved: the rows would replace values of such a column, or would decide by null.
    """
    files = table.table_files
    latest = files.at_schema(files.schemas.latest_id(table=table.name))
    declared = {column.name for column in declaration.columns}
    given = {field.id for field in table.schema.fields if field.name in declared}
    others = [field.name for field in latest.schema.fields if field.id not in given]
    wrong = sorted(set(others) - _without_need(others, writing, latest))
    if wrong:
        raise SchemaMoved(
            f"rows for {table.name} were staged without column {', '.join(wrong)}, which "
            "another client added or filled meanwhile; nothing was published: declare the column, "
            "or drop it, and run again"
        )


def _is_harmless(change: SchemaChange, table: Table) -> bool:
    """Whether declared rows fit a table without this change."""
    match change:
        case MoveColumn(column=column):
            # Rows give columns by name, and members of rows in the order of the table.
            return len(path_of(column)) == 1
        case ChangeComment() | ChangeTableComment():
            return True
        case ChangeDefault(column=column, default=text):
            (name,) = path_of(column)
            # It has the name of the declaration if it is to be renamed, which is a misfit itself.
            known = name in table.schema.field_names
            return known and _fills_alike(table.schema.field(name), text, table.name)
    return False


def _fills_alike(field: DataField, default: str | None, table: str) -> bool:
    """Whether a default would replace nulls of a column by the same value as its own."""
    if default is None or field.default_value is None:
        return False
    try:
        wanted = default_value(replace(field, default_value=default), table)
        return bool(wanted == default_value(field, table))
    except UnsupportedError:
        return False


def _left_out(found: DeclaredChanges, writing: Writing, files: TableFiles) -> set[SchemaChange]:
    """The drops of columns that only the table has, and that rows need not give."""
    drops = {
        path_of(change.column)[0]: change
        for change in found.changes
        if isinstance(change, DropColumn) and len(path_of(change.column)) == 1
    }
    return {drops[name] for name in _without_need(drops, writing, files)}


def _without_need(names: Collection[str], writing: Writing, files: TableFiles) -> set[str]:
    """The columns of these that rows need not give.

    Rows that replace others would replace the values of such a column by null, so it must hold none
    there, unless updates are partial; a default would replace them in any case. Null in a column
    that an option names would decide how rows are merged.
    """
    schema = files.schema
    partial = schema.options.get("merge-engine", "").strip().lower() == "partial-update"
    adds = writing.kind is WriteKind.APPEND and not schema.has_primary_key
    upserts = writing.kind is not WriteKind.OVERWRITE and schema.has_primary_key
    columns = {
        name
        for name in names
        if _may_be_left_out(schema.field(name), adds=adds) and not uses_of(schema, name)
    }
    if columns and not adds and not (partial and upserts):
        columns -= held_columns(files, columns, _replaced(writing, schema))
    return columns


def _may_be_left_out(field: DataField, *, adds: bool) -> bool:
    if field.default_value is not None:
        return adds
    return field.type.nullable


def _replaced(writing: Writing, schema: TableSchema) -> tuple[Mapping[str, object], ...] | None:
    """The partitions whose rows a run may replace; None for any."""
    # Without all partition keys in it, a key may leave another partition.
    stays = writing.kind is WriteKind.OVERWRITE or set(schema.partition_keys) <= set(
        schema.primary_keys
    )
    whole = all(set(each) == set(schema.partition_keys) for each in writing.partitions or ())
    return writing.partitions if stays and whole and schema.partition_keys else None
