"""Sorting as a verb: an append table's rows in an order that lets filters skip files."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.platform.upkeep.effects import Effect
from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.options import choice, names, option
from lakewright.platform.upkeep.rewrites import (
    RewriteOptions,
    compaction_report,
    rewrite_lease,
    rewrite_measures,
    run_rewrite,
)
from lakewright.platform.upkeep.verb import Command, Keeping, Verb
from lakewright.storage import Table
from lakewright.storage.lsm.sort_layout import SortOrder
from lakewright.storage.plans import SortCompactionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOptions(RewriteOptions):
    """What a sorting may be told."""

    by: tuple[str, ...] = option(names(), (), "The columns to sort by.")
    order: SortOrder = option(
        choice(SortOrder),
        SortOrder.ORDER,
        "One column after the other (order), or along a curve on which rows near each other in "
        "every column lie together (zorder, hilbert).",
    )


def _plan(table: Table, options: SortOptions) -> SortCompactionPlan:
    check_partitions_known(table, options.partitions or ())
    return table.upkeep.plan_sort_compact(
        options.by, order=options.order.value, partitions=options.partitions
    )


SORT_COMPACT = Verb(
    name="sort_compact",
    summary="sort rows, so that filters skip files",
    effect=Effect.REWRITES,
    may_use_spark=True,
    command=Command(
        purpose="Upkeep",
        examples="lakewright sort-compact nyc.flights --by carrier,distance --order zorder "
        "--dry-run",
    ),
    keeping=Keeping(
        section=lambda policy: policy.sort,
        options=lambda policy: SortOptions(by=policy.sort.columns, order=policy.sort.order),
    ),
    options=SortOptions,
    plan_type=SortCompactionPlan,
    plan=_plan,
    run=run_rewrite,
    report=lambda table, done: compaction_report(table, done.plan, done.result, done.options),
    lease=rewrite_lease,
    measures=rewrite_measures,
)
