"""`lakewright read`: rows as a table, JSON lines or CSV, batch by batch."""

from __future__ import annotations

import argparse

from lakewright.cli.row_printing import print_rows
from lakewright.cli.warehouse import open_table


def run_read(parsed: argparse.Namespace) -> int:
    """Print the rows asked for."""
    table = open_table(parsed)
    at = table.at(snapshot=parsed.snapshot, time=parsed.as_of, tag=parsed.tag)
    scan = at.scan(parsed.where, parsed.columns)
    fields = at.schema.fields_of(scan.reader.columns)
    print_rows(parsed.format, fields, scan.batches(), limit=parsed.limit)
    return 0
