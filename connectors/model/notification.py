"""What a managed table's factory is told before a table is made or dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from lakewright.connectors.model.catalog_table import CatalogTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNotification:
    """A table that is about to be made or dropped; it can be read, not changed.

    `configuration` are the settings of the session, `registry` finds further factories.
    """

    name: str
    table: CatalogTable
    configuration: Mapping[str, str] = field(default_factory=dict)
    registry: Any = None
    is_temporary: bool = False

    def copy(self, options: Mapping[str, str]) -> TableNotification:
        """The notification of a table with other options: for a factory within another."""
        return replace(self, table=self.table.copy(options))


@runtime_checkable
class CreateTableListener(Protocol):
    """A factory that is asked before its table is in the catalog."""

    def on_table_creation(self, notification: TableNotification) -> Mapping[str, str]:
        """The options that the table gets; an error keeps it from being made."""
        ...


@runtime_checkable
class DropTableListener(Protocol):
    """A factory that is asked before its table leaves the catalog."""

    def on_table_drop(self, notification: TableNotification) -> None:
        """Remove what belongs to the table; an error keeps it."""
        ...
