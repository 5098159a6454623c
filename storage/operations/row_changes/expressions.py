"""New values of columns as SQL expressions, which DuckDB computes over Arrow rows.

The connection sees the rows that it is given and nothing else: no files, network or extensions.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import InvalidRequestError, InvalidRows, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.arguments import mapping_argument

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
                'no column gets a value: name some, such as {"price": "price * 1.1"}, or give the '
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
        self.computed(files, query, 0, {self.row: empty})

    def computed(
        self, files: TableFiles, query: str, count: int, tables: Mapping[str, pa.Table]
    ) -> pa.Table:
        """The new values for each of `count` rows of a query; `{}` stands for the columns.

        Raises:
            InvalidRequestError: an expression is wrong, or gives no single value for each row.
            InvalidRows: a value does not fit the type of its column.
        """
        with sql_over(self.others, tables) as connection:
            types = _types(connection, files, self.columns)
            columns = ", ".join(
                f"CAST(({expression}\n) AS {types[name]}) AS {quoted(name)}"
                for name, expression in self.of_columns
            )
            values = query_rows(connection, query.replace("{}", columns, 1), files.name)
        if values.num_rows != count or values.column_names != list(self.columns):
            raise InvalidRequestError(
                f"the new values of {', '.join(self.columns)} of {files.name} are not one for each "
                "row; an expression sees a row alone, without sum() or unnest()"
            )
        return values

    def applied(self, files: TableFiles, rows: pa.Table) -> pa.Table:
        """The rows with the new values; the other columns stay."""
        query = f"SELECT {{}} FROM {quoted(self.row)}"  # noqa: S608
        return with_values(rows, self.computed(files, query, rows.num_rows, {self.row: rows}))


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
            return f"from_hex('{value.hex()}')"
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
        ".".join(filter(None, (each["schema_name"], each["table_name"])))
        for each in nodes
        if each.get("type") == "BASE_TABLE"
    )
    return tuple(dict.fromkeys(name for name in names if name.lower() not in own))


@cache
def _parsed(text: str) -> dict[str, Any]:
    """An expression as DuckDB parses it."""
    return parsed_sql(f"SELECT ({text}\n)")


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    """The parser of this process: opening DuckDB takes longer than parsing any text.

    It has no thread, so that a forked process can use it.
    """
    import duckdb  # noqa: PLC0415

    return duckdb.connect(":memory:", config=_OWN)


def parsed_sql(text: str) -> dict[str, Any]:
    """Statements as DuckDB parses them, or its error."""
    with _parser().cursor() as connection:
        found = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    assert found is not None
    try:
        tree: dict[str, Any] = json.loads(found[0])
    except RecursionError:
        return {"error": True, "error_message": "it is nested too deeply"}
    return tree


def sql_of(tree: Mapping[str, Any]) -> str:
    """The text of a tree that `parsed_sql` gave, or of one that was changed."""
    with _parser().cursor() as connection:
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
    import duckdb  # noqa: PLC0415  # half of the time of a small command

    with duckdb.connect(":memory:", config=_OWN) as connection:
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
        # As queries have it; the zone of the machine means nothing.
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        yield connection


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


def _types(
    connection: duckdb.DuckDBPyConnection, files: TableFiles, columns: Iterable[str]
) -> dict[str, str]:
    """DuckDB's types of the columns of a table."""
    fields = files.schema.fields_of(columns)
    connection.register("__columns", to_arrow_schema(fields).empty_table())
    described: Sequence[tuple[str, ...]] = connection.sql("DESCRIBE __columns").fetchall()
    return {row[0]: row[1] for row in described}


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
