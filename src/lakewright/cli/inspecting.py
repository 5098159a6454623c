"""`lakewright inspect`: system tables, and what changed between two states."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pyarrow as pa

from lakewright.cli.row_printing import print_rows
from lakewright.cli.warehouse import filter_of, open_table
from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.changes.change_plan import ChangePlan
from lakewright.storage.operations.changes.incremental import Bound, plan_audit_log
from lakewright.storage.operations.inspection.system_tables import (
    AUDIT_LOG,
    audit_log_rows,
    read_system_table,
)
from lakewright.storage.operations.state.time_travel import choose_snapshot
from lakewright.storage.spec.predicate import Predicate, only_on
from lakewright.storage.table import Table


def run_inspect(parsed: argparse.Namespace) -> int:
    """Print a system table."""
    table = open_table(parsed)
    between: tuple[Bound, Bound] | None = parsed.between or parsed.between_times
    if between is not None and parsed.system_table != AUDIT_LOG:
        raise InvalidRequestError(
            f"changes between two states are rows of {AUDIT_LOG}, not of {parsed.system_table}"
        )
    if parsed.mode is not None and between is None:
        raise InvalidRequestError("--mode says how changes are read; name them with --between")
    snapshot = choose_snapshot(table.files, snapshot_id=parsed.snapshot, tag=parsed.tag)
    if snapshot is not None and (parsed.snapshot is not None or parsed.tag is not None):
        # An earlier state has its own columns.
        table = Table(table.files.at_schema(snapshot.schema_id))
    schema = table.inspect.table_schema(parsed.system_table)
    where = filter_of(parsed, schema)
    if parsed.system_table != AUDIT_LOG:
        pieces = iter([read_system_table(table.files, parsed.system_table, snapshot, where)])
    else:
        # Columns of the table choose files; the filter itself may also look at the row kind.
        on_table = only_on(where, frozenset(table.schema.field_names))
        if between is None:
            plan = plan_audit_log(table.files, snapshot, on_table)
        else:
            mode = parsed.mode or "auto"
            plan = table.scan_changes(*between, mode=mode, where=on_table).plan
        pieces = _changes(table, plan, where)
    print_rows(parsed.format, schema.fields, pieces, limit=parsed.limit)
    return 0


def _changes(table: Table, plan: ChangePlan, where: Predicate | None) -> Iterator[pa.Table]:
    schema = table.inspect.table_schema(AUDIT_LOG)
    for rows in audit_log_rows(table.files, plan):
        yield keep_matching(rows, where, schema)
