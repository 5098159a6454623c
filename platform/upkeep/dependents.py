"""The users of a table's columns in a workspace."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.platform.tables.workspace import Workspace
from lakewright.storage import Table
from lakewright.storage.operations.references.branches import BRANCH_MARK
from lakewright.storage.spec.schema_gate import Dependent

# Without declarations, nothing outside of the table is asked.
NO_WORKSPACE = Workspace()


def dependents_of(
    workspace: Workspace, table: Table, *, is_declared_change: bool = False
) -> Sequence[Dependent]:
    """Who uses the columns of a table; declarations and SQL files name no branch."""
    if workspace == NO_WORKSPACE or BRANCH_MARK in table.name:
        return ()
    # Only a workspace loads the parser of SQL.
    from lakewright.platform.policies.column_dependents import column_dependents  # noqa: PLC0415

    return column_dependents(
        workspace, table.name, table.schema.field_names, is_declared_change=is_declared_change
    )
