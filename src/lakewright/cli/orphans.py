"""`lakewright remove-orphans`: files that dead processes left behind."""

from __future__ import annotations

import argparse

from lakewright.cli.layout import counted, size_text
from lakewright.cli.references import report_deletion, show_deletion
from lakewright.cli.warehouse import open_table
from lakewright.storage.spec.option_values import parse_duration_ms

# A plan names every file; people get the first of them, `--json` has them all.
_MOST_LINES = 40


def run_remove_orphans(parsed: argparse.Namespace) -> int:
    """Delete what nothing refers to, or say what that is."""
    table = open_table(parsed)
    older_than = None
    if parsed.older_than is not None:
        older_than = table.files.env.now_ms() - parse_duration_ms(parsed.older_than)
    plan = table.plan_remove_orphans(older_than_ms=older_than)
    if not plan.files:
        lines = [f"no file of {plan.table} is an orphan"]
    else:
        count = counted(len(plan.files), "file")
        lines = [f"{count} of {plan.table} that nothing refers to, {size_text(plan.bytes)}"]
    lines += [f"  {file.path}" for file in plan.files[:_MOST_LINES]]
    if len(plan.files) > _MOST_LINES:
        lines.append(f"  … and {len(plan.files) - _MOST_LINES:,} more; --json has them all")
    if parsed.dry_run or (not plan.files and not parsed.json):
        show_deletion(parsed, "remove-orphans", plan, lines)
        return 0
    result = table.run_remove_orphans(plan)
    report_deletion(parsed, "remove-orphans", plan, result, f"orphans of {plan.table} removed", {})
    return 0
