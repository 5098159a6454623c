"""`lakewright quarantine`: what was set aside, bringing it back, and deleting it for good."""

from __future__ import annotations

from dataclasses import dataclass

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.clean import PURGE, RESTORE
from lakewright.platform.upkeep.words import size_text
from lakewright.storage import Quarantine
from lakewright.storage.spec.quarantine import QuarantinedFile


@command(
    "list",
    examples="""
lakewright quarantine list nyc.flights
lakewright quarantine list nyc.flights --files
""",
)
@click.option("--files", is_flag=True, help="List the files, too.")
def _list(call: Call, files: bool) -> Answer:
    """List a table's quarantines."""
    table = call.table()
    # Memory holds the files of one quarantine at a time, unless they are asked for.
    found = [_Counted.of(each, named=files) for each in table.upkeep.each_quarantine()]

    def text() -> list[Block]:
        if not found:
            return [f"nothing of {table.name} is in quarantine"]
        blocks: list[Block] = [TextTable(_COLUMNS, [each.cells for each in found])]
        if files:
            rows = [
                [each.id, file.path, size_text(file.size_bytes)]
                for each in found
                for file in each.named or ()
            ]
            blocks.append(TextTable(_FILE_COLUMNS, rows))
        return [*blocks, *(f"{each.id}: {each.problem}" for each in found if each.problem)]

    return Answer(text=text, value=lambda: [each.record for each in found])


_COLUMNS = [
    TextColumn("quarantine"),
    TextColumn("since (UTC)"),
    TextColumn("by"),
    TextColumn("files", right=True),
    TextColumn("size", right=True),
]
_FILE_COLUMNS = [TextColumn("quarantine"), TextColumn("file"), TextColumn("size", right=True)]


@dataclass(frozen=True, slots=True)
class _Counted:
    """A quarantine with the number of its files; `named` are the files if they are asked for."""

    id: str
    created_ms: int | None
    reason: str
    file_count: int
    size_bytes: int
    problem: str
    named: tuple[QuarantinedFile, ...] | None

    @classmethod
    def of(cls, quarantine: Quarantine, *, named: bool) -> _Counted:
        return cls(
            quarantine.id,
            quarantine.created_ms,
            quarantine.reason,
            len(quarantine.files),
            quarantine.bytes,
            quarantine.problem,
            quarantine.files if named else None,
        )

    @property
    def cells(self) -> list[Cell]:
        return [
            self.id,
            "-" if self.created_ms is None else time_text(self.created_ms),
            # Without the run, which JSON has.
            self.reason.partition(" by ")[0] or "-",
            self.file_count,
            size_text(self.size_bytes),
        ]

    @property
    def record(self) -> dict[str, object]:
        told: dict[str, object] = {
            "quarantine": self.id,
            "since": None if self.created_ms is None else iso_time(self.created_ms),
            "reason": self.reason,
            "file_count": self.file_count,
            "size_bytes": self.size_bytes,
            "problem": self.problem or None,
        }
        return told if self.named is None else {**told, "files": [*map(_record, self.named)]}


def _record(file: QuarantinedFile) -> dict[str, object]:
    return {
        "path": file.path,
        "size_bytes": file.size_bytes,
        "modified": iso_time(file.modified_ms),
        "crc32": None if file.crc32 is None else f"{file.crc32:08x}",
    }


quarantine = group(
    "quarantine",
    "List files in quarantine, restore them, or delete them for good.",
    [_list, verb_command(RESTORE), verb_command(PURGE)],
)
