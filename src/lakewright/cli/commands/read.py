"""`lakewright read`: rows, printed or in a file, batch by batch."""

from __future__ import annotations

from pathlib import Path

import click

from lakewright.cli.grammar.call import Call, Form, check_one_of, filter_of
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
from lakewright.platform.upkeep.words import size_text


@command(
    "read",
    file_forms=("parquet",),
    notes=ROW_NOTES + WHERE_NOTES,
    examples="""
lakewright read nyc.flights --limit 10
lakewright read nyc.flights --where "dt = '2013-01-31' AND carrier IN ('AA', 'DL')" \\
    --columns carrier,flight,dep_delay --format csv
lakewright read nyc.flights --tag before-the-import --format json
lakewright read nyc.flights --where "dt = '2013-01-31'" --output january-31.parquet
""",
)
@where_option
@columns_option
@limit_option
@snapshot_option
@as_of_option
@tag_option
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, in the format of its ending: .csv, .json or .parquet.",
)
def read(
    call: Call,
    *,
    where: str | None,
    columns: list[str] | None,
    limit: int | None,
    snapshot: int | None,
    as_of: int | None,
    tag: str | None,
    output: Path | None,
) -> None:
    """Print rows, or write them to a file, in no promised order."""
    from lakewright.cli.output.rows import print_rows, write_rows

    check_one_of(snapshot=snapshot, as_of=as_of, tag=tag)
    form = _form(call.form, output)
    at = call.table().at(snapshot=snapshot, time=as_of, tag=tag)
    scan = at.scan(filter_of(where, at.schema), columns)
    fields = at.schema.fields_of(scan.reader.columns)
    if output is None:
        print_rows(form, fields, scan.batches(), limit=limit)
        return
    write_rows(output, form, fields, scan.batches(), limit=limit)
    click.echo(f"wrote {output}, {size_text(output.stat().st_size)}")


def _form(form: Form, output: Path | None) -> Form:
    """The format of the rows: the asked one, or that of the file's ending."""
    if output is None and form == "parquet":
        raise click.UsageError("--format parquet needs --output FILE", click.get_current_context())
    if output is None or form != "table":
        return form
    forms: tuple[Form, ...] = ("csv", "json", "parquet")
    for each in forms:
        if output.suffix == f".{each}":
            return each
    raise click.UsageError(
        f"{output} ends in none of .csv, .json and .parquet; say --format csv, json or parquet",
        click.get_current_context(),
    )
