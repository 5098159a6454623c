"""The parts of columns, at every depth, and which of their stored values another schema may lose.

A part is a column, a member of a row, an element of an array or a multiset, or a key or a value of
a map. Fields pair by their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakewright.storage.spec.cast_mode import CastMode
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.schema_change import ELEMENT, KEY, VALUE, path_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """A part of a stored column, and how another schema reads it.

    `identity` is the same under each schema: ids of fields, and steps into arrays and maps. `path`
    has the names that are read, and `steps` the names of the file. `stored` is None if the file
    lacks the part.
    """

    identity: tuple[int | str, ...]
    path: tuple[str, ...]
    steps: tuple[str, ...]
    stored: DataType | None
    read: DataType

    @property
    def cast(self) -> tuple[AtomicType, AtomicType] | None:
        """The cast that may lose values, if any."""
        if not isinstance(self.stored, AtomicType) or not isinstance(self.read, AtomicType):
            return None
        rule = cast_rule(self.stored, self.read)
        if rule.loss is None or rule.cast is Cast.REFUSED:
            return None
        return self.stored, self.read

    def loss_in(self, mode: CastMode) -> str | None:
        """What becomes of values that change, in words, where a table has this cast mode."""
        return None if self.cast is None else cast_rule(*self.cast).loss_in(mode)

    @property
    def is_retyped(self) -> bool:
        """Whether the values are cast, with or without a loss."""
        if not isinstance(self.stored, AtomicType) or not isinstance(self.read, AtomicType):
            return False
        return cast_rule(self.stored, self.read).cast is not Cast.SAME

    @property
    def is_widened(self) -> bool:
        """Whether each value that any older type loses in the new type is lost in this type too."""
        if not isinstance(self.stored, AtomicType) or not isinstance(self.read, AtomicType):
            return False
        return self.cast is None and _kind(self.stored.root) == _kind(self.read.root)

    @property
    def refuses_null(self) -> bool:
        """Whether null was allowed, or is all that the file has, and is refused now."""
        return not self.read.nullable and (self.stored is None or self.stored.nullable)

    @property
    def is_column(self) -> bool:
        """Whether the part is a whole column, which statistics describe."""
        return len(self.identity) == 1


def _kind(root: TypeRoot) -> str:
    if root.is_integer or root.is_floating or root is TypeRoot.DECIMAL:
        return "number"
    if root.is_text:
        return "text"
    return "bytes" if root.is_bytes else root.value


def changed_parts(stored: Sequence[DataField], read: Sequence[DataField]) -> Iterator[ChangedPart]:
    """The parts of a file's columns that may lose values, or whose nulls are refused."""
    parts = _members(stored, read, _Place())
    return (part for part in parts if part.cast is not None or part.refuses_null)


def retyped_parts(stored: Sequence[DataField], read: Sequence[DataField]) -> Iterator[ChangedPart]:
    """The parts that are cast, whether that may lose values or not."""
    return (part for part in _members(stored, read, _Place()) if part.is_retyped)


def part_paths(fields: Sequence[DataField]) -> frozenset[str]:
    """The paths of all parts of columns."""
    return frozenset(path_text(part.path) for part in _members(fields, fields, _Place()))


@dataclass(frozen=True, slots=True)
class _Place:
    identity: tuple[int | str, ...] = ()
    path: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def at(self, identity: int | str, name: str, stored_name: str | None) -> _Place:
        steps = self.steps if stored_name is None else (*self.steps, stored_name)
        return _Place((*self.identity, identity), (*self.path, name), steps)

    def into(self, step: str) -> _Place:
        return self.at(step, step, step)


def _members(
    stored: Sequence[DataField], read: Sequence[DataField], above: _Place
) -> Iterator[ChangedPart]:
    held = {field.id: field for field in stored}
    for field in read:
        old = held.get(field.id)
        place = above.at(field.id, field.name, None if old is None else old.name)
        yield from _parts(None if old is None else old.type, field.type, place)


def _parts(stored: DataType | None, read: DataType, place: _Place) -> Iterator[ChangedPart]:
    yield ChangedPart(
        identity=place.identity, path=place.path, steps=place.steps, stored=stored, read=read
    )
    match stored, read:
        case RowType(fields=before), RowType(fields=after):
            yield from _members(before, after, place)
        case ArrayType(element=old), ArrayType(element=new):
            yield from _parts(old, new, place.into(ELEMENT))
        case MultisetType(element=old), MultisetType(element=new):
            yield from _parts(old, new, place.into(KEY))
        case MapType() as old_map, MapType() as new_map:
            yield from _parts(old_map.key, new_map.key, place.into(KEY))
            yield from _parts(old_map.value, new_map.value, place.into(VALUE))
