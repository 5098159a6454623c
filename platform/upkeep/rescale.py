"""Rescaling as a verb: the rows of partitions in another number of buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report
from lakewright.platform.upkeep.rewrites import (
    move_report,
    rewrite_lease,
    rewrite_measures,
)
from lakewright.platform.upkeep.run_options import Verified
from lakewright.storage import Table
from lakewright.storage.operations.rewrite.rescale import RescaleOptions, RescalePlan, RescaleResult
from lakewright.storage.upkeep import Upkeep


@dataclass(frozen=True, kw_only=True)
class RescaleRun(Verified, RescaleOptions):
    """What a rescale takes."""


def _plan(table: Table, options: RescaleRun) -> RescalePlan:
    check_partitions_known(table, options.partitions or ())
    return RESCALE.verb.planned(table.table_files, options)


def _report(_: Table, done: Outcome[RescaleRun, RescalePlan, RescaleResult]) -> Report:
    report = move_report(done.plan, done.result, done.options, purpose="to rescale")
    buckets = done.plan.bucket_option
    if buckets is None:
        return report
    # The option changes even where no partition holds rows.
    notes = (*report.notes, f"option bucket becomes {buckets}")
    if done.result is not None and done.plan.tasks:
        notes = report.notes
    return replace(
        report, facts={**report.facts, "bucket_option": buckets}, notes=notes, is_empty=False
    )


RESCALE = Procedure(
    verb=Upkeep.rescale,
    options=RescaleRun,
    plan=_plan,
    report=_report,
    command=Command(
        purpose="Upkeep",
        examples="lakewright rescale shop.orders --buckets 8 --partition dt=2024-01-01 --dry-run",
    ),
    lease=rewrite_lease,
    measures=rewrite_measures,
)
