"""The connector `jdbc`: options, push-down, splits, lookups and the upsert sink.

Filters go to the database where the column is there of the declared type, and is compared as this
library does: whole numbers and booleans, on PostgreSQL dates and timestamps too. Splits are ranges
of a column and read in transactions of their own; a scan without `scan.partition.column` sees one
state. The file is long since source, lookup and sink share the definition that they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.changes import RETRACTIONS
from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.fitted import fitted
from lakewright.connectors.jdbc.databases import (
    Change,
    Database,
    open_database,
    plain_literal,
    quoted,
    shown_url,
)
from lakewright.connectors.lookups import CachedLookup
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, OptionKind
from lakewright.connectors.runtime import BoundedScan, Lookup, Scan, Sink, Split
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.connectors.sources import (
    Aggregate,
    DynamicTableSource,
    Filtered,
    LookupTableSource,
    ScanTableSource,
)
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import InvalidOption, InvalidRows
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.predicate import Leaf, Operator, Predicate, columns_of
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind
from lakewright.storage.spec.values import StoredNumber, to_python

# Keys that one statement asks for; conditions on several columns are nested as deep.
_KEYS_AT_ONCE, _ROWS_OF_KEYS_AT_ONCE = 5_000, 500
_COLUMN, _NUM = "scan.partition.column", "scan.partition.num"
_LOWER, _UPPER = "scan.partition.lower-bound", "scan.partition.upper-bound"
_ORDERED = {
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
}
_WHOLE = {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT}


class Jdbc(DynamicTableFactory):
    """Makes sources and sinks."""

    identifier = "jdbc"
    description = "tables of SQLite and PostgreSQL"
    required_options = (
        Option(
            name="url",
            description="sqlite:///path or postgresql://host:port/database; jdbc: may precede it",
        ),
        Option(name="table-name", description="the table, or schema.table, in the database"),
    )
    optional_options = (
        Option(name="username", description="the user"),
        Option(name="password", description="the password: '${env:NAME}'", secret=True),
        Option(name=_COLUMN, description="a whole-number column whose ranges are read apart"),
        Option(
            name=_NUM, kind=OptionKind.INTEGER, description="how many ranges", default=4, minimum=1
        ),
        Option(name=_LOWER, kind=OptionKind.INTEGER, description="its least value; else asked"),
        Option(name=_UPPER, kind=OptionKind.INTEGER, description="its greatest value; else asked"),
        Option(
            name="scan.fetch-size",
            kind=OptionKind.INTEGER,
            description="rows that are fetched at once",
            default=1 << 14,
            minimum=1,
        ),
        Option(
            name="lookup.cache",
            description="whether rows that were looked up are kept",
            choices=("NONE", "PARTIAL"),
            default="NONE",
        ),
        Option(
            name="lookup.partial-cache.max-rows",
            kind=OptionKind.INTEGER,
            description="how many rows are kept",
            default=100_000,
            minimum=1,
        ),
        Option(
            name="lookup.partial-cache.expire-after-write",
            kind=OptionKind.DURATION,
            description="how long a row is kept after it was read",
        ),
        Option(
            name="lookup.partial-cache.expire-after-access",
            kind=OptionKind.DURATION,
            description="how long a row is kept after it was asked for",
        ),
        Option(
            name="lookup.partial-cache.cache-missing-key",
            kind=OptionKind.BOOLEAN,
            description="whether it is kept, too, that a key has no row",
            default=True,
        ),
        Option(
            name="sink.buffer-flush.max-rows",
            kind=OptionKind.INTEGER,
            description="rows that are sent at once",
            default=100_000,
            minimum=1,
        ),
    )

    def create_source(self, context: Context) -> DynamicTableSource:
        return _JdbcSource(_asked(context), context)

    def create_sink(self, context: Context) -> DynamicTableSink:
        most = context.options["sink.buffer-flush.max-rows"]
        return _JdbcSink(_database(context), context.table.fields, most)


def _database(context: Context) -> Database:
    options = context.options
    return open_database(
        options["url"],
        options["table-name"],
        context.name,
        user=options["username"],
        password=options["password"],
        keys=context.table.primary_keys,
    )


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Range:
    """Ranges of a column, read apart; bounds that are None are asked of the database."""

    column: str
    number: int
    lower: int | None
    upper: int | None


@dataclass(frozen=True)
class _Query:
    """What is asked of the database."""

    database: Database
    fields: tuple[DataField, ...]
    fetch_size: int
    where: tuple[str, ...] = ()
    limit: int | None = None
    ranges: _Range | None = None
    # Expressions in place of columns, and those of groups.
    expressions: tuple[str, ...] | None = None
    group_by: tuple[str, ...] = ()
    # Of columns that are aggregated, which values are none of their types.
    guards: tuple[tuple[DataField, str], ...] = ()

    @property
    def is_computed(self) -> bool:
        return self.expressions is not None or not self.fields

    @property
    def summary(self) -> str:
        """The statement with the columns as they are called."""
        return self.text([quoted(field.name) for field in self.fields])

    def text(self, columns: Sequence[str]) -> str:
        # A projection of nothing still counts rows.
        shown: Sequence[str] = self.expressions or columns if self.fields else ("1",)
        unfit = (f"COUNT(CASE WHEN {text} THEN 1 END)" for _, text in self.guards)
        shown = (*shown, *unfit)
        text = f"SELECT {', '.join(shown)} FROM {self.database.name}"  # noqa: S608 - quoted
        text += f" WHERE {' AND '.join(self.where)}" if self.where else ""
        if self.group_by:
            text += f" GROUP BY {', '.join(self.group_by)}"
        return text if self.limit is None else f"{text} LIMIT {self.limit}"

    def rows(self, *also: str) -> Iterator[pa.RecordBatch]:
        fields = self.fields or (DataField(0, "one", AtomicType(TypeRoot.INT)),)
        query = replace(self, where=(*self.where, *also))
        whole = AtomicType(TypeRoot.BIGINT)
        unfit = (DataField(0, f"unfit {each.name}", whole) for each, _ in self.guards)
        for batch in self.database.read(query, (*fields, *unfit), self.fetch_size):
            for at, (field, _) in enumerate(self.guards, len(fields)):
                if pc.any(pc.greater(batch.column(at), 0)).as_py():
                    raise InvalidRows(
                        f"{self.database.owner}: column {field.name} is {field.type}, and the "
                        "database has values there that are not; declare the column as STRING",
                        column=field.name,
                    )
            yield batch.select(range(len(self.fields)))


def _asked(context: Context) -> _Query:
    options, fields = context.options, context.table.fields
    ranges, column = None, options[_COLUMN]
    if column is not None:
        found = next((field for field in fields if field.name == column), None)
        root = found.type.root if found and isinstance(found.type, AtomicType) else None
        if root is None or root not in _WHOLE:
            raise InvalidOption(
                f"{_COLUMN} of {context.name} is {column}, which is no column of whole numbers",
                option=_COLUMN,
            )
        ranges = _Range(column, options[_NUM], options[_LOWER], options[_UPPER])
    return _Query(_database(context), tuple(fields), options["scan.fetch-size"], ranges=ranges)


class _JdbcSource(ScanTableSource, LookupTableSource):
    def __init__(self, query: _Query, context: Context) -> None:
        self._query, self._context = query, context
        self._types = {field.name: field.type for field in context.table.fields}
        # The columns that the filters of the query are of.
        self._filtered: Sequence[str] = ()

    @property
    def summary(self) -> str:
        return f"jdbc of {shown_url(self._query.database.url)}: {self._query.summary}"

    def source_columns(self) -> Sequence[str]:
        return self._query.database.columns()

    def apply_filters(self, filters: Sequence[Predicate]) -> Filtered:
        texts = {each: self._text(each) for each in filters}
        taken = {each: text for each, text in texts.items() if text is not None}
        self._query = replace(self._query, where=tuple(taken.values()))
        self._filtered = [name for each in taken for name in sorted(columns_of(each))]
        return Filtered(
            [each for each, text in texts.items() if text is not None],
            [each for each, text in texts.items() if text is None],
        )

    def apply_projection(self, columns: Sequence[str]) -> None:
        self._query = replace(
            self._query,
            fields=tuple(field for field in self._query.fields if field.name in columns),
        )

    def apply_limit(self, limit: int) -> None:
        self._query = replace(self._query, limit=limit)

    def apply_aggregates(self, group_by: Sequence[str], aggregates: Sequence[Aggregate]) -> bool:
        """What the database counts, compares, adds and groups as it is done with the rows."""
        database = self._query.database
        by_name = {field.name: field for field in self._query.fields}
        groups = [database.group_text(by_name[name]) for name in group_by]
        # A filter reads its columns too, and a value that is none of the type is refused then.
        of_columns = [("count", name) for name in self._filtered]
        of_columns += [
            (aggregate.function, aggregate.column) for aggregate in aggregates if aggregate.column
        ]
        known = [text for text in groups if text is not None]
        if len(known) < len(groups) or not all(
            database.can_aggregate(function, by_name[name]) for function, name in of_columns
        ):
            return False
        shown = [
            f"{one.function.upper()}({'*' if one.column is None else quoted(one.column)})"
            for one in aggregates
        ]
        self._query = replace(
            self._query,
            fields=(
                *(by_name[name] for name in group_by),
                *(aggregate.output for aggregate in aggregates),
            ),
            expressions=(*known, *shown),
            group_by=tuple(known),
            guards=tuple(
                (by_name[name], text)
                for name in dict.fromkeys(name for _, name in of_columns)
                if (text := database.unfit(by_name[name])) is not None
            ),
            ranges=None,
        )
        return True

    def scan(self) -> Scan:
        return _JdbcScan(self._query)

    def lookup_keys(self, columns: Sequence[str]) -> Sequence[str]:
        by_name = {field.name: field for field in self._context.table.fields}
        return [name for name in columns if self._query.database.can_find(by_name[name])]

    def lookup(self, keys: Sequence[str]) -> Lookup:
        found = _JdbcLookup(replace(self._query, ranges=None))
        options = self._context.options
        if options["lookup.cache"] == "NONE":
            return found
        return CachedLookup(
            found,
            self._context.env,
            max_rows=options["lookup.partial-cache.max-rows"],
            expire_ms=options["lookup.partial-cache.expire-after-write"],
            idle_ms=options["lookup.partial-cache.expire-after-access"],
            keeps_missing=options["lookup.partial-cache.cache-missing-key"],
        )

    def _text(self, predicate: Predicate) -> str | None:
        """A filter in the database's words, None if it may mean something else there."""
        if not isinstance(predicate, Leaf):
            return None
        column, kind = quoted(predicate.column), self._types[predicate.column]
        match predicate.operator:
            case Operator.IS_NULL:
                return f"{column} IS NULL"
            case Operator.IS_NOT_NULL:
                return f"{column} IS NOT NULL"
        if not isinstance(kind, AtomicType) or predicate.holds_null:
            return None
        if not self._query.database.can_compare(predicate.column, kind):
            return None
        values = [to_python(value, kind) for value in predicate.literals]
        if any(isinstance(value, StoredNumber) for value in values):
            # The database has no such moment.
            return None
        if predicate.operator in _ORDERED and kind.root is not TypeRoot.BOOLEAN:
            return f"{column} {_ORDERED[predicate.operator]} {plain_literal(values[0])}"
        match predicate.operator:
            case Operator.EQ:
                return f"{column} = {plain_literal(values[0])}"
            case Operator.NE:
                return f"{column} <> {plain_literal(values[0])}"
            case Operator.IN:
                return f"{column} IN ({', '.join(map(plain_literal, values))})"
        return None


@dataclass(frozen=True)
class _JdbcScan(BoundedScan):
    query: _Query

    def splits(self) -> Sequence[Split]:
        ranges = self.query.ranges
        # A limit over several ranges would be one of each.
        if ranges is None or self.query.limit is not None:
            return ((),)
        if not self.query.database.can_compare(ranges.column, AtomicType(TypeRoot.BIGINT)):
            raise InvalidOption(
                f"{_COLUMN} of {self.query.database.owner} is {ranges.column}, which is no column "
                "of whole numbers in the database",
                option=_COLUMN,
            )
        lower, upper = self._bounds(ranges)
        if lower is None or upper is None or lower >= upper:
            return ((),)
        column = quoted(ranges.column)
        number = min(ranges.number, upper - lower + 1)
        edges = [lower + (upper - lower + 1) * at // number for at in range(1, number)]
        # The outer ranges are open, and the first has the rows without a value.
        first = f"({column} < {edges[0]} OR {column} IS NULL)" if edges else None
        if first is None:
            return ((),)
        inner = [f"{column} >= {begin} AND {column} < {end}" for begin, end in pairwise(edges)]
        return ((first,), *((each,) for each in inner), (f"{column} >= {edges[-1]}",))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield from self.query.rows(*split)

    def _bounds(self, ranges: _Range) -> tuple[int | None, int | None]:
        if ranges.lower is not None and ranges.upper is not None:
            return ranges.lower, ranges.upper
        whole = AtomicType(TypeRoot.BIGINT)
        column = quoted(ranges.column)
        asked = replace(
            self.query,
            fields=(DataField(0, "low", whole), DataField(1, "high", whole)),
            expressions=(f"MIN({column})", f"MAX({column})"),
            ranges=None,
        )
        found = pa.Table.from_batches(asked.rows()).to_pylist()[0]
        return (
            found["low"] if ranges.lower is None else ranges.lower,
            found["high"] if ranges.upper is None else ranges.upper,
        )


@dataclass(frozen=True)
class _JdbcLookup(Lookup):
    """Asks for the rows of many keys at once; a database may hold other values to be equal, too."""

    query: _Query

    def lookup(self, keys: pa.Table) -> pa.Table:
        by_name = {field.name: field for field in self.query.fields}
        wanted = [by_name[name] for name in keys.column_names]
        batches: list[pa.RecordBatch] = []
        most = _KEYS_AT_ONCE if len(wanted) == 1 else _ROWS_OF_KEYS_AT_ONCE
        for piece in keys.combine_chunks().to_batches(most):
            typed = fitted(piece, wanted, table=self.query.database.owner)
            rows = [
                [self.query.database.key_literal(*each) for each in zip(wanted, row, strict=True)]
                for row in zip(*(column.to_pylist() for column in typed.columns), strict=True)
            ]
            # No row has a key that the database has no literal of.
            known = [[text for text in row if text is not None] for row in rows if None not in row]
            if known:
                batches += self.query.rows(_one_of(keys.column_names, known))
        return pa.Table.from_batches(batches, to_arrow_schema(self.query.fields))


def _one_of(columns: Sequence[str], keys: Sequence[Sequence[str]]) -> str:
    """The condition of rows that have one of some keys, in the database's words."""
    if len(columns) == 1:
        return f"{quoted(columns[0])} IN ({', '.join(each[0] for each in keys)})"
    same = (
        " AND ".join(f"{quoted(name)} = {text}" for name, text in zip(columns, key, strict=True))
        for key in keys
    )
    return "(" + " OR ".join(f"({each})" for each in same) + ")"


# --- writing --------------------------------------------------------------------------------------


class _JdbcSink(DynamicTableSink):
    def __init__(self, database: Database, fields: Sequence[DataField], most: int) -> None:
        self._writes, self._fields = _JdbcWrites(database, most), tuple(fields)

    @property
    def summary(self) -> str:
        database = self._writes.database
        return f"jdbc of {shown_url(database.url)}: {database.table}"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return ChangelogMode.upsert() if self._writes.database.keys else ChangelogMode.insert_only()

    def apply_staging(self) -> None:
        self._writes = replace(self._writes, creating=self._fields)

    def truncate(self) -> None:
        self._writes.database.truncate()

    def sink(self) -> Sink:
        return self._writes


@dataclass(frozen=True)
class _JdbcWrites(Sink):
    """Writes of a task are one transaction, which is visible when the task ends.

    With a key, rows that are written again after a failure change nothing; without one, they are
    there twice.
    """

    database: Database
    most: int
    # The columns of a table that is made with its first rows.
    creating: tuple[DataField, ...] = ()

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        changes = (change for rows in self._flushes(batches) for change in self._changes(rows))
        return self.database.write(changes, self.creating)

    def _flushes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= self.most:
                yield pa.Table.from_batches(waiting)
                waiting = []
        if waiting:
            yield pa.Table.from_batches(waiting)

    def _changes(self, rows: pa.Table) -> Iterator[Change]:
        """The last change of each key; the ones before it make no difference.

        `-U` removes its key: `+U` follows, of the same key or of the one that it became.
        """
        kinds = None
        if ROW_KIND_COLUMN in rows.column_names:
            kinds = rows.column(ROW_KIND_COLUMN)
            rows = rows.drop_columns([ROW_KIND_COLUMN])
        if not self.database.keys:
            yield Change(rows, (), RowKind.INSERT)
            return
        keys = list(self.database.keys)
        numbered = rows.select(keys).append_column("at", pa.array(np.arange(len(rows))))
        last = numbered.group_by(keys).aggregate([("at", "max")]).column("at_max")
        order = last.take(pc.sort_indices(last))
        rows = rows.take(order)
        if kinds is None:
            yield Change(rows, self.database.keys, RowKind.INSERT)
            return
        gone = pc.is_in(kinds.take(order), pa.array(RETRACTIONS))
        removed = rows.filter(gone).select(list(self.database.keys))
        if len(removed):
            yield Change(removed, self.database.keys, RowKind.DELETE)
        if len(kept := rows.filter(pc.invert(gone))):
            yield Change(kept, self.database.keys, RowKind.INSERT)
