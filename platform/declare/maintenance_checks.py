"""Checks of the declared upkeep of a table: numbers, schedules, the time of partitions."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.marked_yaml import Place
from lakewright.platform.declare.wrong_places import Finding, check_timezone
from lakewright.storage.errors import StorageError
from lakewright.storage.spec.partition_time import PartitionTimes

_MIN_INTERVAL_MS = 5_000


def check_maintenance(declaration: TableDeclaration) -> Iterator[Finding]:
    """Problems of what is declared about the upkeep of a table, and about schedules."""
    compaction = declaration.maintenance.compaction
    if compaction.interval < _MIN_INTERVAL_MS:
        yield ("maintenance", "compaction", "interval"), "the interval is at least 5s"
    snapshots = declaration.maintenance.snapshots
    place: Place = ("maintenance", "snapshots")
    low, high = snapshots.retain_min, snapshots.retain_max
    if low is not None and high is not None and high < low:
        yield (*place, "retain_max"), f"retain_max is {high}, below retain_min, which is {low}"
    yield from check_timezone(snapshots.timezone, (*place, "timezone"))
    yield from _check_partition_expiry(declaration)
    validation = declaration.schema_policy.validation
    yield from check_timezone(validation.timezone, ("schema", "validation", "timezone"))


def _check_partition_expiry(declaration: TableDeclaration) -> Iterator[Finding]:
    policy = declaration.maintenance.partitions
    place: Place = ("maintenance", "partitions")
    yield from check_timezone(policy.timezone, (*place, "timezone"))
    if policy.older_than is not None and not declaration.may_have_partitions:
        yield (*place, "older_than"), f"{declaration.table} has no partition_keys to expire by"
    try:
        PartitionTimes(policy.pattern, policy.formatter).check()
    except StorageError as err:
        yield (*place, "formatter"), str(err)
