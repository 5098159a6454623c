"""Queries that return the rows which are wrong: what they name, and the text that an engine runs.

The name `batch` stands for the rows that are asked about; every other table is `database.table`.
A query that counts rows instead is recognised: it always returns one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp, parse
from sqlglot.errors import ParseError, SqlglotError

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.sql.table_names import named_tables, with_views

BATCH = "batch"
# The column of the result of a query that counts.
COUNT_COLUMN = "count"
_DIALECT = "spark"
_OTHER_DIALECT = "duckdb"
_COUNTS = (exp.Count, exp.CountIf)


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A query, the tables that it names beside `batch`, and whether its result is a count."""

    text: str
    tables: tuple[str, ...]
    is_count: bool

    def over(self, names: Mapping[str, str]) -> str:
        """The query with other names for `batch` and for its tables, in Spark's SQL.

        The result of a count is then one row with the column `count`, or none if it is zero.
        """
        tree = _parsed(self.text)
        written = with_views(self.text, tree, lambda node: names[_name(node)])
        if not self.is_count:
            return written
        # The text may end in a comment.
        counted = f"(\n{written}\n) AS counted(`{COUNT_COLUMN}`)"
        return f"SELECT * FROM {counted} WHERE `{COUNT_COLUMN}` <> 0"  # noqa: S608 - the author's


def parse_row_query(text: str) -> RowQuery:
    """The query that a text says.

    Raises:
        InvalidRequestError: the text is not one query that names `batch`, or its result is one row
            whatever the rows are.
    """
    text = text.strip().rstrip("; \t\r\n")
    tree = _parsed_in_any(text)
    names = []
    for node in named_tables(tree):
        if node.catalog or (not node.db and _name(node) != BATCH):
            raise InvalidRequestError(
                f"the query names {node.sql(dialect=_DIALECT)}; name the rows of the run as "
                f"{BATCH}, and other tables as database.table"
            )
        names.append(_name(node))
    if BATCH not in names:
        raise InvalidRequestError(
            f"the query does not name {BATCH}, the rows of the run; ask such as which rows of "
            f"{BATCH} are wrong"
        )
    others = tuple(name for name in dict.fromkeys(names) if name != BATCH)
    return RowQuery(text, others, _is_count(tree))


def in_duckdb(text: str) -> str | None:
    """A query in Spark's SQL as DuckDB's; None if it cannot be parsed as such."""
    try:
        return _parsed(text).sql(dialect=_OTHER_DIALECT)
    except (InvalidRequestError, SqlglotError):
        return None


def _parsed_in_any(text: str) -> exp.Query:
    """The query in Spark's SQL, or else in DuckDB's; an error is that of Spark's."""
    try:
        return _parsed(text)
    except InvalidRequestError as error:
        try:
            return _parsed(text, _OTHER_DIALECT)
        except InvalidRequestError:
            raise error from None


def _parsed(text: str, dialect: str = _DIALECT) -> exp.Query:
    try:
        statements = [each for each in parse(text, dialect=dialect) if each is not None]
    except ParseError as error:
        found = error.errors[0] if error.errors else {}
        where = f"line {found.get('line')}, column {found.get('col')}: " if found else ""
        raise InvalidRequestError(
            f"the query cannot be parsed: {where}{found.get('description') or error}"
        ) from error
    except (SqlglotError, RecursionError) as error:
        raise InvalidRequestError(f"the query cannot be parsed: {error}") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise InvalidRequestError("the text is not one query; write one that begins with SELECT")
    return statements[0]


def _name(node: exp.Table) -> str:
    if node.db:
        return f"{node.db}.{node.name}"
    return node.name.lower()


def _is_count(tree: exp.Query) -> bool:
    """Whether the result is one number of rows.

    Raises:
        InvalidRequestError: the result is one row of another kind.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("group") or tree.args.get("having"):
        return False
    values = [expression.unalias() for expression in tree.expressions]
    if len(values) == 1 and isinstance(values[0], _COUNTS):
        return True
    if values and all(_is_aggregate(each, tree) for each in values):
        raise InvalidRequestError(
            "the query always returns one row; return the rows that are wrong, "
            "count them with count(*), or say with HAVING when the result is wrong"
        )
    return False


def _is_aggregate(value: exp.Expr, tree: exp.Query) -> bool:
    """Whether a value is made of all rows together, and not of a window or of a subquery."""
    return any(
        each.find_ancestor(exp.Window) is None and each.find_ancestor(exp.Query) is tree
        for each in value.find_all(exp.AggFunc)
    )
