"""Finds uses of a table's columns in the text of SQL statements.

A use is certain if the statement names the column of just that table. It is not if a name could
belong to another table, if all columns are taken (`*`), or if a statement cannot be parsed, such as
a template; then its words decide.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp, parse
from sqlglot.errors import ParseError, TokenError
from sqlglot.optimizer.scope import traverse_scope

from lakewright.storage.spec.schema_gate import EVERY_COLUMN

_DIALECT = "spark"


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column that a statement uses, and the view that the statement creates."""

    column: str
    is_certain: bool
    view: str | None = None


def used_columns(text: str, table: str, columns: Sequence[str]) -> Iterator[ColumnUse]:
    """The uses of columns of a table (`db.table`) in statements, each once by statement."""
    database, _, name = table.lower().partition(".")
    asked = _Asked(database, name, {each.lower(): each for each in columns})
    if name not in text.lower():
        return
    try:
        with _quiet():
            statements = parse(text, dialect=_DIALECT)
    except (ParseError, TokenError, RecursionError):
        for part in text.split(";"):
            yield from _words(part, asked)
        return
    for statement in statements:
        if isinstance(statement, exp.Command):
            # The parser keeps the text of a statement that it does not know.
            yield from _words(statement.sql(dialect=_DIALECT), asked)
        elif statement is not None:
            yield from _of_statement(statement, asked)


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
        """Without a database, the name may be one of another database."""
        return node.db != ""


# A column and whether its use is certain.
_Use = tuple[str, bool]


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
    query = statement
    if isinstance(statement, (exp.Create, exp.Insert)):
        yield from _written(statement, asked)
        query = statement.expression
    if isinstance(query, exp.Query):
        yield from _read(query, asked)
    elif query is statement:
        yield from _changed(statement, asked)


def _read(query: exp.Query, asked: _Asked) -> Iterator[_Use]:
    """The uses in a query, scope by scope."""
    for scope in traverse_scope(query):
        sources = scope.sources
        meant = {
            name: asked.is_certain(source)
            for name, source in sources.items()
            if isinstance(source, exp.Table) and asked.is_meant(source)
        }
        if not meant:
            continue
        for column in scope.columns:
            name = asked.columns.get(column.name.lower())
            if name is None:
                continue
            if column.table:
                if column.table in meant:
                    yield name, meant[column.table]
            else:
                yield name, len(sources) == 1 and all(meant.values())
        read = scope.expression
        if isinstance(read, exp.Select) and any(_is_star(each, meant) for each in read.selects):
            yield EVERY_COLUMN, False


def _is_star(selected: exp.Expr, meant: dict[str, bool]) -> bool:
    if isinstance(selected, exp.Column):
        return isinstance(selected.this, exp.Star) and selected.table in meant
    return isinstance(selected, exp.Star)


def _written(statement: exp.Expr, asked: _Asked) -> Iterator[_Use]:
    """The columns that `INSERT INTO table (…)` lists."""
    target = statement.this
    if isinstance(target, exp.Schema) and isinstance(target.this, exp.Table):
        if not asked.is_meant(target.this) or isinstance(statement, exp.Create):
            return
        for each in target.expressions:
            name = asked.columns.get(each.name.lower())
            if name is not None:
                yield name, asked.is_certain(target.this)


def _changed(statement: exp.Expr, asked: _Asked) -> Iterator[_Use]:
    """The uses in UPDATE, DELETE, MERGE and other statements that are no query."""
    tables = list(statement.find_all(exp.Table))
    meant = {each.alias_or_name: asked.is_certain(each) for each in tables if asked.is_meant(each)}
    if not meant:
        return
    for column in statement.find_all(exp.Column):
        name = asked.columns.get(column.name.lower())
        if name is None:
            continue
        if column.table:
            if column.table in meant:
                yield name, meant[column.table]
        else:
            yield name, len(tables) == 1 and all(meant.values())


def _words(statement: str, asked: _Asked) -> Iterator[ColumnUse]:
    """Columns whose names stand in one statement with the table's name."""
    words = set(re.findall(r"\w+", statement.lower()))
    if asked.table not in words:
        return
    for lower, name in asked.columns.items():
        if lower in words:
            yield ColumnUse(name, is_certain=False)
    if "*" in statement:
        yield ColumnUse(EVERY_COLUMN, is_certain=False)
