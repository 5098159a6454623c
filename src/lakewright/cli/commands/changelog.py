"""`lakewright changelog`: changes that outlived their snapshots."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.output.answers import Answer, listed
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.expire import EXPIRE_CHANGELOGS
from lakewright.storage import Snapshot


@command("list", examples="lakewright changelog list nyc.flights")
def _list(call: Call) -> Answer:
    """List a table's long-lived changelogs."""
    table = call.table()
    return listed(
        table.history.changelogs(),
        [
            TextColumn("of snapshot", right=True),
            TextColumn("committed (UTC)"),
            TextColumn("kind"),
            TextColumn("changes", right=True),
        ],
        cells=_cells,
        record=_record,
        empty=f"no changelog of {table.name} has outlived its snapshot",
    )


def _cells(snapshot: Snapshot) -> list[Cell]:
    kind, changes = snapshot.commit_kind.value, snapshot.changelog_record_count or 0
    return [str(snapshot.id), time_text(snapshot.time_millis), kind, changes]


def _record(snapshot: Snapshot) -> dict[str, object]:
    return {
        "snapshot_id": snapshot.id,
        "committed": iso_time(snapshot.time_millis),
        "kind": snapshot.commit_kind.value,
        "changelog_record_count": snapshot.changelog_record_count,
    }


changelog = group(
    "changelog",
    "See and expire changes that outlived their snapshots.",
    [_list, verb_command(EXPIRE_CHANGELOGS)],
)
