"""What a reader that knows one schema misses or misreads in rows of a later one.

Such a reader is a query, a job or a model: it knows columns by their names, and their types. Fields
pair by their ids, and a name that belongs to another field then is a break too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from lakewright.storage.spec.schema_change import ELEMENT, KEY, VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderBreak:
    """One break: a path by the names that the reader knows, and what is there then.

    `told` follows `column c, which`. A widening gives the reader values or nulls that its type did
    not have, and no value that it had is read differently.
    """

    path: tuple[str, ...]
    told: str
    is_widening: bool = False


def reader_breaks(
    known: Sequence[DataField], new: Sequence[DataField], path: tuple[str, ...] = ()
) -> Iterator[ReaderBreak]:
    """The breaks for a reader of `known` that reads rows of `new`."""
    by_id = {field.id: field for field in new}
    by_name = {field.name: field for field in new}
    for field in known:
        where = (*path, field.name)
        after, namesake = by_id.get(field.id), by_name.get(field.name)
        if after is not None and after.name == field.name:
            yield from _of_types(field.type, after.type, where)
            continue
        told = "goes" if after is None else f"is called {after.name} then"
        if namesake is not None:
            told += f", and another column has its name, a {namesake.type}"
        yield ReaderBreak(path=where, told=told)
        if after is not None:
            yield from _of_types(field.type, after.type, where)


def _of_types(known: DataType, new: DataType, path: tuple[str, ...]) -> Iterator[ReaderBreak]:
    if new.nullable and not known.nullable:
        yield ReaderBreak(path=path, told="may hold null then", is_widening=True)
    match known, new:
        case RowType(fields=before), RowType(fields=after):
            yield from reader_breaks(before, after, path)
        case ArrayType(element=old), ArrayType(element=element):
            yield from _of_types(old, element, (*path, ELEMENT))
        case MultisetType(element=old), MultisetType(element=element):
            yield from _of_types(old, element, (*path, ELEMENT))
        case MapType() as old_map, MapType() as new_map:
            yield from _of_types(old_map.key, new_map.key, (*path, KEY))
            yield from _of_types(old_map.value, new_map.value, (*path, VALUE))
        case _ if not _keeps(new, known):
            yield ReaderBreak(
                path=path,
                told=f"is {_bare(new)} then, and was {_bare(known)}",
                is_widening=_keeps(known, new),
            )


def _keeps(old: DataType, new: DataType) -> bool:
    """Whether each value of a type is a value of another one, as it is."""
    rule = cast_rule(old, new)
    return rule.cast in (Cast.SAME, Cast.IMPLICIT) and rule.loss is None


def _bare(data_type: DataType) -> str:
    return str(replace(data_type, nullable=True))
