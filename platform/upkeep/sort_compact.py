"""Sorting as a verb: an append table's rows in an order that lets filters skip files."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.rewrites import (
    RewriteOptions,
    compaction_report,
    rewrite_engine,
    rewrite_lease,
)
from lakewright.platform.upkeep.verb import LeaseNeed, Outcome, Report, Verb, Work, option
from lakewright.storage import CompactionResult, SortCompactionPlan, Table
from lakewright.storage.lsm.sort_layout import SortOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOptions(RewriteOptions):
    """What a sorting may be told."""

    by: tuple[str, ...] = option((), "The columns to sort by.")
    order: SortOrder = option(
        SortOrder.ORDER,
        "One column after the other (order), or along a curve on which rows near each other in "
        "every column lie together (zorder, hilbert).",
    )


class SortCompact(Verb[SortOptions, SortCompactionPlan, CompactionResult]):
    """Sort the rows of partitions."""

    name = "sort_compact"
    description = "sort the rows of an append table so that filters can skip files"
    options = SortOptions
    plan_type = SortCompactionPlan

    def plan(self, table: Table, options: SortOptions) -> SortCompactionPlan:
        """Everything that the partitions hold.

        Raises:
            NotFoundError: the table has no such partition.
            InvalidRequestError: the table or a column cannot be sorted.
        """
        check_partitions_known(table, options.partitions or ())
        return table.upkeep.plan_sort_compact(
            options.by, order=options.order.value, partitions=options.partitions
        )

    def lease(self, table: Table, plan: SortCompactionPlan | None) -> LeaseNeed | None:
        """The buckets of the plan."""
        return rewrite_lease(table, None if plan is None else plan.files)

    def run(
        self, table: Table, plan: SortCompactionPlan, options: SortOptions, work: Work
    ) -> CompactionResult:
        """Sort what the plan names."""
        engine = rewrite_engine(options, plan.files, work)
        return table.upkeep.run(plan, engine, verify=options.verify, lease=work.lease)

    def report(
        self, table: Table, outcome: Outcome[SortOptions, SortCompactionPlan, CompactionResult]
    ) -> Report:
        """Files, bytes and rows before and after."""
        return compaction_report(outcome.plan.files, outcome.result, outcome.options)


SORT_COMPACT = SortCompact()
