"""`lakewright quarantine`: what was set aside, bringing it back, and deleting it for good."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.output.answers import Answer, listed
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.clean import PURGE, RESTORE
from lakewright.platform.upkeep.words import size_text
from lakewright.storage import Quarantine


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
        # Without the run, which JSON has.
        quarantine.reason.partition(" by ")[0] or "-",
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


_restore = verb_command(
    RESTORE,
    arguments={"quarantine": "ID", "paths": "[PATH…]"},
    notes="""
ID is a quarantine, as list names it; PATH are files of it, by their paths below the table
(default: all).
""",
    examples="lakewright quarantine restore nyc.flights 20240131-134500-1f0c2d3e --dry-run",
)


_purge = verb_command(
    PURGE,
    arguments={"quarantines": "[ID…]"},
    notes="""
ID are quarantines that go whatever their age. What something refers to by now is not deleted but
comes back.
""",
    examples="lakewright quarantine purge nyc.flights --older-than 30d --dry-run",
)


quarantine = group(
    "quarantine",
    "See files that were set aside, bring them back, or delete them for good.",
    [_list, _restore, _purge],
)
