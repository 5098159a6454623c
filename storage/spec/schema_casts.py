"""The casts that a mapping of schemas makes, at every depth."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.storage.spec.data_types import DataType
from lakewright.storage.spec.schema_change import ELEMENT, KEY, VALUE, path_text
from lakewright.storage.spec.schema_mapping import (
    ArrayMapping,
    CastValues,
    FieldMapping,
    MapMapping,
    RowMapping,
    TypeMapping,
)


def casts_of(
    column: FieldMapping, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, DataType, DataType]]:
    """The casts inside of a column: its path, the stored type and the type that is read."""
    yield from _casts(column.values, (*above, column.field.name))


def _casts(values: TypeMapping, path: tuple[str, ...]) -> Iterator[tuple[str, DataType, DataType]]:
    match values:
        case CastValues(stored=stored, read=read):
            yield path_text(path), stored, read
        case RowMapping(members=members):
            for member in members:
                yield from casts_of(member, path)
        case ArrayMapping(element=element):
            yield from _casts(element, (*path, ELEMENT))
        case MapMapping(key=key, value=value):
            yield from _casts(key, (*path, KEY))
            yield from _casts(value, (*path, VALUE))
