"""Finds what outside of a table uses a column that a change drops, renames or retypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakewright.storage.spec.schema_difference import column_differences
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity

if TYPE_CHECKING:
    from lakewright.storage.operations.schema.gate import ProposedSchema


def used_columns(proposed: ProposedSchema) -> Iterator[Finding]:
    """A finding for each dependent of a column that it would not find as it was."""
    for change in column_differences(proposed.old, proposed.new):
        name = change.column
        for dependent in proposed.rules.dependents:
            if dependent.column != name:
                continue
            breaks = change.is_gone or change.is_renamed
            yield Finding(
                rule=Rule.COLUMN_USED,
                severity=Severity.BREAKING if breaks else Severity.WARNING,
                column=name,
                message=f"{dependent} uses column {name}, which {change.told}",
                way_out=f"change {dependent.kind} {dependent.name} first, or waive the finding",
                details={"kind": dependent.kind, "name": dependent.name, "via": dependent.via},
            )
