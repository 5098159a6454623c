"""What a query is made of: the tables that it names, and the columns that its own are made of.

The text is parsed in the dialect of its engine, which may know more than this parser does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage

from lakewright.storage.errors import InvalidStatement
from lakewright.storage.sql.duckdb_dialect import DuckDbDialect
from lakewright.storage.sql.table_names import named_tables

# Suffixes of names that are states of a table, or its metadata.
_MARK = "$"


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """The tables of a query as `db.table`, and by output column the upstream columns."""

    tables: tuple[str, ...]
    origins: Mapping[str, tuple[tuple[str, str], ...]]


def query_columns(text: str, *, dialect: str, columns: Mapping[str, Sequence[str]]) -> QueryColumns:
    """The tables and columns of a query; `columns` are those of the tables that are known.

    Raises:
        InvalidStatement: it cannot be parsed, or names a table without its database.
    """
    tree = _parsed(text, dialect)
    names = {column.casefold(): column for column in columns}
    tables = []
    for node in named_tables(tree):
        if node.catalog or not node.db:
            shown = node.sql(dialect=dialect)
            raise InvalidStatement(f"the query names {shown}; name tables as database.table")
        name = f"{node.db}.{node.name.partition(_MARK)[0]}"
        tables.append(names.get(name.casefold(), name))
    found = tuple(dict.fromkeys(tables))
    return QueryColumns(found, _origins(tree, dialect, columns, found))


def _parsed(text: str, dialect: str) -> exp.Query:
    try:
        # A comment behind the last semicolon is parsed as one.
        trees = [
            each
            for each in parse(text, dialect=DuckDbDialect if dialect == "duckdb" else dialect)
            if each is not None and not isinstance(each, exp.Semicolon)
        ]
    except (SqlglotError, RecursionError, IndexError) as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidStatement(f"the query cannot be parsed: {first}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise InvalidStatement("the text is not one query; write one that begins with SELECT")
    return trees[0]


def _origins(
    tree: exp.Query, dialect: str, columns: Mapping[str, Sequence[str]], tables: Sequence[str]
) -> dict[str, tuple[tuple[str, str], ...]]:
    known = {name.casefold(): name for name in tables}
    spelled = {(name, each.casefold()): each for name in tables for each in columns.get(name, ())}
    schema: dict[str, dict[str, dict[str, str]]] = {}
    for each in tables:
        database, _, table = each.partition(".")
        if columns.get(each):
            schema.setdefault(database, {})[table] = dict.fromkeys(columns[each], "UNKNOWN")
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    try:
        nodes = lineage(None, tree.copy(), schema, dialect=dialect)
        assert isinstance(nodes, dict)
        for output, top in nodes.items():
            origins: dict[tuple[str, str], None] = {}
            for node in top.walk():
                source = node.expression
                if not isinstance(source, exp.Table):
                    continue
                name = known.get(f"{source.db}.{source.name}".casefold())
                column = node.name.rpartition(".")[2].strip('"`')
                if name is not None and column != "*":
                    origins[name, spelled.get((name, column.casefold()), column)] = None
            found[output] = tuple(origins)
    except (SqlglotError, ValueError, KeyError, RecursionError):
        return {}
    return found
