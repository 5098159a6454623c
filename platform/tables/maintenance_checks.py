"""Checks of the upkeep of a table: numbers, time zones, the time of partitions.

The upkeep stands under `maintenance:` of a declaration, or is what policies of several levels say
of a table together.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.platform.documents.cron import check_cron
from lakewright.platform.documents.wrong_places import Finding, check_timezone
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.upkeep_policies import (
    ChangelogPolicy,
    PartitionPolicy,
    RespecPolicy,
    SnapshotPolicy,
    SortPolicy,
    TagPolicy,
    UpkeepPolicy,
    WarehousePolicy,
)
from lakewright.storage.errors import StorageError
from lakewright.storage.spec.partition_time import PartitionTimes

_MIN_RUNTIME_MS = 60_000
_MIN_INTERVAL_MS = 5_000
# The files of a running write look like orphans: what is younger is refused by the removal itself.
_LEAST_AGE_MS = 3_600_000


def check_maintenance(declaration: TableDeclaration) -> Iterator[Finding]:
    """Problems of what is declared about the upkeep of a table, and about schedules."""
    upkeep = declaration.maintenance
    for place, message in check_upkeep(upkeep):
        yield ("maintenance", *place), message
    if upkeep.partitions.older_than is not None and not declaration.may_have_partitions:
        place = ("maintenance", "partitions", "older_than")
        yield place, f"{declaration.table} has no partition_keys to expire by"
    if upkeep.respec.keys is not None and declaration.columns:
        message = (
            f"the declaration of {declaration.table} says its partition_keys itself; write them "
            "there, and run `lakewright respec` (respec in the job upkeep)"
        )
        yield ("maintenance", "respec", "keys"), message
    validation = declaration.schema_policy.validation
    yield from check_timezone(validation.timezone, ("schema", "validation", "timezone"))


def check_upkeep(policy: UpkeepPolicy) -> Iterator[Finding]:
    """Problems of a policy, with places below it."""
    for name, section in policy:
        timezone = getattr(section, "timezone", None)
        if timezone is not None:
            yield from check_timezone(timezone, (name, "timezone"))
        message = check_cron(getattr(section, "schedule", "@daily"))
        if message is not None:
            yield (name, "schedule"), message
    if policy.compaction.interval < _MIN_INTERVAL_MS:
        yield ("compaction", "interval"), "the interval is at least 5s"
    if isinstance(policy, WarehousePolicy) and policy.interval < _MIN_INTERVAL_MS:
        yield ("interval",), "the interval is at least 5s"
    if isinstance(policy, WarehousePolicy) and policy.max_runtime < _MIN_RUNTIME_MS:
        yield ("max_runtime",), "a run begins with what it shall do; write at least 1min"
    if isinstance(policy, WarehousePolicy):
        alerts = policy.alerts
        given = [alerts.mail_server, alerts.mail_from, alerts.mail_to]
        if any(given) and not all(given):
            yield ("alerts",), "mail needs all of mail_server, mail_from and mail_to"
    if policy.orphans.older_than < _LEAST_AGE_MS:
        message = "files younger than 1h may be those of a running write; write at least 1h"
        yield ("orphans", "older_than"), message
    if policy.collect.orphans < _LEAST_AGE_MS:
        message = (
            "what was removed by mistake can be put back only until it is collected; write at "
            "least 1h"
        )
        yield ("collect", "orphans"), message
    yield from _check_range("snapshots", policy.snapshots)
    yield from _check_range("changelogs", policy.changelogs)
    yield from _check_tags(policy.tags)
    yield from _check_sort(policy.sort)
    yield from _check_respec(policy.respec)
    yield from _check_partition_expiry(policy.partitions)


def _check_range(section: str, policy: SnapshotPolicy | ChangelogPolicy) -> Iterator[Finding]:
    low, high = policy.retain_min, policy.retain_max
    if low is not None and high is not None and high < low:
        message = f"retain_max is {high}, below retain_min, which is {low}"
        yield (section, "retain_max"), message


def _check_tags(policy: TagPolicy) -> Iterator[Finding]:
    if policy.older_than is not None and policy.older_than < _LEAST_AGE_MS:
        message = (
            "the job that made a tag may still need it within 1h; write at least 1h, or give such "
            "tags a time to live when they are made"
        )
        yield ("tags", "older_than"), message
    if len(set(policy.spare)) < len(policy.spare):
        yield ("tags", "spare"), "a pattern is named twice; keep one"


def _check_sort(policy: SortPolicy) -> Iterator[Finding]:
    if len(set(policy.columns)) < len(policy.columns):
        yield ("sort", "columns"), "a column is named twice; keep one"


def _check_respec(policy: RespecPolicy) -> Iterator[Finding]:
    for name in ("keys", "primary_key"):
        columns = getattr(policy, name) or ()
        if len(set(columns)) < len(columns):
            yield ("respec", name), "a column is named twice; keep one"
    if policy.primary_key == ():
        yield ("respec", "primary_key"), "a primary key has columns; leave it out to keep it"
    elif policy.primary_key is not None and policy.keys is not None:
        lacking = [key for key in policy.keys if key not in policy.primary_key]
        if lacking:
            message = (
                f"a primary key has all partition keys; add {', '.join(lacking)}, or leave out "
                "primary_key where tables have none"
            )
            yield ("respec", "primary_key"), message
        elif len(policy.keys) == len(policy.primary_key):
            message = "a primary key has columns beside the partition keys; add one"
            yield ("respec", "primary_key"), message


def _check_partition_expiry(policy: PartitionPolicy) -> Iterator[Finding]:
    try:
        PartitionTimes(policy.pattern, policy.formatter).check()
    except StorageError as err:
        yield ("partitions", "formatter"), str(err)
