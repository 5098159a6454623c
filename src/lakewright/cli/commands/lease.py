"""`lakewright lease`: who works on a table, and an end to what the dead still hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command, group
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text

if TYPE_CHECKING:
    from lakewright.storage import Lease


@command("list", examples="lakewright lease list nyc.flights")
def _list(call: Call) -> Answer:
    """List which process works on which part of a table."""
    table = call.table()
    leases = table.upkeep.leases()
    words: dict[str, str] = {}
    if any(each.scope.partitions for each in leases):
        # Leases name partitions by their paths, in which a day is a number.
        words = {
            partition.partition.path: partition.partition.words
            for partition in table.at().partitions()
        }
    return listed(
        leases,
        [TextColumn(name) for name in ("lease", "work", "on", "until (UTC)", "holder")],
        cells=lambda lease: _cells(lease, words),
        record=_record,
        empty=f"no process works on {table.name}",
    )


def _cells(lease: Lease, words: Mapping[str, str]) -> list[Cell]:
    taken = f" (the rest was taken by {', '.join(lease.given_up_to)})" if lease.given_up_to else ""
    until = time_text(lease.expires_ms)
    partitions = tuple(words.get(partition, partition) for partition in lease.scope.partitions)
    scope = replace(lease.scope, partitions=partitions)
    return [lease.id[:8], lease.kind.value, f"{scope}{taken}", until, lease.holder]


def _record(lease: Lease) -> dict[str, object]:
    return {
        **asdict(lease),
        "kind": lease.kind.value,
        "acquired": iso_time(lease.acquired_ms),
        "renewed": iso_time(lease.renewed_ms),
        "expires": iso_time(lease.expires_ms),
    }


@command(
    "break",
    notes="""
LEASE is the beginning of its id. Maintenance publishes nothing more without its lease; a write
goes on.
""",
    examples="lakewright lease break nyc.flights 3f2a9c01",
)
@click.argument("lease_id", metavar="LEASE")
def _break(call: Call, *, lease_id: str) -> Answer:
    """Take a lease from its holder."""
    table = call.table()
    broken = table.upkeep.break_lease(lease_id)
    return said(
        f"lease {broken.id} of {broken.holder} on {broken.scope} of {table.name} broken",
        **_record(broken),
    )


lease = group(
    "lease",
    "See which process works on a table, and end what a dead one still holds.",
    [_list, _break],
)
