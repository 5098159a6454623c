"""Renaming a partition as a verb: its rows get other values of the partition columns."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakewright.platform.upkeep.leases import partitions_scope
from lakewright.platform.upkeep.procedure import (
    Command,
    LeaseNeed,
    NamedPartition,
    Outcome,
    Procedure,
    Report,
)
from lakewright.platform.upkeep.run_options import Verified
from lakewright.platform.upkeep.whole_partitions import held_facts, held_text
from lakewright.platform.upkeep.words import counted, duration_text, nulled_text
from lakewright.storage import LeaseKind, Table
from lakewright.storage.operations.partitions.rename_partition import (
    RenamePartitionOptions,
    RenamePartitionPlan,
    RenamePartitionResult,
)
from lakewright.storage.upkeep import Upkeep


@dataclass(frozen=True, kw_only=True)
class RenamePartitionRun(Verified, RenamePartitionOptions):
    """What a rename takes."""


def _report(
    _: Table, done: Outcome[RenamePartitionRun, RenamePartitionPlan, RenamePartitionResult]
) -> Report:
    plan, result = done.plan, done.result
    names = f"{NamedPartition(plan.renamed.partition)} of {plan.table} to {NamedPartition(plan.to)}"
    if result is None:
        return Report(
            summary=f"rename {names}: {held_text([plan.renamed])} to write again",
            facts=held_facts([plan.renamed]),
        )
    facts = {key: value for key, value in asdict(result).items() if key != "snapshot"}
    return Report(
        summary=f"snapshot {result.snapshot.id}: {names} renamed, "
        f"{counted(result.rows, 'row')} in {duration_text(result.duration_ms)}",
        facts=facts,
        notes=(nulled_text(result.nulled_values),) if result.nulled_values else (),
        partitions=(plan.to,),
        snapshot=result.snapshot,
    )


RENAME_PARTITION = Procedure(
    verb=Upkeep.rename_partition,
    options=RenamePartitionRun,
    report=_report,
    command=Command(
        purpose="Partitions",
        examples="""
lakewright rename-partition shop.visits --partition day=2024-13-01 --to day=2024-01-13 --dry-run
""",
    ),
    lease=lambda table, plan: LeaseNeed(
        kind=LeaseKind.RESCALE, scope=partitions_scope(table, [plan.renamed.partition, plan.to])
    ),
)
