"""Which pieces of a data file may hold rows that match a filter, by the bounds of its row groups.

A column counts if its values are stored as they are read: other schemas may hold other values.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, TypeRoot
from lakewright.storage.spec.predicate import Bounds, Predicate, columns_of, may_match
from lakewright.storage.spec.schema_mapping import SchemaMapping
from lakewright.storage.spec.values import Value

_EPOCH = dt.datetime(1970, 1, 1)
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)


@dataclass(frozen=True, slots=True)
class RowGroupFilter:
    """A filter on some columns of a file; `names` are theirs in the table by those in the file."""

    predicate: Predicate
    names: Mapping[str, str]
    types: Mapping[str, DataType]

    def may_hold(self, bounds: Mapping[str, tuple[Any, Any]]) -> bool:
        """Whether a row within the bounds of a row group may match."""
        known: dict[str, Bounds] = {}
        for name, (low, high) in bounds.items():
            kind = self.types[name]
            first, last = _value(low, kind), _value(high, kind)
            if first is not None and last is not None:
                # Nulls are not counted, so any number of them may be there.
                known[self.names[name]] = Bounds(first, last, None)
        return may_match(self.predicate, known)


def row_group_filter(
    predicate: Predicate | None, mapping: SchemaMapping, fields: tuple[DataField, ...]
) -> RowGroupFilter | None:
    """The filter on a file that is read by a mapping; None if its bounds cannot decide."""
    if predicate is None:
        return None
    asked = columns_of(predicate)
    compared = [field for field in fields if field.name in asked]
    names = mapping.same_columns(compared)
    types = {field.name: field.type for field in compared}
    if not names:
        return None
    return RowGroupFilter(predicate, names, {own: types[name] for own, name in names.items()})


def _value(bound: Any, kind: DataType) -> Value:
    """A bound as metadata holds values; None for what is of another type than the column."""
    if not isinstance(kind, AtomicType):
        return None
    root = kind.root
    match bound:
        case bool():
            return bound if root is TypeRoot.BOOLEAN else None
        case int():
            return bound if root.is_integer else None
        case str():
            return bound if root in _TEXTS else None
        case bytes():
            return bound if root in _BYTES else None
        case Decimal():
            return bound if root is TypeRoot.DECIMAL else None
        case dt.datetime():
            if not root.is_timestamp or (bound.tzinfo is None) != (root is TypeRoot.TIMESTAMP):
                return None
            zone = bound.utcoffset() or dt.timedelta()
            since = bound.replace(tzinfo=None) - zone - _EPOCH
            return since // dt.timedelta(microseconds=1) * 1000
        case dt.date():
            return (bound - _EPOCH.date()).days if root is TypeRoot.DATE else None
        case _:
            return None
