"""Compaction as a verb: fewer, larger files with the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.platform.tables.upkeep_policies import CompactionPolicy
from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.postpone_compact import POSTPONE_COMPACT
from lakewright.platform.upkeep.procedure import Command, Keeping, Procedure
from lakewright.platform.upkeep.rewrites import (
    compaction_report,
    rewrite_lease,
    rewrite_measures,
)
from lakewright.platform.upkeep.run_options import Verified
from lakewright.storage import Table
from lakewright.storage.errors import NotFoundError
from lakewright.storage.operations.rewrite.compact import CompactOptions
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.upkeep import Upkeep


@dataclass(frozen=True, kw_only=True)
class CompactRun(Verified, CompactOptions):
    """What a compaction takes."""


def declared_compaction(policy: CompactionPolicy) -> CompactRun:
    """What a policy of a table asks for."""
    return CompactRun(
        full=policy.full,
        min_files=policy.small_files,
        engine=policy.engine,
        verify=policy.verify,
    )


def _plan(table: Table, options: CompactRun) -> CompactionPlan:
    check_partitions_known(table, options.partitions or ())
    _check_buckets(table, options.buckets or ())
    return COMPACT.verb.planned(table.table_files, options)


def _check_buckets(table: Table, asked: Sequence[int]) -> None:
    if not asked:
        return
    held = {each.bucket for stats in table.at().partitions() for each in stats.buckets}
    # A bucket may exist and hold nothing yet.
    known = held | set(range(table.options.bucket))
    for bucket in asked:
        if bucket not in known:
            there = ", ".join(str(each) for each in sorted(known)) or "none"
            raise NotFoundError(f"{table.name} has no bucket {bucket}; there are {there}")


COMPACT = Procedure(
    verb=Upkeep.compact,
    options=CompactRun,
    plan=_plan,
    report=lambda table, done: compaction_report(table, done.plan, done.result, done.options),
    command=Command(
        purpose="Upkeep",
        examples="""
lakewright compact nyc.flights --dry-run
lakewright compact nyc.flights --partition dt=2013-12-01 --full
lakewright compact nyc.flights --full --save-plan plan.json
lakewright compact nyc.flights --plan plan.json --engine spark
""",
    ),
    keeping=Keeping(
        section=lambda policy: policy.compaction,
        options=lambda policy: declared_compaction(policy.compaction),
        # Postponed rows get their buckets first.
        first=lambda table: (
            (POSTPONE_COMPACT,) if table.options.bucket_mode is BucketMode.POSTPONE else ()
        ),
    ),
    lease=rewrite_lease,
    measures=rewrite_measures,
)
