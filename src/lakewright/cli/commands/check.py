"""`lakewright check`: what is wrong in files of declarations and policies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, Record
from lakewright.cli.upkeep.policies import known_tables
from lakewright.cli.upkeep.project_paths import PATHS, project_paths
from lakewright.platform.documents.variables import POLICY_VARIABLE, TABLES_VARIABLE
from lakewright.platform.documents.yaml_files import Problem
from lakewright.platform.ingest.check_runs import check_run
from lakewright.platform.ingest.inferred_columns import with_columns_of_source
from lakewright.platform.policies.check_files import (
    CheckedFiles,
    check_files,
    names_columns,
    unknown_columns,
    unused_policies,
)
from lakewright.platform.tables.declaration_files import Check
from lakewright.platform.tables.project_modules import find_modules
from lakewright.platform.upkeep.words import counted
from lakewright.storage.errors import NotFoundError, StorageError


@command(
    "check",
    of_table=False,
    notes=f"""
Declarations and policies are distinguished by their keys and may be in one folder. Without PATH,
those of ${TABLES_VARIABLE} and ${POLICY_VARIABLE} are checked, or of the project in this folder.
If there is a warehouse, policies for tables or columns that it lacks are notes, not errors.
Where Dagster is installed, it judges owners, tags and schedules of declarations too.
Python sources are imported, from the working directory and the project around the declarations, and
extras that a declaration needs are named. An upstream table is declared, or in the warehouse.

Exit codes:
  0    everything is right
  2    something is wrong; all of it is printed, each with its file and line
""",
    examples="""
lakewright check tables policies
lakewright check policy.yaml --format json
""",
)
@click.argument("paths", metavar="[PATH]…", nargs=-1, type=PATHS)
def check(call: Call, *, paths: tuple[Path, ...]) -> Answer:
    """Check files of declarations and policies; list all that is wrong, with file and line."""
    named = paths or _of_environment() or (*project_paths("tables"), *project_paths("policies"))
    if not named:
        raise click.UsageError(
            f"name files or folders, or set ${TABLES_VARIABLE} or ${POLICY_VARIABLE}",
            click.get_current_context(),
        )
    find_modules(named)
    checked = check_files(named, check=_check_for_run(), infer=with_columns_of_source)
    notes = _notes(call, checked)
    found, unknown = _upstream(call, checked)
    checked = replace(checked, problems=tuple(sorted((*checked.problems, *found))))
    notes = [*notes, *unknown]
    return Answer(
        text=lambda: _text(checked, notes),
        value=lambda: _value(checked, notes),
        records=lambda: [asdict(problem) for problem in checked.problems],
        code=2 if checked.problems else 0,
    )


def _check_for_run() -> Check:
    """What a run would find, and what Dagster refuses in declarations.

    Where Dagster is not installed, it does not serve them.
    """
    if find_spec("dagster") is None:
        return check_run
    from lakewright.platform.orchestration.dagster_checks import check_for_dagster

    return lambda declaration: (*check_for_dagster(declaration), *check_run(declaration))


def _upstream(call: Call, checked: CheckedFiles) -> tuple[list[Problem], list[Problem]]:
    """The upstream tables that are nowhere, as problems; those that may be, as notes."""
    named = [
        (each, at, upstream)
        for each in checked.declared
        for at, upstream in enumerate(each.declaration.depends_on)
        if upstream not in checked.named
    ]
    if not named:
        return [], []
    try:
        tables: frozenset[str] | None = known_tables(call)
    except StorageError:
        tables = None
    problems, notes = [], []
    for each, at, upstream in named:
        place = ("depends_on", at)
        if tables is None:
            what = f"{upstream} is not declared here, and there is no warehouse that may have it"
            notes.append(each.problem(place, what))
        elif upstream not in tables:
            what = f"{upstream} is neither declared here nor in the warehouse {call.warehouse}"
            problems.append(each.problem(place, what))
    return problems, notes


def _of_environment() -> tuple[Path, ...]:
    given = [os.environ.get(each, "") for each in (TABLES_VARIABLE, POLICY_VARIABLE)]
    return tuple(Path(path) for each in given for path in each.split(os.pathsep) if path)


def _notes(call: Call, checked: CheckedFiles) -> list[Problem]:
    if not checked.policy_documents:
        return []
    try:
        tables = known_tables(call)
    except NotFoundError:
        return []
    found = list(unused_policies(checked.policies, tables | checked.named))
    for name in sorted(tables):
        if names_columns(checked.policies, name):
            # What is wrong with the table itself, other commands tell.
            with suppress(StorageError):
                columns = call.catalog().table(name).schema.field_names
                found += unknown_columns(checked.policies, name, columns)
    return found


def _text(checked: CheckedFiles, notes: Sequence[Problem]) -> list[str]:
    lines = [str(problem) for problem in checked.problems] + [f"note: {note}" for note in notes]
    if checked.problems:
        return [*lines, counted(len(checked.problems), "problem")]
    declared = counted(len(checked.declared), "declaration")
    policies = counted(checked.policy_documents, "policy file")
    return [*lines, f"{declared} and {policies}: nothing is wrong"]


def _value(checked: CheckedFiles, notes: Sequence[Problem]) -> Record:
    return {
        "declarations": len(checked.declared),
        "policy_files": checked.policy_documents,
        "problems": [asdict(problem) for problem in checked.problems],
        "notes": [asdict(note) for note in notes],
    }
