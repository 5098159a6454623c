"""From a table and what a query asks of it to a scan that runs.

Abilities are applied to a copy of the source, in this order: partitions, filters, projection,
metadata, limit, watermark. What the source does not take, the planned scan does itself; aggregates
are planned only where the source makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakewright.connectors.changes import net_rows
from lakewright.connectors.factories import Context
from lakewright.connectors.model.catalog_table import ResolvedCatalogTable
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.planning.abilities import (
    AbilitySpec,
    AggregatePushDownSpec,
    FilterPushDownSpec,
    LimitPushDownSpec,
    PartitionPushDownSpec,
    ProjectionPushDownSpec,
    ReadingMetadataSpec,
    SourceWatermarkSpec,
    WatermarkPushDownSpec,
)
from lakewright.connectors.planning.typed_rows import TypedRows
from lakewright.connectors.runtime import Offset, Scan, Split
from lakewright.connectors.sources import (
    Aggregate,
    DynamicTableSource,
    ScanTableSource,
    SupportsAggregatePushDown,
    SupportsFilterPushDown,
    SupportsLimitPushDown,
    SupportsPartitionPushDown,
    SupportsProjectionPushDown,
    SupportsReadingMetadata,
    SupportsSourceWatermark,
    SupportsWatermarkPushDown,
)
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.errors import InvalidPredicate, InvalidRequestError, UnsupportedError
from lakewright.storage.secret_texts import shown_text
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.flink_columns import Watermark
from lakewright.storage.spec.predicate import (
    Predicate,
    columns_of,
    conjunction,
    conjuncts,
    matches,
)
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value, from_python
from lakewright.storage.sql.where_text import where_text

ReadSplit = Callable[[Split], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a query asks of a table; `columns` may be physical ones and metadata, None for all.

    `watermark` is that of the table, for readers that keep one.
    """

    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    limit: int | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateRequest:
    """A row for each group of some columns, with aggregates; without columns one row of all."""

    where: Predicate | None
    group_by: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True)
class PlannedScan:
    """A source with what was applied to it, and what its reader still has to do."""

    table: ResolvedCatalogTable
    source: ScanTableSource
    columns: tuple[str, ...]
    fields: tuple[DataField, ...]
    abilities: tuple[AbilitySpec, ...] = ()
    remaining: Predicate | None = None
    limit: int | None = None
    # A column, and by how many milliseconds its rows may be late.
    watermark: tuple[str, int] | None = None

    @cached_property
    def mode(self) -> ChangelogMode:
        return self.source.changelog_mode()

    @cached_property
    def runtime(self) -> Scan:
        """What runs; made once."""
        return self.source.scan()

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        return to_arrow_schema([self._field(name) for name in self.columns])

    @cached_property
    def given(self) -> TypedRows:
        """What the source gives: more columns may be needed, and the kinds of changes."""
        return TypedRows(self.table.name, self.fields, changes=not self.mode.is_insert_only)

    def rows(self, read: ReadSplit | None = None) -> Iterator[pa.Table]:
        """The rows of a bounded source, in this process; changes are carried out.

        `read` reads a split otherwise than the scan does.

        Raises:
            UnsupportedError: the source has no end.
        """
        if not self.runtime.is_bounded:
            raise UnsupportedError(
                f"{self.table.name} ({self.source.summary}) has no end: read it as a stream, or "
                "INSERT its rows INTO a table"
            )
        pieces = self.changes(read=read)
        if not self.mode.is_insert_only:
            # A filter before would keep the last change that it takes, not the last one.
            every = net_rows(list(pieces), self.given.schema, self.table)
            pieces = iter([every.drop_columns([ROW_KIND_COLUMN])])
        kept_pieces: Iterator[pa.Table] = (
            keep_matching(each, self.remaining, self._read_schema).select(self.columns)
            for each in pieces
        )
        left = self.limit
        for kept in kept_pieces:
            piece = kept if left is None else kept.slice(0, left)
            yield piece
            if left is not None:
                left -= piece.num_rows
                if left <= 0:
                    return

    def changes(
        self,
        start: Offset | None = None,
        end: Offset | None = None,
        read: ReadSplit | None = None,
    ) -> Iterator[pa.Table]:
        """The rows between two offsets as the source gives them, not yet filtered; all without."""
        runtime = self.runtime
        begin = runtime.earliest() if start is None else start
        until = runtime.latest(begin) if end is None else end
        try:
            for split in runtime.plan(begin, until):
                for batch in (read or runtime.read)(split):
                    yield self.given.of_source(batch)
        finally:
            runtime.close()

    def explained(self) -> list[str]:
        """What the plan shows: the source, and what it was given."""
        lines = [f"{self.table.name}: {shown_text(self.source.summary)}"]
        lines += [f"  {_explained(ability)}" for ability in self.abilities]
        if self.remaining is not None:
            lines.append(f"  filtered behind it: {_text_of(self.remaining, self._read_schema)}")
        if self.limit is not None:
            lines.append(f"  at most {self.limit} rows")
        return lines

    def _field(self, name: str) -> DataField:
        return next(field for field in self.fields if field.name == name)

    @cached_property
    def _read_schema(self) -> TableSchema:
        return TableSchema(id=0, fields=self.fields, highest_field_id=len(self.fields))


def source_of(context: Context) -> DynamicTableSource:
    """The source of a table, before anything is applied to it.

    Raises:
        NotFoundError: no connector of this name is installed, or it cannot be read.
        InvalidOption: an option is missing, unknown or wrong.
    """
    factory = context.registry.source(context.connector)
    return factory.create_source(context)


def plan_scan(context: Context, request: ScanRequest) -> PlannedScan:
    """Plan the scan of a table.

    Raises:
        UnsupportedError: the connector cannot scan, or has not the metadata that is asked for.
        InvalidRequestError: a column is not one of the table.
    """
    table = context.table
    found = source_of(context)
    if not isinstance(found, ScanTableSource):
        raise UnsupportedError(
            f"{table.name} ({found.summary}) can only be looked up by keys, not scanned"
        )
    return plan_of(found.copy(), table, request)


def plan_of(
    source: ScanTableSource, table: ResolvedCatalogTable, request: ScanRequest
) -> PlannedScan:
    """Apply what is asked to a source that belongs to this plan."""
    columns, metadata = _columns(table, request.columns)
    specs: list[AbilitySpec] = []

    def apply(spec: AbilitySpec) -> None:
        spec.apply(source, table)
        specs.append(spec)

    remaining = list(conjuncts(request.where))
    remaining = _partitions(source, table, remaining, apply)
    remaining = _filters(source, table, remaining, specs)
    needed = {*columns}.union(*(columns_of(each) for each in remaining))
    if not source.changelog_mode().is_insert_only:
        # What a change takes back is found by its key, or by the whole row.
        needed |= {*(table.primary_keys or table.schema.field_names)}
    physical = [field for field in table.fields if field.name in needed]
    if isinstance(source, SupportsProjectionPushDown) and len(physical) < len(table.fields):
        apply(ProjectionPushDownSpec(tuple(each.name for each in physical)))
    else:
        physical = list(table.fields)
    wanted = [each for each in metadata if each[1].name in needed]
    if wanted:
        _check_metadata(source, table, wanted)
        apply(ReadingMetadataSpec(tuple(key for key, _ in wanted)))
    limit = request.limit
    can_stop = not remaining and source.changelog_mode().is_insert_only
    if limit is not None and can_stop and isinstance(source, SupportsLimitPushDown):
        apply(LimitPushDownSpec(limit))
    watermark = None
    if request.watermark is not None:
        watermark = request.watermark.column, _delay_ms(request.watermark, source, table.name)
        if request.watermark.is_own:
            apply(SourceWatermarkSpec())
        elif isinstance(source, SupportsWatermarkPushDown):
            apply(WatermarkPushDownSpec(*watermark))
    return PlannedScan(
        table=table,
        source=source,
        columns=columns,
        fields=(*physical, *(each for _, each in wanted)),
        abilities=tuple(specs),
        remaining=conjunction(tuple(remaining)),
        limit=limit,
        watermark=watermark,
    )


def plan_aggregates(context: Context, request: AggregateRequest) -> PlannedScan | None:
    """Plan a scan of groups; None if the source does not make the aggregates of just these rows."""
    source, table = source_of(context), context.table
    if not isinstance(source, ScanTableSource) or not isinstance(source, SupportsAggregatePushDown):
        return None
    pushed = source.copy()
    specs: list[AbilitySpec] = []

    def apply(spec: AbilitySpec) -> None:
        spec.apply(pushed, table)
        specs.append(spec)

    remaining = _partitions(pushed, table, list(conjuncts(request.where)), apply)
    remaining = _filters(pushed, table, remaining, specs)
    if remaining or not pushed.changelog_mode().is_insert_only:
        return None
    if not pushed.apply_aggregates(list(request.group_by), list(request.aggregates)):
        return None
    outputs = tuple(aggregate.output for aggregate in request.aggregates)
    fields = (*(table.schema.field(name) for name in request.group_by), *outputs)
    return PlannedScan(
        table=table,
        source=pushed,
        columns=tuple(field.name for field in fields),
        fields=fields,
        abilities=(*specs, _aggregate_spec(request)),
    )


def _delay_ms(watermark: Watermark, source: DynamicTableSource, table: str) -> int:
    delay_ms = watermark.delay_ms
    if delay_ms is None:
        raise UnsupportedError(
            f"the watermark of {table} is {watermark.expression}; write {watermark.column}, "
            f"{watermark.column} - INTERVAL '5' SECOND, or SOURCE_WATERMARK()"
        )
    if watermark.is_own and not isinstance(source, SupportsSourceWatermark):
        raise UnsupportedError(
            f"{table} ({source.summary}) has no watermarks of its own; write WATERMARK FOR "
            f"{watermark.column} AS {watermark.column} - INTERVAL '5' SECOND"
        )
    return delay_ms


def _aggregate_spec(request: AggregateRequest) -> AggregatePushDownSpec:
    told = tuple(
        (aggregate.function, aggregate.column, aggregate.output.name, str(aggregate.output.type))
        for aggregate in request.aggregates
    )
    return AggregatePushDownSpec(request.group_by, told)


def _columns(
    table: ResolvedCatalogTable, asked: Sequence[str] | None
) -> tuple[tuple[str, ...], Sequence[tuple[str, DataField]]]:
    metadata = table.metadata
    names = [*table.schema.field_names, *(each.name for _, each in metadata)]
    if asked is None:
        return tuple(names), metadata
    for name in asked:
        if name not in names:
            raise InvalidRequestError(
                f"{table.name} has no column {name!r}; it has {', '.join(names)}"
            )
    return tuple(asked), metadata


def _partitions(
    source: ScanTableSource,
    table: ResolvedCatalogTable,
    filters: list[Predicate],
    apply: object,
) -> list[Predicate]:
    """Push filters of partition columns alone; those that remain are of other columns."""
    keys = frozenset(table.partition_keys)
    on_keys = [each for each in filters if columns_of(each) <= keys]
    if not on_keys or not isinstance(source, SupportsPartitionPushDown):
        return filters
    partitions = source.list_partitions()
    if partitions is None:
        return filters
    fields = table.schema.partition_fields
    kept = tuple(
        partition
        for partition in partitions
        if all(matches(part, _typed(partition, fields)) for part in on_keys)
    )
    assert callable(apply)
    apply(PartitionPushDownSpec(kept))
    return [each for each in filters if each not in on_keys]


def _typed(partition: Mapping[str, str | None], fields: Sequence[DataField]) -> dict[str, Value]:
    return {
        field.name: None
        if (text := partition[field.name]) is None
        else from_python(text, field.type)
        for field in fields
    }


def _filters(
    source: ScanTableSource,
    table: ResolvedCatalogTable,
    filters: list[Predicate],
    specs: list[AbilitySpec],
) -> list[Predicate]:
    """Push the filters that the source takes.

    A changing source gets those on its key alone: another one could take a row's last change.
    """
    if not isinstance(source, SupportsFilterPushDown):
        return filters
    physical = frozenset(table.schema.field_names)
    if not source.changelog_mode().is_insert_only:
        physical &= frozenset(table.primary_keys)
    pushed = [each for each in filters if columns_of(each) <= physical]
    if not pushed:
        return filters
    found = source.apply_filters(pushed)
    if found.accepted:
        accepted = conjunction(tuple(found.accepted))
        assert accepted is not None
        specs.append(FilterPushDownSpec(_text_of(accepted, table.schema)))
    others = [each for each in filters if each not in pushed]
    return [*found.remaining, *others]


def _check_metadata(
    source: ScanTableSource, table: ResolvedCatalogTable, wanted: Sequence[tuple[str, DataField]]
) -> None:
    known = source.readable_metadata() if isinstance(source, SupportsReadingMetadata) else {}
    for key, field_ in wanted:
        if key not in known:
            raise UnsupportedError(
                f"column {field_.name} of {table.name} is metadata {key!r}, which "
                f"{source.summary} has not; it has {', '.join(known) or 'none'}"
            )


def _text_of(predicate: Predicate, schema: TableSchema) -> str:
    try:
        return where_text(predicate, schema)
    except InvalidPredicate:
        return "a filter without a text"


def _explained(spec: AbilitySpec) -> str:
    found = spec.to_json()
    name = found.pop("type")
    parts = ", ".join(f"{key}={value}" for key, value in found.items())
    return f"{name}({parts})"
