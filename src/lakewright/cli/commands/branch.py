"""`lakewright branch`: second histories of a table, which share its files."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of, needed
from lakewright.cli.grammar.command import command, group
from lakewright.cli.grammar.options import FROM_1
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, counted, iso_time, time_text
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
    from lakewright.storage import Branch, DeleteBranchPlan, FastForwardPlan, Table
    from lakewright.storage.operations.references.branches import BranchResult


@command("list", examples="lakewright branch list nyc.flights")
def _list(call: Call) -> Answer:
    """List a table's branches."""
    table = call.table()
    return listed(
        table.history.branches(),
        [
            TextColumn("branch"),
            TextColumn("created (UTC)"),
            TextColumn("earliest snapshot", right=True),
            TextColumn("latest snapshot", right=True),
            TextColumn("its table"),
        ],
        cells=lambda each: _cells(table, each),
        record=lambda each: {**asdict(each), "created": iso_time(each.created_ms)},
        empty=f"{table.name} has no branch besides main",
    )


def _cells(table: Table, branch: Branch) -> list[Cell]:
    return [
        branch.name,
        time_text(branch.created_ms),
        "-" if branch.earliest_snapshot_id is None else str(branch.earliest_snapshot_id),
        "-" if branch.latest_snapshot_id is None else str(branch.latest_snapshot_id),
        shlex.quote(table.history.at_branch(branch.name).name),
    ]


@command("create", examples="lakewright branch create nyc.flights trial --tag q4")
@click.argument("name", metavar="BRANCH")
@click.option("--tag", metavar="TAG", help="Begin at this tag.")
@click.option("--snapshot", metavar="N", type=FROM_1, help="Begin at this snapshot.")
def _create(call: Call, *, name: str, tag: str | None, snapshot: int | None) -> Answer:
    """Begin a branch where a tag or snapshot is, without either empty."""
    check_one_of(tag=tag, snapshot=snapshot)
    table = call.table()
    branch = table.history.create_branch(name, tag=tag, snapshot=snapshot)
    latest = branch.history.latest_snapshot()
    where = "empty" if latest is None else f"at snapshot {latest.id}"
    # Quoted, since a shell would take what follows the dollar for a variable.
    lines = [f"branch {name} of {table.name} begins {where}: {shlex.quote(branch.name)}"]
    if latest is None and table.history.latest_snapshot() is not None:
        lines.append(
            f"  without the rows of {table.name}, whose history a fast-forward would drop; "
            "--tag or --snapshot begins where the table is"
        )
    snapshot_id = None if latest is None else latest.id
    return said(*lines, branch=name, table=branch.name, snapshot_id=snapshot_id)


@command("delete", plans=True, examples="lakewright branch delete nyc.flights trial --dry-run")
@click.argument("name", metavar="BRANCH", required=False)
def _delete(call: Call, *, name: str | None) -> Answer | None:
    """Delete a branch, and the files that it alone keeps."""
    from lakewright.storage import DeleteBranchPlan

    table = call.table()

    def describe(plan: DeleteBranchPlan) -> list[str]:
        snapshots, tags = (
            counted(len(plan.snapshot_ids), "snapshot"),
            counted(len(plan.tags), "tag"),
        )
        what = f"branch {plan.branch} of {plan.table}"
        return [f"{what} to go: {snapshots}, {tags}, {with_files(plan)}"]

    do = plan_and_run(
        lambda: table.history.plan_delete_branch(needed(name, "BRANCH")),
        table.history.run,
        again=lambda plan: table.history.plan_delete_branch(plan.branch),
    )
    telling: Telling[DeleteBranchPlan, BranchResult] = Telling(
        is_empty=lambda plan: False,
        describe=describe,
        summary=files_summary,
        report=lambda plan, result: [
            deleted_line(f"branch {plan.branch} of {plan.table} deleted", result)
        ],
        facts=lambda plan, result: {
            "branch": plan.branch,
            "snapshots": len(plan.snapshot_ids),
            **deleted_facts(result),
        },
    )
    return carry_out(call, table, Work(kind=DeleteBranchPlan, do=do, telling=telling))


@command(
    "fast-forward",
    plans=True,
    notes="The table's own snapshots since the branch began go; all of them if it began empty.",
    examples="lakewright branch fast-forward nyc.flights trial --dry-run",
)
@click.argument("name", metavar="BRANCH", required=False)
def _fast_forward(call: Call, *, name: str | None) -> Answer | None:
    """Let the table become what a branch is."""
    from lakewright.storage import FastForwardPlan

    table = call.table()
    do = plan_and_run(
        lambda: table.history.plan_fast_forward(needed(name, "BRANCH")),
        table.history.run,
        again=lambda plan: table.history.plan_fast_forward(plan.branch),
    )
    telling: Telling[FastForwardPlan, BranchResult] = Telling(
        is_empty=lambda plan: False,
        describe=_forward_lines,
        summary=files_summary,
        report=lambda plan, result: [
            deleted_line(
                f"main of {plan.table} is branch {plan.branch}, snapshot {_last(plan)}", result
            )
        ],
        facts=lambda plan, result: {
            "branch": plan.branch,
            "snapshot_id": _last(plan),
            "snapshots_deleted": list(plan.lost_snapshot_ids),
            "tags_deleted": list(plan.lost_tags),
            **deleted_facts(result),
        },
    )
    return carry_out(call, table, Work(kind=FastForwardPlan, do=do, telling=telling))


def _last(plan: FastForwardPlan) -> int:
    return max(plan.new_snapshot_ids)


def _forward_lines(plan: FastForwardPlan) -> list[str]:
    lines = [f"main of {plan.table} to become branch {plan.branch}, snapshot {_last(plan)}"]
    if plan.lost_snapshot_ids:
        lost = snapshots_text(plan.lost_snapshot_ids)
        lines.append(f"  {lost} of main to go, {with_files(plan)}")
    if plan.lost_tags:
        lines.append(f"  {named('tag', plan.lost_tags)} of main to go")
    if plan.consumers:
        consumers = named("consumer", plan.consumers)
        lines.append(f"  {consumers} to read on from {plan.shared_id + 1}")
    return lines


branch = group(
    "branch",
    "Keep second histories of a table, which share its files.",
    [_list, _create, _delete, _fast_forward],
    notes="The table of a branch is 'DB.TABLE$branch_NAME', for every command.",
)
