"""`lakewright quarantine`: what was set aside, bringing it back, and deleting it for good."""

from __future__ import annotations

import argparse
import json

from lakewright.cli.layout import (
    Cell,
    TextColumn,
    counted,
    duration_text,
    iso_time,
    size_text,
    time_text,
)
from lakewright.cli.orphans import brought_back_lines, first_paths
from lakewright.cli.output import print_json, print_lines, print_table
from lakewright.cli.references import report_deletion, show_deletion
from lakewright.cli.warehouse import open_table
from lakewright.storage import Quarantine, Table
from lakewright.storage.errors import InvalidRequestError


def run_quarantine(parsed: argparse.Namespace) -> int:
    """Carry out a verb of `quarantine`."""
    table = open_table(parsed)
    match parsed.verb:
        case "list":
            _list(parsed, table)
        case "restore":
            _restore(parsed, table)
        case _:
            _purge(parsed, table)
    return 0


def _list(parsed: argparse.Namespace, table: Table) -> None:
    quarantines = table.upkeep.quarantines()
    if parsed.json:
        print_json([_quarantine_json(each) for each in quarantines])
        return
    columns = [
        TextColumn("quarantine"),
        TextColumn("since (UTC)"),
        TextColumn("by"),
        TextColumn("files", right=True),
        TextColumn("size", right=True),
    ]
    rows: list[list[Cell]] = [
        [
            each.id,
            "-" if each.created_ms is None else time_text(each.created_ms),
            each.reason or "-",
            len(each.files),
            size_text(each.bytes),
        ]
        for each in quarantines
    ]
    print_table(columns, rows, empty=f"nothing of {table.name} is in quarantine")
    print_lines(f"{each.id}: {each.problem}" for each in quarantines if each.problem)


def _quarantine_json(quarantine: Quarantine) -> dict[str, object]:
    created_ms = quarantine.created_ms
    return {
        "quarantine": quarantine.id,
        "since": None if created_ms is None else iso_time(created_ms),
        "reason": quarantine.reason,
        "size_bytes": quarantine.bytes,
        "problem": quarantine.problem or None,
        "files": [
            {
                "path": file.path,
                "size_bytes": file.size_bytes,
                "modified": iso_time(file.modified_ms),
                "crc32": None if file.crc32 is None else f"{file.crc32:08x}",
            }
            for file in quarantine.files
        ],
    }


def _restore(parsed: argparse.Namespace, table: Table) -> None:
    plan = table.upkeep.plan_restore(parsed.quarantine, paths=parsed.paths or None)
    what = f"{counted(len(plan.files), 'file')} of {plan.table}"
    if parsed.dry_run:
        if parsed.json:
            summary = {"files": len(plan.files), "size_bytes": plan.bytes}
            print_json({"operation": "restore", "summary": summary, **json.loads(plan.to_json())})
            return
        print_lines([f"{what} to come back, {size_text(plan.bytes)}"])
        print_lines(first_paths(file.path for file in plan.files))
        print_lines(["dry run: nothing was written"])
        return
    result = table.upkeep.run_restore(plan)
    if parsed.json:
        print_json(
            {
                "operation": "restore",
                "table": plan.table,
                "quarantine": plan.quarantine_id,
                "files_restored": result.files_restored,
                "bytes_restored": result.bytes_restored,
                "missing": list(result.missing),
                "duration_ms": result.duration_ms,
            }
        )
        return
    count, size = counted(result.files_restored, "file"), size_text(result.bytes_restored)
    took = duration_text(result.duration_ms)
    print_lines([f"{count} of {plan.table} restored, {size} in {took}"])
    print_lines(f"  {path} is not in quarantine any more" for path in result.missing)
    print_lines(["  what nothing refers to is an orphan again, for the next remove-orphans"])


def _purge(parsed: argparse.Namespace, table: Table) -> None:
    if parsed.quarantines and parsed.older_than is not None:
        raise InvalidRequestError("name quarantines, or an age, but not both")
    plan = table.upkeep.plan_purge(ttl_ms=parsed.older_than, quarantine_ids=parsed.quarantines)
    say = [f"nothing of {plan.table} has been in quarantine for long enough"]
    if plan.quarantine_ids:
        files = f"{counted(len(plan.files), 'file')}, {size_text(plan.bytes)}"
        say = [f"{counted(len(plan.quarantine_ids), 'quarantine')} of {plan.table} to go, {files}"]
        say += [f"  {each}" for each in plan.quarantine_ids]
    say += [f"  {path} is to come back: something refers to it" for path in plan.wanted]
    say += [f"  {reason}" for reason in plan.reasons]
    if parsed.dry_run or (not plan.quarantine_ids and not parsed.json):
        show_deletion(parsed, "purge", plan, say)
        return
    result = table.upkeep.run_purge(plan)
    extra: dict[str, object] = {
        "quarantines": list(plan.quarantine_ids),
        "brought_back": list(result.brought_back),
    }
    done = f"{counted(len(plan.quarantine_ids), 'quarantine')} of {plan.table} purged"
    report_deletion(parsed, "purge", plan, result, done, extra)
    if not parsed.json:
        print_lines(brought_back_lines(result.brought_back))
