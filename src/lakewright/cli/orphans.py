"""`lakewright remove-orphans`: files that dead processes left behind."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

from lakewright.cli.layout import counted, duration_text, size_text
from lakewright.cli.output import print_json, print_lines
from lakewright.cli.references import show_deletion
from lakewright.cli.warehouse import open_table
from lakewright.storage import OrphansPlan
from lakewright.storage.operations.retention.remove_orphans import OrphansResult

# A plan names every file; people get the first of them, `--json` has them all.
_MOST_LINES = 40


def run_remove_orphans(parsed: argparse.Namespace) -> int:
    """Set aside or delete what nothing refers to, or say what that is."""
    table = open_table(parsed)
    plan = table.upkeep.plan_remove_orphans(
        age_ms=parsed.older_than, even_recent=parsed.even_recent
    )
    is_empty = not (plan.files or plan.wanted or plan.leftovers)
    if parsed.dry_run or (is_empty and not parsed.json):
        show_deletion(parsed, "remove-orphans", plan, _plan_lines(plan))
        return 0
    result = table.upkeep.run_remove_orphans(plan, quarantine=not parsed.at_once)
    if parsed.json:
        print_json(_result_json(plan, result))
    else:
        print_lines(_result_lines(plan, result))
    return 0


def first_paths(paths: Iterable[str]) -> list[str]:
    """A line for each of the first paths, and how many more there are."""
    listed = list(paths)
    lines = [f"  {path}" for path in listed[:_MOST_LINES]]
    if len(listed) > _MOST_LINES:
        lines.append(f"  … and {len(listed) - _MOST_LINES:,} more; --json has them all")
    return lines


def brought_back_lines(paths: Iterable[str]) -> list[str]:
    """What came back by itself, and why."""
    return [f"  {path} is back: something refers to it by now" for path in paths]


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


def _result_json(plan: OrphansPlan, result: OrphansResult) -> dict[str, object]:
    return {
        "operation": "remove-orphans",
        "table": plan.table,
        "quarantines": list(result.quarantine_ids),
        "files_moved": result.files_moved,
        "bytes_moved": result.bytes_moved,
        "files_deleted": result.files_deleted,
        "bytes_deleted": result.bytes_deleted,
        "brought_back": list(result.brought_back),
        "duration_ms": result.duration_ms,
    }
