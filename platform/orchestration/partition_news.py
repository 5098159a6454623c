"""Partitions of tables that others write: registered all at once, reported a few at each look.

Dagster stores an event in some 20 ms, and a table may have 100,000 partitions. What is not reported
yet is remembered in the process, the newest first. The last event of the table as a whole says how
many are left, so that a process that is started later goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from lakewright.platform.orchestration.asset_partitions import (
    dynamic_name,
    found_in_data,
    key_of_asset,
    partitions_def,
)
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import partition_row_counts, table_metadata
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_keys import InvalidPartitionKeyError
from lakewright.platform.tables.partition_schemes import DynamicDimension, PartitionScheme
from lakewright.platform.upkeep.health import PartitionHealth, partition_columns
from lakewright.storage import PartitionStats, Table

# Events of partitions at one look, of all tables together.
MOST_EVENTS = 100
# Of a table with more partitions, none is shown: pages of Dagster list them all.
MOST_PARTITIONS = 100_000
# How many partitions are left, and since when files were added that are to be reported.
_LEFT, SINCE = "lakewright/partitions_left", "lakewright/partitions_since"
# Dagster asks its database for all keys of a call in one statement, of which the length is bounded.
_KEYS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Figures:
    """What an event tells of a partition."""

    rows_in_files: int
    merged_rows: int | None
    files: int
    bytes: int
    last_file_ms: int


@dataclass(slots=True)
class PartitionNews:
    """The partitions of tables that are not reported yet."""

    _left: dict[str, dict[str, Figures]] = field(default_factory=dict)
    _since: dict[str, int] = field(default_factory=dict)

    @property
    def tables(self) -> list[str]:
        """The tables with partitions to report."""
        return sorted(self._left)

    def left(self, table: str) -> int:
        """How many partitions of a table are to be reported."""
        return len(self._left.get(table, {}))

    def forget(self, table: str) -> None:
        self._left.pop(table, None)
        self._since.pop(table, None)

    def add(self, table: str, found: Mapping[str, Figures], since_ms: int) -> None:
        """Remember partitions that changed since a time; the newest are reported first."""
        every = {**self._left.get(table, {}), **found}
        newest = sorted(every, key=lambda key: (-every[key].last_file_ms, key))
        if every:
            self._left[table] = {key: every[key] for key in newest}
            self._since[table] = min(since_ms, self._since.get(table, since_ms))

    def metadata(self, table: str) -> dict[str, int]:
        """What another process needs to go on; empty if nothing is left."""
        if table not in self._left:
            return {}
        return {_LEFT: self.left(table), SINCE: self._since[table]}

    def take(
        self, table: Table, names: TableNames, scheme: PartitionScheme, most: int
    ) -> Iterator[dg.AssetMaterialization]:
        """The events of so many partitions of a table, which then are reported."""
        left = self._left.get(table.name, {})
        known, common = partitions_def(scheme, names), table_metadata(table)
        for key in [*left][:most]:
            figures = left.pop(key)
            yield dg.AssetMaterialization(
                names.asset_key,
                partition=key if known is None else key_of_asset(known, key),
                metadata={
                    **common,
                    **partition_row_counts(figures.rows_in_files, figures.merged_rows),
                    "lakewright/partition_files": figures.files,
                    "lakewright/partition_bytes": figures.bytes,
                },
            )
        if not left:
            self.forget(table.name)


def scheme_shown(declaration: TableDeclaration | None, table: Table) -> PartitionScheme | None:
    """The partitions that the asset of a table has; None if it has none."""
    if declaration is None:
        return found_in_data(partition_columns(table))
    return declaration.scheme if declaration.columns and declaration.scheme.dimensions else None


def figures_by_key(
    scheme: PartitionScheme,
    names: TableNames,
    partitions: Iterable[PartitionHealth | PartitionStats],
) -> dict[str, Figures]:
    """Partitions by the key that the asset has for them, without those that it has none for."""
    known = partitions_def(scheme, names)
    found: dict[str, Figures] = {}
    for partition in partitions:
        try:
            key = scheme.key_of(partition.spec)
        except InvalidPartitionKeyError:
            continue
        if known is None or scheme.is_found_in_data or known.has_partition_key(key):
            at_ms = partition.last_file_creation_ms or 0
            found[key] = Figures(
                rows_in_files=partition.row_count,
                merged_rows=partition.merged_row_count,
                files=partition.file_count,
                bytes=partition.size_bytes,
                last_file_ms=at_ms,
            )
    return found


def register(
    instance: dg.DagsterInstance, scheme: PartitionScheme, names: TableNames, keys: Iterable[str]
) -> None:
    """Tell Dagster the keys of partitions that are found in the data."""
    is_only, keys = len(scheme.dimensions) == 1, list(keys)
    for dimension in scheme.dimensions:
        if isinstance(dimension, DynamicDimension):
            # The keys of an only dimension are those of the asset.
            every = keys if is_only else {dimension.key_of(scheme.spec_of(key)) for key in keys}
            in_order = sorted(every)
            for at in range(0, len(in_order), _KEYS_AT_ONCE):
                instance.add_dynamic_partitions(
                    dynamic_name(dimension, names), in_order[at : at + _KEYS_AT_ONCE]
                )


def is_registered(
    instance: dg.DagsterInstance, names: TableNames, partition_keys: Sequence[str]
) -> bool:
    """Whether Dagster knows a partition of a table that is not declared."""
    # The name of the dimension is that of its columns, whatever their types.
    name = f"{names.dynamic_partitions}/{'_'.join(partition_keys)}"
    return bool(instance.get_dynamic_partitions(name))
