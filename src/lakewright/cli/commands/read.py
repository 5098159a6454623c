"""`lakewright read`: rows as a table, JSON lines or CSV, batch by batch."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call, check_one_of, filter_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import (
    ROW_NOTES,
    WHERE_NOTES,
    as_of_option,
    columns_option,
    limit_option,
    snapshot_option,
    tag_option,
    where_option,
)


@command(
    "read",
    notes=ROW_NOTES + WHERE_NOTES,
    examples="""
lakewright read nyc.flights --limit 10
lakewright read nyc.flights --where "dt = '2013-01-31' AND carrier IN ('AA', 'DL')" \\
    --columns carrier,flight,dep_delay --format csv
lakewright read nyc.flights --tag before-the-import --format json
""",
)
@where_option
@columns_option
@limit_option
@snapshot_option
@as_of_option
@tag_option
def read(
    call: Call,
    *,
    where: str | None,
    columns: list[str] | None,
    limit: int | None,
    snapshot: int | None,
    as_of: int | None,
    tag: str | None,
) -> None:
    """Print rows, in no promised order."""
    from lakewright.cli.output.rows import print_rows
    from lakewright.storage.operations.state.time_travel import When, choose_snapshot, is_historic
    from lakewright.storage.table import Table

    check_one_of(snapshot=snapshot, as_of=as_of, tag=tag)
    table = call.table()
    when: When = {"snapshot_id": snapshot, "as_of_ms": as_of, "tag": tag}
    chosen = choose_snapshot(table.files, **when)
    historic = is_historic(when)
    if chosen is not None and historic:
        # An earlier state has its own columns, which the filter and the choice of columns mean.
        table = Table(table.files.at_schema(chosen.schema_id))
    reader, plan = table.reader(
        filter_of(where, table.schema),
        columns,
        snapshot_id=chosen.id if chosen and historic else None,
    )
    pieces = (rows for split in plan.splits for rows in reader.read(split))
    print_rows(call.form, reader.files.schema.fields_of(reader.columns), pieces, limit=limit)
