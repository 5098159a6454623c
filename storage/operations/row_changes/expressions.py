"""New values of columns as SQL expressions, which DuckDB computes over Arrow rows.

What an expression gives is judged as the column of a query is that INSERT writes: it stays the
same, is converted exactly, or is refused. A literal is taken as VALUES takes it, and a column of a
table alone is never DuckDB's.

The connection sees the rows that it is given and nothing else: no files, network or extensions.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.conform import conform, numbers_of_query
from lakewright.storage.codec.python_columns import UnfitValueError, python_column
from lakewright.storage.errors import InvalidRequestError, InvalidRows, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.arguments import mapping_argument
from lakewright.storage.spec.data_types import DataField, TypeRoot
from lakewright.storage.spec.literals import Moment, fitted, plain

if TYPE_CHECKING:
    import duckdb

# SQL sees no file, no network, no extension and no variable of the process, and writes nowhere.
LOCKED = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
# Python runs several at once.
_OWN: dict[str, str | bool | int | float | list[str]] = {
    **LOCKED,
    "memory_limit": "60%",
    "threads": "1",
}
# Of the databases that queries have for themselves.
_NUMBERS = count()

# Types of literals with a keyword, as DuckDB names them.
_DATED = {
    "DATE": TypeRoot.DATE,
    "TIME": TypeRoot.TIME,
    "TIMESTAMP": TypeRoot.TIMESTAMP,
    "DATETIME": TypeRoot.TIMESTAMP,
    "TIMESTAMP_NS": TypeRoot.TIMESTAMP,
    "TIMESTAMPTZ": TypeRoot.TIMESTAMP_LTZ,
    "TIMESTAMP WITH TIME ZONE": TypeRoot.TIMESTAMP_LTZ,
}
# Digits below the second that DuckDB would cut.
_CUT_DIGITS = re.compile(r":\d\d\.\d{6}\d*[1-9]")

# Tables that subqueries read, by the names that they say.
Others: TypeAlias = "tuple[tuple[str, pa.Table], ...]"


@dataclass(frozen=True, slots=True)
class Assignments:
    """Columns and the expressions of their new values, which call the table `row`.

    Subqueries of the expressions read the tables `others`.
    """

    of_columns: tuple[tuple[str, str], ...]
    row: str = "t"
    others: Others = ()

    @classmethod
    def of(cls, values: Mapping[str, object], files: TableFiles) -> Assignments:
        """The assignments of a caller.

        Raises:
            InvalidRequestError: there is none, a column does not exist, or a value is no constant.
        """
        if not mapping_argument(values, "the new values"):
            raise InvalidRequestError(
                'no column gets a value: name some, such as {"price": "price * 2"}, or give the '
                "source more columns of the table than those that match"
            )
        for name in values:
            if name not in files.schema.field_names:
                raise InvalidRequestError(
                    f"{files.name} has no column {name}; it has "
                    f"{', '.join(files.schema.field_names)}"
                )
        return cls(tuple((name, expression_of(name, each)) for name, each in values.items()))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.of_columns)

    def check(self, files: TableFiles) -> None:
        """Check that the expressions can be computed.

        Raises:
            InvalidRequestError: DuckDB refuses one; the message has its reason.
        """
        check_names(files.schema.field_names, files.name)
        for name, expression in self.of_columns:
            check_expression(expression, f"the new value of {name}", self.others)
        empty = to_arrow_schema(files.schema.fields).empty_table()
        query = f"SELECT {{}} FROM {quoted(self.row)}"  # noqa: S608
        self.computed(files, query, {self.row: Side(empty, None)})

    def computed(
        self,
        files: TableFiles,
        query: str,
        sides: Mapping[str, Side],
        pairs: Mapping[str, pa.Table] | None = None,
    ) -> pa.Table:
        """The new values for each row of a query, in types that are still to be conformed.

        `{}` stands for the columns. The query reads `pairs` and the tables of `sides`, by name.

        Raises:
            InvalidRequestError: an expression is wrong, or gives no single value for each row.
            InvalidRows: a literal does not fit its column, or a value cannot be computed.
        """
        count = next(iter(sides.values())).count
        fields = {each.name: each for each in files.schema.fields_of(self.columns)}
        made: dict[str, pa.ChunkedArray] = {}
        left: list[tuple[str, str]] = []
        for name, expression in self.of_columns:
            node = _parsed(expression)["statements"][0]["node"]["select_list"][0]
            taken = _taken(node, fields[name], files.name, sides)
            if taken is None:
                left.append((name, expression))
            else:
                made[name] = taken
        if left:
            tables = {name: each.rows for name, each in sides.items()}
            columns = ", ".join(f"({text}\n) AS {quoted(name)}" for name, text in left)
            with sql_over(self.others, {**tables, **(pairs or {})}) as connection:
                values = query_rows(connection, query.replace("{}", columns, 1), files.name)
            if values.num_rows != count or values.column_names != [name for name, _ in left]:
                raise InvalidRequestError(
                    f"the new values of {', '.join(self.columns)} of {files.name} are not one for "
                    "each row; an expression sees a row alone, without sum() or unnest()"
                )
            for name, column in zip(values.column_names, values.columns, strict=True):
                made[name] = numbers_of_query(column, fields[name], files.name)
        return pa.table([made[name] for name in self.columns], names=list(self.columns))

    def conformed(
        self, files: TableFiles, rows: pa.Table, stored: Collection[str] = ()
    ) -> pa.Table:
        """Rows with the new values as rows of the table; those of `stored` come from there.

        Raises:
            InvalidRows: a value does not fit its column.
        """
        try:
            return conform(rows, files.schema.fields, table=files.name, stored=stored)
        except InvalidRows as error:
            name = error.details.get("column")
            if name not in self.columns or rows.column(str(name)).null_count == rows.num_rows:
                raise
            way_out = "to round or convert it, CAST it in an expression"
            raise InvalidRows(f"{error.message}; {way_out}", **error.details) from error

    def applied(self, files: TableFiles, rows: pa.Table) -> pa.Table:
        """The rows with the new values; the other columns stay."""
        query = f"SELECT {{}} FROM {quoted(self.row)}"  # noqa: S608
        values = self.computed(files, query, {self.row: Side(rows, None)})
        stored = {*files.schema.field_names} - {*self.columns}
        return self.conformed(files, with_values(rows, values), stored)


@dataclass(frozen=True, slots=True)
class Side:
    """A table that expressions read, and the numbers of its rows that get values; None for all.

    What is not `is_query` was given as rows, and no decimal of it becomes another number.
    """

    rows: pa.Table
    at: pa.Array | None
    is_query: bool = True

    @property
    def count(self) -> int:
        return self.rows.num_rows if self.at is None else len(self.at)

    def own_name(self, name: str) -> str | None:
        """The name of a column, whose case SQL ignores, as the table has it."""
        return next(
            (
                column_name
                for column_name in self.rows.column_names
                if column_name.lower() == name.lower()
            ),
            None,
        )


def _taken(
    node: Mapping[str, Any], field: DataField, table: str, sides: Mapping[str, Side]
) -> pa.ChunkedArray | None:
    """The values that an expression is without DuckDB: a literal, or a column; else None."""
    if node["class"] == "COLUMN_REF":
        return _column_of(node["column_names"], field, table, sides)
    is_literal, value = _literal(node)
    if not is_literal:
        return None
    try:
        (one,) = python_column([fitted(value, field.type)], field)
    except UnfitValueError as error:
        why = f"{table}: column {error.path} {error.why}"
        raise InvalidRows(why, column=field.name) from error
    except InvalidRequestError as error:
        raise InvalidRows(
            f"{table}: column {field.name} is {field.type}, and {plain(value)!r} is not: "
            f"{error.__cause__ or error.message}",
            column=field.name,
        ) from error
    return pa.chunked_array([pa.repeat(one, next(iter(sides.values())).count)])


def _column_of(
    names: Sequence[str], field: DataField, table: str, sides: Mapping[str, Side]
) -> pa.ChunkedArray | None:
    """The values of a column that one table has under these names."""
    found = list(sides.values())
    if len(names) == 2:
        found = [each for name, each in sides.items() if name.lower() == names[0].lower()]
    having = [each for each in found if each.own_name(names[-1]) is not None]
    if len(names) > 2 or len(having) != 1:
        # DuckDB says what is wrong about a name that both have, or none.
        return None
    (side,) = having
    column = side.rows.column(side.own_name(names[-1]))
    taken = column if side.at is None else column.take(side.at)
    return numbers_of_query(taken, field, table) if side.is_query else taken


def _literal(node: Mapping[str, Any]) -> tuple[bool, object]:
    """Whether a node is a literal alone, and its value."""
    if node["class"] == "CAST":
        kind = _DATED.get(_type_name(node))
        text = _text_of(node["child"])
        return (False, None) if kind is None or text is None else (True, Moment(text, kind))
    if node["class"] != "CONSTANT" or "literal" not in node:
        return False, None
    text = node["literal"]["text"]
    match node["literal"]["kind"]:
        case "NULL_LITERAL":
            return True, None
        case "BOOLEAN":
            return True, text == "true"
        case "STRING":
            return True, text
        case "INTEGER":
            return True, int(text)
        case "NUMERIC":
            return True, float(text) if "e" in text.lower() else Decimal(text)
        case "HEX":
            return True, bytes.fromhex(text)
    return False, None


def _type_name(node: Mapping[str, Any]) -> str:
    """The type of a cast that may fail."""
    if node["try_cast"] or node["type_expr"].get("children"):
        return ""
    return str(node["type_expr"].get("type_name", "")).upper()


def _text_of(node: Mapping[str, Any]) -> str | None:
    literal = node.get("literal", {})
    return literal["text"] if literal.get("kind") == "STRING" else None


def cut_digits(nodes: Iterable[Mapping[str, Any]]) -> tuple[str, int] | None:
    """What to say of a literal whose digits DuckDB would cut, and its place in the text."""
    for node in nodes:
        if node.get("class") != "CAST":
            continue
        name, text = _type_name(node), _text_of(node["child"])
        if text is None or name not in _DATED or name == "TIMESTAMP_NS":
            continue
        if _CUT_DIGITS.search(text):
            is_moment = _DATED[name] is TypeRoot.TIMESTAMP
            way_out = f"write TIMESTAMP_NS '{text}'" if is_moment else "write six"
            return (
                f"{name} '{text}' has more than six digits below the second, of which DuckDB "
                f"would cut the others; {way_out}"
            ), int(node["query_location"])
    return None


def with_values(rows: pa.Table, values: pa.Table) -> pa.Table:
    """Rows with some columns replaced, whose rows are in the same order."""
    for name in values.column_names:
        rows = rows.set_column(rows.schema.get_field_index(name), name, values.column(name))
    return rows


def expression_of(name: str, value: object) -> str:
    """A text as the expression that it is, and another value as a constant of SQL.

    Raises:
        InvalidRequestError: the value has no such constant.
    """
    match value:
        case str():
            return value
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case dt.datetime():
            kind = "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP"
            return f"CAST('{value.isoformat(sep=' ')}' AS {kind})"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.time():
            return f"TIME '{value.isoformat()}'"
        case bytes():
            return f"X'{value.hex()}'"
    raise InvalidRequestError(
        f"the new value of {name} is {value!r:.60}; give an expression of SQL as text, or a "
        "number, a date or time, bytes, true, false or None"
    )


def quoted(name: str) -> str:
    """A name as SQL of DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def check_names(names: Iterable[str], table: str) -> None:
    """Check that SQL tells columns apart.

    Raises:
        InvalidRequestError: two of them have the same name.
        UnsupportedError: two of them differ by case alone.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        if other == name:
            raise InvalidRequestError(
                f"{table} has two columns {name}, so what {name} means is unknown; rename one, or "
                "leave it out"
            )
        seen[name.lower()] = name
        if other is not None:
            raise UnsupportedError(
                f"{table} has columns {other} and {name}, which expressions of SQL do not tell "
                "apart; rename one"
            )


def check_expression(text: str, what: str, others: Others = ()) -> None:
    """Check that a text is one expression over a row, and reads no tables but `others`.

    Raises:
        InvalidRequestError: it is not; the message begins with `what` it is.
    """
    tree = _parsed(text)
    statements = tree.get("statements", ())
    node = statements[0]["node"] if len(statements) == 1 else {}
    if tree["error"] or len(node.get("select_list", ())) != 1:
        why = tree.get("error_message") or "it is not one expression"
        raise InvalidRequestError(f"{what} is {text.strip()!r:.100}: {why}")
    if node["from_table"]["type"] != "EMPTY" or node["where_clause"] or node["modifiers"]:
        raise InvalidRequestError(f"{what} is {text.strip()!r:.100}: it is not one expression")
    names = {name.lower() for name, _ in others}
    nodes = list(tree_nodes(tree))
    alone = node["select_list"][0]
    # A literal alone is none of DuckDB's.
    if cut := cut_digits(each for each in nodes if each is not alone):
        raise InvalidRequestError(f"{what} is {text.strip()!r:.100}: {cut[0]}")
    own = _own_names(nodes)
    for each in nodes:
        if each.get("class") == "WINDOW":
            raise InvalidRequestError(
                f"{what} is {text.strip()!r:.100}: it sees a row alone, and no window of rows; "
                "write MERGE INTO … USING (SELECT …)"
            )
        if each.get("type") == "BASE_TABLE":
            name = ".".join(filter(None, (each["schema_name"], each["table_name"])))
            if name.lower() not in names | own:
                raise InvalidRequestError(
                    f"{what} is {text.strip()!r:.100}: it sees a row alone, and not the table "
                    f"{name}; write MERGE INTO … USING (SELECT …)"
                )


def subquery_tables(text: str) -> tuple[str, ...]:
    """The tables that the subqueries of an expression name; none if it cannot be parsed."""
    nodes = list(tree_nodes(_parsed(text)))
    own = _own_names(nodes)
    names = (
        ".".join(filter(None, (node["schema_name"], node["table_name"])))
        for node in nodes
        if node.get("type") == "BASE_TABLE"
    )
    return tuple(dict.fromkeys(name for name in names if name.lower() not in own))


@cache
def _parsed(text: str) -> dict[str, Any]:
    """An expression as DuckDB parses it."""
    return parsed_sql(f"SELECT ({text}\n)")


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    """DuckDB in this process: opening it takes longer than any query over a few rows.

    It has no thread, so that a forked process can use it.
    """
    import duckdb  # noqa: PLC0415  # half of the time of a small command

    connection = duckdb.connect(":memory:", config=_OWN)
    # As queries have it; the zone of the machine means nothing.
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection


def parsed_sql(text: str) -> dict[str, Any]:
    """Statements as DuckDB parses them, or its error."""
    with _instance().cursor() as connection:
        found = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    assert found is not None
    try:
        tree: dict[str, Any] = json.loads(found[0])
    except RecursionError:
        return {"error": True, "error_message": "it is nested too deeply"}
    return tree


def sql_of(tree: Mapping[str, Any]) -> str:
    """The text of a tree that `parsed_sql` gave, or of one that was changed."""
    with _instance().cursor() as connection:
        asked = "SELECT json_deserialize_sql(?::JSON)"
        found = connection.execute(asked, [json.dumps(tree)]).fetchone()
    assert found is not None
    return str(found[0])


def _own_names(nodes: Sequence[dict[str, Any]]) -> set[str]:
    """The names that an expression gives parts of its subqueries."""
    maps = (node.get("cte_map", {}).get("map", ()) for node in nodes)
    return {each["key"].lower() for found in maps for each in found}


def tree_nodes(tree: object) -> Iterator[dict[str, Any]]:
    """The nodes of a tree that DuckDB parsed."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


@contextmanager
def sql_over(others: Others, tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of DuckDB that sees these tables, and nothing of the machine."""
    with _instance().cursor() as connection:
        own = f"__lakewright_{next(_NUMBERS)}"
        connection.execute(f"ATTACH ':memory:' AS {own}; USE {own}")
        try:
            for number, (name, rows) in enumerate(others):
                database, _, table = name.rpartition(".")
                held = f"__lakewright_other_{number}"
                connection.register(held, rows)
                view = quoted(table)
                if database:
                    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(database)}")
                    view = f"{quoted(database)}.{view}"
                connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {held}")  # noqa: S608
            for name, rows in tables.items():
                connection.register(name, rows)
            yield connection
        finally:
            connection.execute(f"USE memory; DETACH {own}")


def query_rows(connection: duckdb.DuckDBPyConnection, query: str, table: str) -> pa.Table:
    """The rows of a query.

    Raises:
        InvalidRows: a value cannot be computed or does not fit its type.
        InvalidRequestError: DuckDB refuses the query.
    """
    import duckdb  # noqa: PLC0415

    try:
        return connection.sql(query).to_arrow_table()
    except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
        raise InvalidRows(f"{table}: {_reason(error)}") from error
    except duckdb.Error as error:
        raise InvalidRequestError(f"{table}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    # The statement that DuckDB shows is not the one that was written.
    text = str(error).split("\n\nLINE ", 1)[0]
    # Nor are its own columns those that one may name instead.
    text = re.sub(r'\s*Candidate bindings: ("__lakewright_\w+"(, )?)+$', "", text)
    if "__lakewright" in text and "must appear in the GROUP BY clause" in text:
        # The number of a row stands beside the condition.
        return "an expression sees a row alone, without sum() and its like outside of a subquery"
    told = (text.partition(": ")[2] or text).replace("!\n", "; ")
    return " ".join(told.split()).rstrip("!")
