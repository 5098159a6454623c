"""`lakewright sql`: statements as text, from a file, or at a shell of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, Form, check_one_of
from lakewright.cli.grammar.command import command

if TYPE_CHECKING:
    from lakewright.session import StatementResult
    from lakewright.session.compiled import CompiledPlan


@command(
    "sql",
    of_table=False,
    notes="""
Statements end with `;`. All are parsed before the first runs; each is a commit of its own.
docs/reference/sql.md lists them. Without statements, a terminal gets a shell with history and
completion (\\? lists its commands), and a pipe is read. Queries are DuckDB's SQL and run in this
process; with --set query.engine=spark they are Spark's, and run there.
""",
    examples="""
lakewright sql "SHOW PARTITIONS nyc.flights"
lakewright sql "INSERT OVERWRITE shop.views PARTITION (dt='2024-01-31') VALUES (1, 'a')"
lakewright sql "SELECT dest, count(*) FROM nyc.flights GROUP BY dest ORDER BY 2 DESC LIMIT 5"
lakewright sql -f changes.sql --database shop
lakewright sql
""",
)
@click.argument("statements", metavar="[STATEMENTS]", required=False)
@click.option(
    "-f",
    "--file",
    "source",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Read the statements from a file (- for standard input).",
)
@click.option("-e", "--execute", "executed", metavar="SQL", help="The statements, as an option.")
@click.option("--database", metavar="DB", help="The database of names without one.")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting, as SET makes it; may be repeated.",
)
@click.option(
    "--compile",
    "compiles",
    is_flag=True,
    help="Print the plan of one SELECT or INSERT as JSON; run nothing.",
)
@click.option(
    "--compiled",
    "planned",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Run a plan that --compile printed, if it still holds.",
)
def sql(
    call: Call,
    *,
    statements: str | None,
    source: str | None,
    executed: str | None,
    database: str | None,
    settings: Sequence[str],
    compiles: bool,
    planned: str | None,
) -> None:
    """Run SQL statements."""
    from lakewright.cli.shell import Shell, run_shell
    from lakewright.session import Session
    from lakewright.session.settings import DATABASE, Settings
    from lakewright.storage import Catalog
    from lakewright.storage.errors import NotFoundError, StorageError

    check_one_of(
        needed=False, statements=statements, file=source, execute=executed, compiled=planned
    )
    given = Settings()
    if database is not None:
        given = given.with_value(DATABASE, database)
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(
                f"--set {setting} has no value; write --set NAME=VALUE", click.get_current_context()
            )
        given = given.with_value(name, value)
    file = source if planned is None else planned
    text = statements or executed or (None if file is None else _read(file))
    if text is None and not sys.stdin.isatty():
        text = sys.stdin.read()
    try:
        catalog = Catalog.open(call.warehouse) if _makes_warehouse(text) else call.catalog()
    except NotFoundError as error:
        told = f"{error.message}, or begin one with the statement CREATE DATABASE name"
        raise NotFoundError(told) from error
    # As runs of other commands are named, so that `undo` finds all commits of this one.
    named = replace(catalog, run=f"lakewright sql ({catalog.env.new_id()[:8]})")
    session = Session(named, given)
    if text is None:
        run_shell(Shell(session, partial(_print_as, call), _read, call.form))
        return
    if compiles:
        click.echo(session.compile(text).to_json())
        return
    done = 0
    results = session.run(text) if planned is None else session.run_compiled(_plan(text))
    try:
        for result in results:
            _print(call, result)
            done += 1
    except StorageError:
        if done:
            click.echo(f"statement {done + 1} failed; what came before it is done", err=True)
        raise


def _plan(text: str) -> CompiledPlan:
    from lakewright.session.compiled import CompiledPlan

    return CompiledPlan.from_json(text)


def _makes_warehouse(text: str | None) -> bool:
    """Whether statements begin with one that makes a database, and so may make the warehouse."""
    words = [] if text is None else text.upper().split(maxsplit=2)[:2]
    return text is None or words in (["CREATE", "DATABASE"], ["CREATE", "SCHEMA"])


def _print_as(call: Call, form: Form, result: StatementResult) -> None:
    _print(replace(call, form=form), result)


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
