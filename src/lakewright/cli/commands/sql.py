"""`lakewright sql`: statements, as text or from a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command

if TYPE_CHECKING:
    from lakewright.storage.session import StatementResult


@command(
    "sql",
    of_table=False,
    notes="""
Statements end with `;`. All are parsed before the first runs; each is a commit of its own.
docs/reference/sql.md lists them. A query over one table needs no Spark; others run on Spark with
--set query.engine=spark, as does SET 'query.engine' = 'spark'.
""",
    examples="""
lakewright sql "SHOW PARTITIONS nyc.flights"
lakewright sql "INSERT OVERWRITE shop.views PARTITION (dt='2024-01-31') VALUES (1, 'a')"
lakewright sql --file changes.sql --database shop
""",
)
@click.argument("statements", metavar="[STATEMENTS]", required=False)
@click.option(
    "--file",
    "source",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Read the statements from a file (- for standard input).",
)
@click.option("--database", metavar="DB", help="The database of names without one.")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting, as SET makes it; may be repeated.",
)
def sql(
    call: Call,
    *,
    statements: str | None,
    source: str | None,
    database: str | None,
    settings: Sequence[str],
) -> None:
    """Run SQL statements."""
    from lakewright.storage.errors import StorageError
    from lakewright.storage.session import Session
    from lakewright.storage.session.settings import DATABASE, Settings

    check_one_of(needed=True, statements=statements, file=source)
    given = Settings()
    if database is not None:
        given = given.with_value(DATABASE, database)
    for each in settings:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.UsageError(
                f"--set {each} has no value; write --set NAME=VALUE", click.get_current_context()
            )
        given = given.with_value(name, value)
    text = statements if source is None else _read(source)
    catalog = call.catalog()
    # As runs of other commands are named, so that `undo` finds all commits of this one.
    named = replace(catalog, run=f"lakewright sql ({catalog.env.new_id()[:8]})")
    done = 0
    results = Session(named, given).run(text or "")
    try:
        for result in results:
            _print(call, result)
            done += 1
    except StorageError:
        if done:
            click.echo(f"statement {done + 1} failed; what came before it is done", err=True)
        raise


def _read(source: str) -> str:
    """The text of a file.

    Raises:
        NotFoundError: it does not exist, or is no text.
    """
    from lakewright.storage.errors import NotFoundError

    try:
        with click.open_file(source, encoding="utf-8") as file:
            text: str = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFoundError(f"no statements in {source}: {error}") from error
    return text


def _print(call: Call, result: StatementResult) -> None:
    """Rows as `read` prints them; otherwise what was done, as a line or a JSON object."""
    from lakewright.cli.output.csv_lines import csv_line
    from lakewright.cli.output.rows import print_rows

    if call.form == "table" and (text := _long_text(result)) is not None:
        sys.stdout.write(text + "\n")
    elif result.rows is not None:
        print_rows(
            call.form, result.fields, iter([result.rows]), limit=None, whole=result.is_listing
        )
    elif call.form == "table":
        sys.stdout.write(result.message + "\n")
    elif call.form == "json":
        sys.stdout.write(json.dumps(dict(result.facts), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(csv_line(result.facts) + "\n")
        sys.stdout.write(csv_line(result.facts.values()) + "\n")


def _long_text(result: StatementResult) -> str | None:
    """The one value of a result, if it has several lines, as SHOW CREATE TABLE has."""
    rows = result.rows
    if rows is None or (rows.num_rows, rows.num_columns) != (1, 1):
        return None
    if str(rows.column(0).type) != "string":
        # Python has no value for each date and moment.
        return None
    value: str | None = rows.column(0)[0].as_py()
    return value if value is not None and "\n" in value else None
