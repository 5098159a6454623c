"""The tables of a query, as DuckDB scans them: with the columns and filters that it pushes down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from lakewright.connectors.planning.plan_source import PlannedScan
from lakewright.session.pushed_filters import PushedFilter, pushed_filter
from lakewright.storage.catalog import Catalog
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidStatement, UnsupportedError
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPES, TYPE_OPTION
from lakewright.storage.spec.data_types import STRING, DataField, is_opaque
from lakewright.storage.spec.predicate import Predicate, conjunction, only_on
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.sql.grammar.moments import Moment
from lakewright.storage.table import Table
from lakewright.storage.table_at import TableAt

# Rows that DuckDB takes at once.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Source:
    """A table at one state, a system table, a format table or an external one.

    `planned` gives the plan of an external one.
    """

    name: str
    schema: TableSchema
    pieces: Callable[[Predicate | None, Sequence[str]], Iterator[pa.Table]]
    at: TableAt | None = None
    planned: Callable[[Predicate | None, Sequence[str]], PlannedScan] | None = None


def source_of(catalog: Catalog, name: str, moment: Moment | None = None) -> Source:
    """The table, system table or branch of a name, as it is now or was at a moment.

    Raises:
        NotFoundError: there is none, or no such moment.
        UnsupportedError: a format table has no moments.
    """
    table, _, system = name.rpartition("$")
    if table and not name.startswith("$branch_", len(table)):
        state = _at(catalog.table(table), moment)
        inspected = state.inspect

        def rows(where: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
            yield inspected.table(system, where).select(list(columns))

        return Source(name, inspected.table_schema(system), rows)
    found = catalog.table(name)
    if found.schema.options.get(TYPE_OPTION) in TABLE_TYPES:
        if moment is not None:
            raise UnsupportedError(f"{name} is a table of plain files, which have no history")
        files = catalog.format_table(name)

        def plain(where: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
            yield files.read(where, columns)

        return Source(name, found.schema, plain)
    if moment is not None and moment.after is not None:
        return _changes_of(found, moment.after, moment.version or "")
    return source_at(name, _at(found, moment))


def source_at(name: str, state: TableAt) -> Source:
    """A table at one state."""
    return Source(
        name,
        state.schema,
        lambda where, columns: state.scan(where, columns).batches(),
        state,
    )


def _changes_of(table: Table, after: str, until: str) -> Source:
    """The rows that changed between two snapshots or tags, with their kinds."""
    bounds = [int(each) if each.isdecimal() else each for each in (after, until)]
    first, last = bounds
    schema = table.schema
    kind = DataField(max(field.id for field in schema.fields) + 1, ROW_KIND_COLUMN, STRING)

    def pieces(where: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
        stored = [name for name in columns if name != ROW_KIND_COLUMN]
        pruning = only_on(where, frozenset(schema.field_names))
        # A scan reads some column.
        changes = table.scan_changes(first, last, where=pruning, columns=stored or None)
        yield changes.read().select(list(columns))

    return Source(table.name, replace(schema, fields=(kind, *schema.fields)), pieces)


def _at(table: Table, moment: Moment | None) -> TableAt:
    if moment is None:
        return table.at()
    if moment.version is not None:
        return table.at(version=moment.version)
    seconds = moment.time
    return table.at(time=seconds * 1000 if isinstance(seconds, int) else seconds)


class ScannedTable(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A source under names of columns that tell it from the other sources of a query.

    DuckDB calls `scanner` once for each scan of it, with the columns and the filter that its
    optimiser found, and applies that filter no more. `failures` keeps the errors of reading, which
    DuckDB turns into texts.
    """

    def __init__(self, source: Source, number: int, failures: list[Exception]) -> None:
        # Not the constructor of a dataset, which takes none.
        names = source.schema.field_names
        self.source = source
        self.columns = {f"c{number}_{at}": name for at, name in enumerate(names)}
        self.fields = dict(zip(self.columns, source.schema.fields, strict=True))
        # Filters that DuckDB applies itself, above the one scan.
        self.also: tuple[Predicate, ...] = ()
        # Reading a column that is not decoded fails, so its type here serves queries without it.
        types = {
            name: pa.binary() if is_opaque(field.type) else to_arrow_type(field.type)
            for name, field in self.fields.items()
        }
        self._schema = pa.schema(list(types.items()))
        self._failures = failures

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,  # noqa: A002 - the name that DuckDB calls it by
        **_: object,
    ) -> _Scanner:
        return _Scanner(self, list(columns or self.columns), filter)

    def batches(self, columns: Sequence[str], expression: Any) -> Iterator[pa.RecordBatch]:
        """The rows that an expression takes, in some columns."""
        pushed = PushedFilter(frozenset(), None)
        if expression is not None:
            pushed = pushed_filter(expression, self.fields)
        read = [name for name in self.columns if name in pushed.columns or name in columns]
        schema = pa.schema([self._schema.field(name) for name in read])
        parts = () if pushed.predicate is None else (pushed.predicate,)
        where = conjunction((*self.also, *parts))
        try:
            asked = [self.columns[name] for name in read]
            for piece in self.source.pieces(where, asked):
                rows = pa.table(piece.select(asked).columns, schema=schema)
                if expression is not None:
                    rows = rows.filter(expression)
                yield from rows.select(list(columns)).to_batches(max_chunksize=_BATCH_ROWS)
        except Exception as error:
            self._failures.append(error)
            raise


@dataclass(frozen=True, slots=True)
class _Scanner:
    """One scan: the part of a scanner of Arrow that DuckDB asks for."""

    table: ScannedTable
    columns: list[str]
    expression: Any

    def to_reader(self) -> pa.RecordBatchReader:
        schema = pa.schema([self.table.schema.field(name) for name in self.columns])
        batches = self.table.batches(self.columns, self.expression)
        return pa.RecordBatchReader.from_batches(schema, batches)


def check_names(source: Source) -> None:
    """Refuse columns that differ by case alone, which DuckDB does not tell apart.

    Raises:
        InvalidStatement: there are such columns.
    """
    seen: dict[str, str] = {}
    for name in source.schema.field_names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidStatement(
                f"{source.name} has columns {other} and {name}, which SQL does not tell apart; "
                "read it in Python, or rename one"
            )
