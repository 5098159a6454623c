"""SELECT and VALUES: what sqlglot reads in them, as values that this process can carry out.

Simple queries read one table: columns, literals, a filter, an order by columns, a limit, or
count(*). What is beyond that is left to an engine, with the tables that the text names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from lakewright.storage.errors import InvalidStatement
from lakewright.storage.sql.grammar.cursor import Cursor, StatementDialect, number
from lakewright.storage.sql.literals import Moment, plain
from lakewright.storage.sql.table_names import named_tables, with_views
from lakewright.storage.sql.where import DATED

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

    Without a simple form, `beyond` is what needs an engine.
    """

    text: str
    tables: tuple[str, ...]
    simple: SimpleQuery | None
    beyond: str = ""

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
        found = error.errors[0] if error.errors else {}
        why = str(found.get("description") or error).split(" but got <Token")[0]
        cursor.refuse_at(begin + _offset(text, found), f"the query cannot be parsed: {why}")
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
    try:
        simple, beyond = _simple(tree), ""
    except _BeyondError as error:
        simple, beyond = None, str(error)
    return Query(text=text, tables=tuple(dict.fromkeys(tables)), simple=simple, beyond=beyond)


def _offset(text: str, found: Mapping[str, object]) -> int:
    """Where the word begins whose end sqlglot says."""
    line, column = found.get("line"), found.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return 0
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return max(0, start + column - len(str(found.get("highlight") or "x")))


def _name(table: exp.Table) -> str:
    return f"{table.db}.{table.name}" if table.db else table.name


# --- the simple form ----------------------------------------------------------------------------


class _BeyondError(Exception):
    """A part of a query that needs an engine."""


def _simple(tree: exp.Expr) -> SimpleQuery:
    if isinstance(tree, exp.Subquery) and set(_given(tree)) == {"this"}:
        return _simple(tree.this)
    if isinstance(tree, exp.Values):
        return SimpleQuery(rows=_rows(tree))
    if not isinstance(tree, exp.Select):
        raise _BeyondError(_shown(tree))
    given = _given(tree)
    for name in given:
        if name not in ("expressions", "from_", "where", "order", "limit"):
            raise _BeyondError(name.rstrip("_").upper().replace("_", " "))
    source = given.get("from_")
    if source is None:
        for name in given:
            if name != "expressions":
                raise _BeyondError(f"{name.upper()} without FROM")
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


def _shown(tree: exp.Expr) -> str:
    text = tree.sql(dialect=StatementDialect)
    return text if len(text) <= 80 else text[:77] + "…"


def _source(source: exp.Expr) -> tuple[str, frozenset[str]]:
    """The one table of a query, and the names that may stand before its columns."""
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        raise _BeyondError(_shown(source))
    others = set(_given(source)) - {"this", "db", "alias"}
    if others or (source.args.get("alias") and source.args["alias"].columns):
        raise _BeyondError(_shown(source))
    name = _name(source)
    return name, frozenset({source.alias or source.name, source.alias or name})


def _unqualified(tree: exp.Expr, qualifiers: frozenset[str]) -> exp.Expr:
    """A condition whose columns have no names of tables before them."""
    if tree.find(exp.Query):
        raise _BeyondError("a subquery")
    tree = tree.copy()
    for column in tree.find_all(exp.Column):
        _check_qualifier(column, qualifiers)
        column.set("table", None)
        column.set("db", None)
    return tree


def _check_qualifier(column: exp.Column, qualifiers: frozenset[str]) -> None:
    before = ".".join(part.name for part in column.parts[:-1])
    if before and before not in qualifiers:
        raise _BeyondError(_shown(column))


def _item(tree: exp.Expr, qualifiers: frozenset[str] = frozenset()) -> Item:
    value = tree.unalias()
    if isinstance(value, exp.Star) and not _given(value):
        return Item("*", column="*")
    if isinstance(value, exp.Column):
        _check_qualifier(value, qualifiers)
        if isinstance(value.this, exp.Star):
            return Item("*", column="*")
        return Item(tree.alias or value.name, column=value.name)
    return Item(tree.alias or _shown(value), value=constant(value))


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
    if not isinstance(count, exp.Literal) or count.is_string or not count.this.isdecimal():
        raise _BeyondError(_shown(tree).strip())
    return min(int(count.this), _MOST_ROWS)


def _order(tree: exp.Expr | None, qualifiers: frozenset[str]) -> tuple[Order, ...]:
    """Columns with their directions; null is the least of all values, as in Spark."""
    found = []
    for each in tree.expressions if tree is not None else ():
        is_descending = bool(each.args.get("desc"))
        first = bool(each.args.get("nulls_first"))
        if not isinstance(each.this, exp.Column) or first is is_descending:
            raise _BeyondError(f"ORDER BY {_shown(each)}")
        _check_qualifier(each.this, qualifiers)
        found.append(Order(each.this.name, is_descending, of_table=bool(each.this.table)))
    if len({each.is_descending for each in found}) > 1:
        raise _BeyondError("ORDER BY in two directions")
    return tuple(found)


def _rows(tree: exp.Values) -> tuple[tuple[object, ...], ...]:
    if tree.alias:
        raise _BeyondError(_shown(tree))
    return tuple(
        tuple(map(constant, each.expressions)) if isinstance(each, exp.Tuple) else (constant(each),)
        for each in tree.expressions
    )


def constant(tree: exp.Expr) -> object:
    """A literal as a Python value; DATE '…' and its like are `Moment`.

    Raises:
        _BeyondError: it is an expression.
        InvalidStatement: it is no value.
    """
    match tree:
        case exp.Paren():
            return constant(tree.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(tree.this)
        case exp.Literal():
            return str(tree.this) if tree.is_string else number(str(tree.this))
        case exp.HexString() if len(tree.this) % 2 == 0:
            return bytes.fromhex(tree.this)
        case exp.Neg() if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
            return number(f"-{tree.this.this}")
        case exp.Cast() if tree.to.this in DATED and tree.this.is_string:
            return Moment(str(tree.this.this), DATED[tree.to.this])
        case exp.Array():
            return [constant(each) for each in tree.expressions]
        case exp.VarMap():
            keys, values = (
                [constant(each) for each in part.expressions]
                for part in (tree.args["keys"], tree.args["values"])
            )
            return _mapping(keys, values, tree)
        case exp.Struct() if all(isinstance(each, exp.PropertyEQ) for each in tree.expressions):
            names = [each.name for each in tree.expressions]
            return _mapping(names, [constant(each.expression) for each in tree.expressions], tree)
        case _:
            raise _BeyondError(_shown(tree))


def _mapping(keys: Sequence[object], values: Sequence[object], tree: exp.Expr) -> object:
    """Keys with their values.

    Raises:
        InvalidStatement: a key stands twice.
    """
    if any(isinstance(key, (list, dict)) for key in keys):
        raise _BeyondError(_shown(tree))
    twice = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
    if twice is not None:
        raise InvalidStatement(f"{_shown(tree)} has the key {plain(twice)!r} twice; write it once")
    return dict(zip(keys, values, strict=True))
