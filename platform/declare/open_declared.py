"""Opens a declared table: creates it if it is missing, and refuses it if rows would not fit."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.platform.declare.declarations import TableDeclaration, WriteKind
from lakewright.platform.declare.declared_changes import declared_changes
from lakewright.storage import (
    Catalog,
    ChangeComment,
    ChangeDefault,
    ChangeTableComment,
    DropColumn,
    MoveColumn,
    Table,
)
from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.column_uses import uses_of
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import SchemaChange, path_of
from lakewright.storage.spec.schema_change_text import shown

# Declared rows fit a table that differs by these.
_HARMLESS = (MoveColumn, ChangeComment, ChangeDefault, ChangeTableComment)


def open_declared(catalog: Catalog, declaration: TableDeclaration) -> Table:
    """The declared table, created if it is missing.

    A table that another client altered ahead of its declaration is opened if declared rows fit it:
    rows that are appended or that update partially may lack columns that allow null.

    Raises:
        InvalidSchema: declared rows do not fit the table; the message names every difference.
    """
    table = catalog.create_table(declaration.table, declaration.schema_spec, if_not_exists=True)
    differences = list(misfits(declaration, table.schema))
    if differences:
        raise InvalidSchema(
            f"table {declaration.table} is not as declared, and differs by: "
            f"{'; '.join(differences)}; run the job evolve_schema, which makes the table as "
            "declared, or change the declaration to what the table has",
            table=declaration.table,
        )
    return table


def misfits(declaration: TableDeclaration, actual: TableSchema) -> Iterator[str]:
    """The changes that a table needs before declared rows fit it, each in a few words."""
    found = declared_changes(declaration, actual)
    for change in found.changes:
        if isinstance(change, _HARMLESS) or _may_be_left_out(change, declaration, actual):
            continue
        yield shown(change)
    yield from found.others


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
