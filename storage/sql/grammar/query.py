"""SELECT and VALUES: the text of a query, which an engine parses, and the literals of VALUES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakewright.storage.errors import InvalidStatement
from lakewright.storage.sql.grammar.constants import BeyondError, ImpossibleError, constant
from lakewright.storage.sql.grammar.cursor import Cursor, StatementDialect, place

# The words that a query begins with.
FIRST_WORDS = ("SELECT", "VALUES", "WITH", "FROM", "(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The text of a query, and where it begins in the text of all statements.

    `rows` are those of VALUES in an INSERT if all are literals: they take the types of the columns
    that they fill, and need no engine.
    """

    text: str
    around: str
    start: int
    rows: tuple[tuple[object, ...], ...] | None = None

    @property
    def is_values(self) -> bool:
        """Whether it is VALUES, whose columns have no names."""
        return self.text[:6].upper() == "VALUES"

    def refuse(self, offset: int, message: str) -> NoReturn:
        """Refuse the statement at a place in the query.

        Raises:
            InvalidStatement: always.
        """
        raise InvalidStatement(f"{place(self.around, self.start + offset)}: {message}")


def parse_query(cursor: Cursor, *, fills: bool = False) -> Query:
    """The query that the rest of a statement is; one that `fills` a table may be of literals alone.

    Raises:
        InvalidStatement: it is none.
    """
    if not any(map(cursor.peek, FIRST_WORDS)):
        cursor.refuse(f"expected SELECT or VALUES, found {cursor.shown()}")
    start = cursor.mark()
    is_values = cursor.peek("VALUES")
    text = cursor.rest()
    rows = None
    if fills and is_values:
        try:
            rows = _literals(text)
        except ImpossibleError as error:
            cursor.refuse_at(start, str(error))
    return Query(text=text, around=cursor.around, start=start, rows=rows)


def _literals(text: str) -> tuple[tuple[object, ...], ...] | None:
    """The rows of VALUES, None if they are more than literals."""
    try:
        trees = StatementDialect().parse(text)
        if len(trees) != 1 or not isinstance(trees[0], exp.Values):
            return None
        if {name for name, value in trees[0].args.items() if value} != {"expressions"}:
            return None
        return tuple(
            tuple(map(constant, expression.expressions))
            if isinstance(expression, exp.Tuple)
            else (constant(expression),)
            for expression in trees[0].expressions
        )
    except (BeyondError, SqlglotError, RecursionError, IndexError):
        # So sqlglot fails on a call that lacks an argument.
        return None
