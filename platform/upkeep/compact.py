"""Compaction as a verb: fewer, larger files with the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.platform.declare.upkeep_policies import CompactionPolicy
from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.platform.upkeep.rewrites import (
    Partitions,
    RewriteOptions,
    compaction_report,
    rewrite_lease,
    rewrite_measures,
    run_rewrite,
)
from lakewright.platform.upkeep.verb import Verb, option
from lakewright.storage import CompactionPlan, Table
from lakewright.storage.errors import NotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions(RewriteOptions):
    """What a compaction may be told."""

    buckets: tuple[int, ...] | None = option(None, "Buckets to look at. Without any, all of them.")
    full: bool = option(
        default=False,
        text="Rewrite all that is not one sorted run yet, or holds small files or deleted rows.",
    )
    min_files: int | None = option(
        None,
        "Compact a bucket that has so many small files or sorted runs. Without a number, the "
        "table's options say.",
    )
    max_bytes: int | None = option(
        None,
        "Rewrite at most so many bytes, or one bucket; those that wait longest come first.",
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
    description="rewrite small files and sorted runs into few large files",
    options=CompactOptions,
    plan_type=CompactionPlan,
    plan=_plan,
    run=run_rewrite,
    report=lambda table, done: compaction_report(table, done.plan, done.result, done.options),
    lease=rewrite_lease,
    measures=rewrite_measures,
)
