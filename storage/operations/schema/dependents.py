"""Finds what outside of a table uses a column that a change drops, renames or retypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakewright.storage.spec.schema_difference import ColumnDifference, column_differences
from lakewright.storage.spec.schema_gate import (
    EVERY_COLUMN,
    Dependent,
    Finding,
    Rule,
    Severity,
)

if TYPE_CHECKING:
    from lakewright.storage.operations.schema.gate import ProposedSchema


def used_columns(proposed: ProposedSchema) -> Iterator[Finding]:
    """A finding for each dependent of a column that it would not find as it was.

    A dependent of every column has one finding, whatever the number of columns.
    """
    changes = column_differences(proposed.old, proposed.new)
    for dependent in proposed.rules.dependents:
        used = [each for each in changes if dependent.column in (each.column, EVERY_COLUMN)]
        if used:
            yield _used(dependent, used)


def _used(dependent: Dependent, changes: list[ColumnDifference]) -> Finding:
    breaks = any(change.is_gone or change.is_renamed for change in changes)
    column = changes[0].column if len(changes) == 1 else None
    told = "; ".join(f"column {each.column}, which {each.told}" for each in changes)
    uses = "uses" if dependent.is_certain else "may use"
    return Finding(
        rule=Rule.COLUMN_USED,
        severity=Severity.BREAKING if breaks and dependent.is_certain else Severity.WARNING,
        column=column,
        message=f"{dependent} {uses} {told}",
        way_out=f"change {dependent.kind} {dependent.name} first, or waive the finding"
        if dependent.is_certain
        else f"look whether {dependent.kind} {dependent.name} uses it",
        details={
            "kind": dependent.kind,
            "name": dependent.name,
            "via": dependent.via,
            "is_certain": dependent.is_certain,
        },
    )
