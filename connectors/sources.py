"""Table sources: what planning talks to, before something runs.

A source is made by its factory from the options of a table. Planning copies it, and applies the
abilities that it has to the copy, each once and in a fixed order (`planning/plan_source.py`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.runtime import AsyncLookup, Lookup, Scan
from lakewright.storage.spec.data_types import DataField, DataType
from lakewright.storage.spec.predicate import Predicate


class DynamicTableSource:
    """Reads a table; abilities are the protocols below."""

    def copy(self) -> Self:
        """A source of its own for one plan; deep, if something mutable is shared."""
        return copy.copy(self)

    @property
    def summary(self) -> str:
        """What plans show of it."""
        return type(self).__name__


class ScanTableSource(DynamicTableSource, ABC):
    """A source that can be read from its beginning."""

    def changelog_mode(self) -> ChangelogMode:
        """The kinds of rows that it gives."""
        return ChangelogMode.insert_only()

    @abstractmethod
    def scan(self) -> Scan:
        """What reads it, after all abilities are applied."""


class LookupTableSource(DynamicTableSource, ABC):
    """A source in which rows are found by columns. It gives rows, never changes."""

    @abstractmethod
    def lookup_keys(self, columns: Sequence[str]) -> Sequence[str]:
        """Those of some columns by which it finds every row that a scan gives; none if it cannot.

        The other system must hold values to be equal that are equal here. It may find more rows.
        """

    @abstractmethod
    def lookup(self, keys: Sequence[str]) -> Lookup | AsyncLookup:
        """What finds rows by columns that `lookup_keys` gave."""


# --- abilities ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filtered:
    """What became of filters: those that the source applies, and those left to be applied.

    A filter may be in both: the source then leaves out some rows that it does not take.
    """

    accepted: Sequence[Predicate]
    remaining: Sequence[Predicate]


@runtime_checkable
class SupportsPartitionPushDown(Protocol):
    """A source that can skip partitions that the query does not need."""

    def list_partitions(self) -> Sequence[Mapping[str, str | None]] | None:
        """All partitions, values as texts; None if they are not known."""
        ...

    def apply_partitions(self, remaining: Sequence[Mapping[str, str | None]]) -> None:
        """Read these partitions alone."""
        ...


@runtime_checkable
class SupportsFilterPushDown(Protocol):
    """A source that can leave out rows by filters."""

    def apply_filters(self, filters: Sequence[Predicate]) -> Filtered:
        """Take the conjuncts that it can."""
        ...


@runtime_checkable
class SupportsProjectionPushDown(Protocol):
    """A source that can leave out columns."""

    def apply_projection(self, columns: Sequence[str]) -> None:
        """Give these columns, in this order; they may be none."""
        ...


@runtime_checkable
class SupportsReadingMetadata(Protocol):
    """A source that knows more of a row than its columns."""

    def readable_metadata(self) -> Mapping[str, DataType]:
        """The metadata of a row with their types, by key."""
        ...

    def apply_readable_metadata(self, metadata: Sequence[tuple[str, DataField]]) -> None:
        """Give metadata, by key, as fields behind the columns, in this order."""
        ...


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function(column)`: count, min, max or sum; `count` without a column counts rows."""

    function: str
    column: str | None
    output: DataField


@runtime_checkable
class SupportsAggregatePushDown(Protocol):
    """A source that can aggregate the rows of each group."""

    def apply_aggregates(self, group_by: Sequence[str], aggregates: Sequence[Aggregate]) -> bool:
        """Give the columns of groups and the aggregates in place of rows; False to refuse."""
        ...


@runtime_checkable
class SupportsLimitPushDown(Protocol):
    """A source that can stop early."""

    def apply_limit(self, limit: int) -> None:
        """Give about so many rows, no fewer; the reader counts them itself."""
        ...


@runtime_checkable
class SupportsWatermarkPushDown(Protocol):
    """A source that is told by which column time goes on, as it knows best which rows are late."""

    def apply_watermark(self, column: str, delay_ms: int) -> None:
        """Take notice that rows which are later than that may be left out."""
        ...


@runtime_checkable
class SupportsSourceColumns(Protocol):
    """A source that knows which columns its external table has now, declared or not."""

    def source_columns(self) -> Sequence[str]:
        """Their names; the external system is asked."""
        ...


@runtime_checkable
class SupportsSourceWatermark(Protocol):
    """A source with watermarks of its own, by which it gives no row that is late."""

    def apply_source_watermark(self) -> None:
        """Keep to them; the reader takes each row for the latest."""
        ...
