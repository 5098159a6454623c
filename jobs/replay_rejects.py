"""The replay of rejects as a job: a table is named, and its bad rows are tried again."""

from typing import Any

import dagster as dg
from pydantic import Field

from lakewright.jobs.warehouse_job import build_warehouse_job
from lakewright.platform.ingest.rejects import Rejects
from lakewright.platform.ingest.replay_rejects import replay_rejects
from lakewright.platform.orchestration.names import TABLE_TAG, UpkeepNames, table_tag
from lakewright.platform.orchestration.rejects_reports import rejects_written
from lakewright.platform.orchestration.reports import whole_table_metadata
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.tables.workspace import Workspace
from lakewright.storage import Catalog

VERB = "replay_rejects"
_DESCRIPTION = "Try the bad rows of a table again, and append those that fit its declaration now."
_MOST_SHOWN = 100


class ReplayRejectsConfig(dg.Config):
    """Whose bad rows are tried again."""

    table: str = Field(description="The declared table, as database.table.")
    dry_run: bool = Field(default=False, description="Tell what would fit, and write nothing.")


def build_replay_rejects_job(
    workspace: Workspace,
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
) -> dg.JobDefinition:
    """The job for all declared tables; its config names one."""
    keys = (names or UpkeepNames()).keys

    def run(context: dg.OpExecutionContext, catalog: Catalog, config: ReplayRejectsConfig) -> None:
        declaration = workspace.declared(config.table)
        context.instance.add_run_tags(context.run_id, {TABLE_TAG: table_tag([config.table])})
        replayed = replay_rejects(catalog, declaration, dry_run=config.dry_run)
        told: dict[str, Any] = {
            "lakewright/rows_replayed": replayed.appended,
            "lakewright/rejects": replayed.rejects,
            "lakewright/run": replayed.run,
        }
        left = [dg.TableRecord({"id": a, "why": b}) for a, b in replayed.left.items()][:_MOST_SHOWN]
        schema = dg.TableSchema([dg.TableColumn("id"), dg.TableColumn("why")])
        context.add_output_metadata(
            {
                **told,
                "lakewright/rows_left": len(replayed.left),
                "left": dg.MetadataValue.table(records=left, schema=schema),
            }
        )
        if replayed.appended and not config.dry_run:
            table = catalog.table(config.table)
            context.log_event(
                dg.AssetObservation(
                    keys.of(config.table),
                    metadata={**told, **whole_table_metadata(table)},
                    description=replayed.summary,
                )
            )
            rejects = Rejects(catalog=catalog, table=config.table)
            context.log_event(rejects_written(rejects, keys.of(replayed.rejects), replayed.summary))

    return build_warehouse_job(
        VERB, run, description=_DESCRIPTION, names=names, resources=resources
    )
