"""What must change in a table so that it is as declared, as changes of its schema.

Columns are matched by name. A declared column with `was` is the one of that name, renamed. Members
of rows inside of columns are matched by name at every depth. Changes come in the order of
`schema_change_text.KINDS`, so that one call of `lakewright alter` makes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.former_names import renames, wrong_former_names
from lakewright.storage import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
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
from lakewright.storage.secret_texts import shown_option
from lakewright.storage.spec.bucketing import BUCKET, BUCKET_KEY, BUCKET_OPTIONS
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.data_types import ArrayType, DataField, DataType, MapType, RowType
from lakewright.storage.spec.log_options import LOG, as_written
from lakewright.storage.spec.option_values import same_quantity
from lakewright.storage.spec.schema import TableSchema, new_schema
from lakewright.storage.spec.schema_change import ELEMENT, VALUE, SchemaChange, path_of, path_text
from lakewright.storage.spec.schema_change_text import in_order_of_kinds

# What an option means that is not set.
_UNSET = {BUCKET: "-1"}


@dataclass(frozen=True, slots=True)
class KeysChange:
    """The partition keys that a table has, and those declared; a respec leads to them."""

    former: tuple[str, ...]
    keys: tuple[str, ...]

    def __str__(self) -> str:
        former, keys = ", ".join(self.former), ", ".join(self.keys)
        return f"change the partition keys from ({former}) to ({keys})"


@dataclass(frozen=True, slots=True)
class DeclaredChanges:
    """Changes that make a table as declared, in an order in which they apply.

    `losses` says of the destructive changes what becomes of stored values: drops, and casts that
    may change values. `others` names, in words, what no change of a schema can do. `keys` is the
    change of the partition keys, which is made apart from the others.
    """

    changes: tuple[SchemaChange, ...]
    others: tuple[str, ...]
    losses: Mapping[SchemaChange, str]
    keys: KeysChange | None = None

    @property
    def destructive(self) -> tuple[SchemaChange, ...]:
        return tuple(change for change in self.changes if change in self.losses)

    @property
    def harmless(self) -> tuple[SchemaChange, ...]:
        """The changes that can be made without the destructive ones."""
        retyped = {each.column for each in self.destructive if isinstance(each, ChangeType)}
        return tuple(
            change
            for change in self.changes
            # A default is a value of the new type.
            if change not in self.losses
            and not (isinstance(change, ChangeDefault) and change.column in retyped)
        )

    def __bool__(self) -> bool:
        return bool(self.changes or self.others or self.keys)


def declared_changes(declaration: TableDeclaration, actual: TableSchema) -> DeclaredChanges:
    """The changes from a table's schema to its declaration.

    Options and comments that only the table has stay: other engines set some of their own. A
    default that only the table has goes, since it decides what writers store. Columns that runs
    added by `evolve: additive` stay.
    """
    declaration = declaration.with_undeclared(actual)
    declared = new_schema(declaration.schema_spec, time_millis=0)
    renamed = renames(declaration.columns, actual.field_names)
    present = _renamed(actual.fields, renamed)
    wanted = {field.name for field in declared.fields}
    changes: list[SchemaChange] = [
        DropColumn(path_text([field.name])) for field in present if field.name not in wanted
    ]
    changes += [RenameColumn(path_text([old]), new) for old, new in renamed.items()]
    changes += _member_changes(present, declared.fields, ())
    changes += _moves(present, declared.fields)
    if declaration.comment and declaration.comment != actual.comment:
        changes.append(ChangeTableComment(declaration.comment))
    changes += [
        SetOption(name, value)
        for name, value in _other_options(declared, actual).items()
        if name not in BUCKET_OPTIONS and not name.startswith(LOG)
    ]
    refused = [change for change in changes if _is_refused_cast(change, present)]
    ordered = in_order_of_kinds(change for change in changes if change not in refused)
    late = [each for each in ordered if _empties_a_row(each, ordered, present)]
    return DeclaredChanges(
        changes=(*(each for each in ordered if each not in late), *late),
        others=(
            *(_told_cast(each, present) for each in refused),
            # A data contract may have some; a declaration with some is not loaded.
            *(told for _, told in wrong_former_names(declaration.columns)),
            *_misspelt_former_names(declaration, actual, wanted),
            *_no_changes(declared, actual),
        ),
        losses={each: loss for each in ordered if (loss := _loss(each, present)) is not None},
        keys=_keys_change(declared, actual),
    )


def _misspelt_former_names(
    declaration: TableDeclaration, actual: TableSchema, wanted: Collection[str]
) -> Iterator[str]:
    """Former names that the table lacks, beside columns that it would lose: one may be meant."""
    names = actual.field_names
    former = {column.was for column in declaration.columns}
    gone = [name for name in names if name not in wanted and name not in former]
    for column in declaration.columns:
        if gone and column.was is not None and not {column.was, column.name} & {*names}:
            yield (
                f"column {column.name} was {column.was!r}, and {declaration.table} has no such "
                f"column; it has {', '.join(gone)}, which is not declared; correct was, or leave "
                "it out if the column is new"
            )


def _keys_change(declared: TableSchema, actual: TableSchema) -> KeysChange | None:
    """The change of the partition keys, where a respec can make it."""
    if declared.partition_keys == actual.partition_keys or actual.has_primary_key:
        return None
    return KeysChange(former=actual.partition_keys, keys=declared.partition_keys)


def _other_options(declared: TableSchema, actual: TableSchema) -> dict[str, str]:
    """The declared options that the table has not, or has with another value."""
    present = as_written(actual.options)
    return {
        name: value
        for name, value in sorted(declared.options.items())
        if (now := present.get(name, _UNSET.get(name))) is None or not means(value, now)
    }


def _no_changes(declared: TableSchema, actual: TableSchema) -> Iterator[str]:
    """What differs and is changed by no change of a schema."""
    others = _other_options(declared, actual)
    of_log = (option for option in others if option.startswith(LOG))
    for option, way in (
        (BUCKET, "lakewright rescale"),
        (BUCKET_KEY, "ALTER TABLE … MODIFY DISTRIBUTION"),
        *((option, "ALTER TABLE … SET in lakewright sql") for option in of_log),
    ):
        if option in others:
            now = shown_option(option, as_written(actual.options).get(option) or "not set")
            wanted = shown_option(option, others[option])
            yield f"option {option} is declared {wanted} and is {now} ({way} changes it)"
    for what, left, right in (
        ("partition key", declared.partition_keys, actual.partition_keys),
        ("primary key", declared.primary_keys, actual.primary_keys),
    ):
        if left != right and (what == "primary key" or actual.has_primary_key):
            yield f"the {what} is declared ({', '.join(left)}) and is ({', '.join(right)})"


def means(left: str, right: str) -> bool:
    """Whether two texts of an option are one value: `true` and `True`, `1 h` and `60 min`."""
    return left == right or (
        same_quantity(left, right)
        or (left.lower() == right.lower() and left.lower() in ("true", "false"))
    )


def _renamed(fields: Sequence[DataField], renamed: dict[str, str]) -> list[DataField]:
    return [replace(field, name=renamed.get(field.name, field.name)) for field in fields]


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
            yield AddColumn(
                path_text(here), str(field.type), field.description, field.default_value
            )
            continue
        old = by_name[field.name]
        yield from _type_changes(old.type, field.type, here)
        if field.description is not None and field.description != old.description:
            yield ChangeComment(path_text(here), field.description)
        if not path and _bare(field.default_value) != _bare(old.default_value):
            yield ChangeDefault(path_text(here), field.default_value)


def _bare(default: str | None) -> str | None:
    """A default without the quotes in which it may stand."""
    if default is not None and len(default) > 1 and default[0] == default[-1] == "'":
        return default[1:-1]
    return default


def _type_changes(old: DataType, new: DataType, path: tuple[str, ...]) -> Iterator[SchemaChange]:
    match old, new:
        case RowType(fields=present), RowType(fields=wanted):
            yield from _member_changes(present, wanted, path)
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


# --- what is lost -------------------------------------------------------------------------------


def _loss(change: SchemaChange, present: Sequence[DataField]) -> str | None:
    """What becomes of stored values by a change; None if all stay readable."""
    match change:
        case DropColumn():
            return "its values can no longer be read"
        case ChangeType(column=column):
            return cast_rule(_type_at(present, path_of(column)), change.data_type).loss
    return None


def _is_refused_cast(change: SchemaChange, present: Sequence[DataField]) -> bool:
    if not isinstance(change, ChangeType):
        return False
    old = _type_at(present, path_of(change.column))
    return cast_rule(old, change.data_type).cast is Cast.REFUSED


def _told_cast(change: SchemaChange, present: Sequence[DataField]) -> str:
    assert isinstance(change, ChangeType)
    old = _type_at(present, path_of(change.column))
    return f"column {change.column} is declared {change.type} and is {old}, which is not cast to it"


def _empties_a_row(
    drop: SchemaChange, changes: Sequence[SchemaChange], present: Sequence[DataField]
) -> bool:
    """Whether a drop is one of all members of a row, which must get others first."""
    if not isinstance(drop, DropColumn) or len(path := path_of(drop.column)) == 1:
        return False
    row = _type_at(present, path[:-1])
    dropped = {path_of(change.column) for change in changes if isinstance(change, DropColumn)}
    return isinstance(row, RowType) and all(
        (*path[:-1], member.name) in dropped for member in row.fields
    )


def _type_at(fields: Sequence[DataField], path: Sequence[str]) -> DataType:
    """The type of a column or part of one."""
    data_type: DataType = RowType(tuple(fields))
    for step in path:
        match data_type:
            case RowType(fields=members):
                data_type = next(member.type for member in members if member.name == step)
            case ArrayType(element=element):
                data_type = element
            case MapType(value=value):
                data_type = value
    return data_type
