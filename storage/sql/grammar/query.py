"""SELECT and VALUES: what sqlglot reads in them, as values that this process can carry out.

Simple queries read one table: columns, literals, a filter, an order by columns, a limit, or
count(*). What is beyond that is left to an engine, with the tables that the text names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from lakewright.storage.sql.grammar.constants import BeyondError, ImpossibleError, constant, shown
from lakewright.storage.sql.grammar.cursor import Cursor, StatementDialect, whole
from lakewright.storage.sql.grammar.wrong_words import what_is_wrong
from lakewright.storage.sql.table_names import named_tables, with_views

# A table has no more rows than Arrow can count.
_MOST_ROWS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Item:
    """A column of a result: a column of the table (`*` for all), or else a literal."""

    name: str
    column: str | None = None
    value: object = None


@dataclass(frozen=True, slots=True)
class Order:
    """A column to sort by: one of the result, unless `of_table`, or else one of the table."""

    name: str
    is_descending: bool
    of_table: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleQuery:
    """A query that needs no engine.

    `rows` are those of VALUES. All of `order` have one direction. The item of a count has its name.
    """

    table: str | None = None
    items: tuple[Item, ...] = ()
    where: exp.Expr | None = None
    where_text: str = ""
    order: tuple[Order, ...] = ()
    limit: int | None = None
    is_count: bool = False
    rows: tuple[tuple[object, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query: its text, the tables that it names, and its simple form.

    Without a simple form, `beyond` is what needs an engine, and `instead` what may do without one.
    """

    text: str
    tables: tuple[str, ...]
    simple: SimpleQuery | None
    beyond: str = ""
    instead: str = ""

    def over(self, views: Mapping[str, str]) -> str:
        """The query with other names for its tables."""
        tree = StatementDialect().parse(self.text)[0]
        assert tree is not None
        return with_views(self.text, tree, lambda node: views[_name(node)])


def parse_query(cursor: Cursor) -> Query:
    """The query that the rest of a statement is.

    Raises:
        InvalidStatement: it is none.
    """
    if not any(map(cursor.peek, ("SELECT", "VALUES", "WITH", "("))):
        cursor.refuse(f"expected SELECT or VALUES, found {cursor.shown()}")
    begin = cursor.mark()
    text = cursor.rest()
    try:
        trees = [each for each in StatementDialect().parse(text) if each is not None]
    except ParseError as error:
        offset, why = what_is_wrong(text, error)
        cursor.refuse_at(begin + offset, f"the query cannot be parsed: {why}")
    except (SqlglotError, RecursionError) as error:
        cursor.refuse_at(begin, f"the query cannot be parsed: {error}")
    except IndexError:
        # So sqlglot fails on a call such as MAP('a').
        cursor.refuse_at(begin, "the query cannot be parsed: a function lacks an argument")
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        cursor.refuse_at(begin, "expected one query: SELECT … or VALUES (…), (…)")
    tree = trees[0]
    if not all(each.expressions for each in tree.find_all(exp.Select)):
        cursor.refuse_at(begin, "SELECT names no column; write SELECT * or the columns")
    for table in tree.find_all(exp.Table):
        _check_moment(cursor, begin, table)
    tables = []
    for table in named_tables(tree):
        first, last = table.args.get("db") or table.this, table.this
        if isinstance(table.args.get("alias"), exp.TableAlias) and isinstance(
            table.args["alias"].this, exp.Parameter
        ):
            cursor.refuse_at(
                begin + last.meta["end"] + 1,
                f"write the name of a system table in backticks: `{table.name}$…`",
            )
        if table.catalog:
            cursor.refuse_at(
                begin + first.meta["start"],
                f"{table.sql(dialect=StatementDialect)} has more than two parts; the warehouse is "
                "the catalog: write database.table",
            )
        tables.append(_name(table))
    query = Query(text=text, tables=tuple(dict.fromkeys(tables)), simple=None)
    try:
        return replace(query, simple=_simple(tree))
    except ImpossibleError as error:
        cursor.refuse_at(begin, str(error))
    except BeyondError as error:
        return replace(query, beyond=str(error), instead=error.instead)


def _check_moment(cursor: Cursor, begin: int, table: exp.Table) -> None:
    """Refuse a table with more parts than names have here, or at a moment of its history."""
    if isinstance(table.this, exp.Dot):
        cursor.refuse_at(
            begin,
            f"{shown(table)} has more than two parts; the warehouse is the catalog: write "
            "database.table",
        )
    if table.args.get("version"):
        cursor.refuse_at(
            begin,
            f"{shown(table)} asks for an earlier state, which no query reads; `lakewright read "
            f"{_name(table)} --snapshot N`, --tag or --as-of does, and Table.at(…)",
        )


def _name(table: exp.Table) -> str:
    return f"{table.db}.{table.name}" if table.db else table.name


# --- the simple form ----------------------------------------------------------------------------


# Names of sqlglot for parts of a query, where they are not the words of the query.
_PARTS = {"joins": "a join", "group": "GROUP BY", "laterals": "LATERAL VIEW", "order": "ORDER BY"}


def _part(name: str) -> str:
    return _PARTS.get(name, name.rstrip("_").upper().replace("_", " "))


def _simple(tree: exp.Expr) -> SimpleQuery:
    if isinstance(tree, exp.Subquery) and set(_given(tree)) == {"this"}:
        return _simple(tree.this)
    if isinstance(tree, exp.Values):
        for name in _given(tree):
            if name not in ("expressions", "limit"):
                raise BeyondError(f"{_part(name)} behind VALUES")
        return SimpleQuery(rows=_rows(tree)[: _limit(tree.args.get("limit"))])
    if not isinstance(tree, exp.Select):
        raise BeyondError(shown(tree))
    given = _given(tree)
    for name in given:
        # A hint changes no row.
        if name not in ("expressions", "from_", "where", "order", "limit", "hint"):
            raise BeyondError(_part(name))
    source = given.get("from_")
    if source is None:
        for name in given:
            if name not in ("expressions", "hint"):
                raise BeyondError(f"{_part(name)} without FROM")
        for each in tree.expressions:
            if isinstance(each.unalias(), exp.Star):
                raise ImpossibleError("SELECT * names no table; write SELECT * FROM t")
        values = tuple(constant(each.unalias()) for each in tree.expressions)
        return SimpleQuery(rows=(values,), items=tuple(map(_item, tree.expressions)))
    table, qualifiers = _source(source.this)
    where = given.get("where")
    condition = None if where is None else _unqualified(where.this, qualifiers)
    limit = _limit(given.get("limit"))
    is_count = _is_count(tree)
    return SimpleQuery(
        table=table,
        items=(
            (Item(tree.expressions[0].alias or "count(*)"),)
            if is_count
            else tuple(_item(each, qualifiers) for each in tree.expressions)
        ),
        where=condition,
        where_text="" if condition is None else condition.sql(dialect=StatementDialect),
        order=_order(given.get("order"), qualifiers),
        limit=limit,
        is_count=is_count,
    )


def _given(tree: exp.Expr) -> dict[str, exp.Expr]:
    return {name: value for name, value in tree.args.items() if value}


def _source(source: exp.Expr) -> tuple[str, frozenset[str]]:
    """The one table of a query, and the names that may stand before its columns."""
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        raise BeyondError(shown(source))
    others = set(_given(source)) - {"this", "db", "alias"}
    if others or (source.args.get("alias") and source.args["alias"].columns):
        raise BeyondError(shown(source))
    name = _name(source)
    return name, frozenset({source.alias or source.name, source.alias or name})


def _unqualified(tree: exp.Expr, qualifiers: frozenset[str]) -> exp.Expr:
    """A condition whose columns have no names of tables before them."""
    if tree.find(exp.Query):
        raise BeyondError("a subquery")
    tree = tree.copy()
    for column in tree.find_all(exp.Column):
        _check_qualifier(column, qualifiers)
        column.set("table", None)
        column.set("db", None)
    return tree


def _check_qualifier(column: exp.Column, qualifiers: frozenset[str]) -> None:
    before = ".".join(part.name for part in column.parts[:-1])
    if before and before not in qualifiers:
        names = " or ".join(sorted(qualifiers))
        raise BeyondError(
            shown(column),
            f"{before} is no name of the table, which is {names}; if it is a column with members, "
            "an engine answers: SET 'query.engine' = 'spark'",
        )


def _item(tree: exp.Expr, qualifiers: frozenset[str] = frozenset()) -> Item:
    value = tree.unalias()
    if isinstance(value, exp.Star) and not _given(value):
        return Item("*", column="*")
    if isinstance(value, exp.Column):
        _check_qualifier(value, qualifiers)
        if isinstance(value.this, exp.Star):
            return Item("*", column="*")
        return Item(tree.alias or value.name, column=value.name)
    return Item(tree.alias or shown(value), value=constant(value))


def _is_count(tree: exp.Select) -> bool:
    first = tree.expressions[0].unalias()
    return (
        len(tree.expressions) == 1
        and isinstance(first, exp.Count)
        and isinstance(first.this, exp.Star)
        and not tree.args.get("order")
    )


def _limit(tree: exp.Expr | None) -> int | None:
    if tree is None:
        return None
    count = tree.args.get("expression")
    match count:
        case exp.Literal() if not count.is_string and count.this.isdecimal():
            return min(whole(count.this), _MOST_ROWS)
        case exp.Literal() | exp.Neg():
            raise ImpossibleError(
                f"{shown(tree).strip()} is no limit; write a whole number from 0 on"
            )
        case _:
            raise BeyondError(shown(tree).strip())


def _order(tree: exp.Expr | None, qualifiers: frozenset[str]) -> tuple[Order, ...]:
    """Columns with their directions; null is the least of all values, as in Spark."""
    found = []
    for each in tree.expressions if tree is not None else ():
        is_descending = bool(each.args.get("desc"))
        first = bool(each.args.get("nulls_first"))
        if not isinstance(each.this, exp.Column) or first is is_descending:
            raise BeyondError(f"ORDER BY {shown(each)}")
        _check_qualifier(each.this, qualifiers)
        found.append(Order(each.this.name, is_descending, of_table=bool(each.this.table)))
    if len({each.is_descending for each in found}) > 1:
        raise BeyondError("ORDER BY in two directions")
    return tuple(found)


def _rows(tree: exp.Values) -> tuple[tuple[object, ...], ...]:
    if tree.alias:
        raise BeyondError(shown(tree))
    return tuple(
        tuple(map(constant, each.expressions)) if isinstance(each, exp.Tuple) else (constant(each),)
        for each in tree.expressions
    )
