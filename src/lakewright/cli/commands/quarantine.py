"""`lakewright quarantine`: what was set aside, bringing it back, and deleting it for good."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.output.answers import Answer, listed
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, counted, duration_text, iso_time, size_text, time_text
from lakewright.cli.upkeep.deletions import (
    brought_back_lines,
    deleted_facts,
    deleted_line,
    files_summary,
    first_paths,
)
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.cli.upkeep.work import Telling
from lakewright.platform.upkeep.clean import PURGE, RESTORE
from lakewright.storage import PurgePlan, Quarantine, RestorePlan, Table
from lakewright.storage.operations.retention.purge_quarantine import PurgeResult
from lakewright.storage.operations.retention.restore_files import RestoreResult


@command("list", examples="lakewright quarantine list nyc.flights")
def _list(call: Call) -> Answer:
    """List a table's quarantines."""
    table = call.table()
    quarantines = table.upkeep.quarantines()
    answer = listed(
        quarantines,
        [
            TextColumn("quarantine"),
            TextColumn("since (UTC)"),
            TextColumn("by"),
            TextColumn("files", right=True),
            TextColumn("size", right=True),
        ],
        cells=_cells,
        record=_record,
        empty=f"nothing of {table.name} is in quarantine",
    )
    problems = [f"{each.id}: {each.problem}" for each in quarantines if each.problem]
    return Answer(text=lambda: [*answer.text(), *problems], value=answer.value)


def _cells(quarantine: Quarantine) -> list[Cell]:
    return [
        quarantine.id,
        "-" if quarantine.created_ms is None else time_text(quarantine.created_ms),
        quarantine.reason or "-",
        len(quarantine.files),
        size_text(quarantine.bytes),
    ]


def _record(quarantine: Quarantine) -> dict[str, object]:
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


def _restore_telling(_: Table) -> Telling[RestorePlan, RestoreResult]:
    return Telling(
        is_empty=lambda plan: False,
        describe=_restore_lines,
        summary=files_summary,
        report=_restored_lines,
        facts=lambda plan, result: {
            "quarantine": plan.quarantine_id,
            "files_restored": result.files_restored,
            "bytes_restored": result.bytes_restored,
            "missing": list(result.missing),
            "duration_ms": result.duration_ms,
        },
    )


def _restore_lines(plan: RestorePlan) -> list[str]:
    count = f"{counted(len(plan.files), 'file')} of {plan.table}"
    lines = [f"{count} to come back, {size_text(plan.bytes)}"]
    return lines + first_paths(file.path for file in plan.files)


def _restored_lines(plan: RestorePlan, result: RestoreResult) -> list[str]:
    count, size = counted(result.files_restored, "file"), size_text(result.bytes_restored)
    took = duration_text(result.duration_ms)
    return [
        f"{count} of {plan.table} restored, {size} in {took}",
        *(f"  {path} is not in quarantine any more" for path in result.missing),
        "  what nothing refers to is an orphan again, for the next remove-orphans",
    ]


_restore = verb_command(
    RESTORE,
    arguments={"quarantine": "ID", "paths": "[PATH…]"},
    notes="""
ID is a quarantine, as list names it; PATH are files of it, by their paths below the table
(default: all).
""",
    examples="lakewright quarantine restore nyc.flights 20240131-134500-1f0c2d3e --dry-run",
    telling=_restore_telling,
)


def _purge_telling(_: Table) -> Telling[PurgePlan, PurgeResult]:
    return Telling(
        is_empty=lambda plan: not plan.quarantine_ids,
        describe=_purge_lines,
        summary=files_summary,
        report=_purged_lines,
        facts=lambda plan, result: {
            "quarantines": list(plan.quarantine_ids),
            "brought_back": list(result.brought_back),
            **deleted_facts(result),
        },
    )


def _purge_lines(plan: PurgePlan) -> list[str]:
    say = [f"nothing of {plan.table} has been in quarantine for long enough"]
    if plan.quarantine_ids:
        files = f"{counted(len(plan.files), 'file')}, {size_text(plan.bytes)}"
        say = [f"{counted(len(plan.quarantine_ids), 'quarantine')} of {plan.table} to go, {files}"]
        say += [f"  {each}" for each in plan.quarantine_ids]
    say += [f"  {path} is to come back: something refers to it" for path in plan.wanted]
    return say + [f"  {reason}" for reason in plan.reasons]


def _purged_lines(plan: PurgePlan, result: PurgeResult) -> list[str]:

    done = f"{counted(len(plan.quarantine_ids), 'quarantine')} of {plan.table} purged"
    return [deleted_line(done, result), *brought_back_lines(result.brought_back)]


_purge = verb_command(
    PURGE,
    arguments={"quarantines": "[ID…]"},
    notes="""
ID are quarantines that go whatever their age. What something refers to by now is not deleted but
comes back.
""",
    examples="lakewright quarantine purge nyc.flights --older-than 30d --dry-run",
    telling=_purge_telling,
)


quarantine = group(
    "quarantine",
    "See files that were set aside, bring them back, or delete them for good.",
    [_list, _restore, _purge],
)
