"""Whether the partition of a table that ended last came in time, as the asset check shows it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from lakewright.platform.documents.cron import last_tick_ms
from lakewright.platform.orchestration.asset_partitions import ended_last
from lakewright.platform.orchestration.reports import (
    PARTITION_ROWS_IN_FILES,
    partition_row_counts,
)
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_schemes import TimeDimension
from lakewright.platform.upkeep.words import counted, time_text
from lakewright.storage import Catalog, PartitionStats
from lakewright.storage.env import SystemEnv


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When new partitions of a table are expected: a cron, and its time zone."""

    by: str
    timezone: str


def deadlines_of(declaration: TableDeclaration) -> Deadlines | None:
    """The deadlines of a table whose newest partition is to be asked for, else None."""
    freshness = declaration.freshness
    if freshness is None or freshness.by is None or not freshness.newest_partition:
        return None
    return Deadlines(freshness.by, freshness.timezone)


def time_dimension(declaration: TableDeclaration) -> TimeDimension:
    """The partition column that deadlines are about; a declaration with deadlines has it."""
    dimensions = declaration.scheme.dimensions
    return next(dimension for dimension in dimensions if isinstance(dimension, TimeDimension))


def evaluate_newest_partition(
    declaration: TableDeclaration, deadlines: Deadlines, catalog: Catalog
) -> dg.AssetCheckResult:
    """Ask the table for rows of the partition that had ended last at the last deadline."""
    time = time_dimension(declaration)
    deadline_ms = last_tick_ms(SystemEnv().now_ms(), deadlines.by, deadlines.timezone)
    deadline = dt.datetime.fromtimestamp(deadline_ms / 1000, dt.UTC)
    newest = ended_last(time, deadline)
    if not newest:
        told = f"no new partition had ended by {time_text(deadline_ms)}"
        return dg.AssetCheckResult(passed=True, description=told)
    found: Sequence[PartitionStats] = ()
    if catalog.table_exists(declaration.table):
        now = catalog.table(declaration.table).at()
        found = now.partitions(named=[time.spec_of(newest[0])])
    rows = sum(each.row_count for each in found)
    merged = [each.merged_row_count for each in found if each.merged_row_count is not None]
    counts = partition_row_counts(rows, sum(merged) if len(merged) == len(found) else None)
    shown = counted(rows, "row") + (" in its files" if PARTITION_ROWS_IN_FILES in counts else "")
    return dg.AssetCheckResult(
        passed=rows > 0,
        description=(
            f"{newest[0]} has {shown if rows else 'no rows'}; it was expected "
            f"by {time_text(deadline_ms)}"
        ),
        metadata={
            "partition": newest[0],
            "deadline": dg.MetadataValue.timestamp(deadline),
            **counts,
        },
    )
