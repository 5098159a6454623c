"""`lakewright remove-orphans`: files that dead processes left behind."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import older_than_option
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.text import counted, duration_text, size_text
from lakewright.cli.upkeep.deletions import brought_back_lines, files_summary, first_paths
from lakewright.cli.upkeep.work import Work, carry_out

if TYPE_CHECKING:
    from lakewright.storage import OrphansPlan
    from lakewright.storage.operations.retention.remove_orphans import OrphansResult


@command(
    "remove-orphans",
    plans=True,
    notes="They go to a quarantine beside the table: see lakewright quarantine --help.",
    examples="lakewright remove-orphans nyc.flights --older-than 3d --dry-run",
)
@older_than_option(
    help="Only files of at least that age by the clock of the store (default: 1d); a write that is "
    "under way longer loses its files."
)
@click.option(
    "--even-recent",
    is_flag=True,
    help="Let AGE be less than an hour: no process writes to the table.",
)
@click.option("--delete", is_flag=True, help="Delete them at once, with no way back.")
def remove_orphans(
    call: Call, *, older_than: int | None, even_recent: bool, delete: bool
) -> Answer | None:
    """Set aside files that nothing refers to, left behind by processes that died."""
    from lakewright.storage import OrphansPlan

    table = call.table()
    work = Work(
        kind=OrphansPlan,
        plan=lambda: table.plan_remove_orphans(age_ms=older_than, even_recent=even_recent),
        is_empty=lambda plan: not (plan.files or plan.wanted or plan.leftovers),
        describe=_plan_lines,
        summary=files_summary,
        run=lambda plan, steps: table.run_remove_orphans(plan, quarantine=not delete),
        report=_result_lines,
        facts=lambda plan, result: {
            "quarantines": list(result.quarantine_ids),
            "files_moved": result.files_moved,
            "bytes_moved": result.bytes_moved,
            "files_deleted": result.files_deleted,
            "bytes_deleted": result.bytes_deleted,
            "brought_back": list(result.brought_back),
            "duration_ms": result.duration_ms,
        },
    )
    return carry_out(call, table, work)


def _plan_lines(plan: OrphansPlan) -> list[str]:

    lines = [f"no file of {plan.table} is an orphan"]
    if plan.files:
        count = counted(len(plan.files), "file")
        lines = [f"{count} of {plan.table} that nothing refers to, {size_text(plan.bytes)}"]
    lines += first_paths(file.path for file in plan.files)
    if plan.wanted:
        count = counted(len(plan.wanted), "file")
        lines.append(f"{count} in quarantine that something refers to by now, to come back")
        lines += first_paths(plan.wanted)
    if plan.leftovers:
        lines.append(f"{counted(len(plan.leftovers), 'file')} that upkeep did not finish, to go")
    return lines


def _result_lines(plan: OrphansPlan, result: OrphansResult) -> list[str]:

    took = duration_text(result.duration_ms)
    if result.files_deleted:
        count, size = counted(result.files_deleted, "file"), size_text(result.bytes_deleted)
        lines = [f"orphans of {plan.table} deleted; {count}, {size} in {took}"]
    else:
        count, size = counted(result.files_moved, "file"), size_text(result.bytes_moved)
        lines = [f"orphans of {plan.table} set aside; {count}, {size} in {took}"]
    # Quoted, since a shell would take what follows the dollar of a branch for a variable.
    table = shlex.quote(plan.table)
    for each in result.quarantine_ids:
        lines.append(f"  bring them back:  lakewright quarantine restore {table} {each}")
    if result.quarantine_ids:
        lines.append(f"  delete them for good, after a week:  lakewright quarantine purge {table}")
    return lines + brought_back_lines(result.brought_back)
