"""What uses the columns of a table: checks, partitions, policies, tables made of it, SQL files.

Column lineage (`from:` of a declared column) says which columns of a downstream table use a column,
and is followed from table to table. A downstream table without it may use every column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakewright.platform.documents.text_files import text_of
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.policies.policy_files import load_policies
from lakewright.platform.tables.column_lineage import Lineage, column_lineage
from lakewright.platform.tables.declarations import ExpectationDeclaration, TableDeclaration
from lakewright.platform.tables.workspace import OtherAsset, Workspace
from lakewright.storage.spec.schema_gate import EVERY_COLUMN, Dependent
from lakewright.storage.sql import BATCH, used_columns

# The settings of upkeep whose values are columns.
_SORT_COLUMNS = ("sort", "columns")
_STATISTICS_COLUMNS = ("statistics", "columns")
_RESPEC_KEYS, _RESPEC_PRIMARY_KEY = ("respec", "keys"), ("respec", "primary_key")
# Columns of a table that are made of columns of the first one: names of these by names of those.
_Made = Mapping[str, frozenset[str]]
# What a walk has visited: tables and assets with a column, and the column that this is made of.
_Seen = set[tuple[str, str, str]]


def column_dependents(
    workspace: Workspace, table: str, columns: Iterable[str], *, is_declared_change: bool = False
) -> tuple[Dependent, ...]:
    """The users of columns of a table that a workspace knows, each once.

    A change that the table's own declaration asks for needs no change of that declaration.
    """
    columns = tuple(columns)
    dependents: list[Dependent] = []
    own = workspace.declaration(table)
    if own is not None:
        dependents += _own_users(own, columns, is_declared_change=is_declared_change)
    seen: _Seen = {(table, name, name) for name in columns}
    dependents += _downstream(
        workspace, table, {name: frozenset([name]) for name in columns}, (), seen
    )
    dependents += _in_policies(workspace, table, columns)
    for declaration in workspace.declarations:
        dependents += _queries(declaration, table, columns)
    for wrong in workspace.wrong:
        # It is not known what it uses.
        name = f"{wrong.problems[0].file}:{wrong.problems[0].line}"
        dependents.append(
            Dependent(column=EVERY_COLUMN, kind="wrong declaration", name=name, is_certain=False)
        )
    for file, name in workspace.sql_files().items():
        dependents += _in_sql(text_of(file, errors="replace"), name, table, columns)
    return tuple(dict.fromkeys(dependents))


def _in_sql(text: str, file: str, table: str, columns: tuple[str, ...]) -> Iterator[Dependent]:
    for use in used_columns(text, table, columns):
        is_view = use.view is not None
        yield Dependent(
            column=use.column,
            kind="view" if is_view else "SQL file",
            name=f"{use.view} in {file}" if is_view else file,
            is_certain=use.is_certain,
        )


def _in_policies(workspace: Workspace, table: str, columns: tuple[str, ...]) -> Iterator[Dependent]:
    """The upkeep that names a column, by its declaration or by a policy file."""
    try:
        resolved = load_policies(workspace.policy_paths, workspace=workspace).of(table)
    except DeclarationError:
        # The upkeep tells what is wrong with them.
        names = ", ".join(map(str, workspace.policy_paths))
        yield Dependent(column=EVERY_COLUMN, kind="policy", name=names, is_certain=False)
        return
    is_enabled = {
        _SORT_COLUMNS: resolved.policy.sort.enabled,
        _STATISTICS_COLUMNS: resolved.policy.statistics.enabled,
        **dict.fromkeys((_RESPEC_KEYS, _RESPEC_PRIMARY_KEY), resolved.policy.respec.enabled),
    }
    for setting in resolved.settings:
        if setting.key in is_enabled and setting.decided is not None:
            named = setting.value if isinstance(setting.value, tuple) else ()
            for name in columns:
                if name in named:
                    yield Dependent(
                        column=name,
                        kind="policy",
                        name=f"{setting.name} ({setting.decided.place})",
                        is_certain=is_enabled[setting.key],
                    )


def _own_users(
    declaration: TableDeclaration, columns: Iterable[str], *, is_declared_change: bool
) -> Iterator[Dependent]:
    columns = tuple(columns)
    if not is_declared_change:
        declared = {column.name for column in declaration.columns}
        for name in columns:
            if name in declared:
                yield Dependent(column=name, kind="declaration", name=declaration.table)
    yield from _checks(declaration, {name: frozenset([name]) for name in columns}, ())
    if declaration.partitions is not None:
        for kind, dimension in declaration.partitions.given.items():
            named = [getattr(dimension, "column", None), *(getattr(dimension, "columns", ()) or ())]
            for name in columns:
                if name in named:
                    yield Dependent(column=name, kind="partition scheme", name=kind)


def _checks(
    declaration: TableDeclaration, made: _Made, via: tuple[str, ...]
) -> Iterator[Dependent]:
    for expectation in declaration.expectations:
        named, words = set(expectation.columns), _condition_words(expectation)
        for use in used_columns(expectation.sql or "", BATCH, tuple(made)):
            # All columns of the rows that a query finds are only shown.
            (named if use.is_certain else words).add(use.column)
        for name, origins in made.items():
            if name not in named and name not in words:
                continue
            for origin in sorted(origins):
                yield Dependent(
                    column=origin,
                    kind="asset check",
                    name=expectation.check_name,
                    via=via,
                    is_certain=name in named,
                )


def _queries(
    declaration: TableDeclaration, table: str, columns: tuple[str, ...]
) -> Iterator[Dependent]:
    """Uses of a table's columns in queries that name it."""
    for expectation in declaration.expectations:
        for use in used_columns(expectation.sql or "", table, columns):
            if use.column != EVERY_COLUMN:
                yield Dependent(
                    column=use.column,
                    kind="asset check",
                    name=f"{declaration.table}.{expectation.check_name}",
                    is_certain=use.is_certain,
                )


def _condition_words(expectation: ExpectationDeclaration) -> set[str]:
    """Words of a condition on rows, which may be columns."""
    condition = expectation.arguments.get("row_condition")
    return set(re.findall(r"\w+", condition)) if isinstance(condition, str) else set()


def _downstream(
    workspace: Workspace, name: str, made: _Made, via: tuple[str, ...], seen: _Seen
) -> Iterator[Dependent]:
    """Users below a table or asset; with nothing `made`, those below may use every column.

    Many paths may lead to a user, and assets that other code reported may go in a circle: the first
    path is told, and followed.
    """
    for each in workspace.below(name):
        below = _below(each)
        path = (*via, below.name)
        if made and below.names_columns_of(name):
            used = _unseen(below.name, below.made_of(name, made), seen)
            for column, origins in used.items():
                told = f"{below.name}.{column}"
                for origin in sorted(origins):
                    yield Dependent(column=origin, kind="column", name=told, via=via)
            if isinstance(each, TableDeclaration):
                yield from _checks(each, used, path)
            if used:
                yield from _downstream(workspace, below.name, used, path, seen)
        elif _unseen(below.name, {EVERY_COLUMN: frozenset([EVERY_COLUMN])}, seen):
            yield Dependent(
                column=EVERY_COLUMN, kind=below.kind, name=below.name, via=via, is_certain=False
            )
            yield from _downstream(workspace, below.name, {}, path, seen)


def _unseen(name: str, made: _Made, seen: _Seen) -> _Made:
    """The columns of a table or asset that were not visited for all of their origins."""
    found: dict[str, frozenset[str]] = {}
    for column, origins in made.items():
        new = frozenset(origin for origin in origins if (name, column, origin) not in seen)
        seen |= {(name, column, each) for each in new}
        if new:
            found[column] = new
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Below:
    """A table or another asset that reads a table."""

    kind: str
    name: str
    lineage: Lineage

    def names_columns_of(self, name: str) -> bool:
        """Whether its column lineage reaches into a table or asset."""
        return any(each.table == name for upstream in self.lineage.values() for each in upstream)

    def made_of(self, name: str, made: _Made) -> _Made:
        """Its columns that are made of these columns of a table, with their origins."""
        found: dict[str, frozenset[str]] = {}
        for column, upstream in self.lineage.items():
            used = [made.get(each.column, frozenset()) for each in upstream if each.table == name]
            origins = frozenset().union(*used) if used else frozenset()
            if origins:
                found[column] = origins
        return found


def _below(each: TableDeclaration | OtherAsset) -> _Below:
    if isinstance(each, OtherAsset):
        return _Below(kind="asset", name=each.name, lineage=each.lineage)
    return _Below(kind="table", name=each.table, lineage=column_lineage(each))
