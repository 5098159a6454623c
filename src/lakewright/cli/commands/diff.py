"""`lakewright diff`: what a declaration or a contract would change in a table; writes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.gate import GATE_NOTES, workspace_of, workspace_options
from lakewright.cli.upkeep.parameters import options_of, read_options
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.platform.tables.contract_files import contract_in
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.odcs import Contract, read_contract
from lakewright.platform.upkeep.diff import difference_to
from lakewright.platform.upkeep.gate_options import GateOptions
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError


@command(
    "diff",
    notes="""
FILE is a YAML file of declarations, or a data contract of the Open Data Contract Standard
(version 3), such as `lakewright export-contract` prints. What either leaves out of a table's
options stays; columns that it does not name are shown as dropped.
"""
    + GATE_NOTES.replace("--dry-run", "diff"),
    examples="""
lakewright diff nyc.flights tables/flights.yaml
lakewright diff nyc.flights flights.odcs.yaml --compatibility full
lakewright diff nyc.flights tables/flights.yaml --tables tables --scan --format json
""",
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@options_of(GateOptions)
@workspace_options
def diff(
    call: Call,
    *,
    file: Path,
    tables: tuple[Path, ...],
    sql: tuple[Path, ...],
    policy: tuple[Path, ...],
    **given: Any,
) -> Answer | None:
    """Judge what a declaration or a data contract would change in a table; write nothing."""
    table = call.table()
    contract = _contract(file, table)
    if contract is None:
        declaration = _declaration(file, table)
        workspace = workspace_of(tables or (file,), sql, policy).with_declaration(declaration)
        verb = difference_to(declaration, workspace)
    else:
        workspace = workspace_of(tables, sql, policy)
        verb = difference_to(contract.declaration, workspace, notes=contract.notes)
    options = read_options(GateOptions, given, table)
    return run_verb(verb, replace(call, dry_run=True), table, options)


def _contract(file: Path, table: Table) -> Contract | None:
    """The contract in a file; None if it holds declarations, or nothing that can be read."""
    contract = contract_in(file)
    if contract is None:
        # Declarations have their own errors, with lines.
        return None
    try:
        return read_contract(contract, table.name, table.schema)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{file}: {error.message}") from error
    except RecursionError:
        raise InvalidRequestError(
            f"{file}: rows and arrays are nested too deeply, or an alias contains itself"
        ) from None


def _declaration(file: Path, table: Table) -> TableDeclaration:
    """The declaration of the table in a file.

    Raises:
        InvalidRequestError: the file is wrong, or declares no columns of the table.
    """
    declared = workspace_of((file,), ())
    found = declared.declaration(table.name)
    if not declared.declarations:
        raise InvalidRequestError(
            f"{file} holds neither a declaration nor a data contract; declare {table.name} in it"
        )
    if found is None:
        names = ", ".join(declaration.table for declaration in declared.declarations)
        raise InvalidRequestError(f"{file} declares {names}, and not {table.name}")
    if not found.columns:
        raise InvalidRequestError(f"{file} declares no columns of {table.name}; add them")
    return found
