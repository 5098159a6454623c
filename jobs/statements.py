"""SQL statements as a job: its config holds them."""

import dagster as dg
from pydantic import Field

from lakewright.jobs.warehouse_job import build_warehouse_job
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.run_identity import commit_user, tried_since_ms
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError

VERB = "sql"
_DESCRIPTION = "Run SQL statements on the tables of the warehouse."


class StatementsConfig(dg.Config):
    """What is run."""

    statements: str = Field(
        default="",
        description="SQL statements, separated by semicolons (docs/reference/sql.md).",
    )
    plan: str = Field(
        default="",
        description="In their place, a plan that `lakewright sql --compile` wrote.",
    )
    database: str = Field(default="", description="The database of names without one.")
    settings: dict[str, str] = Field(default={}, description="Settings, as SET makes them.")


def build_statements_job(
    *, names: UpkeepNames | None = None, resources: ResourceKeys | None = None
) -> dg.JobDefinition:
    """The job that runs the statements of its config, one after the other.

    A retry of the run goes on behind the last statement whose commit it finds. What leaves no
    commit may have to say IF EXISTS or IF NOT EXISTS.
    """
    return build_warehouse_job(
        VERB, _run, description=_DESCRIPTION, names=names, resources=resources
    )


def _run(context: dg.OpExecutionContext, catalog: Catalog, config: StatementsConfig) -> None:
    # A process that runs no statement does not load the parser.
    from lakewright.session import Session  # noqa: PLC0415
    from lakewright.session.compiled import CompiledPlan  # noqa: PLC0415
    from lakewright.session.settings import DATABASE, Settings  # noqa: PLC0415

    settings = Settings()
    given = {DATABASE: config.database} if config.database else {}
    for name, value in {**given, **config.settings}.items():
        settings = settings.with_value(name, value)
    session = Session(
        catalog,
        settings,
        run_name=commit_user(context.instance, context.run, VERB),
        tried_since_ms=tried_since_ms(context.instance, context.run, context.retry_number),
    )
    told = []
    if bool(config.statements) == bool(config.plan):
        raise InvalidRequestError("give either statements or a plan")
    results = (
        session.run_compiled(CompiledPlan.from_json(config.plan))
        if config.plan
        else session.run(config.statements)
    )
    for result in results:
        rows = "" if result.rows is None else f"{result.rows.num_rows} rows"
        told.append((result.statement, result.message or rows))
        context.log.info("%s: %s", *told[-1])
    context.add_output_metadata(
        {
            "statements": dg.MetadataValue.table(
                records=[dg.TableRecord({"statement": a, "told": b}) for a, b in told],
                schema=dg.TableSchema([dg.TableColumn("statement"), dg.TableColumn("told")]),
            )
        }
    )
