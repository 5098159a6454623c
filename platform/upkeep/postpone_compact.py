"""Giving postponed rows their buckets, as a verb: readers see them from then on."""

from __future__ import annotations

from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.rewrites import (
    RewriteOptions,
    move_report,
    rewrite_lease,
    rewrite_measures,
    run_rewrite,
)
from lakewright.platform.upkeep.verb import Command, Outcome, Report, Verb
from lakewright.storage import Table
from lakewright.storage.plans import PostponePlan, PostponeResult


def _plan(table: Table, options: RewriteOptions) -> PostponePlan:
    check_partitions_known(table, options.partitions or ())
    return table.upkeep.plan_postpone_compact(options.partitions)


def _report(_: Table, done: Outcome[RewriteOptions, PostponePlan, PostponeResult]) -> Report:
    return move_report(done.plan, done.result, done.options, purpose="to give buckets to")


POSTPONE_COMPACT = Verb(
    name="postpone_compact",
    summary="assign postponed rows to buckets",
    may_use_spark=True,
    command=Command(
        purpose="Upkeep",
        examples="""
lakewright postpone-compact shop.orders
lakewright postpone-compact shop.orders --partition dt=2024-01-01 --dry-run
""",
    ),
    options=RewriteOptions,
    plan_type=PostponePlan,
    plan=_plan,
    run=run_rewrite,
    report=_report,
    lease=rewrite_lease,
    measures=rewrite_measures,
)
