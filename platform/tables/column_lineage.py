"""Column lineage: which columns of upstream tables a declared column is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewright.platform.tables.declarations import TableDeclaration


@dataclass(frozen=True, slots=True, order=True)
class UpstreamColumn:
    """A column of an upstream table."""

    table: str
    column: str

    @classmethod
    def parse(cls, text: str) -> UpstreamColumn | None:
        """`db.table.column`; None for any other text."""
        parts = text.split(".", 2)
        if len(parts) < 3 or not all(parts):
            return None
        return cls(f"{parts[0]}.{parts[1]}", parts[2])


Lineage = Mapping[str, tuple[UpstreamColumn, ...]]


def column_lineage(declaration: TableDeclaration) -> Lineage:
    """The upstream columns of each declared column that names some."""
    return {
        column.name: tuple(filter(None, map(UpstreamColumn.parse, column.made_of)))
        for column in declaration.columns
        if column.made_of
    }
