"""`lakewright savings`: what upkeep cost and what it saved."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.values import age_ms
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell

if TYPE_CHECKING:
    from lakewright.platform.ledger.savings import Saving

_WEEK = "7d"
_MEANING = "two figures are ACTUAL / PREDICTED; an error is a median over runs (see --help)"


@command(
    "savings",
    of_table=False,
    examples="lakewright savings\nlakewright savings nyc.flights --since 30d --by verb",
    notes="""
Figures that were predicted are shown as ACTUAL / PREDICTED, times in columns of their own. An error
is a median: in half of the runs that were done, the prediction was closer to the actual value. The
error of times counts runs of a second and more; below that, time is overhead.
  predicted, took   the time of all runs
  read, wrote       bytes of data files
  files removed     files that a reader no longer opens
  bytes saved       bytes that a reader no longer reads, by compression, merging and drops
  freed             storage that was released
""",
)
@click.argument("table", metavar="[TABLE]", required=False)
@click.option(
    "--since",
    "since_ms",
    type=age_ms,
    metavar="AGE",
    default=_WEEK,
    show_default=True,
    help="Only actions that began within this time.",
)
@click.option(
    "--by",
    type=click.Choice(["table", "verb", "day"]),
    default="table",
    show_default=True,
    help="What the sums are for.",
)
def savings(call: Call, *, table: str | None, since_ms: int, by: str) -> Answer:
    """Sum up what upkeep cost and saved, predicted and actual, table by table."""
    from lakewright.cli.output.ledger_text import actions_since
    from lakewright.platform.ledger.savings import By, total
    from lakewright.platform.ledger.savings import savings as summed

    actions = actions_since(call, table=table, verb=None, since_ms=since_ms)
    found = summed(actions, By(by))
    return Answer(
        text=lambda: _text(by, [*found, total(actions)]) if found else ["no run is recorded"],
        value=lambda: [_record(by, each) for each in found],
    )


def _text(by: str, found: list[Saving]) -> list[Block]:
    columns = [
        TextColumn(by),
        *(
            TextColumn(name, right=True)
            for name in (
                "runs",
                "failed",
                "predicted",
                "took",
                "error",
                "read",
                "wrote",
                "files removed",
                "error",
                "snapshots removed",
                "bytes saved",
                "freed",
            )
        ),
    ]
    return [TextTable(columns, [_cells(each) for each in found]), "", _MEANING]


def _cells(saving: Saving) -> list[Cell]:
    from lakewright.platform.upkeep.words import duration_text, error_text, signed_size, size_text

    cost, benefit, error = saving.cost, saving.benefit, saving.error
    foreseen, hoped = saving.predicted_cost, saving.predicted_benefit
    return [
        saving.key,
        saving.runs,
        saving.failed,
        duration_text(foreseen.milliseconds),
        duration_text(cost.milliseconds),
        error_text(error.milliseconds),
        size_text(cost.bytes),
        f"{size_text(cost.bytes_written)} / {size_text(foreseen.bytes_written)}",
        f"{benefit.files_fewer:,} / {hoped.files_fewer:,}",
        error_text(error.files_fewer),
        f"{benefit.snapshots_fewer:,} / {hoped.snapshots_fewer:,}",
        f"{signed_size(benefit.bytes_fewer)} / {signed_size(hoped.bytes_fewer)}",
        f"{size_text(benefit.bytes_freed)} / {size_text(hoped.bytes_freed)}",
    ]


def _record(by: str, saving: Saving) -> dict[str, object]:
    """Flat, so that CSV has the same columns."""
    record: dict[str, object] = {by: saving.key}
    for name, value in asdict(saving).items():
        if name == "key":
            continue
        if isinstance(value, dict):
            record |= {f"{name}_{each}": one for each, one in value.items()}
        else:
            record[name] = value
    return record
