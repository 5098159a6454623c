"""`lakewright remove-orphans`: files that dead processes left behind."""

from __future__ import annotations

import shlex

from lakewright.cli.output.text import counted, duration_text, size_text
from lakewright.cli.upkeep.deletions import brought_back_lines, files_summary, first_paths
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.cli.upkeep.work import Telling
from lakewright.platform.upkeep.clean import REMOVE_ORPHANS
from lakewright.storage import OrphansPlan, Table
from lakewright.storage.operations.retention.remove_orphans import OrphansResult


def _telling(_: Table) -> Telling[OrphansPlan, OrphansResult]:
    return Telling(
        is_empty=lambda plan: not (plan.files or plan.wanted or plan.leftovers),
        describe=_plan_lines,
        summary=files_summary,
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


remove_orphans = verb_command(
    REMOVE_ORPHANS,
    notes="They go to a quarantine beside the table: see lakewright quarantine --help.",
    examples="lakewright remove-orphans nyc.flights --older-than 3d --dry-run",
    telling=_telling,
    flags={"at_once": "--delete"},
)
