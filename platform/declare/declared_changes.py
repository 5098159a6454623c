"""What must change in a table so that it is as declared, as changes of its schema.

Columns are matched by name. A declared column with `was` is the one of that name, renamed. Members
of rows inside of columns are matched by name at every depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.storage import (
    AddColumn,
    ChangeComment,
    ChangeNullability,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    SetOption,
    Side,
)
from lakewright.storage.spec.data_types import ArrayType, DataField, DataType, MapType, RowType
from lakewright.storage.spec.option_values import same_quantity
from lakewright.storage.spec.schema import TableSchema, new_schema
from lakewright.storage.spec.schema_change import ELEMENT, VALUE, SchemaChange, path_text

BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class DeclaredChanges:
    """Changes that make a table as declared, in an order in which they apply.

    `destructive` are those of them after which values can no longer be read. `others` names, in
    words, what no change of a schema can do.
    """

    changes: tuple[SchemaChange, ...]
    others: tuple[str, ...]

    @property
    def destructive(self) -> tuple[DropColumn, ...]:
        return tuple(change for change in self.changes if isinstance(change, DropColumn))

    def __bool__(self) -> bool:
        return bool(self.changes or self.others)


def declared_changes(declaration: TableDeclaration, actual: TableSchema) -> DeclaredChanges:
    """The changes from a table's schema to its declaration.

    Options that only the table has stay: other engines set some of their own.
    """
    declared = new_schema(declaration.schema_spec, time_millis=0)
    renames = _renames(declaration, actual)
    present = _renamed(actual.fields, renames)
    wanted = {field.name for field in declared.fields}
    changes: list[SchemaChange] = [
        DropColumn(path_text([field.name])) for field in present if field.name not in wanted
    ]
    changes += [RenameColumn(path_text([old]), new) for old, new in renames.items()]
    changes += _member_changes(present, declared.fields, ())
    changes += _moves(present, declared.fields)
    if declaration.comment and declaration.comment != actual.comment:
        changes.append(ChangeTableComment(declaration.comment))
    options, others = [], []
    for name, value in sorted(declared.options.items()):
        now = actual.options.get(name)
        if now is None or not means(value, now):
            if name == BUCKET:
                others.append(
                    f"option {name} is declared {value} and is {now or 'not set'} "
                    "(lakewright rescale changes it)"
                )
            else:
                options.append(SetOption(name, value))
    for what, left, right in (
        ("partition key", declared.partition_keys, actual.partition_keys),
        ("primary key", declared.primary_keys, actual.primary_keys),
    ):
        if left != right:
            others.append(f"the {what} is declared ({', '.join(left)}) and is ({', '.join(right)})")
    return DeclaredChanges((*changes, *options), tuple(others))


def means(left: str, right: str) -> bool:
    """Whether two texts of an option are one value: `true` and `True`, `1 h` and `60 min`."""
    return left == right or (
        same_quantity(left, right)
        or (left.lower() == right.lower() and left.lower() in ("true", "false"))
    )


def _renames(declaration: TableDeclaration, actual: TableSchema) -> dict[str, str]:
    """New names by old names, of columns that are still called by the old one."""
    there = set(actual.field_names)
    return {
        column.was: column.name
        for column in declaration.columns
        if column.was in there and column.name not in there and column.was is not None
    }


def _renamed(fields: Sequence[DataField], renames: dict[str, str]) -> list[DataField]:
    return [replace(field, name=renames.get(field.name, field.name)) for field in fields]


def _member_changes(
    present: Sequence[DataField], wanted: Sequence[DataField], path: tuple[str, ...]
) -> Iterator[SchemaChange]:
    """Added and changed members; top-level columns are dropped elsewhere, before the renames."""
    by_name = {field.name: field for field in present}
    if path:
        names = {field.name for field in wanted}
        for field in present:
            if field.name not in names:
                yield DropColumn(path_text([*path, field.name]))
    for field in wanted:
        here = (*path, field.name)
        if field.name not in by_name:
            yield AddColumn(path_text(here), str(field.type), comment=field.description)
            continue
        old = by_name[field.name]
        yield from _type_changes(old.type, field.type, here)
        if field.description is not None and field.description != old.description:
            yield ChangeComment(path_text(here), field.description)


def _type_changes(old: DataType, new: DataType, path: tuple[str, ...]) -> Iterator[SchemaChange]:
    match old, new:
        case RowType(fields=present), RowType(fields=wanted):
            # A row must keep a member, so members come before others go.
            changes = list(_member_changes(present, wanted, path))
            yield from sorted(changes, key=lambda change: isinstance(change, DropColumn))
            yield from _moves(present, wanted, path)
        case ArrayType(element=before), ArrayType(element=after):
            yield from _type_changes(before, after, (*path, ELEMENT))
        case MapType(key=key, value=before), MapType(key=same, value=after) if key == same:
            yield from _type_changes(before, after, (*path, VALUE))
        case _ if replace(old, nullable=new.nullable) != new:
            yield ChangeType(path_text(path), str(replace(new, nullable=True)))
    if old.nullable is not new.nullable:
        yield ChangeNullability(path_text(path), nullable=new.nullable)


def _moves(
    present: Sequence[DataField], wanted: Sequence[DataField], path: tuple[str, ...] = ()
) -> Iterator[MoveColumn]:
    """Moves of columns into the declared order, after additions at the end and drops."""
    names = [field.name for field in wanted]
    there = [field.name for field in present if field.name in names]
    order = [*there, *(name for name in names if name not in there)]
    for index, name in enumerate(names):
        if order[index] == name:
            continue
        order.remove(name)
        order.insert(index, name)
        position = Position(Side.FIRST) if index == 0 else Position(Side.AFTER, names[index - 1])
        yield MoveColumn(path_text([*path, name]), position)
