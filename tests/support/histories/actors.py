"""The actors of a history: this library, and Java Paimon."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakewright.storage import Catalog, Column, SchemaSpec, Table, parse_data_type
from lakewright.storage.codec.schema_json import type_to_json
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.predicate import Leaf, Operator
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.values import from_python
from tests.oracles.arrow_values import arrow_table, canonical_rows, native_literal
from tests.oracles.client import Change, JavaOracle
from tests.support.histories.drawing import (
    PARTITION,
    Compact,
    Condition,
    Expire,
    History,
    Overwrite,
    Rescale,
    Respec,
    Row,
    Step,
    Write,
)
from tests.support.tables.builders import compact, expire


class Actor(Protocol):
    """Makes tables of one warehouse, changes and reads them."""

    name: str

    def create(self, table: str, history: History) -> None: ...

    def do(self, table: str, history: History, step: Step) -> None: ...

    def read(self, table: str) -> list[Row]: ...


class Ours:
    """This library."""

    name = "ours"

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def create(self, table: str, history: History) -> None:
        self._catalog.create_table(
            table,
            SchemaSpec(
                columns=tuple(
                    Column(name, parse_data_type(text)) for name, text in history.columns.items()
                ),
                partition_keys=history.partition_keys,
                primary_keys=history.primary_keys,
                options=dict(history.options),
            ),
        )

    def do(self, table: str, history: History, step: Step) -> None:
        target = self._catalog.table(table)
        match step:
            case Write(rows, kinds):
                written = _arrow(target, rows).append_column(ROW_KIND_COLUMN, pa.array(kinds))
                target.write(written)
            case Overwrite(rows, target_partition):
                self._overwrite(target, rows, target_partition)
            case Compact(full):
                if target.options.bucket_mode is BucketMode.POSTPONE:
                    target.upkeep.run(target.upkeep.plan_postpone_compact())
                compact(target, full=full)
            case Rescale(buckets):
                if history.compacts_around_rescales:
                    compact(target, full=True)
                target.upkeep.run(target.upkeep.plan_rescale(buckets))
            case Expire(keep):
                expire(target, keep=keep)
            case Respec(keys):
                target.upkeep.respec(keys)

    def read(self, table: str) -> list[Row]:
        return canonical_rows(self._catalog.table(table).read())

    def read_where(self, table: str, condition: Condition) -> list[Row]:
        """The rows that meet a condition, files pruned by it."""
        opened = self._catalog.table(table)
        where = _predicate(opened, condition)
        return canonical_rows(opened.read(where))

    def read_at(self, table: str, snapshot: int) -> list[Row]:
        """The rows of an earlier snapshot."""
        return canonical_rows(self._catalog.table(table).at(snapshot=snapshot).read())

    def snapshots(self, table: str) -> list[int]:
        """The existing snapshots."""
        return [snapshot.id for snapshot in self._catalog.table(table).history.snapshots()]

    def look_up(self, keys: Sequence[Row], table: str) -> list[Row]:
        """The rows of these keys, found by lookups."""
        opened = self._catalog.table(table)
        names = list(opened.schema.primary_keys)
        wanted = _arrow(opened, keys).select(names)
        return canonical_rows(opened.lookup(wanted))

    def difference(self, table: str, before: int, after: int) -> list[Change]:
        """The difference between the rows of two snapshots."""
        opened = self._catalog.table(table)
        rows = canonical_rows(opened.read_changes(before, after, mode="diff"))
        return [Change(after, row.pop(ROW_KIND_COLUMN), row) for row in rows]

    def changes(self, table: str, first: int, last: int) -> list[Change]:
        """The changes of some snapshots."""
        opened = self._catalog.table(table)
        found = []
        for snapshot in range(first, last + 1):
            rows = canonical_rows(opened.read_changes(snapshot - 1, snapshot))
            found += [Change(snapshot, row.pop(ROW_KIND_COLUMN), row) for row in rows]
        return found

    def latest_snapshot(self, table: str) -> int:
        latest = self._catalog.table(table).history.latest_snapshot()
        return 0 if latest is None else latest.id

    def _overwrite(self, table: Table, rows: Sequence[Row], partition: Any) -> None:
        written = _arrow(table, rows)
        if partition is None or partition == "dynamic":
            table.write(written, mode="overwrite", dynamic=partition == "dynamic")
        else:
            spec = {PARTITION: partition}
            rest = written.drop_columns([PARTITION])
            table.write(rest, mode="overwrite", partition=spec, dynamic=False)


class Java:
    """Java Paimon."""

    name = "java"

    def __init__(self, oracle: JavaOracle, warehouse: str) -> None:
        self.oracle = oracle
        self.warehouse = warehouse

    def create(self, table: str, history: History) -> None:
        fields = {
            name: declared_type(text, required=name in history.primary_keys)
            for name, text in history.columns.items()
        }
        self.oracle.create(
            self.warehouse,
            table,
            fields,
            partition_keys=history.partition_keys,
            primary_keys=history.primary_keys,
            options=dict(history.options),
        )

    def do(self, table: str, history: History, step: Step) -> None:
        java, warehouse = self.oracle, self.warehouse
        match step:
            case Write(rows, kinds):
                java.write(warehouse, table, rows, kinds=kinds)  # type: ignore[arg-type]
            case Overwrite(rows, partition):
                java.write(warehouse, table, rows, overwrite=_java_overwrite(partition))
            case Compact(full):
                java.compact(warehouse, table, full=full)
            case Rescale(buckets):
                if history.compacts_around_rescales:
                    java.compact(warehouse, table)
                rows = tuple(self.read(table))
                java.alter(warehouse, table, {"set_option": "bucket", "value": str(buckets)})
                java.write(warehouse, table, rows, overwrite="table")
                if history.compacts_around_rescales:
                    java.compact(warehouse, table)
            case Expire(keep):
                java.expire_snapshots(warehouse, table, retain_max=keep, retain_min=1)
            case Respec():
                raise ValueError("Java changes no partition keys; let us do it")

    def read(self, table: str) -> list[Row]:
        return self.oracle.read(self.warehouse, table)

    def read_at(self, table: str, snapshot: int) -> list[Row]:
        """The rows of an earlier snapshot."""
        return self.oracle.read(self.warehouse, table, snapshot=snapshot)

    def changes(self, table: str, first: int, last: int) -> list[Change]:
        """The changes that a streaming reader of Java gets from these snapshots."""
        return self.oracle.changes(self.warehouse, table, first, last)


def _arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    schema = pa.schema([each.with_nullable(True) for each in table.arrow_schema])
    return arrow_table(rows, schema)


def _predicate(table: Table, condition: Condition) -> Leaf:
    operator = Operator(condition.operator)
    if operator is Operator.IS_NULL:
        return Leaf(condition.column, operator)
    field = table.schema.field(condition.column)
    literal = native_literal(condition.value, table.arrow_schema.field(condition.column).type)
    return Leaf(condition.column, operator, (from_python(literal, field.type),))


def declared_type(text: str, *, required: bool = False) -> Any:
    """A type as other clients take it, without the ids of members."""
    declared = _without_ids(type_to_json(parse_data_type(text)))
    return f"{declared} NOT NULL" if required else declared


def _without_ids(declared: Any) -> Any:
    """Paimon assigns the ids of nested fields itself."""
    if isinstance(declared, Mapping):
        return {name: _without_ids(value) for name, value in declared.items() if name != "id"}
    if isinstance(declared, list):
        return [_without_ids(each) for each in declared]
    return declared


def _java_overwrite(partition: Any) -> Any:
    if partition is None:
        return "table"
    return "dynamic" if partition == "dynamic" else {PARTITION: str(partition)}


def comparable(rows: Sequence[Row], bags: frozenset[str] = frozenset()) -> list[str]:
    """Rows as sorted texts, with unordered values sorted."""
    return sorted(
        json.dumps(
            {name: _sorted(value, name in bags) for name, value in row.items()}, sort_keys=True
        )
        for row in rows
    )


def _sorted(value: Any, bag: bool) -> Any:
    return sorted(value, key=json.dumps) if bag and value is not None else value
