"""The check `newest_partition_has_rows`: whether the partition that ended last came in time.

Dagster's own freshness asks when any partition was last written. This check asks the table, so it
holds for rows of other clients, too.
"""

import datetime as dt

import dagster as dg

from lakewright.platform.declare.declaration_checks import NEWEST_PARTITION
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.partition_schemes import TimeDimension
from lakewright.platform.orchestration.asset_partitions import ended_last
from lakewright.platform.orchestration.cron import last_tick_ms
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.upkeep.words import counted, time_text
from lakewright.storage.env import SystemEnv


def build_newest_partition_check(
    declaration: TableDeclaration,
    names: TableNames,
    by: str,
    timezone: str,
    *,
    resources: ResourceKeys | None = None,
) -> dg.AssetChecksDefinition:
    """The check of a table with partitions by time; `by` is the cron of the deadlines."""
    keys = resources or ResourceKeys()
    dimensions = declaration.scheme.dimensions
    time = next(each for each in dimensions if isinstance(each, TimeDimension))

    @dg.asset_check(
        name=NEWEST_PARTITION,
        asset=names.asset_key,
        required_resource_keys={keys.warehouse},
        description=(
            f"Whether, at the last tick of {by!r} in {timezone}, the {time.cadence.value} "
            f"partition of {declaration.table} that had ended last has rows."
        ),
    )
    def newest_partition_has_rows(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        deadline_ms = last_tick_ms(SystemEnv().now_ms(), by, timezone)
        deadline = dt.datetime.fromtimestamp(deadline_ms / 1000, dt.UTC)
        newest = ended_last(time, deadline)
        if not newest:
            told = f"no new partition had ended by {time_text(deadline_ms)}"
            return dg.AssetCheckResult(passed=True, description=told)
        with failures_for_dagster():
            catalog, rows = warehouse.catalog(), 0
            if catalog.table_exists(declaration.table):
                now = catalog.table(declaration.table).at()
                found = now.partitions(named=[time.spec_of(newest[0])])
                rows = sum(each.row_count for each in found)
        return dg.AssetCheckResult(
            passed=rows > 0,
            description=(
                f"{newest[0]} has {counted(rows, 'row') if rows else 'no rows'}; it was expected "
                f"by {time_text(deadline_ms)}"
            ),
            metadata={
                "partition": newest[0],
                "deadline": dg.MetadataValue.timestamp(deadline),
                "dagster/partition_row_count": rows,
            },
        )

    return newest_partition_has_rows
