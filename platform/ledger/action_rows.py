"""Actions as rows of the ledger: flat columns of types that every client of the format reads.

The columns follow the fields of `Action`: text and numbers as they are, costs and benefits as a
column for each of their numbers, and what is nested otherwise as JSON. A new field is a new column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.upkeep.measures import Benefit, Cost

MONTH = "month"
# `table` is a word of SQL, which most clients would want quoted.
_NAMES = {"table": "table_name"}
_MEASURED = (Cost, Benefit)
_TYPES = {int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of an action, its column, and the type of its values."""

    name: str
    column: str
    kind: Any
    optional: bool

    @property
    def parts(self) -> dict[str, str]:
        """The columns of a cost or benefit, by its fields."""
        return {field.name: f"{self.column}_{field.name}" for field in fields(self.kind)}

    @property
    def is_measured(self) -> bool:
        return self.kind in _MEASURED


def _fields() -> Iterator[_Field]:
    hints = get_type_hints(Action)
    for field in fields(Action):
        kind, optional = hints[field.name], False
        if get_origin(kind) in (Union, UnionType):
            (kind,) = (one for one in get_args(kind) if one is not NoneType)
            optional = True
        yield _Field(field.name, _NAMES.get(field.name, field.name), kind, optional)


_FIELDS = tuple(_fields())


def ledger_columns() -> dict[str, str]:
    """The columns of the ledger, with their types; the partition key comes first."""
    columns = {MONTH: "STRING NOT NULL"}
    for each in _FIELDS:
        if each.is_measured:
            columns |= dict.fromkeys(each.parts.values(), "BIGINT")
        else:
            columns[each.column] = _TYPES.get(each.kind, "STRING")
    return columns


def month_of(moment_ms: int) -> str:
    """The partition of a moment: its month in UTC, such as 2026-11."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m")


def row_of(action: Action) -> dict[str, object]:
    """An action as values by column."""
    row: dict[str, object] = {MONTH: month_of(action.started_ms)}
    for each in _FIELDS:
        value = getattr(action, each.name)
        if each.is_measured:
            row |= {
                column: None if value is None else getattr(value, part)
                for part, column in each.parts.items()
            }
        else:
            row[each.column] = _encoded(value)
    return row


def actions_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Action]:
    """The actions of rows; a verdict that only a later version knows leaves its row out.

    So does what is no action: any client may write rows, and none of them may stop upkeep.
    """
    known = {each.value for each in Verdict}
    for row in rows:
        if row["verdict"] in known:
            with suppress(TypeError, ValueError):
                yield Action(**dict(_values(row)))


def _values(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for each in _FIELDS:
        if each.is_measured:
            found = {part: row.get(column) for part, column in each.parts.items()}
            there = {part: value for part, value in found.items() if value is not None}
            if there or not each.optional:
                yield each.name, each.kind(**there)
        elif (value := row.get(each.column)) is not None:
            yield each.name, _decoded(value, each.kind)


def _encoded(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (str, int, float)):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _decoded(value: Any, kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind in (str, int, float, bool):
        return value
    nested = json.loads(value)
    return tuple(nested) if isinstance(nested, list) else nested
