"""Changes of a table's schema, as values; `schema_evolution.py` applies them.

Columns are named by paths: `address.city` is member `city` of row `address`, `tags.element` the
element of an array, `prices.value` the value of a map. A name with a dot or a blank stands in
backticks. Source: Paimon `SchemaChange`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.data_types import DataType, parse_data_type, quote_name

# The steps of a path into an array and into a map.
ELEMENT, KEY, VALUE = "element", "key", "value"

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def path_of(text: str) -> tuple[str, ...]:
    """The parts of a column's path.

    Raises:
        InvalidSchema: a part is empty, or a backtick has no partner.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise InvalidSchema(
                f"{text!r} is no path of a column; write column or column.member, and names with "
                "dots in backticks"
            )
        quoted, plain = match.groups()
        parts.append(plain.strip() if quoted is None else quoted.replace("``", "`"))
        position = match.end()
        if position == len(text):
            break
        if text[position] != "." or not parts[-1]:
            raise InvalidSchema(f"{text!r} is no path of a column: a name ends at {position}")
        position += 1
    if not all(parts):
        raise InvalidSchema(f"{text!r} is no path of a column: a name is empty")
    return tuple(parts)


def path_text(path: Sequence[str]) -> str:
    """The inverse of `path_of`."""
    return ".".join(quote_name(part) if re.search(r"[.`\s]", part) else part for part in path)


class Side(Enum):
    """Where a column goes among its neighbours."""

    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Position:
    """A place among the members of one row; AFTER and BEFORE name a neighbour."""

    side: Side
    neighbour: str | None = None

    def __post_init__(self) -> None:
        if (self.neighbour is None) is (self.side in (Side.AFTER, Side.BEFORE)):
            raise InvalidSchema(
                f"position {self.side.value} of {self.neighbour!r} is no place; write first, last, "
                "after a column or before a column"
            )

    def __str__(self) -> str:
        return self.side.value + (f" {quote_name(self.neighbour)}" if self.neighbour else "")


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column, or a new member of a row; rows written before have null there.

    The default applies to rows that are written later. `type` is the
    text of a type, such as `DECIMAL(10, 2)`.
    """

    column: str
    type: str
    comment: str | None = None
    default: str | None = None
    position: Position | None = None

    @property
    def data_type(self) -> DataType:
        return parse_data_type(self.type)


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column that disappears, with its values in every file."""

    column: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A new name for a column; `new_name` is a name, not a path."""

    column: str
    new_name: str


@dataclass(frozen=True, slots=True)
class ChangeType:
    """Another type for a column; it stays nullable or not, whatever the type says."""

    column: str
    type: str

    @property
    def data_type(self) -> DataType:
        return parse_data_type(self.type)


@dataclass(frozen=True, slots=True)
class ChangeNullability:
    """Whether a column may hold null."""

    column: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class ChangeComment:
    """Another comment for a column, or none."""

    column: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class ChangeDefault:
    """The value that later writes put in place of null, or none."""

    column: str
    default: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Another place for a column among its neighbours."""

    column: str
    position: Position


@dataclass(frozen=True, slots=True)
class SetOption:
    """Another value of an option."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ResetOption:
    """An option that has its default value again."""

    name: str


@dataclass(frozen=True, slots=True)
class ChangeTableComment:
    """Another comment for the table."""

    comment: str


ColumnChange = (
    AddColumn
    | DropColumn
    | RenameColumn
    | ChangeType
    | ChangeNullability
    | ChangeComment
    | ChangeDefault
    | MoveColumn
)
SchemaChange = ColumnChange | SetOption | ResetOption | ChangeTableComment
