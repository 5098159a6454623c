"""Exchanging partitions as a verb: they move from another table to this one."""

from __future__ import annotations

from lakewright.platform.upkeep.drop_partitions import KEPT_ON_DISK
from lakewright.platform.upkeep.leases import partitions_scope
from lakewright.platform.upkeep.procedure import (
    Command,
    LeaseNeed,
    NamedPartition,
    Outcome,
    Procedure,
    Report,
)
from lakewright.platform.upkeep.whole_partitions import held_facts, held_rows, held_text
from lakewright.platform.upkeep.words import duration_text, size_text
from lakewright.storage import LeaseKind, Table
from lakewright.storage.operations.partitions.exchange_partition import (
    ExchangePartitionOptions,
    ExchangePartitionPlan,
    ExchangePartitionResult,
)
from lakewright.storage.upkeep import Upkeep


def _report(
    _: Table,
    done: Outcome[ExchangePartitionOptions, ExchangePartitionPlan, ExchangePartitionResult],
) -> Report:
    plan, result = done.plan, done.result
    what, facts = held_text(plan.partitions), held_facts(plan.partitions)
    begun = [
        f"{NamedPartition(each)} was copied before, by a call that was stopped"
        for each in plan.begun
    ]
    if result is None:
        return Report(
            summary=f"{what} to move from {plan.source} to {plan.table}",
            facts=facts,
            tables={"plan": held_rows(plan.partitions)},
            notes=(
                *begun,
                "files are copied; between the two commits readers see the rows in both tables",
            ),
        )
    return Report(
        summary=f"{what} moved from {plan.source} to {plan.table} in "
        f"{duration_text(result.duration_ms)}, {size_text(result.bytes_copied)} copied",
        facts={**facts, "bytes_copied": result.bytes_copied, "duration_ms": result.duration_ms},
        tables={"moved": held_rows(plan.partitions)},
        notes=(*begun, f"in {plan.source}, {KEPT_ON_DISK}"),
        partitions=tuple(partition.partition for partition in plan.partitions),
        snapshot=result.snapshot,
    )


EXCHANGE_PARTITION = Procedure(
    verb=Upkeep.exchange_partition,
    options=ExchangePartitionOptions,
    report=_report,
    command=Command(
        purpose="Partitions",
        notes="Between the two commits readers see the rows in both tables; call again after a "
        "crash.",
        examples="lakewright exchange-partition shop.orders --from shop.orders_staged "
        "--partition dt=2024-01-01",
    ),
    lease=lambda table, plan: LeaseNeed(
        kind=LeaseKind.RESCALE,
        scope=partitions_scope(table, [partition.partition for partition in plan.partitions]),
    ),
)
