"""Options of commands that ask the gate in front of a change of a schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.policies import policies_of
from lakewright.cli.upkeep.project_paths import PATHS, policy_option, tables_option
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.ingest.inferred_columns import with_columns_of_source
from lakewright.platform.tables.workspace import Workspace, read_workspace
from lakewright.storage.errors import InvalidRequestError

Runner = Callable[..., Answer | None]

GATE_NOTES = """
The gate judges the change, and a change that it denies is refused. Exit codes of --dry-run:
  0    allowed
  1    allowed with warnings, or after a rewrite of data files
  2    denied; a wrong request is 2 too, and prints nothing to standard output
docs/how-to/schema-gate.md explains each rule, and which ones a waiver may accept until a day.
"""


def workspace_options(run: Runner) -> Runner:
    """Add the options of the workspace that the gate asks to a command."""
    run = click.option(
        "--sql", metavar="PATH", type=PATHS, multiple=True, help="SQL that may use the columns."
    )(run)
    run = policy_option("Policies whose upkeep may use the columns")(run)
    return tables_option("Declarations whose checks, tables and SQL files may use the columns")(run)


def workspace_of(
    tables: Sequence[Path], sql: Sequence[Path], policy: Sequence[Path] = ()
) -> Workspace:
    """The workspace that the options name.

    Raises:
        InvalidRequestError: a path does not exist, or a declaration or a policy is wrong.
    """
    for path in sql:
        if not path.exists():
            raise InvalidRequestError(f"--sql {path}: no such file or folder; name one that exists")
    try:
        workspace = read_workspace(tables, sql=sql, infer=with_columns_of_source)
    except DeclarationError as error:
        raise InvalidRequestError(f"the declarations are wrong:\n{error}") from error
    policies_of(policy, workspace)
    return replace(workspace, policy_paths=tuple(policy))
