"""Checks files of declarations and policies together, told apart by their keys."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakewright.platform.documents.document_kinds import DocumentKind, kind_of
from lakewright.platform.documents.yaml_files import Problem, WrittenText, documents_in, yaml_files
from lakewright.platform.policies.policies import Level, PolicySet
from lakewright.platform.policies.policy_files import read_policies
from lakewright.platform.tables.declaration_files import (
    Check,
    DeclaredTable,
    Infer,
    no_files,
    read_declarations,
)
from lakewright.platform.tables.workspace import workspace_of_declared

# The keys of policies whose values are names of columns.
_OF_COLUMNS = frozenset({("sort", "columns"), ("respec", "keys"), ("respec", "primary_key")})


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """What files hold, and everything that is wrong with them.

    `named` are the tables of all declarations, also of those that are wrong.
    """

    declared: tuple[DeclaredTable, ...]
    named: frozenset[str]
    policies: PolicySet
    policy_documents: int
    problems: tuple[Problem, ...]


def check_files(paths: Sequence[Path], *, check: Check, infer: Infer = no_files) -> CheckedFiles:
    """Check files and folders; `check` finds what the orchestrator refuses."""
    problems: list[Problem] = []
    documents: list[WrittenText] = []
    for file in yaml_files(paths, problems):
        documents += documents_in(file, problems)
    kinds = [(document, kind_of(document.value) is DocumentKind.POLICY) for document in documents]
    of_policies: list[Problem] = []
    read = read_declarations(
        [each for each, is_policy in kinds if not is_policy], check=check, infer=infer
    )
    policies = read_policies(
        [each for each, is_policy in kinds if is_policy],
        of_policies,
        workspace=workspace_of_declared(read.right),
    )
    return CheckedFiles(
        read.right,
        read.named,
        policies,
        sum(is_policy for _, is_policy in kinds),
        tuple(sorted((*problems, *read.problems, *of_policies))),
    )


def unused_policies(policies: PolicySet, tables: Collection[str]) -> Iterator[Problem]:
    """The databases, patterns and tables of policies that the warehouse has not, which is allowed.

    `tables` are those of the warehouse and the declared ones.
    """
    databases = {table.split(".")[0] for table in tables}
    for layer in policies.unmatched(tables):
        known = databases if layer.level is Level.DATABASE else tables
        near = difflib.get_close_matches(layer.name, known, n=1, cutoff=0.8)
        hint = f"; did you mean {near[0]!r}?" if near and layer.level is not Level.PATTERN else ""
        yield layer.problem(f"{layer.text} matches no table of the warehouse{hint}")


def names_columns(policies: PolicySet, table: str) -> bool:
    """Whether the policy of a table names any of its columns."""
    return any(
        setting.key in _OF_COLUMNS and setting.value for setting in policies.of(table).settings
    )


def unknown_columns(policies: PolicySet, table: str, columns: Collection[str]) -> Iterator[Problem]:
    """The columns that the policy of a table names, and that the table has not."""
    for setting in policies.of(table).settings:
        if setting.key not in _OF_COLUMNS or setting.decided is None:
            continue
        named = setting.value if isinstance(setting.value, tuple) else ()
        for column in named:
            if column in columns:
                continue
            near = difflib.get_close_matches(column, columns, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            place = setting.decided
            what = f"{setting.name}: {column!r} is not a column of {table}{hint}"
            yield Problem(place.file, place.line, "", what)
