"""Text → statements; the table of what each statement begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from lakewright.storage.errors import StorageError
from lakewright.storage.sql.grammar.alter_table import alter
from lakewright.storage.sql.grammar.call import call
from lakewright.storage.sql.grammar.create_table import create
from lakewright.storage.sql.grammar.cursor import Cursor, split_statements
from lakewright.storage.sql.grammar.insert import insert
from lakewright.storage.sql.grammar.look import describe, show
from lakewright.storage.sql.grammar.other_habits import INSTEAD
from lakewright.storage.sql.grammar.partitions import repair_table
from lakewright.storage.sql.grammar.query import FIRST_WORDS, parse_query
from lakewright.storage.sql.grammar.rows import (
    delete_statement,
    merge_statement,
    truncate_statement,
    update_statement,
)
from lakewright.storage.sql.grammar.statements import (
    Analyze,
    DropDatabase,
    DropTable,
    Explain,
    ResetSetting,
    Select,
    SetSetting,
    Statement,
    UndropTable,
    UseDatabase,
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement and its text; with `if_exists` it does nothing where its table is not."""

    text: str
    statement: Statement
    if_exists: bool = False


def parse_statements(text: str) -> tuple[Parsed, ...]:
    """The statements of a text, separated by `;`.

    Raises:
        InvalidStatement: one is none of the statements; the message says where, and what is
            possible there.
    """
    return tuple(_parsed(cursor) for cursor in split_statements(text))


def _parsed(cursor: Cursor) -> Parsed:
    for words, way in INSTEAD.items():
        if words not in _FAMILIES and cursor.peek(*words.split()):
            cursor.refuse(f"{words} is no statement here; {way}")
    for first, parse in _FAMILIES.items():
        if cursor.peek(first):
            # Dropping statements say in their answers what was there.
            if_exists = cursor.peek("ALTER", "TABLE", "IF", "EXISTS")
            try:
                statement = parse(cursor)
            except StorageError as error:
                if "excerpt" in error.details:
                    raise
                # A literal or a type is wrong in itself.
                cursor.refuse(error.message, back=1)
            cursor.expect_end()
            return Parsed(cursor.statement, statement, if_exists)
    known = [word for word in _FAMILIES if word != "("]
    near = get_close_matches(cursor.shown().strip("'").upper(), known, n=1)
    told = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    cursor.refuse(f"{cursor.shown()} begins no statement; {told}")


def _select(cursor: Cursor) -> Select:
    return Select(parse_query(cursor))


def _explain(cursor: Cursor) -> Explain:
    cursor.expect("EXPLAIN")
    return Explain(parse_query(cursor))


def _drop(cursor: Cursor) -> DropTable | DropDatabase:
    cursor.expect("DROP")
    if cursor.take_one("DATABASE", "SCHEMA"):
        if_exists = cursor.take("IF", "EXISTS")
        name = cursor.name("a database")
        return DropDatabase(name, if_exists, cursor.take_one("RESTRICT", "CASCADE") == "CASCADE")
    cursor.expect("TABLE", way_out="tables and databases can be dropped")
    if_exists = cursor.take("IF", "EXISTS")
    table = cursor.table_name()
    return DropTable(table, if_exists, cursor.take("PURGE"))


def _undrop(cursor: Cursor) -> UndropTable:
    cursor.expect("UNDROP", "TABLE")
    return UndropTable(cursor.table_name())


def _use(cursor: Cursor) -> UseDatabase:
    cursor.expect("USE")
    return UseDatabase(cursor.name("a database"))


def _analyze(cursor: Cursor) -> Analyze:
    cursor.expect("ANALYZE")
    cursor.expect("TABLE")
    table = cursor.table_name()
    cursor.expect("COMPUTE")
    cursor.expect("STATISTICS")
    return Analyze(table)


def _set(cursor: Cursor) -> SetSetting:
    cursor.expect("SET")
    if cursor.is_at_end:
        return SetSetting()
    name = cursor.take_text() or cursor.source_until("=").strip()
    cursor.expect("=", way_out="write SET 'name' = 'value'")
    value = cursor.take_text()
    return SetSetting(name, cursor.rest().strip() if value is None else value)


def _reset(cursor: Cursor) -> ResetSetting:
    cursor.expect("RESET")
    if cursor.is_at_end:
        return ResetSetting()
    return ResetSetting(cursor.take_text() or cursor.rest().strip())


_FAMILIES: Mapping[str, Callable[[Cursor], Statement]] = {
    **dict.fromkeys(FIRST_WORDS, _select),
    "EXPLAIN": _explain,
    "INSERT": insert,
    "DELETE": delete_statement,
    "UPDATE": update_statement,
    "MERGE": merge_statement,
    "TRUNCATE": truncate_statement,
    "SHOW": show,
    "DESCRIBE": describe,
    "DESC": describe,
    "CREATE": create,
    "ALTER": alter,
    "DROP": _drop,
    "UNDROP": _undrop,
    "MSCK": repair_table,
    "REPAIR": repair_table,
    "ANALYZE": _analyze,
    "USE": _use,
    "SET": _set,
    "RESET": _reset,
    "CALL": call,
}
