"""`lakewright inspect`: system tables, and what changed between two states."""

from __future__ import annotations

import argparse

from lakewright.cli.row_printing import print_rows
from lakewright.cli.warehouse import open_table
from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.changes.incremental import Bound, plan_audit_log
from lakewright.storage.operations.inspection.system_tables import (
    AUDIT_LOG,
    audit_log_rows,
)
from lakewright.storage.rows import predicate_of
from lakewright.storage.spec.predicate import only_on


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
    at = table.at(snapshot=parsed.snapshot, tag=parsed.tag)
    schema = at.inspect.table_schema(parsed.system_table)
    if parsed.system_table != AUDIT_LOG:
        pieces = iter([at.inspect.table(parsed.system_table, parsed.where)])
    else:
        where = predicate_of(parsed.where, schema)
        # Columns of the table choose files; the filter itself may also look at the row kind.
        on_table = only_on(where, frozenset(at.schema.field_names))
        if between is None:
            plan = plan_audit_log(at.table_files, at.snapshot, on_table)
        else:
            mode = parsed.mode or "auto"
            plan = table.scan_changes(*between, mode=mode, where=on_table).plan
        rows = audit_log_rows(at.table_files, plan)
        pieces = (keep_matching(piece, where, schema) for piece in rows)
    print_rows(parsed.format, schema.fields, pieces, limit=parsed.limit)
    return 0
