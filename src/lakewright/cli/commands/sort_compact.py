"""`lakewright sort-compact`: an append table's rows in an order that lets filters skip files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import engine_option, partition_option, verify_option
from lakewright.cli.grammar.values import names
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.work import Work, carry_out

if TYPE_CHECKING:
    from lakewright.cli.output.progress import Steps
    from lakewright.storage import CompactionResult, SortCompactionPlan


@command(
    "sort-compact",
    plans=True,
    examples="lakewright sort-compact nyc.flights --by carrier,distance --order zorder --dry-run",
)
@click.option("--by", metavar="A,B", type=names, help="The columns; needed unless --plan is given.")
@click.option(
    "--order",
    type=click.Choice(["order", "zorder", "hilbert"]),
    default="order",
    help="One column after the other (order, the default), or along a curve on which rows near "
    "each other in every column lie together.",
)
@partition_option
@engine_option
@verify_option
def sort_compact(
    call: Call,
    *,
    by: list[str] | None,
    order: str,
    partitions: tuple[dict[str, object], ...],
    engine: str,
    verify: str,
) -> Answer | None:
    """Sort an append table's rows, so that filters skip files."""
    from lakewright.cli.upkeep import rewrites
    from lakewright.cli.upkeep.holding import rewriting
    from lakewright.storage import SortCompactionPlan

    table = call.table()

    def plan() -> SortCompactionPlan:
        named = rewrites.known_partitions(table, partitions)
        return table.plan_sort_compact(by or (), order=order, partitions=named)

    def run(plan: SortCompactionPlan, steps: Steps) -> CompactionResult:
        with rewriting(call, table, plan.files) as lease:
            where = rewrites.engine_of(engine, steps, call.command) if plan.files.tasks else None
            return table.run_sort_compact(plan, where, verify=verify, lease=lease)

    work = Work(
        kind=SortCompactionPlan,
        plan=plan,
        is_empty=lambda plan: not plan.files.tasks,
        describe=lambda plan: rewrites.compaction_text(table, plan.files),
        summary=lambda plan: rewrites.rewrite_summary(plan.files),
        run=run,
        report=lambda plan, result: rewrites.compaction_report(plan.files, result),
        facts=lambda plan, result: rewrites.compaction_facts(plan.files, result),
        was_beaten=lambda plan, result: bool(plan.files.tasks) and result.snapshot is None,
    )
    return carry_out(call, table, work)
