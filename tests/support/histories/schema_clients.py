"""The clients of a history of schemas, and the run of one history that compares what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import eq, ge, lt
from random import Random
from typing import Any, Protocol

import pyarrow as pa

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeType,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetOption,
    Table,
)
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.schema_change import SchemaChange, path_of
from tests.oracles.arrow_values import arrow_table, canonical_rows
from tests.oracles.client import JavaOracle, WritingOracle
from tests.support.histories.actors import comparable, declared_type
from tests.support.histories.carrying_out import HistoryDiffers
from tests.support.histories.schema_histories import (
    Alter,
    Compact,
    Expire,
    SchemaHistory,
    Step,
    Tag,
    Write,
    apply,
)
from tests.support.models.evolved_table import KEY, Row
from tests.support.tables.builders import compact, expire, spec

OPERATORS = {"=": eq, "<": lt, ">=": ge}


class Client(Protocol):
    """Changes and reads the table of a history."""

    def create(self, table: str, history: SchemaHistory) -> None: ...

    def do(self, table: str, step: Step, tag: str) -> None: ...

    def read(self, table: str, *, snapshot: int | None = None, tag: str | None = None) -> list[Row]:
        """The rows, of the snapshot or tag if one is given."""
        ...


class Ours:
    """This library."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def create(self, table: str, history: SchemaHistory) -> None:
        keys = [KEY] if history.kind.keyed else []
        wanted = spec(dict(history.kind.columns), keys=keys, options=history.options)
        self._catalog.create_table(table, wanted)

    def do(self, table: str, step: Step, tag: str) -> None:
        target = self.table(table)
        match step:
            case Write(_, rows, kinds, overwrites):
                schema = pa.schema([each.with_nullable(True) for each in target.arrow_schema])
                written = arrow_table(rows, schema)
                if overwrites:
                    target.write(written, mode="overwrite", dynamic=False)
                elif target.schema.has_primary_key:
                    target.write(written.append_column(ROW_KIND_COLUMN, pa.array(kinds)))
                else:
                    target.write(written)
            case Alter(_, changes):
                target.alter(*changes)
            case Compact():
                compact(target, full=True)
            case Tag():
                target.history.create_tag(tag)
            case Expire(_, keep):
                expire(target, keep=keep)

    def read(self, table: str, *, snapshot: int | None = None, tag: str | None = None) -> list[Row]:
        at = self.table(table).at(snapshot=snapshot, tag=tag)
        return canonical_rows(at.read())

    def table(self, name: str) -> Table:
        return self._catalog.table(name)


class Theirs:
    """Another client."""

    def __init__(self, oracle: WritingOracle, warehouse: str) -> None:
        self._oracle = oracle
        self._warehouse = warehouse

    def create(self, table: str, history: SchemaHistory) -> None:
        keys = [KEY] if history.kind.keyed else []
        fields = {
            name: declared_type(text, required=name in keys) for name, text in history.kind.columns
        }
        self._oracle.create(
            self._warehouse, table, fields, primary_keys=keys, options=history.options
        )

    def do(self, table: str, step: Step, tag: str) -> None:
        oracle, warehouse = self._oracle, self._warehouse
        match step:
            case Write(_, rows, kinds, overwrites):
                told: Any = kinds if "-D" in kinds else None
                overwrite: Any = "table" if overwrites else None
                oracle.write(warehouse, table, rows, kinds=told, overwrite=overwrite)
            case Alter(_, changes):
                oracle.alter(warehouse, table, *[_change(each) for each in changes])
            case Compact():
                assert isinstance(oracle, JavaOracle)
                oracle.compact(warehouse, table)
            case Tag():
                oracle.create_tag(warehouse, table, tag)
            case Expire(_, keep):
                assert isinstance(oracle, JavaOracle)
                oracle.expire_snapshots(warehouse, table, retain_max=keep, retain_min=1)

    def read(self, table: str, *, snapshot: int | None = None, tag: str | None = None) -> list[Row]:
        return self._oracle.read(self._warehouse, table, snapshot=snapshot, tag=tag)


@dataclass
class Run:
    """One history on one table. `clients` are its hands by name; ours is among them."""

    history: SchemaHistory
    table: str
    ours: Ours
    clients: Mapping[str, Client]
    # The rows of snapshots and tags, in the schema that each was committed with.
    snapshots: dict[int, list[Row]] = field(default_factory=dict)
    tags: dict[str, list[Row]] = field(default_factory=dict)

    def carry_out(self) -> None:
        """Take every step, and compare all rows after each.

        Raises:
            HistoryDiffers: a client failed, or its rows differ from those of the model.
        """
        model = self.history.model()
        random = Random(self.history.seed)
        number = 0
        try:
            self.clients[self.history.creator].create(self.table, self.history)
            for number, step in enumerate(self.history.steps, 1):
                tag = f"tag{number}"
                self.clients[step.hand].do(self.table, step, tag)
                apply(model, step)
                self._note(model.seen(), tag if isinstance(step, Tag) else None)
                self._compare("all rows", model.seen(), lambda each: each.read(self.table))
                self._filter(model.seen(), random)
                self._travel(random)
        except Exception as error:  # any failure is a finding
            at = f"step {number}, {self.history.steps[number - 1]}" if number else "creation"
            raise HistoryDiffers(
                f"{self.history}\nfails at {at}\n{type(error).__name__}: {error}"
            ) from error

    def _note(self, seen: list[Row], tag: str | None) -> None:
        held = [each.id for each in self.ours.table(self.table).history.snapshots()]
        known = {each: self.snapshots[each] for each in held if each in self.snapshots}
        if held and held[-1] not in known:
            known[held[-1]] = seen
        self.snapshots = known
        if tag is not None:
            self.tags[tag] = known[held[-1]]

    def _filter(self, seen: list[Row], random: Random) -> None:
        """Filters with a value of a column keep what they keep of all rows."""
        table = self.ours.table(self.table)
        for column in table.schema.fields:
            values = [row[column.name] for row in seen if row[column.name] is not None]
            if not isinstance(column.type, AtomicType) or not values or random.random() < 0.5:
                continue
            value, operator = random.choice(values), random.choice(list(OPERATORS))
            ordered = Decimal if column.type.root is TypeRoot.DECIMAL else lambda each: each
            due = [
                row
                for row in seen
                if row[column.name] is not None
                and OPERATORS[operator](ordered(row[column.name]), ordered(value))
            ]
            where = f"{column.name} {operator} {_literal(value, column.type.root)}"
            assert comparable(canonical_rows(table.read(where))) == comparable(due), where

    def _travel(self, random: Random) -> None:
        if self.snapshots:
            snapshot = random.choice(list(self.snapshots))
            self._compare(
                f"snapshot {snapshot}",
                self.snapshots[snapshot],
                lambda each: each.read(self.table, snapshot=snapshot),
            )
        if self.tags:
            tag = random.choice(list(self.tags))
            self._compare(f"tag {tag}", self.tags[tag], lambda each: each.read(self.table, tag=tag))

    def _compare(self, what: str, due: Sequence[Row], read: Callable[[Client], list[Row]]) -> None:
        expected = comparable(due)
        for name, client in self.clients.items():
            try:
                found = comparable(read(client))
            except Exception as error:
                raise AssertionError(f"{name} does not read {what}: {error}") from error
            more = sorted(set(found) - set(expected))
            less = sorted(set(expected) - set(found))
            assert found == expected, f"{what}: {name} has {more}\nand the model {less}"


def _change(change: SchemaChange) -> dict[str, Any]:
    """A change as the oracles take it."""
    match change:
        case AddColumn(column, text):
            return {"add_column": _path(column), "type": declared_type(text)}
        case DropColumn(column):
            return {"drop_column": _path(column)}
        case RenameColumn(column, new_name):
            return {"rename_column": _path(column), "to": new_name}
        case ChangeType(column, text):
            return {"update_type": _path(column), "type": text}
        case MoveColumn(column):
            return {"move_first": column}
        case SetOption(key, value):
            return {"set_option": key, "value": value}
        case _:
            raise AssertionError(change)


def _path(column: str) -> str | list[str]:
    path = path_of(column)
    return path[0] if len(path) == 1 else list(path)


def _literal(value: Any, root: TypeRoot) -> str:
    if isinstance(value, str) and root is not TypeRoot.DECIMAL:
        return f"'{value.replace('T', ' ') if root.is_timestamp else value}'"
    return str(value)
