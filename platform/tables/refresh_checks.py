"""Checks of what is declared about writing a table by itself and about the age of its rows."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.platform.documents.wrong_places import Finding, check_timezone
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_schemes import TimeDimension
from lakewright.platform.tables.refresh import SINGLE_RUN, AutomationKind

# Dagster looks about every half minute.
_LEAST_MS = 60_000
# Sensors and the queue of runs are looked at every five seconds, and a run needs some to begin.
_LEAST_DELAY_MS = 30_000


def check_refresh(declaration: TableDeclaration) -> Iterator[Finding]:
    """Problems of `schedule`, `automation`, `freshness` and `backfill`, but for their cron."""
    for name in ("schedule", "automation", "freshness"):
        declared = getattr(declaration, name)
        if declared is not None:
            yield from check_timezone(declared.timezone, (name, "timezone"))
    if not declaration.is_written_here:
        for name in ("schedule", "automation", "backfill"):
            if name in declaration.model_fields_set:
                yield (name,), f"a table without a source has no {name}; add a source"
    elif declaration.backfill != SINGLE_RUN and not declaration.partition_keys:
        yield ("backfill",), f"{declaration.table} has no partition_keys; leave backfill out"
    yield from _check_automation(declaration)
    yield from _check_freshness(declaration)


def check_times(declaration: TableDeclaration) -> Iterator[Finding]:
    """What needs partitions by time, of a declaration whose columns and keys are right."""
    if any(isinstance(dimension, TimeDimension) for dimension in declaration.scheme.dimensions):
        return
    what = f"{declaration.table} is not partitioned by time (partitions: daily, and so on)"
    if declaration.schedule is not None and declaration.schedule.partitions > 1:
        yield ("schedule", "partitions"), f"{what}, so a tick writes all rows; leave it out"
    if declaration.freshness is not None and declaration.freshness.newest_partition:
        yield ("freshness", "newest_partition"), f"{what}; leave it out"


def _check_automation(declaration: TableDeclaration) -> Iterator[Finding]:
    automation = declaration.automation
    if automation is None:
        return
    if automation.when is AutomationKind.EAGER and not declaration.upstream:
        message = "eager follows the tables in depends_on, and there are none"
        yield ("automation",), f"{message}; add them, or write on_missing or on_cron"
    if automation.on_cron is None and "timezone" in automation.model_fields_set:
        yield ("automation", "timezone"), "it is the time zone of on_cron; leave it out"
    if automation.continuous is None:
        return
    if automation.continuous < _LEAST_DELAY_MS:
        yield ("automation", "continuous"), "it is at least 30s, which a run needs to begin"
    stream = declaration.stream
    if stream is None:
        message = "continuous follows a stream; give the source a stream, or write eager or on_cron"
        yield ("automation",), message
    elif stream.files:
        message = (
            "continuous follows a connector or a table; write connector: filesystem with "
            "source.monitor-interval, or a schedule"
        )
        yield ("automation",), message


def _check_freshness(declaration: TableDeclaration) -> Iterator[Finding]:
    declared = declaration.freshness
    if declared is None:
        return
    for name in ("within", "warn_after", "not_before"):
        given = getattr(declared, name)
        if given is not None and given < _LEAST_MS:
            yield ("freshness", name), "it is at least 1min"
    if declared.newest_partition and not declaration.columns:
        yield (
            ("freshness", "newest_partition"),
            "it needs columns and partitions by time",
        )
    own = {"within": ("warn_after",), "by": ("not_before", "timezone", "newest_partition")}
    for needed, names in own.items():
        if getattr(declared, needed) is None:
            for name in names:
                if name in declared.model_fields_set:
                    yield ("freshness", name), f"{name} goes with {needed}; leave it out"
    within, warn = declared.within, declared.warn_after
    if within is not None and warn is not None and warn >= within:
        yield ("freshness", "warn_after"), "a warning comes before the failure; write less"
