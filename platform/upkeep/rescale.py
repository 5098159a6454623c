"""Rescaling as a verb: the rows of partitions in another number of buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.options import COUNT, option
from lakewright.platform.upkeep.rewrites import (
    RewriteOptions,
    move_report,
    rewrite_lease,
    rewrite_measures,
    run_rewrite,
)
from lakewright.platform.upkeep.verb import Command, Outcome, Report, Verb
from lakewright.storage import Table
from lakewright.storage.plans import RescalePlan, RescaleResult

# Buckets above it take long to compact.
_BUCKET_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleOptions(RewriteOptions):
    """What a rescale may be told."""

    buckets: int | None = option(
        COUNT,
        None,
        "The new number of buckets (default: one for each GB of the largest partition).",
    )


def _plan(table: Table, options: RescaleOptions) -> RescalePlan:
    check_partitions_known(table, options.partitions or ())
    buckets = options.buckets
    if buckets is None:
        found = table.at().partitions(named=options.partitions)
        buckets = max(1, ceil(max((each.size_bytes for each in found), default=0) / _BUCKET_BYTES))
    return table.upkeep.plan_rescale(buckets, options.partitions)


def _report(_: Table, done: Outcome[RescaleOptions, RescalePlan, RescaleResult]) -> Report:
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


RESCALE = Verb(
    name="rescale",
    summary="change the number of buckets",
    may_use_spark=True,
    command=Command(
        purpose="Upkeep",
        examples="lakewright rescale shop.orders --buckets 8 --partition dt=2024-01-01 --dry-run",
    ),
    options=RescaleOptions,
    plan_type=RescalePlan,
    plan=_plan,
    run=run_rewrite,
    report=_report,
    lease=rewrite_lease,
    measures=rewrite_measures,
)
