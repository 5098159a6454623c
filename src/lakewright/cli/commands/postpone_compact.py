"""`lakewright postpone-compact`: postponed rows into buckets, where readers see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import engine_option, partition_option, verify_option
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.work import Work, carry_out

if TYPE_CHECKING:
    from lakewright.cli.output.progress import Steps
    from lakewright.storage import PostponePlan, PostponeResult


@command(
    "postpone-compact",
    plans=True,
    examples="lakewright postpone-compact shop.orders\n"
    "lakewright postpone-compact shop.orders --partition dt=2024-01-01 --dry-run",
)
@partition_option
@engine_option
@verify_option
def postpone_compact(
    call: Call,
    *,
    partitions: tuple[dict[str, object], ...],
    engine: str,
    verify: str,
) -> Answer | None:
    """Move postponed rows (bucket=-2) into buckets, where readers see them."""
    from lakewright.cli.upkeep import rewrites
    from lakewright.cli.upkeep.holding import rewriting
    from lakewright.storage import PostponePlan

    table = call.table()

    def run(plan: PostponePlan, steps: Steps) -> PostponeResult:
        with rewriting(call, table, plan) as lease:
            where = rewrites.engine_of(engine, steps, call.command) if plan.tasks else None
            return table.run_postpone_compact(plan, where, verify=verify, lease=lease)

    work = Work(
        kind=PostponePlan,
        plan=lambda: table.plan_postpone_compact(rewrites.known_partitions(table, partitions)),
        is_empty=lambda plan: not plan.tasks,
        describe=lambda plan: rewrites.moves_text(table, plan, "to give buckets to"),
        summary=rewrites.rewrite_summary,
        run=run,
        report=rewrites.moves_report,
        facts=lambda plan, result: rewrites.moves_facts(result),
    )
    return carry_out(call, table, work)
