"""`lakewright read`: rows as a table, JSON lines or CSV, batch by batch."""

from __future__ import annotations

import argparse

from lakewright.cli.row_printing import print_rows
from lakewright.cli.warehouse import filter_of, open_table
from lakewright.storage.operations.state.time_travel import When, choose_snapshot, is_historic
from lakewright.storage.table import Table


def run_read(parsed: argparse.Namespace) -> int:
    """Print the rows asked for."""
    table = open_table(parsed)
    when: When = {
        "snapshot_id": parsed.snapshot,
        "as_of_ms": parsed.as_of,
        "tag": parsed.tag,
    }
    snapshot = choose_snapshot(table.files, **when)
    historic = is_historic(when)
    if snapshot is not None and historic:
        # An earlier state has its own columns, which the filter and the choice of columns mean.
        table = Table(table.files.at_schema(snapshot.schema_id))
    where = filter_of(parsed, table.schema)
    reader, plan = table.reader(
        where, parsed.columns, snapshot_id=snapshot.id if snapshot and historic else None
    )
    fields = reader.files.schema.fields_of(reader.columns)

    pieces = (rows for split in plan.splits for rows in reader.read(split))
    print_rows(parsed.format, fields, pieces, limit=parsed.limit)
    return 0
