"""Freshness by partition: one job that runs the check of the newest partition, for any tables.

A run names its tables, and evaluates them one after the other. One schedule has the deadlines of
all tables in a time zone, and asks at each for the tables that are due at it.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import dagster as dg
from pydantic import Field

from lakewright.jobs.tables_asked import TablesAsked, schedules_of_tables
from lakewright.platform.declare.declaration_checks import NEWEST_PARTITION
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.orchestration.names import TABLE_TAG, VERB_TAG, UpkeepNames, table_tag
from lakewright.platform.orchestration.newest_partition_reports import (
    Deadlines,
    deadlines_of,
    evaluate_newest_partition,
)
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.warehouse.kept_verbs import CHECK_FRESHNESS

VERB = CHECK_FRESHNESS
_DESCRIPTION = "Ask whether the newest partitions of tables came in time."


class _Tables(dg.Config):
    # Nothing is told of a table: it is written as for the jobs that have options.
    tables: dict[str, dict[str, str]] = Field(
        description="The tables by their names, such as database.table: {}."
    )


def build_freshness_job(
    declarations: Sequence[TableDeclaration],
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
) -> dg.JobDefinition:
    """The job of the tables with deadlines; a run names those that it is for."""
    names, keys = names or UpkeepNames(), resources or ResourceKeys()
    expected = {each.table: deadlines for each in declarations if (deadlines := deadlines_of(each))}
    known = [each for each in declarations if each.table in expected]

    # It only reads, and so waits in no pool.
    @dg.op(
        name=names.op(VERB),
        required_resource_keys={keys.warehouse},
        description=_DESCRIPTION,
    )
    def ask_tables(context: dg.OpExecutionContext, config: _Tables) -> Iterator[object]:
        if not config.tables:
            told = "the run names no table; write for example tables: {database.table: {}}"
            raise dg.Failure(told, allow_retries=False)
        context.instance.add_run_tags(context.run_id, {TABLE_TAG: table_tag(config.tables)})
        asked = TablesAsked(context, "asked")

        def evaluated(declaration: TableDeclaration, deadlines: Deadlines) -> dg.AssetCheckResult:
            warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
            return evaluate_newest_partition(declaration, deadlines, warehouse.catalog())

        for table in config.tables:
            declaration = asked.declaration(known, table)
            if declaration is not None:
                key = dg.AssetCheckKey(names.keys.of(table), NEWEST_PARTITION)
                one = partial(evaluated, declaration, expected[table])
                yield asked.evaluation(table, key, one)
        asked.raise_for_troubles(len(config.tables))
        yield dg.Output(None, metadata=asked.told)

    @dg.job(
        name=names.job(VERB),
        tags={VERB_TAG: VERB},
        executor_def=dg.in_process_executor,
        description=_DESCRIPTION,
    )
    def freshness_job() -> None:
        ask_tables.alias(names.job(VERB))()

    return freshness_job


def build_freshness_schedules(
    declarations: Sequence[TableDeclaration],
    job: dg.JobDefinition,
    *,
    names: UpkeepNames | None = None,
) -> list[dg.ScheduleDefinition]:
    """A schedule for each time zone of the deadlines."""
    expected = {each.table: deadlines for each in declarations if (deadlines := deadlines_of(each))}
    return schedules_of_tables(
        VERB,
        {table: (each.by, each.timezone) for table, each in expected.items()},
        job,
        names or UpkeepNames(),
        "Asks whether the newest partitions of tables came in time, of each at its deadlines.",
    )
