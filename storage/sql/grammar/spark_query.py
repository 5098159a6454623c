"""Queries in Spark's SQL: the tables that one names, and its text over views of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from lakewright.storage.sql.grammar.constants import shown
from lakewright.storage.sql.grammar.cursor import StatementDialect
from lakewright.storage.sql.grammar.query import Query
from lakewright.storage.sql.grammar.wrong_words import what_is_wrong
from lakewright.storage.sql.table_names import named_tables, with_views


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """A parsed query, and the tables that it names."""

    text: str
    tables: tuple[str, ...]
    tree: exp.Expr

    def over(self, views: Mapping[str, str]) -> str:
        """The query with other names for its tables."""
        return with_views(self.text, self.tree, lambda node: views[_name(node)])


def spark_query(query: Query) -> SparkQuery:
    """The query as Spark is to read it.

    Raises:
        InvalidStatement: it cannot be parsed, or names what is no table here.
    """
    try:
        trees = [each for each in StatementDialect().parse(query.text) if each is not None]
    except ParseError as error:
        offset, why = what_is_wrong(query.text, error)
        query.refuse(offset, f"the query cannot be parsed: {why}")
    except (SqlglotError, RecursionError) as error:
        query.refuse(0, f"the query cannot be parsed: {error}")
    except IndexError:
        # So sqlglot fails on a call such as MAP('a').
        query.refuse(0, "the query cannot be parsed: a function lacks an argument")
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        query.refuse(0, "expected one query: SELECT … or VALUES (…), (…)")
    tree = trees[0]
    if not all(each.expressions for each in tree.find_all(exp.Select)):
        query.refuse(0, "SELECT names no column; write SELECT * or the columns")
    for table in tree.find_all(exp.Table):
        _check_parts(query, table)
    tables = []
    for table in named_tables(tree):
        alias = table.args.get("alias")
        if isinstance(alias, exp.TableAlias) and isinstance(alias.this, exp.Parameter):
            query.refuse(
                table.this.meta["end"] + 1,
                f"write the name of a system table in backticks: `{table.name}$…`",
            )
        tables.append(_name(table))
    return SparkQuery(query.text, tuple(dict.fromkeys(tables)), tree)


def _check_parts(query: Query, table: exp.Table) -> None:
    """Refuse a table with more parts than names have here, or at a moment of its history."""
    if isinstance(table.this, exp.Dot) or table.catalog:
        query.refuse(
            0,
            f"{shown(table)} has more than two parts; the warehouse is the catalog: write "
            "database.table",
        )
    if table.args.get("version"):
        query.refuse(
            0,
            f"{shown(table)} asks for an earlier state, which queries read without an engine: "
            "RESET 'query.engine'",
        )


def _name(table: exp.Table) -> str:
    return f"{table.db}.{table.name}" if table.db else table.name
