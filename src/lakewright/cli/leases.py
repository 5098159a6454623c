"""`lakewright lease`: who works on a table, and an end to what the dead still hold."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from lakewright.cli.layout import Cell, TextColumn, iso_time, time_text
from lakewright.cli.output import print_json, print_lines, print_table
from lakewright.cli.warehouse import open_table
from lakewright.platform.upkeep.leases import expiring
from lakewright.storage import Lease, Table


def run_lease(parsed: argparse.Namespace) -> int:
    """List leases, or break one."""
    table = open_table(parsed)
    if parsed.verb == "list":
        _list_leases(parsed, table)
        return 0
    broken = table.upkeep.break_lease(parsed.id)
    print_lines([f"lease {broken.id} of {broken.holder} on {broken.scope} of {table.name} broken"])
    return 0


def name_of_run(parsed: argparse.Namespace, table: Table) -> str:
    """In whose name a call works; each is work of its own, whoever else calls the same."""
    return f"lakewright {parsed.command} {parsed.verb} ({table.files.env.new_id()[:8]})"


@contextmanager
def expiry_leased(parsed: argparse.Namespace, table: Table) -> Iterator[Lease | None]:
    """Be the only one who expires anything of the table; a dry run may be one of many."""
    if parsed.dry_run:
        yield None
        return
    with expiring(table, run=name_of_run(parsed, table)) as lease:
        yield lease


def _list_leases(parsed: argparse.Namespace, table: Table) -> None:
    leases = table.upkeep.leases()
    if parsed.json:
        print_json([_lease_json(each) for each in leases])
        return
    columns = [TextColumn(name) for name in ("lease", "work", "on", "until (UTC)", "holder")]
    rows: list[list[Cell]] = [
        [
            each.id[:8],
            each.kind.value,
            str(each.scope) + "".join(f" (wanted by {want.holder})" for want in each.wanted),
            time_text(each.expires_ms),
            each.holder,
        ]
        for each in leases
    ]
    print_table(columns, rows, empty=f"nobody works on {table.name}")


def _lease_json(lease: Lease) -> dict[str, object]:
    times = {
        "acquired": iso_time(lease.acquired_ms),
        "renewed": iso_time(lease.renewed_ms),
        "expires": iso_time(lease.expires_ms),
    }
    return {**asdict(lease), "kind": lease.kind.value, **times}
