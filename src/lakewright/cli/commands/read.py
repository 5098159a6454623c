"""`lakewright read`: rows as a table, JSON lines or CSV, batch by batch."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call, check_one_of, filter_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import (
    ROW_NOTES,
    as_of_option,
    columns_option,
    limit_option,
    snapshot_option,
    tag_option,
    where_option,
)
from lakewright.platform.upkeep.where_notes import WHERE_NOTES


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

    check_one_of(snapshot=snapshot, as_of=as_of, tag=tag)
    at = call.table().at(snapshot=snapshot, time=as_of, tag=tag)
    scan = at.scan(filter_of(where, at.schema), columns)
    fields = at.schema.fields_of(scan.reader.columns)
    print_rows(call.form, fields, scan.batches(), limit=limit)
