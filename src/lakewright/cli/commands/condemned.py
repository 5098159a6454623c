"""`lakewright condemned`: what verbs have marked for deletion: list it, restore it, delete it."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.clean import COLLECT, PUT_BACK
from lakewright.platform.upkeep.words import size_text
from lakewright.storage import CondemnedRun


@command("list", examples="lakewright condemned list nyc.flights")
def _list(call: Call) -> Answer:
    """List what verbs have marked for deletion, and until when it can be restored."""
    table = call.table()
    found = table.upkeep.condemned()

    def text() -> list[Block]:
        if not found:
            return [f"nothing of {table.name} is marked for deletion"]
        return [TextTable(_COLUMNS, [_cells(each) for each in found])]

    return Answer(text=text, value=lambda: [_record(each) for each in found])


_COLUMNS = [
    TextColumn("id"),
    TextColumn("by the run"),
    TextColumn("since (UTC)"),
    TextColumn("until (UTC)"),
    TextColumn("files", right=True),
    TextColumn("size", right=True),
]


def _cells(run: CondemnedRun) -> list[Cell]:
    verb = run.run or run.verb.replace("_", " ")
    return [
        run.id,
        f"{verb}{_state(run)}",
        time_text(run.condemned_ms),
        time_text(run.due_ms),
        run.files,
        size_text(run.bytes),
    ]


def _state(run: CondemnedRun) -> str:
    if run.done:
        return ""
    return ", half done" if run.stopped else ", half done or in progress"


def _record(run: CondemnedRun) -> dict[str, object]:
    return {
        "id": run.id,
        "verb": run.verb,
        "run": run.run or None,
        "branch": run.branch or None,
        "since": iso_time(run.condemned_ms),
        "until": iso_time(run.due_ms),
        "file_count": run.files,
        "size_bytes": run.bytes,
        "done": run.done,
        "stopped": run.stopped,
    }


condemned = group(
    "condemned",
    "List what is marked for deletion, restore it, or delete it permanently.",
    [_list, verb_command(PUT_BACK), verb_command(COLLECT)],
)
