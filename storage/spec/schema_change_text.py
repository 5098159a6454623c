"""Changes of a schema as short texts, for the command line and for configurations.

A text names a column by its path first: `c INT AFTER b`, `old:new`, `c:BIGINT`, `c:a comment`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.secret_texts import shown_option
from lakewright.storage.spec.data_types import quote_name
from lakewright.storage.spec.schema_change import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    ResetOption,
    SchemaChange,
    SetOption,
    Side,
    path_of,
)

_PATH = r"(?:`(?:[^`]|``)+`|[^\s`:])+"
_TEXT = r"'(?:[^']|'')*'"
_NAME = r"`(?:[^`]|``)+`|[^\s`<>,]+"
_POSITION = rf"(?P<side>FIRST|LAST|AFTER|BEFORE)(?:\s+(?P<neighbour>{_NAME}))?"
_NEW_COLUMN = re.compile(
    rf"\s*(?P<column>{_PATH})\s+(?P<type>.+?)"
    rf"(?:\s+DEFAULT\s+(?P<default>{_TEXT}|\S+))?(?:\s+COMMENT\s+(?P<comment>{_TEXT}))?"
    rf"(?:\s+{_POSITION})?\s*",
    re.IGNORECASE | re.DOTALL,
)
_MOVED = re.compile(rf"\s*(?P<column>{_PATH})\s+{_POSITION}\s*", re.IGNORECASE)
_PAIR = re.compile(rf"\s*(?P<column>{_PATH})\s*:(?P<value>.*)", re.DOTALL)


def parse_changes(texts: Mapping[str, Sequence[str]]) -> list[SchemaChange]:
    """The changes that texts describe, by their kind; `KINDS` lists the kinds.

    Kinds apply in the order of `KINDS`, texts of one kind in the order that they are given. So a
    column is dropped before another is added under its name, and types, comments and places name
    columns as they are called after the renames.

    Raises:
        InvalidSchema: a text or kind is not understood; the message shows the form.
    """
    unknown = sorted(texts.keys() - KINDS.keys())
    if unknown:
        raise InvalidSchema(f"{unknown[0]!r} is no change; there are {', '.join(KINDS)}")
    return [parse(text) for kind, parse in KINDS.items() for text in texts.get(kind, ())]


def shown(change: SchemaChange) -> str:
    """A change in words, such as `add column c INT after b`."""
    match change:
        case AddColumn():
            default = "" if change.default is None else f" default {change.default!r}"
            place = "" if change.position is None else f" {change.position}"
            return f"add column {change.column} {change.type}{default}{place}"
        case DropColumn(column=column):
            return f"drop column {column}"
        case RenameColumn(column=column, new_name=name):
            return f"rename column {column} to {name}"
        case ChangeType(column=column, type=text):
            return f"change the type of column {column} to {text}"
        case ChangeNullability(column=column, nullable=nullable):
            return f"{'allow' if nullable else 'refuse'} null in column {column}"
        case ChangeComment(column=column, comment=text):
            return f"comment column {column} as {text!r}" if text else f"uncomment column {column}"
        case ChangeDefault(column=column, default=None):
            return f"no default for {column}"
        case ChangeDefault(column=column, default=text):
            return f"default column {column} to {text!r}"
        case MoveColumn(column=column, position=position):
            return f"move column {column} {position}"
        case SetOption(name=name, value=value):
            return f"set option {name} to {shown_option(name, value)}"
        case ResetOption(name=name):
            return f"reset option {name}"
        case ChangeTableComment(comment=text):
            return f"comment the table as {text!r}"


def text_of(change: SchemaChange) -> tuple[str, str]:
    """The kind and the text of a change; `parse_changes` reads the same change from it."""
    match change:
        case AddColumn():
            default = "" if change.default is None else f" DEFAULT {_quoted(change.default)}"
            comment = "" if change.comment is None else f" COMMENT {_quoted(change.comment)}"
            place = "" if change.position is None else f" {_place(change.position)}"
            return "add", f"{_path(change.column)} {change.type}{default}{comment}{place}"
        case DropColumn(column=column):
            return "drop", column
        case RenameColumn(column=column, new_name=name):
            return "rename", f"{_path(column)}:{quote_name(name)}"
        case ChangeType(column=column, type=text):
            return "type", f"{_path(column)}:{text}"
        case ChangeNullability(column=column, nullable=nullable):
            return "nullable" if nullable else "not_null", column
        case ChangeComment(column=column, comment=None):
            return "no_comment", column
        case ChangeComment(column=column, comment=text):
            return "comment", f"{_path(column)}:{text}"
        case ChangeDefault(column=column, default=text) if text is None:
            return "no_default", column
        case ChangeDefault(column=column, default=text):
            # A default may stand in quotes, which are no part of the value.
            value = text if text and text.strip() == text else _quoted(text or "")
            return "default", f"{_path(column)}:{value}"
        case MoveColumn(column=column, position=position):
            return "move", f"{_path(column)} {_place(position)}"
        case SetOption(name=name, value=value):
            return "set", f"{name}={value}"
        case ResetOption(name=name):
            return "reset", name
        case ChangeTableComment(comment=text):
            return "table_comment", text


def in_order_of_kinds(changes: Iterable[SchemaChange]) -> list[SchemaChange]:
    """The changes in the order in which kinds apply; those of one kind keep their order."""
    ranks = list(KINDS)
    return sorted(changes, key=lambda change: ranks.index(text_of(change)[0]))


def texts_in_turn(changes: Iterable[SchemaChange]) -> list[dict[str, list[str]]]:
    """The texts of changes by kind, for as few calls in turn as keep their order."""
    ranks = list(KINDS)
    calls: list[dict[str, list[str]]] = []
    last = len(ranks)
    for kind, text in map(text_of, changes):
        rank = ranks.index(kind)
        if rank < last:
            calls.append({})
        last = rank
        calls[-1].setdefault(kind, []).append(text)
    return calls


def _path(column: str) -> str:
    return ".".join(map(quote_name, path_of(column)))


def _place(position: Position) -> str:
    neighbour = "" if position.neighbour is None else f" {quote_name(position.neighbour)}"
    return f"{position.side.name}{neighbour}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _added(text: str) -> AddColumn:
    match = _NEW_COLUMN.fullmatch(text)
    if match is None:
        raise InvalidSchema(
            f"{text!r} is no new column; write NAME TYPE, and after it, if wanted, "
            "DEFAULT 'value', COMMENT 'text', FIRST, LAST, AFTER name or BEFORE name"
        )
    return AddColumn(
        match["column"],
        match["type"],
        comment=_unquoted(match["comment"]),
        default=_unquoted(match["default"]),
        position=_position(match),
    )


def _moved(text: str) -> MoveColumn:
    match = _MOVED.fullmatch(text)
    position = None if match is None else _position(match)
    if match is None or position is None:
        raise InvalidSchema(
            f"{text!r} is no place for a column; write NAME FIRST, NAME LAST, NAME AFTER other or "
            "NAME BEFORE other"
        )
    return MoveColumn(match["column"], position)


def _position(match: re.Match[str]) -> Position | None:
    if match["side"] is None:
        return None
    neighbour = match["neighbour"]
    name = None if neighbour is None else path_of(neighbour)[-1]
    return Position(Side(match["side"].lower()), name)


def _unquoted(text: str | None) -> str | None:
    if text is None or not text.startswith("'"):
        return text
    return text[1:-1].replace("''", "'")


def _pair(form: str) -> Callable[[str], tuple[str, str]]:
    def split(text: str) -> tuple[str, str]:
        match = _PAIR.fullmatch(text)
        if match is None or not match["value"].strip():
            raise InvalidSchema(f"{text!r} is not of the form {form}")
        return match["column"], match["value"].strip()

    return split


def _option(text: str) -> SetOption:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidSchema(f"{text!r} is not of the form OPTION=VALUE")
    return SetOption(name.strip(), value.strip())


def _renamed(text: str) -> RenameColumn:
    column, new = _pair("OLD:NEW")(text)
    names = path_of(new)
    if len(names) != 1:
        raise InvalidSchema(f"{new!r} is no new name; a column stays in its row, so write the name")
    return RenameColumn(column, names[0])


# Every kind of change, in the order in which kinds apply.
KINDS: dict[str, Callable[[str], SchemaChange]] = {
    "drop": DropColumn,
    "rename": _renamed,
    "add": _added,
    "type": lambda text: ChangeType(*_pair("COLUMN:TYPE")(text)),
    "nullable": lambda text: ChangeNullability(text, nullable=True),
    "not_null": lambda text: ChangeNullability(text, nullable=False),
    "default": lambda text: ChangeDefault(*_pair("COLUMN:VALUE")(text)),
    "no_default": lambda text: ChangeDefault(text, None),
    "comment": lambda text: ChangeComment(*_pair("COLUMN:TEXT")(text)),
    "no_comment": lambda text: ChangeComment(text, None),
    "move": _moved,
    "set": _option,
    "reset": ResetOption,
    "table_comment": ChangeTableComment,
}
