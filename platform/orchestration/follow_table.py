"""Makes Dagster's partitions those of a table whose partition keys have changed.

Dagster keeps a materialization by the text of its partition's key, so those of the former keys stay
in the asset's history and count for no new partition. Without more, each new partition would look
as if it was never written, and automations would write its rows again. So each partition with rows
from before the change gets a materialization that says so. A partition that came later gets none:
the asset has not written it, and automations may.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakewright.platform.orchestration.asset_partitions import (
    dynamic_name,
    key_of_asset,
    partitions_def,
)
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import partition_row_counts, table_metadata
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_keys import InvalidPartitionKeyError, first_few
from lakewright.platform.tables.partition_schemes import DynamicDimension, PartitionScheme
from lakewright.platform.upkeep.words import counted
from lakewright.storage import PartitionStats, Table
from lakewright.storage.errors import SnapshotNotFound
from lakewright.storage.spec.partition import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The materializations to report, and what cannot be shown."""

    events: tuple[dg.AssetMaterialization, ...] = ()
    warnings: tuple[str, ...] = ()


def follow_table(
    declaration: TableDeclaration, names: TableNames, table: Table, instance: dg.DagsterInstance
) -> Followed:
    """Register the partitions of a table under its new keys, and say which of them have rows.

    It finds nothing in a table that always had its keys, or that has other keys than declared. A
    second call finds nothing more.
    """
    scheme = declaration.scheme
    known = partitions_def(scheme, names) if declaration.columns else None
    change = _change_of(table)
    if known is None or change is None:
        return Followed()
    if table.schema.partition_keys != declaration.partition_keys:
        return Followed()
    present, outside = _by_key(scheme, table)
    _register(scheme, names, present, instance)
    told = instance.get_materialized_partitions(names.asset_key)
    is_fixed = not scheme.is_found_in_data
    untold = {}
    for key, partition in present.items():
        if is_fixed and not known.has_partition_key(key):
            outside.append(key)
        elif key not in told:
            untold[key] = partition
    events, common = [], table_metadata(table)
    older = _from_before(table, change, untold.values())
    for key, partition in untold.items():
        if partition.partition in older:
            events.append(_event(names, known, key, partition, common))
    warnings = []
    if outside:
        count = counted(len(outside), "partition")
        warnings.append(f"{count} of the table are none of the asset: {first_few(outside)}")
    namesakes = sorted(_valid(scheme, known, told - set(present))) if events and is_fixed else []
    if namesakes:
        count = counted(len(namesakes), "partition")
        warnings.append(
            f"{count} without rows look materialized, since partitions of the former keys had the "
            f"same names: {first_few(namesakes)}"
        )
    return Followed(events=tuple(events), warnings=tuple(warnings))


@dataclass(frozen=True, slots=True)
class _Change:
    """When the table got its keys, and the lowest id of a schema that has had them since."""

    at_ms: int
    schema_id: int


def _change_of(table: Table) -> _Change | None:
    """The last change of the partition keys; None if the table has had them from the beginning."""
    store, keys = table.table_files.schemas, table.schema.partition_keys
    times: dict[int, int] = {}
    for number in reversed(store.ids()):
        schema = store.read(number)
        if schema.partition_keys != keys:
            # Schemas of older files were given the new keys, too, and have their own times.
            later = [time for time in times.values() if time > schema.time_millis]
            return _Change(min(later, default=table.schema.time_millis), min(times))
        times[number] = schema.time_millis
    return None


def _from_before(
    table: Table, change: _Change, partitions: Iterable[PartitionStats]
) -> set[Partition]:
    """Those of the partitions that had rows when the keys changed.

    Where all files of a partition are older than the change, they tell. Otherwise the first
    snapshot of the new keys does; if it has expired, the oldest files of the first one that is
    left.
    """
    created = {
        partition.partition: partition.last_file_creation_ms or 0 for partition in partitions
    }
    older = {each for each, last_ms in created.items() if last_ms <= change.at_ms}
    if len(older) == len(created):
        return older
    snapshots = table.table_files.snapshots
    # An expiry that is at work may take a snapshot that was listed.
    with suppress(SnapshotNotFound):
        ids = snapshots.ids()
        first = bisect_left(ids, change.schema_id, key=lambda each: snapshots.read(each).schema_id)
        for partition in table.at(snapshot=ids[min(first, len(ids) - 1)]).partitions():
            if first > 0 or (partition.first_file_creation_ms or 0) <= change.at_ms:
                older.add(partition.partition)
    return older


def _by_key(scheme: PartitionScheme, table: Table) -> tuple[dict[str, PartitionStats], list[str]]:
    """The partitions of the table by the key that the asset has for them, and those without."""
    found: dict[str, PartitionStats] = {}
    outside: list[str] = []
    for partition in table.at().partitions():
        try:
            found[scheme.key_of(partition.spec)] = partition
        except InvalidPartitionKeyError:
            outside.append(partition.partition.words)
    return found, outside


def _register(
    scheme: PartitionScheme,
    names: TableNames,
    present: Mapping[str, PartitionStats],
    instance: dg.DagsterInstance,
) -> None:
    for dimension in scheme.dimensions:
        if isinstance(dimension, DynamicDimension):
            keys = {dimension.key_of(each.spec) for each in present.values()}
            instance.add_dynamic_partitions(dynamic_name(dimension, names), sorted(keys))


def _valid(
    scheme: PartitionScheme, known: dg.PartitionsDefinition[str], keys: set[str]
) -> Iterator[str]:
    """The keys that are keys of the asset."""
    for key in keys:
        try:
            scheme.spec_of(key)
        except InvalidPartitionKeyError:
            continue
        if known.has_partition_key(key):
            yield key


def _event(
    names: TableNames,
    known: dg.PartitionsDefinition[str],
    key: str,
    partition: PartitionStats,
    common: Mapping[str, Any],
) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        names.asset_key,
        partition=key_of_asset(known, key),
        description="these rows were written before the partition keys of the table changed",
        metadata={
            **common,
            "lakewright/verb": "respec",
            **partition_row_counts(partition.row_count, partition.merged_row_count),
            "lakewright/partition_files": partition.file_count,
            "lakewright/partition_bytes": partition.size_bytes,
        },
    )
