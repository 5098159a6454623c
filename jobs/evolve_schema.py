"""Schema evolution: a job that makes a table as declared, or applies changes of its run config.

The policy of the declaration says what becomes of destructive changes; a run may say otherwise.
"""

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.upkeep.evolve import EvolveOptions, evolution_to

VERB = "evolve_schema"


def evolve_job(declaration: TableDeclaration) -> UpkeepJob:
    """The job of a declared table."""
    verb = evolution_to(declaration)
    return UpkeepJob(
        name=VERB,
        description="Change the schema of {table} to its declaration.",
        verbs=lambda _: (verb,),
        declared=lambda table: EvolveOptions(on_destructive=table.schema_policy.on_destructive),
        needs_spark=False,
        may_come_early=True,
    )
