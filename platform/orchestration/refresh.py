"""What Dagster does with a table by itself: its automation, its freshness and its backfills."""

from __future__ import annotations

import datetime as dt
from typing import Any

import dagster as dg
from dagster._utils.schedules import get_smallest_cron_interval

from lakewright.platform.tables.refresh import (
    AutomationDeclaration,
    AutomationKind,
    BackfillDeclaration,
    FreshnessDeclaration,
)


def automation_condition(
    declared: AutomationDeclaration,
) -> dg.AutomationCondition[Any]:
    """The condition under which Dagster writes the table."""
    if declared.on_cron is not None:
        return dg.AutomationCondition.on_cron(declared.on_cron, declared.timezone)
    # Of an upstream that does not have a partition Dagster says that it is not missing there.
    upstream_has_it = dg.AutomationCondition.all_deps_match(~dg.AutomationCondition.missing())
    if declared.when is AutomationKind.EAGER:
        return dg.AutomationCondition.eager() & upstream_has_it
    # A partition whose upstream comes late is no longer the latest.
    latest = dg.AutomationCondition.in_latest_time_window()
    return dg.AutomationCondition.on_missing().without(latest) & upstream_has_it


def freshness_policy(declared: FreshnessDeclaration) -> dg.FreshnessPolicy:
    """How old the last write of any partition may become."""
    if declared.by is None:
        assert declared.within is not None
        warn = declared.warn_after
        return dg.FreshnessPolicy.time_window(
            fail_window=_duration(declared.within),
            warn_window=None if warn is None else _duration(warn),
        )
    not_before = declared.not_before
    return dg.FreshnessPolicy.cron(
        deadline_cron=declared.by,
        lower_bound_delta=longest_before(declared.by)
        if not_before is None
        else _duration(not_before),
        timezone=declared.timezone,
    )


def longest_before(cron: str) -> dt.timedelta:
    """The shortest time between two ticks; Dagster takes no older write for a tick."""
    return get_smallest_cron_interval(cron)


def backfill_policy(declared: BackfillDeclaration) -> dg.BackfillPolicy:
    """How many partitions a run of a backfill writes."""
    most = declared.partitions_per_run
    return dg.BackfillPolicy.single_run() if most is None else dg.BackfillPolicy.multi_run(most)


def _duration(milliseconds: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=milliseconds)
