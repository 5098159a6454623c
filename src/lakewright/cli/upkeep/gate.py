"""Options of commands that ask the gate in front of a change of a schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lakewright.cli.output.answers import Answer
from lakewright.cli.upkeep.policies import policies_of
from lakewright.platform.declare.upkeep_policies import EngineChoice
from lakewright.platform.declare.variables import POLICY_VARIABLE, TABLES_VARIABLE
from lakewright.platform.declare.workspace import Workspace, read_workspace
from lakewright.platform.declare.yaml_files import DeclarationError
from lakewright.platform.upkeep.gate_options import GateOptions
from lakewright.platform.upkeep.verb import option_fields
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.schema_gate import Compatibility

Runner = Callable[..., Answer | None]

GATE_NOTES = """
The gate judges the change, and a change that it denies is refused. Exit codes of --dry-run:
  0    allowed
  1    allowed with warnings, or after a rewrite of data files
  2    denied; a wrong request is 2 too, and prints nothing to standard output
docs/schema-gate.md explains each rule, and which ones a waiver may accept until a day.
"""

_METAVARS = {
    "contract": "COLUMN",
    "reader": "CLIENT",
    "waive": "RULE[:COLUMN]",
    "owner": "NAME",
    "until": "DATE",
}


_PATHS = click.Path(path_type=Path)


def gate_options(run: Runner) -> Runner:
    """Add the options of the gate to a command, and those of the workspace that it asks."""
    run = click.option(
        "--sql", metavar="PATH", type=_PATHS, multiple=True, help="SQL that may use the columns."
    )(run)
    run = click.option(
        "--policy",
        metavar="PATH",
        type=_PATHS,
        multiple=True,
        envvar=POLICY_VARIABLE,
        help=f"Policies whose upkeep may use the columns (default: ${POLICY_VARIABLE}).",
    )(run)
    run = click.option(
        "--tables",
        metavar="PATH",
        type=_PATHS,
        multiple=True,
        envvar=TABLES_VARIABLE,
        help="Declarations whose checks, tables and SQL files may use the columns "
        f"(default: ${TABLES_VARIABLE}).",
    )(run)
    for each in reversed(option_fields(GateOptions)):
        settings: dict[str, Any] = {"help": each.text}
        if each.name in _METAVARS:
            settings["metavar"] = _METAVARS[each.name]
        match each.kind:
            case kind if kind is bool:
                settings["is_flag"] = True
            case kind if kind is Compatibility:
                choices = [mode.value for mode in Compatibility]
                settings |= {"type": click.Choice(choices, case_sensitive=False), "metavar": "MODE"}
                settings["help"] += f" One of {', '.join(choices)}."
            case kind if kind is EngineChoice:
                choices = [choice.value for choice in EngineChoice]
                settings |= {"type": click.Choice(choices), "default": each.default.value}
            case kind if kind is str:
                pass
            case _:
                settings["multiple"] = True
        run = click.option("--" + each.name.replace("_", "-"), each.name, **settings)(run)
    return run


def chosen(*, compatibility: str | None, engine: str, **others: Any) -> dict[str, Any]:
    """Values of the gate's options, as `GateOptions` takes them; `others` as they are."""
    return {
        "compatibility": None if compatibility is None else Compatibility(compatibility),
        "engine": EngineChoice(engine),
        **others,
    }


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
        workspace = read_workspace(tables, sql=sql)
    except DeclarationError as error:
        raise InvalidRequestError(f"the declarations are wrong:\n{error}") from error
    policies_of(policy, workspace)
    return replace(workspace, policy_paths=tuple(policy))
