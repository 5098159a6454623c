"""`lakewright expire-snapshots`: old snapshots go, and the files that they alone need."""

from __future__ import annotations

from dataclasses import asdict
from functools import reduce
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import FROM_1, older_than_option
from lakewright.cli.grammar.values import age_ms
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.text import counted, duration_text, size_text
from lakewright.cli.upkeep.deletions import snapshots_text
from lakewright.cli.upkeep.work import Work, carried_out, carry_out

if TYPE_CHECKING:
    from lakewright.cli.output.tables import Block
    from lakewright.storage import ExpirePlan, ExpireResult, Table


@command(
    "expire-snapshots",
    plans=True,
    notes="A plan is one step; without --plan there are as many steps as it takes.",
    examples="""
lakewright expire-snapshots nyc.flights --retain-min 5 --older-than 7d --dry-run
lakewright expire-snapshots nyc.flights --retain-max 100 --max-time 30min
""",
)
@click.option("--retain-min", metavar="N", type=FROM_1, help="Keep at least so many snapshots.")
@click.option("--retain-max", metavar="N", type=FROM_1, help="Keep at most so many, however young.")
@older_than_option(
    help="Let go what is older, such as 30min, 1h or 7d (default: the table's option)."
)
@click.option("--max-deletes", metavar="N", type=FROM_1, help="Let at most so many snapshots go.")
@click.option(
    "--max-time",
    metavar="AGE",
    type=age_ms,
    help="Begin no further step after such a time, as 30min (default: until all is done).",
)
def expire_snapshots(
    call: Call,
    *,
    retain_min: int | None,
    retain_max: int | None,
    older_than: int | None,
    max_deletes: int | None,
    max_time: int | None,
) -> Answer | None:
    """Expire old snapshots, and the files that they alone need."""
    from lakewright.cli.output.progress import shown_steps
    from lakewright.cli.upkeep.holding import holding_expiry
    from lakewright.storage import ExpirePlan, ExpireResult
    from lakewright.storage.operations.leases.leases import check_held

    table = call.table()
    before = len(table.files.snapshots.ids())

    def plan() -> ExpirePlan:
        return table.plan_expire_snapshots(
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=older_than,
            max_deletes=max_deletes,
        )

    def run(plan: ExpirePlan) -> ExpireResult:
        with holding_expiry(call, table):
            return table.run_expire_snapshots(plan)

    def run_in_steps() -> tuple[ExpirePlan, ExpireResult]:
        """Expire all that may go; the first step's plan, and what all steps did."""
        done: list[ExpireResult] = []
        first: ExpirePlan | None = None
        with shown_steps() as steps, holding_expiry(call, table) as lease:
            steps.begin(call.command)
            for step in table.expire_in_steps(
                retain_min=retain_min,
                retain_max=retain_max,
                time_retained_ms=older_than,
                max_deletes=max_deletes,
                max_duration_ms=max_time,
            ):
                if first is None:
                    first = step.plan
                    steps.begin(call.command, len(first.snapshot_ids) + first.waiting)
                done.append(step.result)
                steps.advance(len(step.result.expired))
                check_held(table.files, lease)
        assert first is not None
        return first, reduce(ExpireResult.and_then, done)

    work = Work(
        kind=ExpirePlan,
        plan=plan,
        is_empty=lambda plan: not plan.snapshot_ids,
        describe=_plan_text,
        summary=lambda plan: {
            "snapshots": len(plan.snapshot_ids),
            "files": len(plan.files),
            "size_bytes": plan.bytes,
        },
        run=lambda plan, steps: run(plan),
        report=lambda plan, result: _result_text(table, plan, result, before),
        facts=lambda plan, result: {
            **asdict(result),
            "snapshots_before": before,
            "snapshots_after": len(table.files.snapshots.ids()),
        },
    )
    if call.only_plans or call.plan is not None:
        return carry_out(call, table, work)
    return carried_out(call, work, *run_in_steps())


def _plan_text(plan: ExpirePlan) -> list[Block]:

    if not plan.snapshot_ids:
        lines = [f"no snapshot of {plan.table} to expire"]
    else:
        lines = [
            (
                f"expiry of {plan.table}: {snapshots_text(plan.snapshot_ids)} to go, and with them "
                f"{counted(len(plan.files), 'file')}, {size_text(plan.bytes)}; "
                f"snapshot {plan.end_id} becomes the earliest"
            )
        ]
        if plan.waiting:
            lines.append(
                f"  this is one step; about {counted(plan.waiting, 'more snapshot')} may go after "
                "it, in further steps of the same call"
            )
    return [*lines, *(f"  {reason}" for reason in plan.reasons)]


def _result_text(table: Table, plan: ExpirePlan, result: ExpireResult, before: int) -> list[Block]:
    from lakewright.cli.upkeep.rewrites import before_and_after

    if not result.expired:
        return _plan_text(plan)
    after = len(table.files.snapshots.ids())
    return [
        before_and_after(("snapshots", f"{before:,}", f"{after:,}")),
        "",
        (
            f"{snapshots_text(result.expired)} of {table.name} expired: "
            f"{counted(result.files_deleted, 'file')}, {size_text(result.bytes_deleted)} deleted "
            f"in {duration_text(result.duration_ms)}"
        ),
    ]
