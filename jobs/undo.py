"""Undo as a job: a run is named, and what it did is taken back, table by table."""

from typing import Any, NoReturn

import dagster as dg
from pydantic import Field

from lakewright.jobs.warehouse_job import build_warehouse_job
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.orchestration.names import TABLE_TAG, UpkeepNames, table_tag
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.orchestration.undo_reports import check_ended, tell_undone
from lakewright.platform.undo.parts import Undo
from lakewright.platform.undo.undo import plan_undo, run_undo
from lakewright.platform.upkeep.procedure import Work
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Catalog

VERB = "undo"
_DESCRIPTION = "Take back all that a run did: its snapshots go, and what it set aside comes back."


class UndoConfig(dg.Config):
    """Which run is undone."""

    run: str = Field(
        description="The id of a run, or its first 8 digits or more; or the name of a command's "
        "run, as the user of its commits says it."
    )
    tables: list[str] = Field(default=[], description="Only these tables; without any, all.")
    dry_run: bool = Field(default=False, description="Tell what would be done, and write nothing.")


def build_undo_job(
    tables: KeptTables,
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
) -> dg.JobDefinition:
    """The job that undoes a run in the whole warehouse; its config names the run.

    The run fails if nothing is undone, or later work stands in the way of a part; all other parts
    are undone first.
    """
    of_tables = names or UpkeepNames()

    def run(context: dg.OpExecutionContext, catalog: Catalog, config: UndoConfig) -> None:
        _run(context, catalog, config, tables, of_tables)

    return build_warehouse_job(
        VERB, run, description=_DESCRIPTION, names=names, resources=resources
    )


def _run(
    context: dg.OpExecutionContext,
    catalog: Catalog,
    config: UndoConfig,
    tables: KeptTables,
    names: UpkeepNames,
) -> None:
    found = plan_undo(catalog, config.run, tables=config.tables or None)
    check_ended(context.instance, found.run)
    _tag(context, found)
    for part in found.parts:
        context.log.info("%s: %s", part.table, part.summary)
    for left in found.unread:
        context.log.warning(
            "%s cannot be read; by the ledger, the run changed nothing there: %s",
            left.table,
            left.why,
        )
    if not config.dry_run:
        work = Work(run=commit_user(context.instance, context.run, VERB), session=_no_session)
        recorder = Recorder.of(catalog, warn=context.log.warning, make=True)
        found = run_undo(catalog, found, work, recorder=recorder)
    context.add_output_metadata(_metadata(found))
    if config.dry_run:
        context.log.info("dry run: nothing was written")
        return
    tell_undone(
        context.instance,
        catalog,
        found,
        tables.declarations,
        names,
        tell=context.log_event,
        warn=context.log.warning,
    )
    if not found.is_whole:
        told = "; ".join(f"{each.table}, {each.what}: {each.why}" for each in found.left_alone)
        count = counted(len(found.left_alone), "part")
        raise dg.Failure(
            f"{count} of run {found.run} cannot be undone: {told}", allow_retries=False
        )


def _tag(context: dg.OpExecutionContext, found: Undo) -> None:
    tables = {part.table for part in found.parts} | {each.table for each in found.left_alone}
    if tables:
        context.instance.add_run_tags(context.run_id, {TABLE_TAG: table_tag(sorted(tables))})


def _metadata(found: Undo) -> dict[str, Any]:
    columns = [dg.TableColumn(name) for name in ("table", "what", "result")]
    rows = [(part.table, part.what, part.summary) for part in found.parts]
    rows += [(each.table, each.what, f"skipped: {each.why}") for each in found.left_alone]
    return {
        "undone_run": dg.MetadataValue.text(found.run),
        "parts": dg.MetadataValue.table(
            records=[dg.TableRecord({"table": a, "what": b, "result": c}) for a, b, c in rows],
            schema=dg.TableSchema(columns=columns),
        ),
    }


def _no_session() -> NoReturn:
    raise AssertionError("an undo copies files and starts no Spark session")
