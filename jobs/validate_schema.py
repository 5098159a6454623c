"""Validation of schemas: one job that evaluates both checks of the schema, for any tables.

A run names its tables, and evaluates them one after the other. Its results stand on the assets, as
those of the checks' own steps do. A table that cannot be read gets a failed check that says why;
the others are evaluated, and the run fails at its end.

The declarations say when. One schedule has the moments of all tables in a time zone, and asks at
each moment for the tables that are due at it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from lakewright.jobs.signs_of_life import SignsOfLife
from lakewright.jobs.tables_asked import TablesAsked, schedules_of_tables
from lakewright.platform.declare.declaration_checks import SCHEMA_MATCHES, STORED_ROWS_FIT
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.workspace import Workspace
from lakewright.platform.ingest.validate_schema import ValidateOptions
from lakewright.platform.orchestration.names import TABLE_TAG, VERB_TAG, UpkeepNames, table_tag
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.run_config import config_class, options_of_run
from lakewright.platform.orchestration.schema_reports import judge_schema
from lakewright.platform.orchestration.stored_rows_reports import evaluate_stored_rows
from lakewright.platform.warehouse.kept_verbs import VALIDATE_SCHEMA

VERB = VALIDATE_SCHEMA
_DESCRIPTION = "Read a sample of the rows of tables under their current schemas."


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
        context.instance.add_run_tags(context.run_id, {TABLE_TAG: table_tag(config.tables)})
        asked = TablesAsked(context, "validated")
        run = _Validation(workspace, names, keys, context, asked)
        signs = SignsOfLife(context.log.info)
        with signs.told():
            for table, given in config.tables.items():
                signs.work_at(f"{table}, {VERB}")
                yield from run.evaluations(table, given)
        asked.raise_for_troubles(len(config.tables))
        yield dg.Output(None, metadata=asked.told)

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
    policies = {each.table: each.schema_policy.validation for each in declarations}
    return schedules_of_tables(
        VERB,
        {name: (each.schedule, each.timezone) for name, each in policies.items() if each.enabled},
        job,
        names or UpkeepNames(),
        "Reads a sample of the rows of tables, of each when its declaration says.",
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
    """One run over its tables."""

    workspace: Workspace
    names: UpkeepNames
    keys: ResourceKeys
    context: dg.OpExecutionContext
    asked: TablesAsked

    def evaluations(self, table: str, given: dg.Config) -> Iterator[dg.AssetCheckEvaluation]:
        """Evaluate the checks of a table; one that cannot be asked does not keep it from others."""
        declaration = self.asked.declaration(self.workspace.declarations, table)
        if declaration is None:
            return
        key = self.names.keys.of(table)
        evaluated = {STORED_ROWS_FIT: lambda: self._stored_rows(declaration, given)}
        # Without declared columns there is nothing that the schema could match.
        if declaration.columns:
            evaluated[SCHEMA_MATCHES] = lambda: self._schema(declaration)
        for check, evaluate in evaluated.items():
            yield self.asked.evaluation(table, dg.AssetCheckKey(key, check), evaluate)

    def _stored_rows(self, declaration: TableDeclaration, given: dg.Config) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(self.context.resources, self.keys.warehouse)
        spark: SparkResource = getattr(self.context.resources, self.keys.spark)
        declared = ValidateOptions.declared(declaration.schema_policy.validation)
        return evaluate_stored_rows(
            declaration,
            warehouse.catalog(),
            spark.session,
            self.context,
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
