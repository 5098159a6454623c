"""Applies changes to a schema: ids, names, places, types, options. It touches no file.

A column keeps its id through every change, and a new column takes an id that no column had before.
Source: FLIP-226, chapter User Behavior; Paimon `SchemaManager.generateTableSchema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NoReturn

from lakewright.storage.errors import ColumnInUse, InvalidSchema, StorageError
from lakewright.storage.spec.cast_mode import CAST_MODE, CastMode, cast_mode, modes_of
from lakewright.storage.spec.cast_rules import Cast, cast_rule
from lakewright.storage.spec.column_uses import renamed_in_options, uses_of
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from lakewright.storage.spec.option_changes import with_option, without_option
from lakewright.storage.spec.option_values import BOOLEAN
from lakewright.storage.spec.options import trimmed
from lakewright.storage.spec.schema import (
    TableSchema,
    check_column_name,
    check_member_name,
    check_members,
    with_member_ids,
)
from lakewright.storage.spec.schema_change import (
    ELEMENT,
    VALUE,
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeTableComment,
    ChangeType,
    ColumnChange,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    ResetOption,
    SchemaChange,
    SetOption,
    Side,
    path_of,
    path_text,
)
from lakewright.storage.spec.supported_options import read_option

# The aggregate function that takes the last member of a row for its time.
_MERGED_BY_LAST_MEMBER = "merge_map_with_keytime"

_Path = tuple[str, ...]
_Members = tuple[DataField, ...]


@dataclass(frozen=True, slots=True)
class EvolvingTable:
    """What a change must know of a table besides its schema.

    `former_keys` are ids of columns that an older schema of the table is partitioned by.
    """

    name: str
    has_snapshots: bool
    former_keys: frozenset[int] = frozenset()


def evolved_schema(
    schema: TableSchema, changes: Iterable[SchemaChange], state: EvolvingTable, *, time_millis: int
) -> TableSchema:
    """The next version of a schema after all changes, one after the other.

    It is the same schema if the changes change nothing.

    Raises:
        InvalidSchema: a column or type does not exist, exists already, or does not fit.
        ColumnInUse: a key, an option or an older partitioning uses the column.
        InvalidOption: an option cannot change.
    """
    result, refused = evolved_as_far_as_possible(schema, changes, state, time_millis=time_millis)
    for _, error in refused:
        raise error
    return result


def evolved_as_far_as_possible(
    schema: TableSchema, changes: Iterable[SchemaChange], state: EvolvingTable, *, time_millis: int
) -> tuple[TableSchema, tuple[tuple[SchemaChange, StorageError], ...]]:
    """As `evolved_schema`, without the changes that are refused; and those, with their errors."""
    result = schema
    refused: list[tuple[SchemaChange, StorageError]] = []
    for change in sorted(changes, key=_allows_casts, reverse=True):
        try:
            result = _Evolution(result, state).after(change)
        except StorageError as error:
            refused.append((change, error))
    if result == schema:
        return schema, tuple(refused)
    return replace(result, id=schema.id + 1, time_millis=time_millis), tuple(refused)


def _allows_casts(change: SchemaChange) -> bool:
    """Whether other changes of the same call may need this one before them."""
    return (
        isinstance(change, SetOption)
        and change.name == CAST_MODE
        and change.value != CastMode.IMPLICIT.value
    )


@dataclass(frozen=True, slots=True)
class _Edit:
    """What happens at the end of a path: to the named member of a row, or to a type inside.

    `type` is None for edits that an element of an array or a value of a map cannot have.
    """

    members: Callable[[_Members, str], _Members]
    type: Callable[[DataType], DataType] | None = None


@dataclass(frozen=True, slots=True)
class _Evolution:
    """One step: a schema, and what is known of its table."""

    schema: TableSchema
    state: EvolvingTable

    def after(self, change: SchemaChange) -> TableSchema:
        """The schema after one change."""
        schema, name = self.schema, self.state.name
        match change:
            case SetOption():
                changed = with_option(schema, change, name, has_snapshots=self.state.has_snapshots)
                cast_mode(changed, table=name)
                return changed
            case ResetOption():
                return without_option(schema, change, name, has_snapshots=self.state.has_snapshots)
            case ChangeTableComment(comment=comment):
                return replace(schema, comment=comment)
        path = path_of(change.column)
        self._check_column(change, path)
        match change:
            case AddColumn():
                return self._with_new(change, path)
            case DropColumn():
                return self._without(path)
            case RenameColumn():
                return self._renamed(change, path)
            case MoveColumn(position=position):
                return self._edited(
                    path, _Edit(lambda members, own: _moved(members, own, position))
                )
            case ChangeType():
                return self._edited(path, _on_type(lambda old: self._retyped(change, old)))
            case ChangeNullability(nullable=nullable):
                self._check_nullability(path, nullable)
                return self._edited(path, _on_type(lambda old: replace(old, nullable=nullable)))
            case ChangeComment(comment=text):
                return self._edited(path, _on_field(lambda field: replace(field, description=text)))
            case ChangeDefault(default=text):
                return self._edited(
                    path, _on_field(lambda field: replace(field, default_value=text))
                )

    # --- what may change ----------------------------------------------------------------------

    def _check_column(self, change: ColumnChange, path: _Path) -> None:
        """Refuse a change of a column that a key or an option needs as it is."""
        schema = self.schema
        default = change.default if isinstance(change, (AddColumn, ChangeDefault)) else None
        if default is not None and len(path) > 1:
            raise InvalidSchema(
                f"member {path_text(path)} of {self.state.name} cannot have the default "
                f"{default!r}: writers apply defaults to whole columns; leave it out"
            )
        if isinstance(change, (ChangeComment, ChangeDefault)):
            return
        if schema.counts_rows:
            raise ColumnInUse(
                f"{self.state.name} counts equal rows, so all its columns are its key, and none "
                "can be added or changed; create a new table"
            )
        if len(path) > 1:
            self._check_member(change, path)
            return
        if isinstance(change, (AddColumn, MoveColumn)):
            return
        column = path[0]
        what = _WHAT[type(change)]
        if isinstance(change, ChangeNullability):
            if change.nullable and column in schema.primary_keys:
                self._in_use(column, what, "it is a primary key, which is never null")
            return
        if column in schema.primary_keys:
            self._in_use(column, what, "it is a primary key; create a new table with another key")
        if column in schema.partition_keys:
            self._in_use(column, what, "the table is partitioned by it")
        self._check_former_keys(column, what)
        if not isinstance(change, RenameColumn):
            self._check_options(change, column, what)

    def _check_member(self, change: ColumnChange, path: _Path) -> None:
        """Refuse what would change the last member of entries that are merged by that member."""
        options, column = trimmed(self.schema.options), path[0]
        by_last = options.get(f"fields.{column}.aggregate-function") == _MERGED_BY_LAST_MEMBER
        named = f"fields.{column}.ts-field" in options
        if by_last and not named and isinstance(change, (AddColumn, DropColumn, MoveColumn)):
            self._in_use(
                path_text(path),
                "added, dropped or moved",
                f"option fields.{column}.aggregate-function={_MERGED_BY_LAST_MEMBER} merges by "
                f"the last member; set fields.{column}.ts-field first",
            )

    def _check_former_keys(self, column: str, what: str) -> None:
        former = self.state.former_keys
        if former and _find(self.schema.fields, column).id in former:
            self._in_use(
                column,
                what,
                "older files of the table are partitioned by it; rewrite or expire them first",
            )

    def _check_options(self, change: ColumnChange, column: str, what: str) -> None:
        for use in uses_of(self.schema, column):
            if isinstance(change, DropColumn):
                self._in_use(column, what, f"{use} names it; set that option differently first")
            if use.hashes:
                self._in_use(column, what, f"{use} assigns rows to buckets by it")
            if use.orders:
                self._in_use(
                    column, what, f"{use} orders rows by it; name another column there first"
                )

    def _in_use(self, column: str, what: str, reason: str) -> NoReturn:
        raise ColumnInUse(
            f"column {column!r} of {self.state.name} cannot be {what}: {reason}", column=column
        )

    def _check_nullability(self, path: _Path, nullable: bool) -> None:
        if nullable or not self.state.has_snapshots:
            return
        if self._boolean("alter-column-null-to-not-null.disabled"):
            raise InvalidSchema(
                f"column {path_text(path)} of {self.state.name} cannot become NOT NULL, since rows "
                "may hold null there; set the option alter-column-null-to-not-null.disabled to "
                "false if none does"
            )

    def _boolean(self, option: str) -> bool:
        return read_option(self.schema, option, BOOLEAN, table=self.state.name)

    # --- changes ------------------------------------------------------------------------------

    def _with_new(self, change: AddColumn, path: _Path) -> TableSchema:
        given = change.data_type
        _check_name(path)
        check_members(path[-1], given)
        if not given.nullable:
            raise InvalidSchema(
                f"new column {path_text(path)} of {self.state.name} is {given}, and the rows that "
                "are there have null in it; leave NOT NULL out"
            )
        ids = count(self.schema.highest_field_id + 1)
        own_id = next(ids)
        data_type = with_member_ids(given, ids)
        field = DataField(own_id, path[-1], data_type, change.comment, change.default)
        position = change.position or self._default_position(path)
        edited = self._edited(path, _Edit(lambda members, _: _added(members, field, position)))
        return replace(edited, highest_field_id=next(ids) - 1)

    def _default_position(self, path: _Path) -> Position:
        keys = self.schema.partition_keys
        if len(path) == 1 and keys and self._boolean("add-column-before-partition"):
            first = next(name for name in self.schema.field_names if name in keys)
            return Position(Side.BEFORE, first)
        return Position(Side.LAST)

    def _without(self, path: _Path) -> TableSchema:
        edited = self._edited(path, _Edit(_dropped))
        if len(edited.fields) == len(edited.partition_keys):
            raise InvalidSchema(
                f"column {path[0]!r} is the last of {self.state.name} that is no partition key; "
                "add another column first"
            )
        return edited

    def _renamed(self, change: RenameColumn, path: _Path) -> TableSchema:
        new = change.new_name
        _check_name((*path[:-1], new))
        edited = self._edited(path, _Edit(lambda members, own: _with_name(members, own, new)))
        if len(path) > 1:
            return edited
        return replace(edited, options=renamed_in_options(edited.options, path[0], new))

    def _retyped(self, change: ChangeType, old: DataType) -> DataType:
        new = replace(change.data_type, nullable=old.nullable)
        rule = cast_rule(old, new)
        where = f"column {change.column} of {self.state.name} is {old}"
        if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
            # A path leads to each member, so its id stays known.
            raise InvalidSchema(
                f"{where}, and its type cannot become {new} as a whole; add, drop or change its "
                f"members, as {change.column}.member, {change.column}.{ELEMENT} of an array or "
                f"{change.column}.{VALUE} of a map"
            )
        if rule.cast is Cast.REFUSED:
            raise InvalidSchema(f"{where}, and no client casts it to {new}; add a column instead")
        mode = cast_mode(self.schema, table=self.state.name)
        forbidden = self._boolean("disable-explicit-type-casting")
        if rule.cast is Cast.EXPLICIT and (forbidden or not mode.allows_explicit):
            allowing = (each for each in modes_of(self.schema) if each.allows_explicit)
            modes = ", ".join(each.value for each in allowing)
            raise InvalidSchema(
                f"{where}, and only an explicit cast leads to {new}: {rule.loss or 'as in SQL'}; "
                f"set the option {CAST_MODE} to one of {modes} to allow it"
            )
        return new

    def _edited(self, path: _Path, edit: _Edit) -> TableSchema:
        walk = _Walk(path, self.state.name)
        return replace(self.schema, fields=walk.members(self.schema.fields, 0, edit))


_WHAT: dict[type[ColumnChange], str] = {
    DropColumn: "dropped",
    RenameColumn: "renamed",
    ChangeType: "given another type",
    ChangeNullability: "nullable",
}


# --- paths ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Walk:
    """Rebuilds the types along a path around an edit at its end."""

    path: _Path
    table: str

    def members(self, members: _Members, depth: int, edit: _Edit) -> _Members:
        name = self.path[depth]
        if depth == len(self.path) - 1:
            return edit.members(members, name)
        field = _find(members, name)
        inner = self._inside(field.type, depth + 1, edit)
        return _replaced(members, replace(field, type=inner))

    def _inside(self, data_type: DataType, depth: int, edit: _Edit) -> DataType:
        step = self.path[depth]
        match data_type:
            case RowType(fields=members):
                return replace(data_type, fields=self.members(members, depth, edit))
            case ArrayType(element=element) if step == ELEMENT:
                return replace(data_type, element=self._part(element, depth, edit))
            case MapType(value=value) if step == VALUE:
                return replace(data_type, value=self._part(value, depth, edit))
        steps = {ArrayType: f"write {ELEMENT}", MapType: f"write {VALUE}; keys never change"}
        instead = steps.get(type(data_type), "it has no members that could change")
        if isinstance(data_type, MultisetType):
            instead = "its elements never change"
        raise InvalidSchema(
            f"{self._until(depth - 1)} of {self.table} is {data_type}, so {step!r} names nothing "
            f"in it: {instead}"
        )

    def _part(self, data_type: DataType, depth: int, edit: _Edit) -> DataType:
        if depth < len(self.path) - 1:
            return self._inside(data_type, depth + 1, edit)
        if edit.type is None:
            raise InvalidSchema(
                f"{path_text(self.path)} of {self.table} is a part of an array or a map; it has "
                "a type alone, and no name, place, comment or default"
            )
        return edit.type(data_type)

    def _until(self, depth: int) -> str:
        return path_text(self.path[: depth + 1])


def _find(members: Sequence[DataField], name: str) -> DataField:
    for field in members:
        if field.name == name:
            return field
    there = ", ".join(field.name for field in members)
    raise InvalidSchema(f"no column {name!r}; there are {there}")


def _replaced(members: _Members, field: DataField) -> _Members:
    at = next(at for at, each in enumerate(members) if each.id == field.id)
    return (*members[:at], field, *members[at + 1 :])


def _on_field(change: Callable[[DataField], DataField]) -> _Edit:
    return _Edit(lambda members, name: _replaced(members, change(_find(members, name))))


def _on_type(change: Callable[[DataType], DataType]) -> _Edit:
    def in_members(members: _Members, name: str) -> _Members:
        field = _find(members, name)
        return _replaced(members, replace(field, type=change(field.type)))

    return _Edit(in_members, change)


# --- members of a row -----------------------------------------------------------------------------


def _check_name(path: _Path) -> None:
    """Data files add columns beside those of a table, and nothing inside of them."""
    check = check_column_name if len(path) == 1 else check_member_name
    check(path[-1])


def _check_free(members: _Members, name: str, own: DataField | None = None) -> None:
    """Refuse a name that is taken; Spark does not tell names apart that differ in case alone."""
    folded = name.casefold()
    for member in members:
        if member.name.casefold() == folded and member is not own:
            raise InvalidSchema(f"there is a column {member.name!r} already; choose another name")


def _added(members: _Members, field: DataField, position: Position) -> _Members:
    _check_free(members, field.name)
    return _placed(members, field, position)


def _dropped(members: _Members, name: str) -> _Members:
    field = _find(members, name)
    if len(members) == 1:
        raise InvalidSchema(
            f"{name!r} is the only one of its row; drop the row, or add another one before"
        )
    return tuple(member for member in members if member is not field)


def _with_name(members: _Members, name: str, new: str) -> _Members:
    field = _find(members, name)
    _check_free(members, new, field)
    return _replaced(members, replace(field, name=new))


def _moved(members: _Members, name: str, position: Position) -> _Members:
    field = _find(members, name)
    if position.neighbour == name:
        raise InvalidSchema(f"{name!r} cannot be moved {position.side.value} itself")
    return _placed(tuple(member for member in members if member is not field), field, position)


def _placed(members: _Members, field: DataField, position: Position) -> _Members:
    match position.side:
        case Side.FIRST:
            at = 0
        case Side.LAST:
            at = len(members)
        case side:
            neighbour = _find(members, position.neighbour or "")
            at = members.index(neighbour) + (side is Side.AFTER)
    return (*members[:at], field, *members[at:])
