"""The declarations and policies of the project around the working directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from lakewright.cli.grammar.command import warehouse_of
from lakewright.platform.documents.variables import POLICY_VARIABLE, TABLES_VARIABLE

PATHS = click.Path(path_type=Path)
_COMPONENT = "lakewright.component.LakehouseTables"

Command = TypeVar("Command", bound=Callable[..., object])


def tables_option(what: str, *, of_project: bool = True) -> Callable[[Command], Command]:
    """`--tables`, which without a value is what the project declares."""
    return _option("--tables", what, TABLES_VARIABLE, "tables" if of_project else "")


def policy_option(what: str, *, of_project: bool = True) -> Callable[[Command], Command]:
    """`--policy`, which without a value is what the project keeps its tables by."""
    return _option("--policy", what, POLICY_VARIABLE, "policies" if of_project else "")


def _option(name: str, what: str, variable: str, of_project: str) -> Callable[[Command], Command]:
    here = ", or the project's" if of_project else ""
    return click.option(
        name,
        metavar="PATH",
        type=PATHS,
        multiple=True,
        envvar=variable,
        default=partial(project_paths, of_project) if of_project else (),
        help=f"{what} (default: ${variable}{here}).",
    )


def known_tables() -> tuple[Path, ...]:
    """The declarations for a command without `--tables`: those of the variable, or the project."""
    named = os.environ.get(TABLES_VARIABLE, "").split(os.pathsep)
    return tuple(Path(each) for each in named if each) or project_paths("tables")


def project_paths(what: str) -> tuple[Path, ...]:
    """The `tables` or `policies` of the components of the project in the working directory.

    Those of components of another warehouse than the command's are not among them.
    """
    context = click.get_current_context()
    uri = context.params.get("uri")
    given = uri if isinstance(uri, str) else warehouse_of(context)
    asked = given if "://" in given else Path(given).resolve()
    found: dict[Path, None] = {}
    for folder, attributes in _components(Path.cwd()):
        own = attributes.get("warehouse")
        if isinstance(own, str) and asked != (own if "://" in own else (folder / own).resolve()):
            continue
        named = attributes.get(what, ["tables"] if what == "tables" else [])
        for each in named if isinstance(named, list) else ():
            path = (folder / str(each)).resolve()
            # A template is resolved by Dagster alone.
            if path.exists():
                found[_from_here(path)] = None
    return tuple(found)


def _from_here(path: Path) -> Path:
    """A path as a person in this folder writes it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _components(top: Path) -> Iterator[tuple[Path, dict[str, object]]]:
    """The components of tables in a project of Dagster, each with its folder."""
    project = top / "pyproject.toml"
    if not project.is_file() or b"[tool.dg" not in project.read_bytes():
        return
    import yaml

    # As `dagster` and `dg` lay a project out: its module, here or in `src`, has the definitions.
    for pattern in ("*/defs/**/defs.yaml", "src/*/defs/**/defs.yaml"):
        for file in sorted(top.glob(pattern)):
            try:
                documents = [*yaml.safe_load_all(file.read_text())]
            except (OSError, UnicodeError, yaml.YAMLError):
                # `dg check` and the code location say what is wrong with it.
                continue
            for each in documents:
                if isinstance(each, dict) and each.get("type") == _COMPONENT:
                    attributes = each.get("attributes")
                    yield file.parent, attributes if isinstance(attributes, dict) else {}
