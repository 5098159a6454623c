"""SHOW and DESCRIBE."""

from __future__ import annotations

from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.partitions import partition_clause, show_partitions
from lakewright.storage.sql.grammar.statements import (
    Describe,
    ShowColumns,
    ShowCreateTable,
    ShowDatabases,
    ShowTables,
    Statement,
)


def show(cursor: Cursor) -> Statement:
    """`SHOW DATABASES | TABLES | TABLE EXTENDED | PARTITIONS | COLUMNS | CREATE TABLE …`."""
    cursor.expect("SHOW")
    if cursor.take_one("DATABASES", "SCHEMAS"):
        return ShowDatabases()
    if cursor.take("PARTITIONS"):
        return show_partitions(cursor)
    if cursor.take("COLUMNS"):
        return _columns(cursor)
    if cursor.take("CREATE", "TABLE"):
        return ShowCreateTable(cursor.table_name())
    if cursor.take("TABLE", "EXTENDED"):
        return _tables(cursor, extended=True)
    if cursor.take("TABLES"):
        return _tables(cursor, extended=False)
    cursor.refuse(
        f"{cursor.shown()} cannot be shown; there are DATABASES, TABLES, TABLE EXTENDED, "
        "PARTITIONS t, COLUMNS IN t, CREATE TABLE t"
    )


def _columns(cursor: Cursor) -> ShowColumns:
    """`{IN | FROM} t [{IN | FROM} db]`."""
    if cursor.take_one("IN", "FROM") is None:
        cursor.refuse(f"expected IN or FROM and a table, found {cursor.shown()}")
    table = cursor.table_name()
    if cursor.take_one("IN", "FROM") is None:
        return ShowColumns(table)
    if "." in table:
        cursor.refuse(f"{table} has a database already; write SHOW COLUMNS IN {table}", back=1)
    return ShowColumns(f"{cursor.name('a database')}.{table}")


def _tables(cursor: Cursor, *, extended: bool) -> ShowTables:
    database = cursor.name("a database") if cursor.take_one("IN", "FROM") else None
    pattern = cursor.text("a pattern") if cursor.take("LIKE") else cursor.take_text()
    if extended and pattern is None:
        cursor.refuse(f"expected LIKE 'pattern', found {cursor.shown()}; LIKE '*' shows all")
    return ShowTables(
        database=database,
        pattern=pattern,
        extended=extended,
        spec=(partition_clause(cursor) or ()) if extended else (),
    )


def describe(cursor: Cursor) -> Describe:
    """`DESCRIBE [EXTENDED | FORMATTED | DETAIL] [TABLE] t [PARTITION (…)] [column]`."""
    cursor.take_one("DESCRIBE", "DESC")
    kind = cursor.take_one("EXTENDED", "FORMATTED", "DETAIL")
    cursor.take("TABLE")
    table = cursor.table_name()
    spec = partition_clause(cursor)
    return Describe(
        table=table,
        extended=kind in ("EXTENDED", "FORMATTED"),
        detail=kind == "DETAIL",
        spec=spec,
        column=None if cursor.is_at_end else cursor.name("a column"),
    )
