"""`lakewright tag`: names of states of a table, which outlive expiry."""

from __future__ import annotations

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.grammar.options import FROM_1
from lakewright.cli.grammar.values import age_ms
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.partitions import rows_title
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.expire import EXPIRE_TAGS
from lakewright.platform.upkeep.history import DELETE_TAGS
from lakewright.storage import Tag
from lakewright.storage.errors import InvalidRequestError


@command("list", examples="lakewright tag list nyc.flights")
def _list(call: Call) -> Answer:
    """List a table's tags."""
    table = call.table()
    return listed(
        table.history.tags(),
        [
            TextColumn("tag"),
            TextColumn("snapshot", right=True),
            TextColumn("committed (UTC)"),
            TextColumn(rows_title(table.table_files), right=True),
            TextColumn("retained (local)"),
        ],
        cells=_cells,
        record=_record,
        empty=f"{table.name} has no tag",
    )


def _cells(tag: Tag) -> list[Cell]:
    until = "until deleted"
    if tag.expires_at is not None:
        until = f"until {tag.expires_at:%Y-%m-%d %H:%M:%S}"
    return [
        tag.name,
        str(tag.snapshot.id),
        time_text(tag.snapshot.time_millis),
        tag.snapshot.total_record_count,
        until,
    ]


def _record(tag: Tag) -> dict[str, object]:
    return {
        "tag": tag.name,
        "snapshot_id": tag.snapshot.id,
        "schema_id": tag.snapshot.schema_id,
        "committed": iso_time(tag.snapshot.time_millis),
        "total_record_count": tag.snapshot.total_record_count,
        "create_time": None if tag.create_time is None else tag.create_time.isoformat(),
        "time_retained_ms": tag.time_retained_ms,
        "expires_at": None if tag.expires_at is None else tag.expires_at.isoformat(),
    }


@command(
    "create",
    examples="lakewright tag create nyc.flights before-the-import\n"
    "lakewright tag create nyc.flights q4 --snapshot 12 --retain 90d",
)
@click.argument("name", metavar="TAG")
@click.option("--snapshot", metavar="N", type=FROM_1, help="This snapshot (default: the latest).")
@click.option(
    "--retain",
    metavar="AGE",
    type=age_ms,
    help="Let the tag expire after this time, as 12h or 90d (default: the table's option).",
)
@click.option("--replace", is_flag=True, help="Move an existing tag to another snapshot.")
def _create(
    call: Call, *, name: str, snapshot: int | None, retain: int | None, replace: bool
) -> Answer:
    """Name a snapshot."""
    table = call.table()
    if replace:
        tag = table.history.replace_tag(name, snapshot=snapshot, time_retained_ms=retain)
    else:
        _check_name(name)
        tag = table.history.create_tag(name, snapshot=snapshot, time_retained_ms=retain)
    until = "" if tag.expires_at is None else f", until {tag.expires_at:%Y-%m-%d %H:%M:%S}"
    return said(
        f"tag {tag.name} of {table.name} stands for snapshot {tag.snapshot.id}{until}",
        **_record(tag),
    )


@command("rename", examples="lakewright tag rename nyc.flights q4 q4-2013")
@click.argument("name", metavar="TAG")
@click.argument("new_name", metavar="NEW")
def _rename(call: Call, *, name: str, new_name: str) -> Answer:
    """Give a tag another name."""
    table = call.table()
    _check_name(new_name)
    tag = table.history.rename_tag(name, new_name)
    return said(f"tag {name} of {table.name} is {new_name} now", **_record(tag))


def _check_name(name: str) -> None:
    """A number is taken for a snapshot, by people and by time travel."""
    if name.isdecimal():
        raise InvalidRequestError(
            f"{name} as the name of a tag would be taken for a snapshot; to name that snapshot, "
            f"give the tag a name and --snapshot {name}"
        )


tag = group(
    "tag",
    "Name states of a table, which then outlive expiry.",
    [_list, _create, _rename, verb_command(DELETE_TAGS), verb_command(EXPIRE_TAGS)],
)
