"""`lakewright rollback`: a table as it was; what came later goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import FROM_1, as_of_option, tag_option
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.text import counted
from lakewright.cli.upkeep.deletions import (
    deleted_facts,
    deleted_line,
    files_summary,
    named,
    snapshots_text,
    with_files,
)
from lakewright.cli.upkeep.work import Telling, Work, carry_out, plan_and_run

if TYPE_CHECKING:
    from lakewright.storage import RollbackPlan
    from lakewright.storage.operations.references.rollback import RollbackResult


@command(
    "rollback",
    plans=True,
    examples="lakewright rollback nyc.flights --tag before-the-import --dry-run",
)
@click.option(
    "--snapshot",
    metavar="N",
    type=FROM_1,
    help="As of this snapshot. One of --snapshot, --tag and --as-of is needed.",
)
@tag_option
@as_of_option
def rollback(
    call: Call, *, snapshot: int | None, tag: str | None, as_of: int | None
) -> Answer | None:
    """Let a table become what it was; later snapshots and tags go, and their files."""
    from lakewright.storage import RollbackPlan

    check_one_of(needed=call.plan is None, snapshot=snapshot, tag=tag, as_of=as_of)
    table = call.table()
    do = plan_and_run(
        lambda: table.history.plan_rollback(snapshot=snapshot, tag=tag, time=as_of),
        table.history.run_rollback,
        again=lambda plan: table.history.plan_rollback(
            snapshot=None if plan.restored_tag else plan.target_id, tag=plan.restored_tag
        ),
    )
    telling = Telling(
        is_empty=lambda plan: False,
        describe=_plan_lines,
        summary=files_summary,
        report=_result_lines,
        facts=lambda plan, result: {
            "snapshot_id": plan.target_id,
            "snapshots_deleted": list(plan.snapshot_ids),
            "tags_deleted": list(plan.tags),
            "restored_tag": plan.restored_tag,
            "consumers_reset": list(plan.consumers),
            **deleted_facts(result),
        },
    )
    return carry_out(call, table, Work(kind=RollbackPlan, do=do, telling=telling))


def _plan_lines(plan: RollbackPlan) -> list[str]:
    span = f"from snapshot {plan.latest_id} to {plan.target_id}"
    lines = [f"{plan.table} to go back {span}, {with_files(plan)}"]
    if plan.restored_tag is not None:
        lines.append(f"  snapshot {plan.target_id} expired; tag {plan.restored_tag} holds it")
    if plan.snapshot_ids:
        lines.append(f"  {snapshots_text(plan.snapshot_ids)} to go")
    if plan.tags:
        lines.append(f"  {named('tag', plan.tags)} to go")
    if plan.changelog_ids:
        lines.append(f"  {counted(len(plan.changelog_ids), 'long-lived changelog')} to go")
    if plan.consumers:
        after = f"to read on from {plan.target_id + 1}"
        lines.append(f"  {named('consumer', plan.consumers)} {after}")
    return lines


def _result_lines(plan: RollbackPlan, result: RollbackResult) -> list[str]:
    gone = f"{counted(result.snapshots_deleted, 'snapshot')}, {counted(result.tags_deleted, 'tag')}"
    done = f"{plan.table} is what it was at snapshot {plan.target_id}: {gone}"
    lines = [deleted_line(done, result)]
    if plan.restored_tag is not None:
        lines.append(f"  snapshot {plan.target_id} is back, of tag {plan.restored_tag}")
    if plan.tags:
        lines.append(f"  {named('tag', plan.tags)} deleted")
    if plan.consumers:
        names = named("consumer", plan.consumers)
        lines.append(f"  {names} set to read on from {plan.target_id + 1}")
    return lines
