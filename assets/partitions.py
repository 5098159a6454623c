"""Partition schemes as Dagster's partition definitions."""

from __future__ import annotations

import dagster as dg

from lakewright.platform.declare.partition_schemes import (
    Cadence,
    Dimension,
    DynamicDimension,
    PartitionScheme,
    StaticDimension,
    TimeDimension,
)
from lakewright.platform.orchestration.names import TableNames


def partitions_def(
    scheme: PartitionScheme, names: TableNames
) -> dg.PartitionsDefinition[str] | None:
    """The asset's partitions; None if the table is not partitioned."""
    definitions = {each.name: _dimension(each, names) for each in scheme.dimensions}
    if not definitions:
        return None
    if len(definitions) == 1:
        return next(iter(definitions.values()))
    return dg.MultiPartitionsDefinition(definitions)


def _dimension(dimension: Dimension, names: TableNames) -> dg.PartitionsDefinition[str]:
    match dimension:
        case StaticDimension():
            return dg.StaticPartitionsDefinition(list(dimension.keys))
        case DynamicDimension():
            return dg.DynamicPartitionsDefinition(name=dynamic_name(dimension, names))
        case TimeDimension():
            return _time(dimension)


def dynamic_name(dimension: DynamicDimension, names: TableNames) -> str:
    """The name under which Dagster keeps the keys of a dynamic dimension."""
    return f"{names.dynamic_partitions}/{dimension.name}"


def _time(dimension: TimeDimension) -> dg.TimeWindowPartitionsDefinition:
    layout = dimension.cadence.key_format
    start = dimension.start.strftime(layout)
    end = None if dimension.end is None else dimension.end.strftime(layout)
    zone = dimension.timezone
    match dimension.cadence:
        case Cadence.HOURLY:
            return dg.HourlyPartitionsDefinition(start, end_date=end, timezone=zone, fmt=layout)
        case Cadence.DAILY:
            return dg.DailyPartitionsDefinition(start, end_date=end, timezone=zone, fmt=layout)
        case Cadence.WEEKLY:
            return dg.WeeklyPartitionsDefinition(
                start, end_date=end, timezone=zone, fmt=layout, day_offset=1
            )
        case Cadence.MONTHLY:
            return dg.MonthlyPartitionsDefinition(start, end_date=end, timezone=zone, fmt=layout)
