"""The tables that a query names, and the query with other names for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp


def named_tables(tree: exp.Expr) -> Iterator[exp.Table]:
    """The tables that are no parts of the query itself."""
    own = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    for each in tree.find_all(exp.Table):
        if isinstance(each.this, exp.Identifier) and (each.db or each.name.lower() not in own):
            yield each


def with_views(text: str, tree: exp.Expr, view_of: Callable[[exp.Table], str]) -> str:
    """The text of a query over views; what stands before its columns names them as before.

    The text stays as it is elsewhere: literals and hints are not rewritten.
    """
    changes: list[tuple[int, int, str]] = []
    for node in named_tables(tree):
        database, table = node.args.get("db"), node.this
        named = text[table.meta["start"] : table.meta["end"] + 1]
        alias = "" if node.alias else f" AS {named}"
        start = (database or table).meta["start"]
        changes.append((start, table.meta["end"] + 1, f"`{view_of(node)}`{alias}"))
    for column in tree.find_all(exp.Column):
        database = column.args.get("db")
        if database is not None:
            # The alias of a table is its name alone.
            changes.append((database.meta["start"], column.args["table"].meta["start"], ""))
    written = text
    for start, end, name in sorted(changes, reverse=True):
        written = written[:start] + name + written[end:]
    return written
