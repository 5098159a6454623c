"""Table sinks: what planning talks to before rows are written."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.runtime import Sink
from lakewright.storage.spec.data_types import DataField, DataType
from lakewright.storage.spec.table_distribution import SupportsBucketing

__all__ = [
    "DynamicTableSink",
    "SupportsBucketing",
    "SupportsOverwrite",
    "SupportsPartitioning",
    "SupportsStaging",
    "SupportsTruncate",
    "SupportsWritingMetadata",
]


class DynamicTableSink(ABC):
    """Writes a table; abilities are the protocols below."""

    def copy(self) -> Self:
        """A sink of its own for one plan; deep, if something mutable is shared."""
        return copy.copy(self)

    @property
    def summary(self) -> str:
        """What plans show of it."""
        return type(self).__name__

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """The kinds of rows that it takes, of a query that gives the requested ones."""
        return ChangelogMode.insert_only()

    @abstractmethod
    def sink(self) -> Sink:
        """What writes, after all abilities are applied."""


# --- abilities ------------------------------------------------------------------------------------


@runtime_checkable
class SupportsOverwrite(Protocol):
    """A sink that can replace rows."""

    def apply_overwrite(self, overwrite: bool) -> None:
        """Replace the table, or the partitions that are written."""
        ...


@runtime_checkable
class SupportsPartitioning(Protocol):
    """A sink whose rows go into partitions."""

    def apply_static_partition(self, partition: Mapping[str, object]) -> None:
        """Take rows of one partition, which lack its columns."""
        ...


@runtime_checkable
class SupportsWritingMetadata(Protocol):
    """A sink that keeps more of a row than its columns."""

    def writable_metadata(self) -> Mapping[str, DataType]:
        """The metadata of a row with their types, by key."""
        ...

    def apply_writable_metadata(self, metadata: Sequence[tuple[str, DataField]]) -> None:
        """Take metadata, by key, as fields behind the columns, in this order."""
        ...


@runtime_checkable
class SupportsStaging(Protocol):
    """A sink that makes its table with the first rows, all or nothing: CREATE TABLE … AS."""

    def apply_staging(self) -> None:
        """Make the table when rows are committed, and leave none if they are not."""
        ...


@runtime_checkable
class SupportsTruncate(Protocol):
    """A sink that can remove all rows."""

    def truncate(self) -> None:
        """Remove all rows of the table."""
        ...
