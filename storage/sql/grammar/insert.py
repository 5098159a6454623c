"""INSERT INTO and INSERT OVERWRITE, by values, by positions or by names."""

from __future__ import annotations

from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.partitions import once
from lakewright.storage.sql.grammar.query import parse_query
from lakewright.storage.sql.grammar.statements import Insert


def insert(cursor: Cursor) -> Insert:
    """`INSERT {INTO | OVERWRITE} [TABLE] t [PARTITION (…)] [(columns) | BY NAME] query`."""
    cursor.expect("INSERT")
    overwrite = cursor.take_one("INTO", "OVERWRITE")
    if overwrite is None:
        cursor.refuse(f"expected INTO or OVERWRITE, found {cursor.shown()}")
    cursor.take("TABLE")
    table = cursor.table_name()
    static: list[tuple[str, object]] = []
    dynamic: list[str] = []
    if cursor.take("PARTITION"):
        for name, has_value, value in _clause(cursor):
            if has_value:
                static.append((name, value))
            else:
                dynamic.append(name)
    if cursor.peek("IF"):
        cursor.refuse("IF NOT EXISTS is not possible here; INSERT INTO keeps what is there")
    columns, by_name = None, False
    if cursor.take("BY"):
        cursor.expect("NAME")
        by_name = True
    elif cursor.peek("(") and not any(cursor.peek("(", word) for word in ("SELECT", "WITH", "(")):
        seen: set[str] = set()
        columns = cursor.listed(lambda: once(cursor, cursor.name("a column"), seen))
        if cursor.peek("PARTITION"):
            cursor.refuse("the PARTITION clause stands before the list of columns")
    return Insert(
        table=table,
        overwrite=overwrite == "OVERWRITE",
        static=tuple(static),
        dynamic=tuple(dynamic),
        columns=columns,
        by_name=by_name,
        query=parse_query(cursor, fills=True),
    )


def _clause(cursor: Cursor) -> tuple[tuple[str, bool, object], ...]:
    """The columns of the clause: name, whether it has a value, the value."""
    seen: set[str] = set()
    last_dynamic: list[str] = []

    def one() -> tuple[str, bool, object]:
        name = once(cursor, cursor.name("a partition column"), seen)
        if cursor.take("="):
            if last_dynamic:
                cursor.refuse(
                    f"{name} has a value, and {last_dynamic[-1]} before it has none; columns with "
                    "values come first",
                    back=2,
                )
            return name, True, cursor.literal(f"the value of {name}")
        last_dynamic.append(name)
        return name, False, None

    return cursor.listed(one)
