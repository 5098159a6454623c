"""Partition schemes as Dagster's partition definitions, and the mappings between them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import dagster as dg

from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.tables.partition_keys import PartitionColumn
from lakewright.platform.tables.partition_schemes import (
    Cadence,
    Dimension,
    DynamicDimension,
    PartitionScheme,
    StaticDimension,
    TimeDimension,
)


def partitions_def(
    scheme: PartitionScheme, names: TableNames
) -> dg.PartitionsDefinition[str] | None:
    """The asset's partitions; None if the table is not partitioned."""
    definitions = {dimension.name: _dimension(dimension, names) for dimension in scheme.dimensions}
    if not definitions:
        return None
    if len(definitions) == 1:
        return next(iter(definitions.values()))
    return dg.MultiPartitionsDefinition(definitions)


def found_in_data(columns: Sequence[PartitionColumn]) -> PartitionScheme | None:
    """The partitions of a table that declares none: dynamic, by all of its partition columns."""
    return PartitionScheme((DynamicDimension(columns=tuple(columns)),)) if columns else None


def key_of_asset(partitions: dg.PartitionsDefinition[str], key: str) -> str:
    """A key as events take it: one of two dimensions names them in the event's tags."""
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        return partitions.get_partition_key_from_str(key)
    return key


def ended_last(dimension: TimeDimension, at: dt.datetime, count: int = 1) -> tuple[str, ...]:
    """The keys of the partitions that ended last before a moment, in order of time.

    There are fewer if they begin before the first partition, or after the declared end.
    """
    bounded, endless = _time(dimension), _time(replace(dimension, end=None))
    found: list[str] = []
    with dg.partition_loading_context(at):
        window = endless.get_last_partition_window()
        while window is not None and len(found) < count:
            found += endless.get_partition_keys_in_time_window(window)
            window = endless.get_prev_partition_window(window.start)
        return tuple(key for key in reversed(found) if bounded.has_partition_key(key))


def with_other_dimensions(
    scheme: PartitionScheme,
    times: Sequence[str],
    names: TableNames,
    dynamic_keys: Callable[[str], Sequence[str]],
) -> list[str]:
    """The keys of an asset at some keys of its time dimension, with every key of the other one.

    `dynamic_keys` gives the keys that Dagster has under the name of a dynamic dimension.
    """
    if len(scheme.dimensions) == 1:
        return list(times)
    keys = {each.name: _keys(each, times, names, dynamic_keys) for each in scheme.by_name}
    return [
        dg.MultiPartitionKey(dict(zip(keys, each, strict=True))) for each in product(*keys.values())
    ]


def _keys(
    dimension: Dimension,
    times: Sequence[str],
    names: TableNames,
    dynamic_keys: Callable[[str], Sequence[str]],
) -> Sequence[str]:
    match dimension:
        case TimeDimension():
            return times
        case StaticDimension():
            return dimension.keys
        case DynamicDimension():
            return dynamic_keys(dynamic_name(dimension, names))


def partition_mapping(
    upstream: dg.PartitionsDefinition[str] | None, downstream: dg.PartitionsDefinition[str] | None
) -> dg.PartitionMapping | None:
    """Which partitions of a table those of a table made of it depend on; None as Dagster infers.

    Without a mapping, Dagster takes equal keys, and refuses to load definitions of different kinds.
    The change of the keys of one table would then break every table made of it.
    """
    if upstream is None or downstream is None or upstream == downstream:
        return None
    match upstream, downstream:
        case dg.MultiPartitionsDefinition(), dg.MultiPartitionsDefinition():
            return _between_dimensions(upstream, downstream)
        case dg.MultiPartitionsDefinition(), _:
            is_inferred = _is_dimension(downstream, upstream)
        case _, dg.MultiPartitionsDefinition():
            is_inferred = _is_dimension(upstream, downstream)
        case _:
            is_inferred = type(upstream) is type(downstream) or _are_times(upstream, downstream)
    return None if is_inferred else dg.AllPartitionMapping()


def _is_dimension(
    single: dg.PartitionsDefinition[str], multi: dg.MultiPartitionsDefinition
) -> bool:
    """Whether Dagster finds the one dimension that a definition is, or that is time, too."""
    dimensions = [each.partitions_def for each in multi.partitions_defs]
    equal = dimensions.count(single)
    times = sum(_are_times(single, dimension) for dimension in dimensions)
    return equal == 1 or (equal == 0 and times == 1)


def _between_dimensions(
    upstream: dg.MultiPartitionsDefinition, downstream: dg.MultiPartitionsDefinition
) -> dg.PartitionMapping:
    """Dimensions of one name, and dimensions of time; others depend on all of each other."""
    mappings: dict[str, dg.DimensionPartitionMapping] = {}
    for above in upstream.partitions_defs:
        for below in downstream.partitions_defs:
            if _are_times(above.partitions_def, below.partitions_def):
                how: dg.PartitionMapping = dg.TimeWindowPartitionMapping()
            elif above.name == below.name:
                how = dg.IdentityPartitionMapping()
            else:
                continue
            mappings[above.name] = dg.DimensionPartitionMapping(below.name, how)
    return dg.MultiPartitionMapping(mappings) if mappings else dg.AllPartitionMapping()


def _are_times(one: dg.PartitionsDefinition[str], other: dg.PartitionsDefinition[str]) -> bool:
    return isinstance(one, dg.TimeWindowPartitionsDefinition) and isinstance(
        other, dg.TimeWindowPartitionsDefinition
    )


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
