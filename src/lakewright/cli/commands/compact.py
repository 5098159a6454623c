"""`lakewright compact`: fewer, larger files with the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import (
    FROM_0,
    FROM_2,
    engine_option,
    partition_option,
    verify_option,
)
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.work import Work, carry_out

if TYPE_CHECKING:
    from lakewright.cli.output.progress import Steps
    from lakewright.storage import CompactionPlan, CompactionResult, Table


@command(
    "compact",
    plans=True,
    examples="""
lakewright compact nyc.flights --dry-run
lakewright compact nyc.flights --partition dt=2013-12-01 --full
lakewright compact nyc.flights --full --save-plan plan.json
lakewright compact nyc.flights --plan plan.json --engine spark
""",
)
@partition_option
@click.option(
    "--bucket",
    "buckets",
    metavar="N",
    multiple=True,
    type=FROM_0,
    help="Only this bucket; may be repeated.",
)
@click.option(
    "--full",
    is_flag=True,
    help="All that is not one sorted run yet, or holds small files or deletions.",
)
@click.option(
    "--min-files",
    metavar="N",
    type=FROM_2,
    help="Worth it from so many small files, or sorted runs (default: the table's options).",
)
@engine_option
@verify_option
def compact(
    call: Call,
    *,
    partitions: tuple[dict[str, object], ...],
    buckets: tuple[int, ...],
    full: bool,
    min_files: int | None,
    engine: str,
    verify: str,
) -> Answer | None:
    """Rewrite small files into fewer, larger ones with the same rows."""
    from lakewright.cli.upkeep import rewrites
    from lakewright.cli.upkeep.holding import rewriting
    from lakewright.storage import CompactionPlan

    table = call.table()

    def plan() -> CompactionPlan:
        _check_buckets(buckets, table)
        named = rewrites.known_partitions(table, partitions)
        return table.plan_compact(named, buckets or None, full=full, min_file_num=min_files)

    def run(plan: CompactionPlan, steps: Steps) -> CompactionResult:
        with rewriting(call, table, plan) as lease:
            where = rewrites.engine_of(engine, steps, call.command) if plan.tasks else None
            return table.run_compact(plan, where, verify=verify, lease=lease)

    work = Work(
        kind=CompactionPlan,
        plan=plan,
        is_empty=lambda plan: not plan.tasks,
        describe=lambda plan: rewrites.compaction_text(table, plan),
        summary=rewrites.rewrite_summary,
        run=run,
        report=rewrites.compaction_report,
        facts=rewrites.compaction_facts,
        was_beaten=lambda plan, result: bool(plan.tasks) and result.snapshot is None,
    )
    return carry_out(call, table, work)


def _check_buckets(asked: Sequence[int], table: Table) -> None:
    from lakewright.storage.errors import NotFoundError

    if not asked:
        return
    held = {each.bucket for stats in table.partitions() for each in stats.buckets}
    # A bucket may be there and hold nothing yet.
    known = held | set(range(table.options.bucket))
    for bucket in asked:
        if bucket not in known:
            there = ", ".join(str(each) for each in sorted(known)) or "none"
            raise NotFoundError(f"{table.name} has no bucket {bucket}; there are {there}")
