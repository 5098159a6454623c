"""Renaming a partition as a verb: its rows get other values of the partition columns."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.leases import partitions_scope
from lakewright.platform.upkeep.options import ENGINE, PARTITIONS, Partitions, choice, option
from lakewright.platform.upkeep.verb import (
    Command,
    LeaseNeed,
    NamedPartition,
    Outcome,
    Report,
    Verb,
    Work,
)
from lakewright.platform.upkeep.whole_partitions import held_facts, held_text, only_partition
from lakewright.platform.upkeep.words import counted, duration_text, nulled_text
from lakewright.storage import LeaseKind, Table, VerifyLevel
from lakewright.storage.plans import RenamePartitionPlan, RenamePartitionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePartitionOptions:
    """What a rename may be told."""

    partitions: Partitions | None = option(
        PARTITIONS, None, "The partition, by all of its columns."
    )
    to: Partitions | None = option(
        PARTITIONS, None, "Its new values; columns that stay may be left out.", flag="--to"
    )
    engine: EngineChoice = option(
        ENGINE,
        EngineChoice.AUTO,
        "Where rows are written: spark, local, or auto, by size.",
        at_run=True,
    )
    verify: VerifyLevel = option(
        choice(VerifyLevel),
        VerifyLevel.CHECKSUMS,
        "How new files are verified before they are published: counts, checksums, or full, which "
        "reads the new files back.",
        at_run=True,
    )


def _plan(table: Table, options: RenamePartitionOptions) -> RenamePartitionPlan:
    return table.upkeep.plan_rename_partition(
        only_partition(table, options.partitions, "partition (--partition)"),
        only_partition(table, options.to, "to (--to)"),
    )


def _run(
    table: Table, plan: RenamePartitionPlan, options: RenamePartitionOptions, work: Work
) -> RenamePartitionResult:
    engine = work.engine(options.engine, plan.renamed.bytes)
    return table.upkeep.run(plan, engine, verify=options.verify, lease=work.lease)


def _report(
    _: Table, done: Outcome[RenamePartitionOptions, RenamePartitionPlan, RenamePartitionResult]
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


RENAME_PARTITION = Verb(
    name="rename_partition",
    summary="give the rows of a partition other values of its keys",
    may_use_spark=True,
    command=Command(
        purpose="Partitions",
        examples="""
lakewright rename-partition shop.visits --partition day=2024-13-01 --to day=2024-01-13 --dry-run
""",
    ),
    options=RenamePartitionOptions,
    plan_type=RenamePartitionPlan,
    plan=_plan,
    run=_run,
    report=_report,
    lease=lambda table, plan: LeaseNeed(
        kind=LeaseKind.RESCALE, scope=partitions_scope(table, [plan.renamed.partition, plan.to])
    ),
)
