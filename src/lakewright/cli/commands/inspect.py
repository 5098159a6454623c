"""`lakewright inspect`: system tables, and what changed between two states."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of, filter_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import (
    ROW_NOTES,
    limit_option,
    snapshot_option,
    tag_option,
    where_option,
)
from lakewright.cli.grammar.values import bounds, times
from lakewright.platform.upkeep.where_notes import WHERE_NOTES

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewright.storage import Table
    from lakewright.storage.operations.changes.change_plan import ChangePlan
    from lakewright.storage.spec.predicate import Predicate

_SYSTEM_TABLES = """
snapshots, schemas, options, tags, branches, consumers   the table's history
files, manifests, partitions, buckets, table_indexes     what a state consists of
statistics, aggregation_fields                           what is known of its columns
audit_log                                                its rows with what each does to its key
"""


@command(
    "inspect",
    notes=_SYSTEM_TABLES + ROW_NOTES + WHERE_NOTES,
    examples="""
lakewright inspect nyc.flights snapshots --where "commit_kind = 'COMPACT'"
lakewright inspect nyc.flights audit_log --between 3,7 --format json
""",
)
@click.argument("system_table", metavar="SYSTEM_TABLE")
@where_option
@limit_option
@snapshot_option
@tag_option
@click.option(
    "--between",
    metavar="A,B",
    type=bounds,
    help="audit_log: what changed after A up to and with B, two snapshots or two tags.",
)
@click.option(
    "--between-times",
    metavar="T1,T2",
    type=times,
    help="The same between two ISO times (UTC unless they say otherwise).",
)
@click.option(
    "--mode",
    type=click.Choice(["auto", "delta", "changelog", "diff"]),
    help="Where changes come from: appended rows, changelog files, or the two states compared "
    "(default: diff between tags, else changelog where the table writes one, else delta).",
)
def inspect(
    call: Call,
    *,
    system_table: str,
    where: str | None,
    limit: int | None,
    snapshot: int | None,
    tag: str | None,
    between: tuple[str, str] | None,
    between_times: tuple[dt.datetime, dt.datetime] | None,
    mode: str | None,
) -> None:
    """Print a system table: snapshots, files, partitions, audit_log and others."""
    from lakewright.cli.output.rows import print_rows
    from lakewright.storage.errors import InvalidRequestError
    from lakewright.storage.operations.changes.incremental import plan_audit_log
    from lakewright.storage.operations.inspection.system_tables import AUDIT_LOG, read_system_table
    from lakewright.storage.operations.state.time_travel import choose_snapshot
    from lakewright.storage.spec.predicate import only_on
    from lakewright.storage.table import Table

    check_one_of(snapshot=snapshot, tag=tag, between=between, between_times=between_times)
    table = call.table()
    bound = between or between_times
    if bound is not None and system_table != AUDIT_LOG:
        raise InvalidRequestError(
            f"changes between two states are rows of {AUDIT_LOG}, not of {system_table}"
        )
    if mode is not None and bound is None:
        raise InvalidRequestError("--mode says how changes are read; name them with --between")
    chosen = choose_snapshot(table.table_files, snapshot_id=snapshot, tag=tag)
    if chosen is not None and (snapshot is not None or tag is not None):
        # An earlier state has its own columns.
        table = Table(table.table_files.at_schema(chosen.schema_id))
    schema = table.inspect.table_schema(system_table)
    wanted = filter_of(where, schema)
    if system_table != AUDIT_LOG:
        pieces = iter([read_system_table(table.table_files, system_table, chosen, wanted)])
    else:
        # Columns of the table choose files; the filter itself may also look at the row kind.
        on_table = only_on(wanted, frozenset(table.schema.field_names))
        if bound is None:
            plan = plan_audit_log(table.table_files, chosen, on_table)
        else:
            plan = table.scan_changes(*bound, mode=mode or "auto", where=on_table).plan
        pieces = _changes(table, plan, wanted)
    print_rows(call.form, schema.fields, pieces, limit=limit)


def _changes(table: Table, plan: ChangePlan, where: Predicate | None) -> Iterator[pa.Table]:
    from lakewright.storage.codec.arrow_values import keep_matching
    from lakewright.storage.operations.inspection.system_tables import AUDIT_LOG, audit_log_rows

    schema = table.inspect.table_schema(AUDIT_LOG)
    for rows in audit_log_rows(table.table_files, plan):
        yield keep_matching(rows, where, schema)
