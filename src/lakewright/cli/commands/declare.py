"""`lakewright declare`: a declaration proposed from a file or a query."""

from __future__ import annotations

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command


@command(
    "declare",
    of_table=False,
    of_form=False,
    notes="""
The types of Parquet and ORC are those of the files. Those of CSV and JSON are guessed from all rows
of the files, of more than 16 MiB from the first 10,000 of each of eight, and a comment says from
how many values. Numbers that all have two, three or four digits behind a point are DECIMAL. The
answer is for the file of a declaration; `lakewright check` checks it.
""",
    examples="""
lakewright declare landing/orders.csv --table shop.orders > tables/orders.yaml
lakewright declare "SELECT day, sum(amount) AS total FROM shop.orders GROUP BY day"
""",
)
@click.argument("what", metavar="FILE|QUERY")
@click.option("--table", metavar="TABLE", default="", help="The name of the table to declare.")
def declare(call: Call, *, what: str, table: str) -> None:
    """Propose a declaration with the columns of a file or of a query."""
    from lakewright.platform.ingest.declare import declare as proposed
    from lakewright.platform.ingest.declare import is_query

    catalog = call.catalog() if is_query(what) else None
    click.echo(proposed(what, table=table, catalog=catalog), nl=False)
