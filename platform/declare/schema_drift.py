"""What differs between a table and its declaration, and whether declared rows fit the table.

A table drifts when its declaration is edited, and when another client alters it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewright.platform.declare.declarations import TableDeclaration, WriteKind
from lakewright.platform.declare.declared_changes import DeclaredChanges, declared_changes
from lakewright.storage import (
    AlterPlan,
    ChangeComment,
    ChangeDefault,
    ChangeTableComment,
    DropColumn,
    MoveColumn,
    Table,
)
from lakewright.storage.operations.state.held_columns import held_columns
from lakewright.storage.spec.column_uses import uses_of
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import SchemaChange, path_of
from lakewright.storage.spec.schema_change_text import shown

# Declared rows fit a table that differs by these.
_HARMLESS = (MoveColumn, ChangeComment, ChangeDefault, ChangeTableComment)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDrift:
    """The changes that lead from a table to its declaration.

    `misfits` are the changes without which declared rows do not fit. `plan` is what all changes
    would change together, with what the gate finds about them.
    """

    table: str
    schema_id: int
    found: DeclaredChanges
    misfits: tuple[SchemaChange, ...]
    plan: AlterPlan | None = None

    def __bool__(self) -> bool:
        return bool(self.found)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why declared rows do not fit the table, one line each; empty if they fit."""
        return (*map(shown, self.misfits), *self.found.others)


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
    left_out = _left_out(found, writing, table)
    return SchemaDrift(
        table=table.name,
        schema_id=table.schema.id,
        found=found,
        misfits=tuple(
            change
            for change in found.changes
            if not isinstance(change, _HARMLESS) and change not in left_out
        ),
        plan=table.plan_alter(*found.changes, rules=declaration.schema_policy.gate_rules)
        if found.changes
        else None,
    )


def _left_out(found: DeclaredChanges, writing: Writing, table: Table) -> set[SchemaChange]:
    """The drops of columns that only the table has, and that rows need not give.

    Rows that replace others would replace the values of such a column by null, so it must hold none
    there, unless updates are partial; a default would replace them in any case. Null in a column
    that an option names would decide how rows are merged.
    """
    schema = table.schema
    drops = {
        path_of(change.column)[0]: change
        for change in found.changes
        if isinstance(change, DropColumn) and len(path_of(change.column)) == 1
    }
    partial = schema.options.get("merge-engine", "").strip().lower() == "partial-update"
    adds = writing.kind is WriteKind.APPEND and not schema.has_primary_key
    upserts = writing.kind is not WriteKind.OVERWRITE and schema.has_primary_key
    columns = {
        name
        for name in drops
        if _may_be_left_out(schema.field(name), adds=adds) and not uses_of(schema, name)
    }
    if columns and not adds and not (partial and upserts):
        columns -= held_columns(table.table_files, columns, _replaced(writing, schema))
    return {drops[name] for name in columns}


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
