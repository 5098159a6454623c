"""How columns of PostgreSQL are selected, so that each value arrives as it is there.

The driver hands on some types as they are, and others as numbers or bytes that mean something else:
the number of an `oid` with its sign changed, the cents of `money`, an array of several dimensions
as one of one. So by the type of a column there and the type that is declared, a column is selected
as it is, or as its text, which is then read by the same rule as every text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.data_types import (
    INTEGER_BITS,
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)

_TEXTS = {"text", "varchar", "bpchar", "name"}
_BITS = {"int2": 16, "int4": 32, "int8": 64}
_WHOLE = {*_BITS}
_NUMBERS = {*_WHOLE, "float4", "float8", "numeric"}
_MOMENTS = {"date", "timestamp", "timestamptz"}
_BYTES = {"bytea", "uuid"}
_MONEY, _UUID = "money", "uuid"
_UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Types into which an INSERT rounds or cuts values of others, and says nothing. A `float4` is not
# among them: the nearest number is what such a column holds of any.
NARROW = {*_WHOLE, "float8", "numeric", "date", "time", "timestamp", "timestamptz"}
# Types with the same meaning here and there, in which a filter means the same.
_ALIKE = {
    TypeRoot.BOOLEAN: {"bool"},
    TypeRoot.TINYINT: _WHOLE,
    TypeRoot.SMALLINT: _WHOLE,
    TypeRoot.INT: _WHOLE,
    TypeRoot.BIGINT: _WHOLE,
    TypeRoot.DATE: {"date"},
    TypeRoot.TIMESTAMP: {"timestamp"},
    TypeRoot.TIMESTAMP_LTZ: {"timestamptz"},
}
_OF_COLUMNS = """
WITH RECURSIVE typed AS (
  SELECT attname, attnum, atttypid AS kind FROM pg_catalog.pg_attribute
  WHERE attrelid = {relation} AND NOT attisdropped
  UNION ALL
  SELECT attname, attnum, typbasetype FROM typed JOIN pg_catalog.pg_type AS d ON d.oid = kind
  WHERE d.typtype = 'd'
)
SELECT attname::text, t.typname::text, coalesce(e.typname::text, ''), t.typrelid::bigint
FROM typed JOIN pg_catalog.pg_type AS t ON t.oid = kind
LEFT JOIN pg_catalog.pg_type AS e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE t.typtype <> 'd' ORDER BY attnum
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type there, below its domains: its name, that of an array's elements, or its members."""

    name: str
    element: str = ""
    members: Mapping[str, Kind] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selected:
    """How a column is selected; `guard` is true of a value that the driver would change."""

    expression: str
    guard: str | None = None


def kinds(rows: Callable[[str], Sequence[Sequence[object]]], name: str) -> dict[str, Kind]:
    """The types of the columns of a table, whose name is quoted; `rows` answers a query."""
    relation = "'" + name.replace("'", "''") + "'::regclass::oid"
    return _kinds(rows, relation)


def _kinds(rows: Callable[[str], Sequence[Sequence[object]]], relation: str) -> dict[str, Kind]:
    found = {}
    for column, name, element, composite in rows(_OF_COLUMNS.format(relation=relation)):
        members = _kinds(rows, f"{composite}::oid") if composite else {}
        found[str(column)] = Kind(str(name), str(element), members)
    return found


def selected(column: str, each: DataField, kind: Kind | None, owner: str) -> Selected:
    """How a column is selected, whose quoted name is `column`.

    Raises:
        UnsupportedError: its values cannot be had in the declared type.
    """
    if kind is None:
        # The database says that there is no such column.
        return Selected(column)
    match each.type:
        case ArrayType(element=inner) if kind.element:
            guard = f"array_ndims({column}) > 1"
            if _is_native(inner, Kind(kind.element)):
                return Selected(column, guard)
            way = "::numeric[]::text[]" if kind.element == _MONEY else "::text[]"
            return Selected(f"{column}{way}", guard)
        case RowType(fields=fields) if kind.members:
            for member in fields:
                of_member = kind.members.get(member.name)
                if of_member is not None and not _is_native(member.type, of_member):
                    raise _unfit(f"{each.name}.{member.name}", member.type, of_member, owner)
            return Selected(column)
        case AtomicType():
            if _is_native(each.type, kind):
                return Selected(column)
            if each.type.root.is_bytes:
                raise _unfit(each.name, each.type, kind, owner)
            if kind.name == "inet":
                # A cast writes the mask of a single address too.
                return Selected(f"abbrev({column})")
            way = "::numeric::text" if _is_amount(each.type, kind) else "::text"
            return Selected(f"{column}{way}")
        case _:
            raise _unfit(each.name, each.type, kind, owner)


def means_alike(data_type: DataType, kind: Kind | None) -> bool:
    """Whether the database compares and orders a column as a column of the declared type."""
    if kind is None or not isinstance(data_type, AtomicType):
        return False
    return kind.name in _ALIKE.get(data_type.root, ())


def can_find(data_type: DataType, kind: Kind | None) -> bool:
    """Whether `=` finds every row whose value in a column is read as a given one."""
    if kind is None or not isinstance(data_type, AtomicType):
        return False
    if data_type.root is TypeRoot.VARCHAR:
        return kind.name in {*_TEXTS, _UUID}
    if data_type.root.is_bytes:
        return kind.name == "bytea"
    is_exact = data_type.root is TypeRoot.BOOLEAN or data_type.root.is_integer
    return is_exact and means_alike(data_type, kind)


def can_aggregate(function: str, data_type: DataType, kind: Kind | None) -> bool:
    """Whether count, min, max or sum of a column is that of the values which are read."""
    if kind is None or not isinstance(data_type, AtomicType):
        return False
    if data_type.root is TypeRoot.VARCHAR:
        # Min and max depend on the locale there; a shorter type takes not each value.
        return function == "count" and kind.name in _TEXTS and data_type.length == MAX_LENGTH
    return _is_within(data_type, kind)


def grouped_by(data_type: DataType, kind: Kind | None) -> str | None:
    """The collation by which a column has the groups of its values; None if it has others."""
    if kind is None or not isinstance(data_type, AtomicType):
        return None
    if data_type.root is TypeRoot.VARCHAR:
        return ' COLLATE "C"' if kind.name in ("text", "varchar") else None
    is_plain = data_type.root in (TypeRoot.BOOLEAN, TypeRoot.DATE) and means_alike(data_type, kind)
    return "" if is_plain or _is_within(data_type, kind) else None


def _is_within(data_type: AtomicType, kind: Kind) -> bool:
    """Whether a column is of whole numbers, and the declared type has all of them."""
    return _BITS.get(kind.name, 65) <= INTEGER_BITS.get(data_type.root, 0)


def is_text_of(text: str, kind: Kind) -> bool:
    """Whether a value in such a column can have a text; others the server may refuse to compare."""
    return kind.name != _UUID or _UUID_TEXT.fullmatch(text) is not None


def _is_amount(data_type: AtomicType, kind: Kind) -> bool:
    """Whether an amount of money is declared as a number; its text depends on the server."""
    return kind.name == _MONEY and not data_type.root.is_text


def _is_native(data_type: DataType, kind: Kind) -> bool:
    """Whether the driver hands on each value as it is, or as the text of a number."""
    if not isinstance(data_type, AtomicType):
        return False
    root = data_type.root
    if root.is_bytes:
        return kind.name in _BYTES
    if kind.name in _TEXTS:
        return True
    if root.is_text:
        # That bytes are no text is said where their value is known.
        return kind.name == "bytea"
    if root is TypeRoot.BOOLEAN:
        return kind.name in {"bool", *_WHOLE}
    if root is TypeRoot.TIME:
        return kind.name == "time"
    if root is TypeRoot.DATE or root.is_timestamp:
        return kind.name in _MOMENTS
    return kind.name in _NUMBERS


def _unfit(path: str, data_type: DataType, kind: Kind, owner: str) -> UnsupportedError:
    name = f"{kind.element}[]" if kind.element else kind.name
    return UnsupportedError(
        f"{owner}: column {path} is {name} in the database, which is not read as {data_type}; "
        "declare the column as STRING, or make a view there that casts it",
        column=path,
    )
