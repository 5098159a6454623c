"""`lakewright diff`: what a declaration would change in a table; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.gate import GATE_NOTES, chosen, gate_options, workspace_of
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.upkeep.dependents import dependents_of
from lakewright.platform.upkeep.diff import difference_to
from lakewright.platform.upkeep.findings import verdict_code
from lakewright.platform.upkeep.gate_options import GateOptions
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError


@command(
    "diff",
    notes=GATE_NOTES.replace("--dry-run", "diff"),
    examples="""
lakewright diff nyc.flights tables/flights.yaml
lakewright diff nyc.flights tables/flights.yaml --tables tables --scan --format json
""",
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@gate_options
def diff(
    call: Call, *, file: Path, tables: tuple[Path, ...], sql: tuple[Path, ...], **given: Any
) -> Answer | None:
    """Judge what a declaration would change in its table; write nothing."""
    table = call.table()
    declaration = _declaration(file, table)
    workspace = workspace_of(tables or (file,), sql).with_declaration(declaration)
    verb = difference_to(
        declaration, lambda table: dependents_of(workspace, table, is_declared_change=True)
    )
    options = GateOptions(**chosen(**given))
    return run_verb(verb, replace(call, dry_run=True), table, options, code_of=verdict_code)


def _declaration(file: Path, table: Table) -> TableDeclaration:
    """The declaration of the table in a file.

    Raises:
        InvalidRequestError: the file is wrong, or declares no columns of the table.
    """
    declared = workspace_of((file,), ())
    found = declared.declaration(table.name)
    if found is None:
        names = ", ".join(each.table for each in declared.declarations)
        raise InvalidRequestError(f"{file} declares {names}, and not {table.name}")
    if not found.columns:
        raise InvalidRequestError(f"{file} declares no columns of {table.name}; add them")
    return found
