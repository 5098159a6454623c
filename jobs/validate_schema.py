"""Validation of schemas: one job that evaluates both checks of the schema, for any tables.

A run names its tables, and evaluates them one after the other. Its results stand on the assets, as
those of the checks' own steps do. A table that cannot be read gets a failed check that says why;
the others are evaluated, and the run fails at its end.

The declarations say when. One schedule has the moments of all tables in a time zone, and asks at
each moment for the tables that are due at it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from lakewright.jobs.signs_of_life import SignsOfLife
from lakewright.platform.declare.declaration_checks import SCHEMA_MATCHES, STORED_ROWS_FIT
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.partition_keys import first_few
from lakewright.platform.declare.workspace import Workspace
from lakewright.platform.ingest.validate_schema import ValidateOptions
from lakewright.platform.orchestration.cron import is_tick
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TABLE_TAG, VERB_TAG, UpkeepNames, table_tag
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.run_config import config_class, options_of_run
from lakewright.platform.orchestration.run_process import PROCESS_TAG, process_identity
from lakewright.platform.orchestration.schema_reports import judge_schema
from lakewright.platform.orchestration.stored_rows_reports import (
    check_event,
    evaluate_stored_rows,
    not_evaluated,
)
from lakewright.platform.upkeep.words import counted
from lakewright.platform.warehouse.kept_verbs import VALIDATE_SCHEMA
from lakewright.storage.errors import InvalidRequestError

VERB = VALIDATE_SCHEMA
_DESCRIPTION = "Read a sample of the rows of tables under their current schemas."
# As many as a run of upkeep keeps: the tag of a run names them, and stores index what it says.
_MOST_TABLES = 25


def build_validate_job(
    workspace: Workspace,
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
) -> dg.JobDefinition:
    """The job of all declared tables; a run names those that it is for."""
    names, keys = names or UpkeepNames(), resources or ResourceKeys()

    def validate_tables(context: dg.OpExecutionContext, config: Any) -> Iterator[Any]:
        if not config.tables:
            told = "the run names no table; write for example tables: {database.table: {}}"
            raise dg.Failure(told, allow_retries=False)
        # The upkeep sensor sees by the process whether the run lives, whatever launched it.
        tags = {TABLE_TAG: table_tag(config.tables), PROCESS_TAG: process_identity(os.getpid())}
        context.instance.add_run_tags(context.run_id, tags)
        run = _Validation(workspace, names, keys, context)
        signs = SignsOfLife(context.log.info)
        with signs.told():
            for table, given in config.tables.items():
                signs.work_at(f"{table}, {VERB}")
                yield from run.evaluations(table, given)
        run.raise_for_troubles(len(config.tables))
        yield dg.Output(None, metadata=run.told)

    # Dagster reads run config's type here, and it is made of the verb's options.
    validate_tables.__annotations__["config"] = _config_of_tables()
    # It only reads, and so waits in no pool.
    op = dg.op(
        name=names.op(VERB),
        required_resource_keys={keys.warehouse, keys.spark},
        description=_DESCRIPTION,
    )(validate_tables)

    @dg.job(
        name=names.job(VERB),
        tags={VERB_TAG: VERB},
        # Else the op's process would start a Spark session of its own.
        executor_def=dg.in_process_executor,
        description=_DESCRIPTION,
    )
    def validate_job() -> None:
        op.alias(names.job(VERB))()

    return validate_job


def build_validate_schedules(
    declarations: Sequence[TableDeclaration],
    job: dg.JobDefinition,
    *,
    names: UpkeepNames | None = None,
) -> list[dg.ScheduleDefinition]:
    """A schedule for each time zone that declarations name; most often that is one."""
    names = names or UpkeepNames()
    zones: dict[str, list[TableDeclaration]] = {}
    for each in declarations:
        policy = each.schema_policy.validation
        if policy.enabled:
            zones.setdefault(policy.timezone, []).append(each)
    return [_schedule(zone, zones[zone], job, names) for zone in sorted(zones)]


def _schedule(
    timezone: str,
    declarations: Sequence[TableDeclaration],
    job: dg.JobDefinition,
    names: UpkeepNames,
) -> dg.ScheduleDefinition:
    crons = {each.table: each.schema_policy.validation.schedule for each in declarations}
    moments = sorted({*crons.values()})

    def requests(
        context: dg.ScheduleEvaluationContext,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        at = context.scheduled_execution_time
        due = [table for table, cron in crons.items() if is_tick(at, cron, timezone)]
        if not due:
            yield dg.SkipReason(f"no table is due at {at.isoformat()}")
        for first in range(0, len(due), _MOST_TABLES):
            batch = due[first : first + _MOST_TABLES]
            config: dict[str, Any] = {"tables": {table: {} for table in batch}}
            yield dg.RunRequest(
                f"{at.isoformat()} {batch[0]}",
                run_config={"ops": {job.name: {"config": config}}},
                tags={TABLE_TAG: table_tag(batch), VERB_TAG: VERB},
            )

    return dg.ScheduleDefinition(
        name=names.schedule(VERB, timezone),
        job=job,
        # Dagster tells in words what a single one means.
        cron_schedule=moments if len(moments) > 1 else moments[0],
        execution_timezone=timezone,
        execution_fn=requests,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Reads a sample of the rows of tables, of each when its declaration says.",
    )


def _config_of_tables() -> type[dg.Config]:
    # Without `dry_run`: a result without a sample would stand in place of the last one.
    one = config_class(ValidateOptions, dg.Config)
    tables: Any = (
        dict[str, one],  # type: ignore[valid-type]  # made for these options
        Field(
            description="The tables by their names, each with the size of its sample where it is "
            "not to be the declared one, such as database.table: {}."
        ),
    )
    made: type[dg.Config] = create_model(
        f"{one.__name__}OfTables", __base__=dg.Config, tables=tables
    )
    return made


@dataclass(slots=True)
class _Validation:
    """One run: what is told of each table, and the troubles of those that could not be read."""

    workspace: Workspace
    names: UpkeepNames
    keys: ResourceKeys
    context: dg.OpExecutionContext
    told: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, Exception] = field(default_factory=dict)

    def evaluations(self, table: str, given: dg.Config) -> Iterator[dg.AssetCheckEvaluation]:
        """Evaluate the checks of a table; one that cannot be asked does not keep it from others."""
        declaration = self.workspace.declaration(table)
        if declaration is None:
            known = first_few(sorted(each.table for each in self.workspace.declarations))
            error = InvalidRequestError(f"{table} is not declared; there are {known or 'none'}")
            self._trouble(table, error)
            return
        key = self.names.keys.of(table)
        evaluated = {STORED_ROWS_FIT: lambda: self._stored_rows(declaration, given)}
        # Without declared columns there is nothing that the schema could match.
        if declaration.columns:
            evaluated[SCHEMA_MATCHES] = lambda: self._schema(declaration)
        for check, evaluate in evaluated.items():
            found = self._asked(table, check, evaluate)
            self.context.log.info("%s, %s: %s", table, check, found.description)
            earlier = f"{self.told[table]}; " if table in self.told else ""
            self.told[table] = f"{earlier}{check}: {found.description}"
            yield check_event(dg.AssetCheckKey(key, check), found)

    def raise_for_troubles(self, tables: int) -> None:
        """Fail or try again for what could not be read; all results are reported by then."""
        if not self.troubles:
            return
        for trouble in self.troubles.values():
            if isinstance(trouble, dg.RetryRequested):
                raise trouble
        told = "; ".join(f"{name}: {_words(each)}" for name, each in self.troubles.items())
        count = counted(len(self.troubles), "table")
        raise dg.Failure(
            f"{count} of {tables} could not be validated: {told}",
            metadata={name: _words(each) for name, each in self.troubles.items()},
            allow_retries=False,
        )

    def _asked(
        self, table: str, check: str, evaluate: Callable[[], dg.AssetCheckResult]
    ) -> dg.AssetCheckResult:
        try:
            with failures_for_dagster():
                return evaluate()
        except Exception as trouble:
            # A reader of files or a Spark session may raise anything; the other tables go on.
            self.context.log.exception("%s: %s could not be evaluated", table, check)
            self._trouble(table, trouble)
            return not_evaluated(_words(trouble))

    def _trouble(self, table: str, trouble: Exception) -> None:
        # Of both checks, the one that is worth another try stands for the table.
        if isinstance(trouble, dg.RetryRequested) or table not in self.troubles:
            self.troubles[table] = trouble

    def _stored_rows(self, declaration: TableDeclaration, given: dg.Config) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(self.context.resources, self.keys.warehouse)
        spark: SparkResource = getattr(self.context.resources, self.keys.spark)
        declared = ValidateOptions.declared(declaration.schema_policy.validation)
        return evaluate_stored_rows(
            declaration,
            warehouse.catalog(),
            spark.session,
            self.context.run,
            lambda table: options_of_run(given, declared, table),
        )

    def _schema(self, declaration: TableDeclaration) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(self.context.resources, self.keys.warehouse)
        return judge_schema(
            self.workspace,
            declaration,
            self.names.of(declaration.table),
            warehouse.catalog(),
            self.context.instance,
        ).result()


def _words(trouble: Exception) -> str:
    if isinstance(trouble, dg.Failure):
        return str(trouble.description)
    if isinstance(trouble, dg.RetryRequested):
        return str(trouble.__cause__)
    return f"{type(trouble).__name__}: {trouble}"
