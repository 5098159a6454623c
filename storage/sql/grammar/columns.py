"""Columns, types and options as CREATE TABLE and ALTER TABLE write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError, InvalidSchema
from lakewright.storage.spec.data_types import DataType, parse_data_type
from lakewright.storage.spec.literals import check_default, default_text
from lakewright.storage.spec.schema import Column
from lakewright.storage.spec.schema_change import Position, Side
from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.partitions import once

_PLAIN_OPTION = re.compile(r"[\w.$-]+")
# Words that end a type.
_AFTER_TYPE = (
    ",",
    ")",
    "NOT",
    "NULL",
    "DEFAULT",
    "PRIMARY",
    "COMMENT",
    "METADATA",
    "GENERATED",
    "AS",
    "FIRST",
    "AFTER",
    "BEFORE",
    "LAST",
)


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column as a statement describes it; `type` is the text of its type."""

    name: str
    type: str
    not_null: bool
    default: str | None
    comment: str | None
    position: Position | None
    is_key: bool
    says_default: bool = False

    @property
    def full_type(self) -> str:
        return f"{self.type} NOT NULL" if self.not_null else self.type

    @property
    def column(self) -> Column:
        return Column(self.name, parse_data_type(self.full_type), self.comment, self.default)


def column_text(cursor: Cursor, name: str) -> ColumnText:
    """`type [NOT NULL] [DEFAULT x] [PRIMARY KEY …] [COMMENT '…'] [FIRST | AFTER c]`."""
    type_text = data_type(cursor, name)
    not_null = is_key = says_default = False
    default = comment = position = None
    while True:
        if cursor.take("NOT", "NULL"):
            not_null = True
        elif cursor.take("NULL"):
            not_null = False
        elif cursor.take("DEFAULT"):
            says_default = True
            default = default_of(cursor, parse_data_type(type_text))[1]
        elif cursor.take("PRIMARY", "KEY"):
            not_enforced(cursor)
            is_key = True
        elif cursor.take("COMMENT"):
            comment = cursor.text("a comment")
        elif cursor.peek("METADATA") or cursor.peek("AS") or cursor.peek("GENERATED"):
            cursor.refuse(f"{name} is not stored: CREATE TABLE alone declares such columns")
        elif any(map(cursor.peek, ("FIRST", "AFTER", "BEFORE", "LAST"))):
            position = place(cursor)
        else:
            break
    return ColumnText(name, type_text, not_null, default, comment, position, is_key, says_default)


def default_of(cursor: Cursor, kind: DataType | None) -> tuple[object, str | None]:
    """The literal of a default, and its text in a schema; None for NULL."""
    value = cursor.value("the default")
    try:
        if kind is not None:
            check_default(value, kind)
        return value, default_text(value)
    except InvalidRequestError as error:
        kind_text = "" if kind is None else f"of {kind} "
        cursor.refuse(
            f"the default {kind_text}cannot be {value!r}: {error.__cause__ or error.message}",
            back=1,
        )


def data_type(cursor: Cursor, name: str) -> str:
    """The text of a type, checked."""
    if cursor.is_at_end:
        cursor.refuse(f"expected the type of {name}, found {cursor.shown()}")
    start = cursor.mark()
    text = cursor.source_until(*_AFTER_TYPE)
    if not text:
        cursor.refuse(f"expected the type of {name}, found {cursor.shown()}; such as {name} STRING")
    try:
        parse_data_type(text, lengths_required=True)
    except InvalidSchema as error:
        cursor.refuse_at(start, error.message)
    return text


def place(cursor: Cursor) -> Position:
    """`FIRST`, `LAST`, `AFTER c` or `BEFORE c`."""
    side = cursor.take_one("FIRST", "LAST", "AFTER", "BEFORE")
    if side is None:
        cursor.refuse(f"expected FIRST, LAST, AFTER or BEFORE, found {cursor.shown()}")
    neighbour = cursor.name("a column") if side in ("AFTER", "BEFORE") else None
    return Position(Side(side.lower()), neighbour)


def primary_key(cursor: Cursor) -> tuple[str, ...]:
    """`[CONSTRAINT name] PRIMARY KEY (…) [NOT ENFORCED]`."""
    if cursor.take("CONSTRAINT"):
        cursor.name("the name of the constraint")
    cursor.expect("PRIMARY", "KEY")
    keys = cursor.names("a column of the primary key")
    not_enforced(cursor)
    return keys


def not_enforced(cursor: Cursor) -> None:
    """`[NOT ENFORCED]` behind a primary key."""
    if cursor.take("NOT"):
        cursor.expect("ENFORCED")
    elif cursor.peek("ENFORCED"):
        cursor.refuse(
            "a primary key is not enforced: a row replaces the one with its key; write NOT ENFORCED"
        )


def options(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """`('name' = 'value', …)`; quotes may be left out."""
    seen: set[str] = set()
    return cursor.listed(lambda: option(cursor, seen))


def option(cursor: Cursor, seen: set[str]) -> tuple[str, str]:
    """`'name' = 'value'`."""
    name = once(cursor, option_name(cursor), seen)
    cursor.expect("=")
    value = cursor.value(f"the value of {name}")
    if value is None or isinstance(value, bytes):
        cursor.refuse(f"the value of {name} is a text: '…'; RESET ('{name}') takes it away", back=1)
    if isinstance(value, bool):
        return name, "true" if value else "false"
    return name, str(value)


def option_name(cursor: Cursor) -> str:
    """The name of an option, in quotes or as its words: `bucket`, `file.format`."""
    name = cursor.take_text()
    if name is not None:
        return name
    at = cursor.mark()
    name = cursor.source_until("=", ",", ")")
    if not _PLAIN_OPTION.fullmatch(name):
        cursor.refuse_at(at, f"expected the name of an option, found {name!r}; write 'a.name'")
    return name
