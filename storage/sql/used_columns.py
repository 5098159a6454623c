"""Finds uses of a table's columns in the text of SQL statements.

A use is certain if the statement names the column of just that table. It is not if a name could
belong to another table, if all columns are taken (`*`), or if a statement cannot be parsed, such as
a template, or is very long; then its words decide.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby

from sqlglot import exp, parse, tokenize
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.optimizer.scope import traverse_scope

from lakewright.storage.spec.schema_gate import EVERY_COLUMN

_DIALECT = "spark"
_WITH_QUOTED_NAMES = "trino"
# Scopes of long conditions take quadratic time: at this length, a second.
_MOST_TOKENS = 5_000
# Splitting a text into tokens takes a second, too.
_MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column that a statement uses, and the view that the statement creates."""

    column: str
    is_certain: bool
    view: str | None = None


def used_columns(text: str, table: str, columns: Sequence[str]) -> Iterator[ColumnUse]:
    """The uses of columns of a table (`db.table`) in statements, each once by statement.

    A name without a database is that of a view of the statement's reader, such as `batch`.
    """
    database, _, name = table.lower().rpartition(".")
    asked = _Asked(database, name, {column.lower(): column for column in columns})
    if name not in text.lower():
        return
    for statement, is_short in _statements(text):
        if name in statement.lower():
            yield from _of_text(statement, asked) if is_short else _words(statement, asked)


def _statements(text: str) -> Iterator[tuple[str, bool]]:
    """The statements of a text, and whether each is short enough to be parsed."""
    try:
        tokens = tokenize(text, read=_DIALECT) if len(text) <= _MOST_CHARACTERS else None
    except TokenError:
        tokens = None
    if tokens is None:
        yield from ((part, False) for part in text.split(";"))
        return
    for is_end, group in groupby(tokens, key=lambda each: each.token_type.name == "SEMICOLON"):
        if not is_end:
            inside = list(group)
            part = text[inside[0].start : inside[-1].end + 1]
            yield part, len(inside) <= _MOST_TOKENS


def _of_text(text: str, asked: _Asked) -> Iterator[ColumnUse]:
    """The uses by what double quotes mean: texts in Spark, names in Trino and others."""
    if f'"{asked.table}"' in text.lower():
        yield from _parsed(text, asked, _WITH_QUOTED_NAMES)
        return
    found = list(_parsed(text, asked, _DIALECT))
    yield from found
    if '"' in text:
        known = {each.column for each in found}
        for each in _parsed(text, asked, _WITH_QUOTED_NAMES):
            if each.column not in known:
                yield replace(each, is_certain=False)


def _parsed(text: str, asked: _Asked, dialect: str) -> Iterator[ColumnUse]:
    try:
        with _quiet():
            statements = parse(text, dialect=dialect)
        for statement in statements:
            if isinstance(statement, exp.Command):
                # The parser keeps the text of a statement that it does not know.
                yield from _words(text, asked)
            elif statement is not None:
                yield from _of_statement(statement, asked)
    except (SqlglotError, RecursionError):
        yield from _words(text, asked)


@contextmanager
def _quiet() -> Iterator[None]:
    """No log of unknown statements: their uses say that they are not certain."""
    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The table and its columns, by names in lower case, since SQL knows no case of names."""

    database: str
    table: str
    columns: dict[str, str]

    def is_meant(self, node: exp.Table) -> bool:
        return node.name.lower() == self.table and node.db.lower() in ("", self.database)

    def is_certain(self, node: exp.Table) -> bool:
        """Without a database, the name may be one of another database, unless none is asked for."""
        return node.db != "" or self.database == ""


# A column and whether its use is certain.
_Use = tuple[str, bool]
# Names that stand before the name of a column, in lower case.
_Path = tuple[str, ...]


def _of_statement(statement: exp.Expr, asked: _Asked) -> Iterator[ColumnUse]:
    view = None
    if isinstance(statement, exp.Create) and statement.kind == "VIEW":
        named = statement.find(exp.Table)
        view = None if named is None else named.sql(dialect=_DIALECT)
    certain: dict[str, bool] = {}
    for column, is_certain in _uses(statement, asked):
        certain[column] = certain.get(column, False) or is_certain
    for column, is_certain in certain.items():
        yield ColumnUse(column, is_certain, view)


def _uses(statement: exp.Expr, asked: _Asked) -> Iterator[_Use]:
    if isinstance(statement, (exp.Create, exp.Insert)):
        yield from _written(statement, asked)
        yield from _read(statement, asked)
    elif isinstance(statement, exp.Query):
        yield from _read(statement, asked)
    else:
        yield from _changed(statement, asked)


def _read(query: exp.Expr, asked: _Asked) -> Iterator[_Use]:
    """The uses in a query, scope by scope."""
    for scope in traverse_scope(query):
        sources = _Sources.of(scope.sources.items(), asked)
        if not sources.meant:
            continue
        # A name that a subquery does not know may be of the query around it.
        is_alone = len(sources.paths) == 1 and not scope.is_correlated_subquery
        for column in scope.columns:
            yield from sources.uses(column, asked, is_alone=is_alone)
        for star in scope.find_all(exp.Star):
            yield from sources.of_star(star, asked)
        for join in scope.find_all(exp.Join):
            yield from sources.of_join(join, asked)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The tables and subqueries that columns are of, by the path of names before a column.

    `meant` holds the paths of the table, and whether it is certainly that table.
    """

    paths: frozenset[_Path]
    meant: dict[_Path, bool]

    @classmethod
    def of(cls, sources: Iterable[tuple[str, object]], asked: _Asked) -> _Sources:
        paths = set()
        meant = {}
        for name, source in sources:
            path: _Path = (name.lower(),)
            if isinstance(source, exp.Table):
                if not source.alias:
                    path = tuple(part.name.lower() for part in source.parts)
                if asked.is_meant(source):
                    meant[path] = asked.is_certain(source)
            paths.add(path)
        return cls(frozenset(paths), meant)

    def uses(self, column: exp.Column, asked: _Asked, *, is_alone: bool) -> Iterator[_Use]:
        """The use of a column; `is_alone` if a name without a table can be of no other source."""
        parts = tuple(part.name.lower() for part in column.parts)
        path = self._path_before(parts)
        if path is None:
            # The first name is a column, and what follows are members of its row.
            first, is_certain = parts[0], is_alone and all(self.meant.values())
        elif path[0] in self.meant:
            first, is_certain = parts[path[1]], self.meant[path[0]]
        else:
            return
        name = asked.columns.get(first)
        if name is not None:
            yield name, is_certain

    def of_star(self, star: exp.Star, asked: _Asked) -> Iterator[_Use]:
        """`*`, or `x.*` of a table or row."""
        if isinstance(star.parent, exp.Count):
            return
        qualified = star.parent if isinstance(star.parent, exp.Column) else None
        if qualified is None:
            yield EVERY_COLUMN, False
            return
        parts = tuple(part.name.lower() for part in qualified.parts[:-1])
        path = self._path_before((*parts, "*"))
        if path is None:
            name = asked.columns.get(parts[0])
            if name is not None:
                yield name, False
        elif path[0] in self.meant:
            yield EVERY_COLUMN, False

    def of_join(self, join: exp.Join, asked: _Asked) -> Iterator[_Use]:
        """The columns that USING names; a natural join takes all of the same name."""
        if join.method == "NATURAL":
            yield EVERY_COLUMN, False
        for each in join.args.get("using") or ():
            name = asked.columns.get(each.name.lower())
            if name is not None:
                yield name, len(self.paths) == 2 and all(self.meant.values())

    def _path_before(self, parts: _Path) -> tuple[_Path, int] | None:
        """The source that names before a column mean, and how many of the names; None if none."""
        for length in range(len(parts) - 1, 0, -1):
            for path in self.paths:
                if path[-length:] == parts[:length]:
                    return path, length
        return None


def _written(statement: exp.Expr, asked: _Asked) -> Iterator[_Use]:
    """The columns that `INSERT INTO table (…)` lists; without a list, positions decide."""
    if isinstance(statement, exp.Create):
        return
    target = statement.this
    if isinstance(target, exp.Table) and asked.is_meant(target):
        yield EVERY_COLUMN, False
        return
    table = target.this if isinstance(target, exp.Schema) else None
    if isinstance(table, exp.Table) and asked.is_meant(table):
        for expression in target.expressions:
            name = asked.columns.get(expression.name.lower())
            if name is not None:
                yield name, asked.is_certain(table)


def _changed(statement: exp.Expr, asked: _Asked) -> Iterator[_Use]:
    """The uses in UPDATE, DELETE, MERGE and other statements that are no query."""
    tables = [(each.alias_or_name, each) for each in statement.find_all(exp.Table)]
    sources = _Sources.of(tables, asked)
    if not sources.meant:
        return
    for column in statement.find_all(exp.Column):
        if not isinstance(column.this, exp.Star):
            yield from sources.uses(column, asked, is_alone=len(tables) == 1)
    for star in statement.find_all(exp.Star):
        yield from sources.of_star(star, asked)
    for join in statement.find_all(exp.Join):
        yield from sources.of_join(join, asked)


def _words(statement: str, asked: _Asked) -> Iterator[ColumnUse]:
    """Columns whose names stand in one statement with the table's name."""
    words = set(re.findall(r"\w+", statement.lower()))
    if asked.table not in words:
        return
    for lower, name in asked.columns.items():
        if lower in words:
            yield ColumnUse(name, is_certain=False)
    if "*" in statement or "insert" in words:
        yield ColumnUse(EVERY_COLUMN, is_certain=False)
