"""`lakewright retention`: what other ages of snapshots would free, and what they would lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import FROM_1
from lakewright.cli.grammar.values import age_ms
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.progress import shown_steps
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell
from lakewright.platform.upkeep.retention import DEFAULT_AGES_MS, holder_text

if TYPE_CHECKING:
    from lakewright.storage.operations.retention.retention_outlook import RetentionOutlook


@command(
    "retention",
    notes="""
Reads metadata alone, and writes nothing. Each row is an expiry that keeps what is younger than the
age: the snapshots that would go and stay, the moment back to which the table could still be read as
it was, and the files and bytes that would be freed. Tags and branches stay readable, and keep their
files; consumers hold the snapshots back that they have not read.
""",
    examples="""
lakewright retention nyc.flights
lakewright retention nyc.flights 3d 7d 30d --retain-min 5 --format json
""",
)
@click.argument("ages", metavar="[AGE]…", nargs=-1, type=age_ms)
@click.option("--retain-min", type=FROM_1, metavar="N", help="Snapshots that stay in any case.")
@click.option("--retain-max", type=FROM_1, metavar="N", help="Snapshots that may stay at most.")
def retention(
    call: Call, *, ages: tuple[int, ...], retain_min: int | None, retain_max: int | None
) -> Answer:
    """Print what other retention times of a table would free, keep and lose."""
    from lakewright.storage.operations.retention.retention_outlook import retention_outlook

    table = call.table()
    with shown_steps() as steps:
        steps.begin("reading the history")
        found = retention_outlook(
            table.table_files,
            ages or DEFAULT_AGES_MS,
            retain_min=retain_min,
            retain_max=retain_max,
        )
    return Answer(text=lambda: _text(found), value=lambda: [asdict(each) for each in found])


_COLUMNS = [
    TextColumn("keep", right=True),
    TextColumn("snapshots gone", right=True),
    TextColumn("left", right=True),
    TextColumn("readable back to"),
    TextColumn("files freed", right=True),
    TextColumn("freed", right=True),
    TextColumn("kept by"),
]


def _text(found: Sequence[RetentionOutlook]) -> Sequence[Block]:
    reasons = dict.fromkeys(reason for each in found for reason in each.reasons)
    return [
        TextTable(_COLUMNS, [_cells(each) for each in found]),
        "",
        *reasons,
        "nothing was written; `lakewright expire-snapshots --older-than AGE` does it",
    ]


def _cells(each: RetentionOutlook) -> list[Cell]:
    from lakewright.platform.upkeep.retention import age_text
    from lakewright.platform.upkeep.words import size_text, time_text

    return [
        age_text(each.time_retained_ms),
        f"{each.gone:,}",
        f"{each.left:,}",
        "" if each.back_to_ms is None else time_text(each.back_to_ms),
        f"{each.files:,}",
        size_text(each.bytes),
        ", ".join(map(holder_text, each.held_by)),
    ]
