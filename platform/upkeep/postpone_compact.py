"""Giving postponed rows their buckets, as a verb: readers see them from then on."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report
from lakewright.platform.upkeep.rewrites import (
    move_report,
    rewrite_lease,
    rewrite_measures,
)
from lakewright.platform.upkeep.run_options import Verified
from lakewright.storage import Table
from lakewright.storage.operations.rewrite.postpone import (
    PostponeOptions,
    PostponePlan,
    PostponeResult,
)
from lakewright.storage.upkeep import Upkeep


@dataclass(frozen=True, kw_only=True)
class PostponeRun(Verified, PostponeOptions):
    """What gives postponed rows their buckets."""


def _plan(table: Table, options: PostponeRun) -> PostponePlan:
    check_partitions_known(table, options.partitions or ())
    return POSTPONE_COMPACT.verb.planned(table.table_files, options)


def _report(_: Table, done: Outcome[PostponeRun, PostponePlan, PostponeResult]) -> Report:
    return move_report(done.plan, done.result, done.options, purpose="to give buckets to")


POSTPONE_COMPACT = Procedure(
    verb=Upkeep.postpone_compact,
    options=PostponeRun,
    plan=_plan,
    report=_report,
    command=Command(
        purpose="Upkeep",
        examples="""
lakewright postpone-compact shop.orders
lakewright postpone-compact shop.orders --partition dt=2024-01-01 --dry-run
""",
    ),
    lease=rewrite_lease,
    measures=rewrite_measures,
)
