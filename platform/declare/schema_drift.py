"""What differs between a table and its declaration, and whether declared rows fit the table.

A table drifts when its declaration is edited, and when another client alters it.
"""

from __future__ import annotations

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
from lakewright.storage.spec.column_uses import uses_of
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


def schema_drift(declaration: TableDeclaration, table: Table) -> SchemaDrift:
    """How a table differs from its declaration; nothing is written."""
    found = declared_changes(declaration, table.schema)
    return SchemaDrift(
        table=table.name,
        schema_id=table.schema.id,
        found=found,
        misfits=tuple(
            change
            for change in found.changes
            if not isinstance(change, _HARMLESS)
            and not _may_be_left_out(change, declaration, table.schema)
        ),
        plan=table.plan_alter(*found.changes, rules=declaration.schema_policy.gate_rules)
        if found.changes
        else None,
    )


def _may_be_left_out(
    change: SchemaChange, declaration: TableDeclaration, actual: TableSchema
) -> bool:
    """Whether it is a column that only the table has, which rows need not give.

    Rows that replace others would replace its values by null, unless updates are partial. Null in
    a column that an option names would decide how rows are merged.
    """
    if not isinstance(change, DropColumn) or len(path := path_of(change.column)) > 1:
        return False
    adds = declaration.write_kind is WriteKind.APPEND and not actual.has_primary_key
    partial = actual.options.get("merge-engine", "").strip().lower() == "partial-update"
    field = actual.field(path[0])
    may_be_null = field.type.nullable or field.default_value is not None
    return (adds or partial) and may_be_null and not uses_of(actual, field.name)
