"""Giving postponed rows their buckets, as a verb: readers see them from then on."""

from __future__ import annotations

from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.rewrites import (
    RewriteOptions,
    move_report,
    rewrite_engine,
    rewrite_lease,
)
from lakewright.platform.upkeep.verb import LeaseNeed, Outcome, Report, Verb, Work
from lakewright.storage import PostponePlan, PostponeResult, Table


class PostponeCompact(Verb[RewriteOptions, PostponePlan, PostponeResult]):
    """Move postponed rows into buckets."""

    name = "postpone_compact"
    description = "move postponed rows (bucket=-2) into buckets, where readers see them"
    options = RewriteOptions
    plan_type = PostponePlan

    def plan(self, table: Table, options: RewriteOptions) -> PostponePlan:
        """The rows that wait for a bucket.

        Raises:
            NotFoundError: the table has no such partition.
        """
        check_partitions_known(table, options.partitions or ())
        return table.upkeep.plan_postpone_compact(options.partitions)

    def lease(self, table: Table, plan: PostponePlan | None) -> LeaseNeed | None:
        """The partitions of the plan, with all of their buckets."""
        return rewrite_lease(table, plan)

    def run(
        self, table: Table, plan: PostponePlan, options: RewriteOptions, work: Work
    ) -> PostponeResult:
        """Move what the plan names."""
        engine = rewrite_engine(options, plan, work)
        return table.upkeep.run(plan, engine, verify=options.verify, lease=work.lease)

    def report(
        self, table: Table, outcome: Outcome[RewriteOptions, PostponePlan, PostponeResult]
    ) -> Report:
        """Files, bytes and rows before and after."""
        return move_report(
            outcome.plan,
            outcome.result,
            outcome.options,
            purpose="their buckets",
        )


POSTPONE_COMPACT = PostponeCompact()
