"""`lakewright consumer`: how far readers of changes have come."""

from __future__ import annotations

from dataclasses import asdict

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.grammar.options import FROM_1
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import iso_time, time_text


@command("list", examples="lakewright consumer list nyc.flights")
def _list(call: Call) -> Answer:
    """List a table's consumers."""
    table = call.table()
    return listed(
        table.history.consumers(),
        [
            TextColumn("consumer"),
            TextColumn("next snapshot", right=True),
            TextColumn("moved (UTC)"),
        ],
        cells=lambda each: [each.name, str(each.next_snapshot_id), time_text(each.modified_ms)],
        record=lambda each: {**asdict(each), "moved": iso_time(each.modified_ms)},
        empty=f"{table.name} has no consumer",
    )


@command("set", examples="lakewright consumer set nyc.flights dashboards 12")
@click.argument("name", metavar="CONSUMER")
@click.argument("next_id", metavar="N", type=FROM_1)
def _set(call: Call, *, name: str, next_id: int) -> Answer:
    """Set the next snapshot that a consumer reads."""
    table = call.table()
    table.history.set_consumer(name, next_id)
    return said(
        f"consumer {name} of {table.name} reads on from snapshot {next_id}",
        name=name,
        next_snapshot_id=next_id,
    )


@command("delete", examples="lakewright consumer delete nyc.flights dashboards")
@click.argument("name", metavar="CONSUMER")
def _delete(call: Call, *, name: str) -> Answer:
    """Forget a consumer."""
    table = call.table()
    table.history.delete_consumer(name)
    return said(f"consumer {name} of {table.name} deleted", name=name)


consumer = group(
    "consumer",
    "See and set how far readers of changes have come, which holds expiry back.",
    [_list, _set, _delete],
)
