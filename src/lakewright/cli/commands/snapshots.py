"""`lakewright snapshots`: the states of a table, oldest first."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, listed
from lakewright.cli.output.partitions import rows_title
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text

if TYPE_CHECKING:
    from lakewright.storage import Snapshot


@command(
    "snapshots",
    notes="What upkeep did to tables, and what that cost: lakewright ledger.",
    examples="lakewright snapshots nyc.flights\nlakewright snapshots nyc.flights --format csv",
)
def snapshots(call: Call) -> Answer:
    """List a table's snapshots."""
    table = call.table()
    return listed(
        table.history.snapshots(),
        [
            TextColumn("snapshot", right=True),
            TextColumn("committed (UTC)"),
            TextColumn("kind"),
            TextColumn(rows_title(table.table_files), right=True),
            TextColumn("change", right=True),
            TextColumn("schema", right=True),
            TextColumn("commit user"),
        ],
        cells=_cells,
        record=_record,
        empty=f"{table.name} has no snapshot: nothing was committed yet",
    )


def _cells(snapshot: Snapshot) -> list[Cell]:
    return [
        str(snapshot.id),
        time_text(snapshot.time_millis),
        snapshot.commit_kind.value,
        snapshot.total_record_count,
        f"{snapshot.delta_record_count:+,}",
        str(snapshot.schema_id),
        snapshot.commit_user,
    ]


def _record(snapshot: Snapshot) -> dict[str, object]:
    kind, time = snapshot.commit_kind.value, iso_time(snapshot.time_millis)
    return {**asdict(snapshot), "commit_kind": kind, "time": time}
