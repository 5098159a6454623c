"""Schema evolution: the verb that makes tables as declared, or applies changes of its run config.

The policy of the declaration says what becomes of destructive changes; a run may say otherwise. A
table without declared columns gets the changes that a run names.
"""

import dagster as dg

from lakewright.jobs.upkeep import UpkeepVerb
from lakewright.jobs.verbs import KEEPING_VERBS, REQUESTED_VERBS
from lakewright.platform.decide.kept_tables import KeptTable
from lakewright.platform.orchestration.asset_lineage import with_other_assets
from lakewright.platform.orchestration.names import AssetKeys
from lakewright.platform.tables.workspace import Workspace
from lakewright.platform.upkeep.alter import altering
from lakewright.platform.upkeep.evolve import EvolveOptions, evolution_to
from lakewright.platform.upkeep.procedure import AnyProcedure
from lakewright.storage import Table

VERB = "evolve_schema"


def evolve_verb(workspace: Workspace, keys: AssetKeys) -> UpkeepVerb:
    """The verb for all tables; the gate asks who uses columns.

    Users of columns are those that the workspace and Dagster know.
    """

    def verbs(_: Table, context: dg.OpExecutionContext, kept: KeptTable) -> tuple[AnyProcedure]:
        known = with_other_assets(workspace, context.instance, keys)
        found = kept.declaration
        if found is None or not found.columns:
            return (altering(known),)
        return (evolution_to(found, known),)

    return UpkeepVerb(
        name=VERB,
        description="Change the schema of tables to their declarations.",
        verbs=verbs,
        declared=lambda _: EvolveOptions(),
        options=EvolveOptions,
        may_come_early=True,
    )


def all_verbs(workspace: Workspace, keys: AssetKeys) -> tuple[UpkeepVerb, ...]:
    """Every verb of the job of upkeep."""
    return (*KEEPING_VERBS, *REQUESTED_VERBS, evolve_verb(workspace, keys))
