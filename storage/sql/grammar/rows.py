"""DELETE, UPDATE, MERGE INTO and TRUNCATE: statements that change rows."""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import ParseError, SqlglotError

from lakewright.storage.sql.duckdb_dialect import DuckDbDialect
from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.partitions import once, partition_clause
from lakewright.storage.sql.grammar.query import FIRST_WORDS, Query
from lakewright.storage.sql.grammar.statements import (
    Delete,
    MergeClause,
    MergeInto,
    Truncate,
    Update,
)

_ENDS = ("WHEN", "WHERE", "THEN")


def delete_statement(cursor: Cursor) -> Delete:
    """`DELETE FROM t [[AS] a] [WHERE condition]`."""
    cursor.expect("DELETE")
    cursor.expect("FROM", way_out="write DELETE FROM t WHERE …")
    table = cursor.table_name()
    if cursor.peek("USING"):
        cursor.refuse("write WHERE EXISTS (SELECT … FROM s WHERE s.id = t.id), or MERGE INTO t")
    alias = _alias(cursor, table, "WHERE")
    return Delete(table=table, alias=alias, where=_where(cursor))


def update_statement(cursor: Cursor) -> Update:
    """`UPDATE t [[AS] a] SET column = expression, … [WHERE condition]`."""
    cursor.expect("UPDATE")
    table = cursor.table_name()
    alias = _alias(cursor, table, "SET")
    cursor.expect("SET")
    return Update(table=table, alias=alias, values=_values(cursor, alias), where=_where(cursor))


def merge_statement(cursor: Cursor) -> MergeInto:
    """`MERGE INTO t [[AS] a] USING {s | (query)} [[AS] b] ON condition WHEN … THEN …`."""
    cursor.expect("MERGE")
    cursor.expect("INTO")
    table = cursor.table_name()
    alias = _alias(cursor, table, "USING")
    cursor.expect("USING")
    if cursor.peek("(") and any(cursor.peek("(", word) for word in FIRST_WORDS):
        start = cursor.mark()
        text = _in_parentheses(cursor)
        query = Query(text=text, around=cursor.around, start=start + 1)
        source_alias = _alias(cursor, "source", "ON")
    else:
        start = cursor.mark()
        name = cursor.table_name()
        query = Query(text=f"FROM {_as_sql(name)}", around=cursor.around, start=start)
        source_alias = _alias(cursor, name, "ON")
    cursor.expect("ON")
    at = cursor.mark()
    on = cursor.expression("WHEN")
    pairs, rest = _pairs(cursor, at, on, alias, source_alias)
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor, alias))
    if not clauses:
        cursor.refuse(f"expected WHEN MATCHED or WHEN NOT MATCHED, found {cursor.shown()}")
    return MergeInto(
        table=table,
        alias=alias,
        source=query,
        source_alias=source_alias,
        on=pairs,
        and_on=rest,
        clauses=tuple(clauses),
    )


def truncate_statement(cursor: Cursor) -> Truncate:
    """`TRUNCATE TABLE t [PARTITION (…)]`."""
    cursor.expect("TRUNCATE")
    cursor.expect("TABLE", way_out="write TRUNCATE TABLE t")
    table = cursor.table_name()
    return Truncate(table=table, spec=partition_clause(cursor) or ())


def _alias(cursor: Cursor, table: str, *ends: str) -> str:
    """The name by which expressions call a table: what follows it, or its own."""
    if cursor.take("AS"):
        return cursor.name("a name for the table")
    if cursor.is_at_end or any(map(cursor.peek, ends)):
        return table.rpartition(".")[2]
    return cursor.name("a name for the table")


def _where(cursor: Cursor) -> str | None:
    if cursor.is_at_end:
        return None
    cursor.expect("WHERE")
    if cursor.is_at_end:
        cursor.refuse("expected a condition, found the end of the statement")
    return cursor.rest()


def _values(cursor: Cursor, alias: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    while True:
        name = cursor.name("a column")
        if cursor.take("."):
            if name.lower() != alias.lower():
                cursor.refuse(
                    f"{name} is not {alias}, the table that changes; a member of a column is set "
                    "with the whole column: {'i': 1, …}",
                    back=2,
                )
            name = cursor.name("a column")
        if name in found:
            cursor.refuse(f"{name} gets two values; give it one", back=1)
        cursor.expect("=")
        found[name] = cursor.expression(*_ENDS)
        if not cursor.take(","):
            return tuple(found.items())


def _clause(cursor: Cursor, alias: str) -> MergeClause:
    kind = "matched"
    if cursor.take("NOT"):
        kind = "not_matched"
    cursor.expect("MATCHED")
    if cursor.take("BY"):
        by = cursor.take_one("SOURCE", "TARGET")
        if by is None or kind == "matched":
            cursor.refuse("write WHEN NOT MATCHED BY SOURCE, or WHEN NOT MATCHED [BY TARGET]")
        kind = "not_matched_by_source" if by == "SOURCE" else kind
    condition = cursor.expression(*_ENDS) if cursor.take("AND") else None
    cursor.expect("THEN")
    if kind == "not_matched":
        cursor.expect("INSERT", way_out="what is not in the table can only be inserted")
        return MergeClause(kind, condition, *_inserted(cursor))
    if cursor.take("DELETE"):
        return MergeClause(kind, condition, "delete")
    cursor.expect("UPDATE", way_out="write UPDATE SET … or DELETE")
    cursor.expect("SET")
    if cursor.take("*"):
        if kind == "not_matched_by_source":
            cursor.refuse("no row of the source has values for *; write SET column = …", back=1)
        return MergeClause(kind, condition, "update")
    return MergeClause(kind, condition, "update", _values(cursor, alias))


def _inserted(cursor: Cursor) -> tuple[str, tuple[tuple[str, str], ...]]:
    if cursor.take("*"):
        return "insert", ()
    seen: set[str] = set()
    columns = cursor.listed(lambda: once(cursor, cursor.name("a column"), seen))
    cursor.expect("VALUES")
    values = cursor.listed(cursor.expression)
    if len(columns) != len(values):
        cursor.refuse(f"{len(columns)} columns and {len(values)} values; give each a value", back=1)
    return "insert", tuple(zip(columns, values, strict=True))


def _in_parentheses(cursor: Cursor) -> str:
    start = cursor.mark()
    cursor.expect("(")
    depth, end = 1, start
    while depth and not cursor.is_at_end:
        word = cursor.words[cursor.at]
        depth += word.is_word("(") - word.is_word(")")
        end = word.start
        cursor.at += 1
    if depth:
        cursor.refuse("expected )")
    return cursor.around[start + 1 : end]


def _as_sql(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _pairs(
    cursor: Cursor, at: int, on: str, target: str, source: str
) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """The columns that ON compares for equality, and ON itself if it says more."""
    try:
        tree = parse_one(on, read=DuckDbDialect)
    except (SqlglotError, RecursionError) as error:
        found = error.errors[0]["description"] if isinstance(error, ParseError) else "too deep"
        cursor.refuse_at(at, f"the condition cannot be parsed: {found}")
    pairs, has_more = [], False
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        inner = part.unnest()
        sides = [inner.this, inner.expression] if isinstance(inner, exp.EQ) else []
        named = {side.table.lower(): side.name for side in sides if isinstance(side, exp.Column)}
        if set(named) == {target.lower(), source.lower()} and len(named) == 2:
            pairs.append((named[target.lower()], named[source.lower()]))
        else:
            has_more = True
    if not pairs:
        cursor.refuse_at(
            at, f"ON needs an equality of both sides: {target}.id = {source}.id [AND …]"
        )
    return tuple(pairs), on if has_more else None
