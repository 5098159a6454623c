"""Compaction as a verb: fewer, larger files with the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.platform.tables.upkeep_policies import CompactionPolicy
from lakewright.platform.upkeep.effects import Effect
from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.options import BYTES, COUNT, FLAG, Partitions, counts, option
from lakewright.platform.upkeep.postpone_compact import POSTPONE_COMPACT
from lakewright.platform.upkeep.rewrites import (
    RewriteOptions,
    compaction_report,
    rewrite_lease,
    rewrite_measures,
    run_rewrite,
)
from lakewright.platform.upkeep.verb import Command, Keeping, Verb
from lakewright.storage import Table
from lakewright.storage.errors import NotFoundError
from lakewright.storage.plans import CompactionPlan
from lakewright.storage.spec.options import BucketMode


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions(RewriteOptions):
    """What a compaction may be told."""

    buckets: tuple[int, ...] | None = option(
        counts(0), None, "Buckets to process (default: all).", flag="--bucket"
    )
    full: bool = option(
        FLAG,
        default=False,
        text="Rewrite all that is not one sorted run yet, or holds small files or deleted rows.",
    )
    min_files: int | None = option(
        COUNT,
        None,
        "Compact a bucket from this number of small files or sorted runs on. Without it, the "
        "table's options say.",
    )
    max_bytes: int | None = option(
        BYTES,
        None,
        "Rewrite at most this size, or one bucket; those that wait longest come first.",
    )

    @classmethod
    def declared(
        cls, policy: CompactionPolicy, partitions: Partitions | None = None
    ) -> CompactOptions:
        """What a table's policy asks for, in all partitions or in some."""
        return cls(
            partitions=partitions,
            full=policy.full,
            min_files=policy.small_files,
            engine=policy.engine,
            verify=policy.verify,
        )


def _plan(table: Table, options: CompactOptions) -> CompactionPlan:
    check_partitions_known(table, options.partitions or ())
    _check_buckets(table, options.buckets or ())
    return table.upkeep.plan_compact(
        options.partitions,
        options.buckets,
        full=options.full,
        min_file_num=options.min_files,
        max_bytes=options.max_bytes,
    )


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


COMPACT = Verb(
    name="compact",
    summary="merge small files into fewer, larger ones",
    effect=Effect.REWRITES,
    may_use_spark=True,
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
        options=lambda policy: CompactOptions.declared(policy.compaction),
        # Postponed rows get their buckets first.
        first=lambda table: (
            (POSTPONE_COMPACT,) if table.options.bucket_mode is BucketMode.POSTPONE else ()
        ),
    ),
    options=CompactOptions,
    plan_type=CompactionPlan,
    plan=_plan,
    run=run_rewrite,
    report=lambda table, done: compaction_report(table, done.plan, done.result, done.options),
    lease=rewrite_lease,
    measures=rewrite_measures,
)
