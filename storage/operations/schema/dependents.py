"""Finds what outside of a table uses a column that a change drops, renames or retypes."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.spec.schema_difference import ColumnDifference, column_differences
from lakewright.storage.spec.schema_gate import EVERY_COLUMN, Dependent, Finding, Rule, Severity


def used_columns(proposed: ProposedSchema) -> Iterator[Finding]:
    """A finding for each dependent and each column that it would not find as it was.

    So a waiver of a column covers it beside other columns too.
    """
    changes = column_differences(proposed.old, proposed.new)
    for dependent in proposed.rules.dependents:
        for change in changes:
            if dependent.column in (change.column, EVERY_COLUMN):
                yield _used(dependent, change)


def _used(dependent: Dependent, change: ColumnDifference) -> Finding:
    breaks = change.is_gone or change.is_renamed
    uses = "uses" if dependent.is_certain else "may use"
    return Finding(
        rule=Rule.COLUMN_USED,
        severity=Severity.BREAKING if breaks and dependent.is_certain else Severity.WARNING,
        column=change.column,
        message=f"{dependent} {uses} column {change.column}, which {change.told}",
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
