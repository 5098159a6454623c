"""Joins of a stream with other tables by keys, whose rows are looked up for each batch.

An INSERT of a stream reads of `d` in `s JOIN d ON s.k = d.k` the rows of a batch's keys alone, if
the source of `d` can look them up by `k`, and the query names `d` once, beside the JOIN. Rows of
other keys join nothing, so DuckDB finds the same in them as in the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.lookups import looked_up
from lakewright.connectors.model.catalog_table import ResolvedCatalogTable
from lakewright.connectors.planning.plan_source import source_of
from lakewright.connectors.runtime import AsyncLookup, Lookup
from lakewright.connectors.sources import LookupTableSource, SupportsProjectionPushDown
from lakewright.session.duckdb_query import DuckQuery, RunningQuery, TableName
from lakewright.session.external_source import external_source
from lakewright.session.query_source import Source
from lakewright.session.query_source import source_of as managed_source
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.conform import conform
from lakewright.storage.errors import SchemaMoved, UnsupportedError
from lakewright.storage.operations.row_changes.expressions import tree_nodes
from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, TypeRoot
from lakewright.storage.spec.flink_columns import unstored_columns
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.schema import TableSchema

# Types of which DuckDB holds two values to be equal where Arrow does.
_EXACT = {
    *(TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.DECIMAL),
    *(TypeRoot.BINARY, TypeRoot.VARBINARY),
}


@dataclass(frozen=True, slots=True)
class KeyJoin:
    """A table that is joined with the followed one: columns of it that equal columns of that."""

    table: str
    columns: Mapping[str, str]


def key_joins(
    bound: RunningQuery, full_name: Callable[[str], str], followed: str
) -> Sequence[KeyJoin]:
    """The tables of a query that are joined with the followed one by columns of both."""
    node = bound.asked.node
    if node.get("type") != "SELECT_NODE":
        return ()
    schemas = {each.source.name: each.source.schema for each in bound.scanned}
    tree = _Tree(bound.asked, full_name, schemas, followed)
    places = [tree.full(each) for each in tree_nodes(node) if each.get("type") == "BASE_TABLE"]
    # Behind other joins, rows that WHERE leaves out may change which rows there are.
    joins = [each for each in tree_nodes(node["from_table"]) if each.get("type") == "JOIN"]
    is_plain = all(_is_plain(join) and join["join_type"] in ("INNER", "LEFT") for join in joins)
    where = _conjuncts(node["where_clause"]) if is_plain else []
    return [
        KeyJoin(joined.full, columns)
        for joined, columns in tree.joins(node["from_table"], where)
        if columns and places.count(joined.full) == 1
    ]


# --- which tables -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Named:
    """A table in the FROM; `alias` stands before its columns there."""

    full: str
    alias: str
    schema: TableSchema

    def column(self, name: str) -> str | None:
        """A stored column, as the table spells it."""
        names = (
            field_name
            for field_name in self.schema.field_names
            if field_name.lower() == name.lower()
        )
        return next(names, None)

    def has(self, name: str) -> bool:
        """Whether a column has this name, a computed one too."""
        unstored = (column.name for column in unstored_columns(self.schema.options))
        return name.lower() in {each.lower() for each in (*self.schema.field_names, *unstored)}


@dataclass(frozen=True, slots=True)
class _Scope:
    """The tables of which the columns of a condition are; `is_known` says that these are all."""

    tables: Sequence[_Named]
    is_known: bool

    def column(self, node: Mapping[str, Any]) -> tuple[_Named, str] | None:
        """The stored column that a part of a condition is; None if it may be another thing."""
        if node.get("type") != "COLUMN_REF":
            return None
        match node["column_names"]:
            case [str(alias), str(name)]:
                owners = [table for table in self.tables if table.alias == alias.lower()]
            case [str(name)] if self.is_known:
                owners = [table for table in self.tables if table.has(name)]
            case _:
                return None
        column = owners[0].column(name) if len(owners) == 1 else None
        return None if column is None else (owners[0], column)


@dataclass(frozen=True, slots=True)
class _Tree:
    """The FROM of a query as DuckDB parses it."""

    asked: DuckQuery
    full_name: Callable[[str], str]
    schemas: Mapping[str, TableSchema]
    followed: str

    def full(self, node: Mapping[str, Any]) -> str | None:
        """The full name of a table; None if it may be a part of the query."""
        name = TableName(node["schema_name"], node["table_name"])
        if not name.database and name.table.lower() in self.asked.maybe:
            return None
        return self.full_name(self.asked.without_moment(name)[0].said)

    def named(self, node: Mapping[str, Any]) -> _Named | None:
        """The table that a node is, if it is the whole table of now under its own columns."""
        if node.get("type") != "BASE_TABLE" or node["sample"] or node["column_name_alias"]:
            return None
        full = self.full(node)
        _, moment = self.asked.without_moment(TableName(node["schema_name"], node["table_name"]))
        if full is None or full not in self.schemas or moment is not None:
            return None
        return _Named(full, (node["alias"] or node["table_name"]).lower(), self.schemas[full])

    def joins(
        self, node: Mapping[str, Any], where: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[_Named, dict[str, str]]]:
        """Tables beside a JOIN, each with the columns that equal columns of the followed one."""
        if node.get("type") != "JOIN":
            return
        left, right = node["left"], node["right"]
        yield from self.joins(left, where)
        yield from self.joins(right, where)
        if not _is_plain(node):
            return
        # The rows of the other sides are in the result, with or without a match.
        sides = {"INNER": ((right, left), (left, right)), "LEFT": ((right, left),)}
        for side, other in sides.get(node["join_type"], ()):
            joined = self.named(side)
            if joined is not None and joined.full != self.followed:
                yield joined, self._columns(joined, other, node, where)

    def _columns(
        self,
        joined: _Named,
        other: Mapping[str, Any],
        join: Mapping[str, Any],
        where: Sequence[Mapping[str, Any]],
    ) -> dict[str, str]:
        parts = [self.named(part) for part in _parts(other)]
        tables = [joined, *(part for part in parts if part is not None)]
        found: dict[str, str] = {}
        # In WHERE, a name alone may be that of several columns that a JOIN made one.
        for scope, conditions in (
            (_Scope(tables, None not in parts), _conjuncts(join["condition"])),
            (_Scope(tables, is_known=False), where),
        ):
            for condition in conditions:
                if condition.get("type") != "COMPARE_EQUAL":
                    continue
                sides = scope.column(condition["left"]), scope.column(condition["right"])
                for own, theirs in (sides, sides[::-1]):
                    if own is None or theirs is None:
                        continue
                    if own[0] is joined and theirs[0].full == self.followed:
                        found.setdefault(own[1], theirs[1])
        beside = self.named(other)
        for name in join["using_columns"]:
            own_name = joined.column(name)
            if beside is not None and beside.full == self.followed and own_name is not None:
                found.setdefault(own_name, beside.column(name) or name)
        return found


def _is_plain(join: Mapping[str, Any]) -> bool:
    """Whether a JOIN is by its condition, and not by names, places or the nearest value."""
    return join["ref_type"] in ("REGULAR", "CROSS")


def _parts(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What the FROM joins, from left to right."""
    if node.get("type") == "JOIN":
        yield from _parts(node["left"])
        yield from _parts(node["right"])
    else:
        yield node


def _conjuncts(node: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if node is None:
        return []
    if node.get("type") == "CONJUNCTION_AND":
        return [part for each in node["children"] for part in _conjuncts(each)]
    return [node]


# --- their rows ---------------------------------------------------------------------------------


class LookedUp:
    """A table of a stream's query, of which each batch reads the rows of its keys.

    `types` are those of the followed table's columns. A lookup serves all batches, and so does its
    cache, until the definition of the table changes.
    """

    def __init__(
        self, externals: ExternalTables, join: KeyJoin, types: Mapping[str, DataType]
    ) -> None:
        # Settings of the session, such as to follow tables, are for the followed one.
        self._externals = ExternalTables(externals.catalog)
        self._join, self._types = join, types
        self._table: ResolvedCatalogTable | None = None
        self._source: LookupTableSource | None = None
        self._keys: dict[str, str] = {}
        self._columns: tuple[str, ...] = ()
        self._lookup: Lookup | AsyncLookup | None = None

    @property
    def name(self) -> str:
        return self._join.table

    def source(self, batch: pa.Table) -> Source | None:
        """The rows that a batch may join; None if they cannot be looked up."""
        is_external = self._externals.has(self.name)
        if is_external:
            read = external_source(self._externals, self.name, None)
            context = self._externals.context(self.name)
        elif "$" in self.name or not self._externals.catalog.table_exists(self.name):
            return None
        else:
            read = managed_source(self._externals.catalog, self.name)
            context = self._externals.managed_context(self.name)
        if not is_external or context.table != self._table:
            # A table of the warehouse is opened at its state of now.
            self._table, self._lookup, self._columns = context.table, None, ()
            self._source, self._keys = self._looked_up(source_of(context), context.table.fields)
        if self._source is None or not {*read.schema.field_names} <= {
            field.name for field in context.table.fields
        }:
            return None

        def pieces(where: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
            try:
                found = self._rows(batch, read.schema, columns)
            except (SchemaMoved, UnsupportedError):
                # A table whose partition keys changed is read, and not looked up.
                yield from read.pieces(where, columns)
            else:
                yield found

        return replace(read, pieces=pieces, at=None)

    def _looked_up(
        self, source: object, fields: Sequence[DataField]
    ) -> tuple[LookupTableSource | None, dict[str, str]]:
        """The source if it can look up rows, and the columns that it does it by."""
        own = {field.name: field.type for field in fields}
        alike = {
            name: other
            for name, other in self._join.columns.items()
            if name in own and other in self._types and _are_alike(own[name], self._types[other])
        }
        if not isinstance(source, LookupTableSource):
            return None, {}
        keys = {name: alike[name] for name in source.lookup_keys(tuple(alike))}
        return (source if keys else None), keys

    def _rows(self, batch: pa.Table, schema: TableSchema, columns: Sequence[str]) -> pa.Table:
        fields = schema.fields_of(columns)
        keys = _keys_of(batch, {schema.field(own): name for own, name in self._keys.items()})
        if not keys.num_rows:
            return pa.table([pa.nulls(0, to_arrow_type(field.type)) for field in fields], columns)
        found = looked_up(self._lookup_of(schema, columns), keys)
        return conform(found.select(list(columns)), fields, table=self.name)

    def _lookup_of(self, schema: TableSchema, columns: Sequence[str]) -> Lookup | AsyncLookup:
        if self._lookup is None or not {*columns} <= {*self._columns}:
            needed = {*self._columns, *columns, *self._keys}
            self._columns = tuple(
                field_name for field_name in schema.field_names if field_name in needed
            )
            assert self._source is not None
            source = self._source.copy()
            if isinstance(source, SupportsProjectionPushDown):
                source.apply_projection(self._columns)
            self._lookup = source.lookup(tuple(self._keys))
        return self._lookup


def _are_alike(one: DataType, other: DataType) -> bool:
    """Whether values of both types are equal in DuckDB as Arrow says it."""
    if not isinstance(one, AtomicType) or not isinstance(other, AtomicType):
        return False
    if one.root.is_integer and other.root.is_integer:
        return True
    if one.root is other.root is TypeRoot.VARCHAR:
        return True
    return one.root in _EXACT and replace(one, nullable=other.nullable) == other


def _keys_of(batch: pa.Table, columns: Mapping[DataField, str]) -> pa.Table:
    """The keys of a batch, each once, as the columns that they equal; without those of no row."""
    names = [field.name for field in columns]
    arrays = [_as(batch.column(name), field) for field, name in columns.items()]
    return pa.table(arrays, names).drop_null().group_by(names).aggregate([])


def _as(column: pa.ChunkedArray, field: DataField) -> pa.ChunkedArray:
    """Values as those of a column; null for one that it cannot have."""
    kind = to_arrow_type(field.type)
    if isinstance(field.type, AtomicType) and field.type.root is TypeRoot.VARCHAR:
        fits = pc.less_equal(pc.utf8_length(column), field.type.length)
        return pc.if_else(fits, column, None)
    if column.type == kind:
        return column
    made = column.cast(kind, safe=False)
    return pc.if_else(pc.equal(made.cast(column.type), column), made, None)
