"""What a table whose schema changes must hold, in plain Python.

Columns and members have numbers. A row keeps its values by these numbers, each with the type that
it was written with, and a reader sees them under the names, types and order of the moment.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from lakewright.storage import (
    AddColumn,
    ChangeType,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetOption,
    Side,
)
from lakewright.storage.spec.data_types import (
    ArrayType,
    DataType,
    MapType,
    RowType,
    parse_data_type,
)
from lakewright.storage.spec.schema_change import SchemaChange, path_of

KEY = "k"
Row = dict[str, Any]


class Invalid(Exception):
    """A step that makes no sense where it stands."""


@dataclass
class Field:
    """A column or a member: its number, which it keeps, and what it is called and typed."""

    number: int
    name: str
    type: Type


@dataclass
class RowOf:
    fields: list[Field]


@dataclass
class ListOf:
    element: Type


@dataclass
class MapOf:
    value: Type


Type = str | RowOf | ListOf | MapOf


class Leaf(NamedTuple):
    """A canonical value, and the type that it was written with."""

    type: str
    value: Any


@dataclass
class EvolvedTable:
    """Rows of a table, by their key or in the order of their arrival."""

    columns: Mapping[str, str]
    keyed: bool
    keeps_older: bool = False
    top: RowOf = field(init=False)
    rows: dict[int, dict[int, Any]] = field(init=False, default_factory=dict)
    _last_number: int = field(init=False, default=0)
    _last_row: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.top = RowOf([self._field(name, text) for name, text in self.columns.items()])

    def seen(self) -> list[Row]:
        """The rows as a reader sees them."""
        return [_seen(values, self.top) for values in self.rows.values()]

    def write(self, rows: Sequence[Row], kinds: Sequence[str]) -> None:
        for row, kind in zip(rows, kinds, strict=True):
            stored = _stored(row, self.top)
            if not self.keyed:
                self._last_row += 1
                self.rows[self._last_row] = stored
            elif kind == "-D":
                self.rows.pop(row[KEY], None)
            elif self.keeps_older:
                kept = self.rows.setdefault(row[KEY], {})
                kept.update({n: value for n, value in stored.items() if value is not None})
            else:
                self.rows[row[KEY]] = stored

    def overwrite(self, rows: Sequence[Row]) -> None:
        self.rows = {}
        self.write(rows, ["+I"] * len(rows))

    def alter(self, change: SchemaChange) -> None:
        match change:
            case AddColumn(column, text):
                holder, name = self._holder(column)
                if any(each.name == name for each in holder.fields):
                    raise Invalid(change)
                holder.fields.append(self._field(name, text))
            case DropColumn(column):
                holder, name = self._holder(column)
                if len(holder.fields) < 2:
                    raise Invalid(change)
                holder.fields.remove(_named(holder, name))
            case RenameColumn(column, new_name):
                holder, name = self._holder(column)
                if any(each.name == new_name for each in holder.fields):
                    raise Invalid(change)
                _named(holder, name).name = new_name
            case ChangeType(column, text):
                self._retype(path_of(column), text)
            case MoveColumn(column, position):
                holder, name = self._holder(column)
                moved = _named(holder, name)
                assert position.side is Side.FIRST
                if moved is holder.fields[0]:
                    # Java moves no column to where it is.
                    raise Invalid(change)
                holder.fields.remove(moved)
                holder.fields.insert(0, moved)
            case SetOption():
                pass
            case _:
                raise AssertionError(change)

    def copy(self) -> EvolvedTable:
        return copy.deepcopy(self)

    def _retype(self, path: Sequence[str], text: str) -> None:
        *above, name = path
        holder = _at(self.top, above)
        match holder:
            case RowOf():
                found = _named(holder, name)
                _check_widening(found.type, text)
                found.type = text
            case ListOf():
                _check_widening(holder.element, text)
                holder.element = text
            case MapOf():
                _check_widening(holder.value, text)
                holder.value = text
            case _:
                raise Invalid(path)

    def _holder(self, column: str) -> tuple[RowOf, str]:
        *above, name = path_of(column)
        holder = _at(self.top, above)
        if not isinstance(holder, RowOf):
            raise Invalid(column)
        return holder, name

    def _field(self, name: str, text: str) -> Field:
        return Field(self._next_number(), name, self._type(parse_data_type(text)))

    def _type(self, declared: DataType) -> Type:
        match declared:
            case RowType(fields=fields):
                return RowOf(
                    [
                        Field(self._next_number(), each.name, self._type(each.type))
                        for each in fields
                    ]
                )
            case ArrayType(element=element):
                return ListOf(self._type(element))
            case MapType(value=value):
                return MapOf(self._type(value))
            case _:
                return str(declared).removesuffix(" NOT NULL")

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number


# What each type may become so that no value changes, whichever types were between.
WIDER: dict[str, tuple[str, ...]] = {
    "SMALLINT": ("INT", "BIGINT"),
    "INT": ("BIGINT", "DECIMAL(22, 2)", "DOUBLE"),
    "BIGINT": ("DECIMAL(22, 2)",),
    "DECIMAL(6, 2)": ("DECIMAL(10, 2)", "DECIMAL(22, 2)"),
    "DECIMAL(10, 2)": ("DECIMAL(22, 2)",),
    "DECIMAL(22, 2)": ("DOUBLE",),
    "FLOAT": ("DOUBLE",),
    "VARCHAR(3)": ("VARCHAR(8)", "STRING"),
    "VARCHAR(8)": ("STRING",),
    "DATE": ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    "TIMESTAMP(3)": ("TIMESTAMP(6)",),
}


def paths(holder: Type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Type]]:
    """Every type inside of one, at its path, from above to below; first the type itself."""
    yield path, holder
    match holder:
        case RowOf(fields):
            for each in fields:
                yield from paths(each.type, (*path, each.name))
        case ListOf(element):
            yield from paths(element, (*path, "element"))
        case MapOf(value):
            yield from paths(value, (*path, "value"))


def _at(holder: Type, path: Sequence[str]) -> Type:
    for step in path:
        match holder:
            case RowOf():
                holder = _named(holder, step).type
            case ListOf(element) if step == "element":
                holder = element
            case MapOf(value) if step == "value":
                holder = value
            case _:
                raise Invalid(path)
    return holder


def _named(holder: RowOf, name: str) -> Field:
    for each in holder.fields:
        if each.name == name:
            return each
    raise Invalid(name)


def _check_widening(old: Type, new: str) -> None:
    if not isinstance(old, str) or new not in WIDER.get(old, ()):
        raise Invalid(f"{old} to {new}")


def _stored(value: Any, data_type: Type) -> Any:
    if value is None:
        return None
    match data_type:
        case RowOf(fields):
            by_name = {each.name: each for each in fields}
            if value.keys() - by_name.keys():
                raise Invalid(value)
            return {by_name[n].number: _stored(v, by_name[n].type) for n, v in value.items()}
        case ListOf(element):
            return [_stored(each, element) for each in value]
        case MapOf(of):
            return [(key, _stored(each, of)) for key, each in value]
        case str():
            return Leaf(data_type, value)


def _seen(stored: Any, data_type: Type) -> Any:
    if stored is None:
        return None
    match data_type:
        case RowOf(fields):
            return {each.name: _seen(stored.get(each.number), each.type) for each in fields}
        case ListOf(element):
            return [_seen(each, element) for each in stored]
        case MapOf(of):
            return [[key, _seen(each, of)] for key, each in stored]
        case str():
            return _cast(stored, data_type)


def _cast(leaf: Leaf, new: str) -> Any:
    """A canonical value under a wider type."""
    if new == leaf.type:
        return leaf.value
    if new.startswith("DECIMAL"):
        return f"{Decimal(leaf.value):.2f}"
    if new == "DOUBLE":
        return float(leaf.value)
    if new.startswith("TIMESTAMP") and leaf.type == "DATE":
        return f"{leaf.value}T00:00:00.000000"
    return leaf.value
