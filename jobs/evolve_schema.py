"""Schema evolution: a job that makes a table as declared, or applies changes of its run config.

The policy of the declaration says what becomes of destructive changes; a run may say otherwise.
"""

import dagster as dg

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.workspace import Workspace
from lakewright.platform.orchestration.asset_lineage import with_other_assets
from lakewright.platform.upkeep.evolve import EvolveOptions, evolution_to
from lakewright.platform.upkeep.verb import AnyVerb
from lakewright.storage import Table

VERB = "evolve_schema"


def evolve_job(workspace: Workspace, declaration: TableDeclaration) -> UpkeepJob:
    """The job of a declared table; the gate asks who uses its columns in the workspace."""

    def verbs(_: Table, context: dg.OpExecutionContext) -> tuple[AnyVerb]:
        known = with_other_assets(workspace, context.instance)
        return (evolution_to(declaration, known),)

    return UpkeepJob(
        name=VERB,
        description="Change the schema of {table} to its declaration.",
        verbs=verbs,
        declared=lambda _: EvolveOptions(on_destructive=declaration.schema_policy.on_destructive),
        options=EvolveOptions,
        may_come_early=True,
    )
