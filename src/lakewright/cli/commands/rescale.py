"""`lakewright rescale`: the rows of a table, or of some partitions, in other buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, needed
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import FROM_1, engine_option, partition_option, verify_option
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.work import Work, carry_out

if TYPE_CHECKING:
    from lakewright.cli.output.progress import Steps
    from lakewright.cli.output.tables import Block
    from lakewright.storage import RescalePlan, RescaleResult


@command(
    "rescale",
    plans=True,
    examples="lakewright rescale shop.orders --buckets 8 --partition dt=2024-01-01 --dry-run",
)
@click.option("--buckets", metavar="N", type=FROM_1, help="So many; needed unless --plan is given.")
@partition_option
@engine_option
@verify_option
def rescale(
    call: Call,
    *,
    buckets: int | None,
    partitions: tuple[dict[str, object], ...],
    engine: str,
    verify: str,
) -> Answer | None:
    """Move the rows of a table, or of some partitions, into another number of buckets."""
    from lakewright.cli.upkeep import rewrites
    from lakewright.cli.upkeep.holding import rewriting
    from lakewright.storage import LeaseKind, RescalePlan

    table = call.table()

    def plan() -> RescalePlan:
        count = needed(buckets, "--buckets N")
        return table.plan_rescale(count, rewrites.known_partitions(table, partitions))

    def run(plan: RescalePlan, steps: Steps) -> RescaleResult:
        with rewriting(call, table, plan, LeaseKind.RESCALE) as lease:
            where = rewrites.engine_of(engine, steps, call.command) if plan.tasks else None
            return table.run_rescale(plan, where, verify=verify, lease=lease)

    def describe(plan: RescalePlan) -> list[Block]:
        lines = rewrites.moves_text(table, plan, "to rescale")
        if plan.bucket_option is not None:
            lines.append(f"option bucket becomes {plan.bucket_option}")
        return lines

    work = Work(
        kind=RescalePlan,
        plan=plan,
        # Without a row to move the option may still change.
        is_empty=lambda plan: not plan.tasks and plan.bucket_option is None,
        describe=describe,
        summary=rewrites.rewrite_summary,
        run=run,
        report=lambda plan, result: (
            rewrites.moves_report(plan, result) if plan.tasks else describe(plan)
        ),
        facts=lambda plan, result: rewrites.moves_facts(result),
    )
    return carry_out(call, table, work)
