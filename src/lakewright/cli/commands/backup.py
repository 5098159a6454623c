"""`lakewright backup`: which files make a copy of a table, and the copy as a table again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.output.answers import Answer, said
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage.files.paths import DATABASE_SUFFIX

if TYPE_CHECKING:
    from lakewright.storage import BackupFile

_TAG = click.option("--tag", "tag", metavar="NAME", required=True, help="The tag that is copied.")


@command(
    "list",
    notes="""
Prints a path a line, below the warehouse, as rclone copy --files-from takes them. None of these
files ever changes, and none goes while the tag is there: copy them in any order, and again if it
was cut off.
""",
    examples="lakewright tag create nyc.flights monday\n"
    "lakewright backup list nyc.flights --tag monday > files",
)
@_TAG
def _list(call: Call, *, tag: str) -> Answer:
    """List the files of a table that a copy of a tag needs."""
    table = call.table()
    found = table.history.backup_files(tag)
    database, name = table.name.split(".", 1)
    folder = f"{database}{DATABASE_SUFFIX}/{name}"
    return Answer(
        text=lambda: [f"{folder}/{each.path}" for each in found],
        value=lambda: [{**_record(each), "path": f"{folder}/{each.path}"} for each in found],
    )


def _record(file: BackupFile) -> dict[str, object]:
    return {"path": file.path, "size_bytes": file.size_bytes}


@command(
    "verify",
    notes="Reads the copy's own metadata, and compares the lengths of its files with it.",
    examples="lakewright --warehouse ./copy backup verify nyc.flights --tag monday",
)
@_TAG
def _verify(call: Call, *, tag: str) -> Answer:
    """Check that a copy has every file of a tag."""
    table = call.table()
    found = table.history.check_backup(tag)
    size = sum(each.size_bytes or 0 for each in found)
    return said(
        f"tag {tag} of {table.name} is whole: {counted(len(found), 'file')}, {size_text(size)}",
        tag=tag,
        files=len(found),
        bytes=size,
    )


@command(
    "restore",
    notes="Checks the copy first. Only a copy without snapshots is restored.",
    examples="lakewright --warehouse ./copy backup restore nyc.flights --tag monday",
)
@_TAG
def _restore(call: Call, *, tag: str) -> Answer:
    """Make the state of a tag the only snapshot of a copy."""
    table = call.table()
    snapshot = table.history.restore_backup(tag)
    return said(
        f"{table.name} has snapshot {snapshot.id}, as tag {tag} had it",
        tag=tag,
        snapshot_id=snapshot.id,
    )


backup = group(
    "backup",
    "List the files of a consistent copy of a table, verify the copy, and restore it.",
    [_list, _verify, _restore],
)
