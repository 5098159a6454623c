"""What differs between two versions of a schema, in words, by the ids of fields at every depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakewright.storage.errors import InvalidOption
from lakewright.storage.secret_texts import shown_option
from lakewright.storage.spec.cast_mode import CastMode, cast_mode
from lakewright.storage.spec.cast_rules import cast_rule
from lakewright.storage.spec.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import ELEMENT, KEY, VALUE, path_text


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs: a column by its path, an option, or the comment of the table."""

    subject: str
    before: str | None
    after: str | None
    # What becomes of values that do not fit another type.
    loss: str | None = None

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.subject}: {self.after}"
        if self.after is None:
            return f"- {self.subject}: {self.before}"
        lost = "" if self.loss is None else f" ({self.loss})"
        return f"~ {self.subject}: {self.before} -> {self.after}{lost}"


def differences(old: TableSchema, new: TableSchema) -> tuple[Difference, ...]:
    """All differences, columns first; the order of lines is that of the new schema."""
    return tuple(_differences(old, new))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """How one top-level column of a schema differs in a later one, by its id.

    `after` is None if the column is gone. Members of rows count for their column.
    """

    before: DataField
    after: DataField | None

    @property
    def column(self) -> str:
        """The name of the column before."""
        return self.before.name

    @property
    def is_gone(self) -> bool:
        return self.after is None

    @property
    def is_renamed(self) -> bool:
        return self.after is not None and self.after.name != self.before.name

    @property
    def is_retyped(self) -> bool:
        return self.after is not None and self.after.type != self.before.type

    @property
    def told(self) -> str:
        """What happens to the column, to follow `column c, which`."""
        if self.after is None:
            return "goes"
        told = []
        if self.is_renamed:
            told.append(f"is called {self.after.name} then")
        if self.is_retyped:
            told.append(f"changes from {self.before.type} to {self.after.type}")
        return " and ".join(told)


def column_differences(old: TableSchema, new: TableSchema) -> tuple[ColumnDifference, ...]:
    """Columns of the old schema that the new one lacks, or names or types otherwise."""
    kept = {field.id: field for field in new.fields}
    pairs = (ColumnDifference(before=field, after=kept.get(field.id)) for field in old.fields)
    return tuple(pair for pair in pairs if pair.is_gone or pair.is_renamed or pair.is_retyped)


def _differences(old: TableSchema, new: TableSchema) -> Iterator[Difference]:
    yield from _of_members(old.fields, new.fields, (), _mode(new))
    for kind, before, after in (
        ("partition keys", old.partition_keys, new.partition_keys),
        ("primary keys", old.primary_keys, new.primary_keys),
    ):
        if before != after:
            yield Difference(kind, ", ".join(before), ", ".join(after))
    for name in sorted({*old.options, *new.options}):
        given = old.options.get(name), new.options.get(name)
        if given[0] != given[1]:
            shown = (None if each is None else shown_option(name, each) for each in given)
            yield Difference(f"option {name}", *shown)
    if old.comment != new.comment:
        yield Difference("comment of the table", repr(old.comment), repr(new.comment))


def _of_members(
    old: Sequence[DataField], new: Sequence[DataField], path: tuple[str, ...], mode: CastMode
) -> Iterator[Difference]:
    before = {field.id: field for field in old}
    for field in new:
        where = (*path, field.name)
        if field.id not in before:
            yield Difference(f"column {path_text(where)}", None, _shown(field))
            continue
        yield from _of_field(before[field.id], field, where, mode)
    kept = {field.id for field in new}
    for field in old:
        if field.id not in kept:
            yield Difference(f"column {path_text((*path, field.name))}", _shown(field), None)
    order = [field.id for field in old if field.id in kept]
    if order != [field.id for field in new if field.id in before]:
        inside = f" of {path_text(path)}" if path else ""
        yield Difference(
            f"order{inside}",
            ", ".join(field.name for field in old),
            ", ".join(field.name for field in new),
        )


def _of_field(
    old: DataField, new: DataField, path: tuple[str, ...], mode: CastMode
) -> Iterator[Difference]:
    where = f"column {path_text(path)}"
    if old.name != new.name:
        yield Difference(f"name of {where}", old.name, new.name)
    yield from _of_types(old.type, new.type, path, mode)
    for what, before, after in (
        ("comment", old.description, new.description),
        ("default", old.default_value, new.default_value),
    ):
        if before != after:
            yield Difference(f"{what} of {where}", _text(before), _text(after))


def _of_types(
    old: DataType, new: DataType, path: tuple[str, ...], mode: CastMode
) -> Iterator[Difference]:
    if isinstance(old, RowType) and isinstance(new, RowType):
        yield from _of_members(old.fields, new.fields, path, mode)
    elif (isinstance(old, ArrayType) and isinstance(new, ArrayType)) or (
        isinstance(old, MultisetType) and isinstance(new, MultisetType)
    ):
        yield from _of_types(old.element, new.element, (*path, ELEMENT), mode)
    elif isinstance(old, MapType) and isinstance(new, MapType):
        yield from _of_types(old.key, new.key, (*path, KEY), mode)
        yield from _of_types(old.value, new.value, (*path, VALUE), mode)
    elif replace(old, nullable=new.nullable) != new:
        loss = cast_rule(old, new).loss_in(mode)
        yield Difference(f"type of column {path_text(path)}", str(old), str(new), loss)
        return
    if old.nullable is not new.nullable:
        yield Difference(
            f"nulls of column {path_text(path)}", _nulls(old.nullable), _nulls(new.nullable)
        )


def _mode(schema: TableSchema) -> CastMode:
    try:
        return cast_mode(schema, table="")
    except InvalidOption:
        # Another client may set a mode that does not exist; reads of the table refuse it.
        return CastMode.IMPLICIT


def _nulls(nullable: bool) -> str:
    return "allowed" if nullable else "refused"


def _shown(field: DataField) -> str:
    default = "" if field.default_value is None else f" DEFAULT {field.default_value!r}"
    return f"{field.type}{default}"


def _text(value: str | None) -> str | None:
    return None if value is None else repr(value)
