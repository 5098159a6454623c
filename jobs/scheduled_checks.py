"""Checks of declared tables on schedules: an asset job selects them, and a run some of them.

One schedule has the moments of all tables in a time zone, and asks at each for the checks of the
tables that are due at it. A check that cannot be evaluated fails its own step, and no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakewright.platform.ledger.kept_verbs import CHECK_FRESHNESS, VALIDATE_SCHEMA
from lakewright.platform.orchestration.cron import is_tick
from lakewright.platform.orchestration.names import TABLE_TAG, VERB_TAG, UpkeepNames, table_tag
from lakewright.platform.orchestration.newest_partition_reports import deadlines_of
from lakewright.platform.tables.declaration_checks import (
    NEWEST_PARTITION,
    SCHEMA_MATCHES,
    STORED_ROWS_FIT,
)
from lakewright.platform.tables.declarations import TableDeclaration

# As many as a run of upkeep keeps: the tag of a run names them, and stores index what it says.
_MOST_TABLES = 25

Jobs = list[UnresolvedAssetJobDefinition]
# A cron and its time zone.
Moment = tuple[str, str]


def build_scheduled_checks(
    declarations: Sequence[TableDeclaration], names: UpkeepNames
) -> tuple[Jobs, list[dg.ScheduleDefinition]]:
    """The jobs that evaluate checks of declared tables, and their schedules."""
    deadlines = {
        declaration.table: found
        for declaration in declarations
        if (found := deadlines_of(declaration))
    }
    validation = {
        declaration.table: declaration.schema_policy.validation for declaration in declarations
    }
    jobs: Jobs = []
    schedules: list[dg.ScheduleDefinition] = []
    for verb, checks, moments, description in (
        (
            VALIDATE_SCHEMA,
            {
                declaration.table: (
                    STORED_ROWS_FIT,
                    *((SCHEMA_MATCHES,) if declaration.columns else ()),
                )
                for declaration in declarations
            },
            {
                table: (each.schedule, each.timezone)
                for table, each in validation.items()
                if each.enabled
            },
            "Reads a sample of the rows of tables under their current schemas.",
        ),
        (
            CHECK_FRESHNESS,
            dict.fromkeys(deadlines, (NEWEST_PARTITION,)),
            {table: (each.by, each.timezone) for table, each in deadlines.items()},
            "Asks whether the newest partitions of tables came in time.",
        ),
    ):
        if not checks:
            continue
        keys = {
            table: [dg.AssetCheckKey(names.keys.of(table), check) for check in of_table]
            for table, of_table in checks.items()
        }
        job = dg.define_asset_job(
            names.job(verb),
            dg.AssetSelection.checks(*(each for of_table in keys.values() for each in of_table)),
            tags={VERB_TAG: verb},
            # Else each step's process would start a Spark session of its own.
            executor_def=dg.in_process_executor,
            description=description,
        )
        jobs.append(job)
        schedules += [
            _schedule(verb, zone, moments, keys, job, names)
            for zone in sorted({zone for _, zone in moments.values()})
        ]
    return jobs, schedules


def _schedule(
    verb: str,
    timezone: str,
    moments: Mapping[str, Moment],
    keys: Mapping[str, Sequence[dg.AssetCheckKey]],
    job: UnresolvedAssetJobDefinition,
    names: UpkeepNames,
) -> dg.ScheduleDefinition:
    crons = {table: cron for table, (cron, zone) in moments.items() if zone == timezone}
    ticks = sorted({*crons.values()})

    def requests(
        context: dg.ScheduleEvaluationContext,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        at = context.scheduled_execution_time
        due = [table for table, cron in crons.items() if is_tick(at, cron, timezone)]
        if not due:
            yield dg.SkipReason(f"no table is due at {at.isoformat()}")
        for first in range(0, len(due), _MOST_TABLES):
            batch = due[first : first + _MOST_TABLES]
            yield dg.RunRequest(
                f"{at.isoformat()} {batch[0]}",
                asset_check_keys=[key for table in batch for key in keys[table]],
                tags={TABLE_TAG: table_tag(batch), VERB_TAG: verb},
            )

    return dg.ScheduleDefinition(
        name=names.schedule(verb, timezone),
        job=job,
        # Dagster tells in words what a single one means.
        cron_schedule=ticks if len(ticks) > 1 else ticks[0],
        execution_timezone=timezone,
        execution_fn=requests,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Evaluates the checks of each table when its declaration says.",
    )
