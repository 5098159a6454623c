"""From a table and a statement that writes into it to a sink that runs.

Abilities are applied to a copy of the sink, in this order: overwrite, static partition,
distribution, metadata, staging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lakewright.connectors.factories import Context
from lakewright.connectors.model.catalog_table import ResolvedCatalogTable
from lakewright.connectors.model.changelog_mode import (
    ChangelogMode,
    check_fits,
)
from lakewright.connectors.planning.abilities import (
    AbilitySpec,
    BucketingSpec,
    OverwriteSpec,
    PartitioningSpec,
    StagingSpec,
    WritingMetadataSpec,
)
from lakewright.connectors.planning.typed_rows import TypedRows
from lakewright.connectors.runtime import Sink, SupportsBackPressure, Written
from lakewright.connectors.sinks import (
    DynamicTableSink,
    SupportsOverwrite,
    SupportsPartitioning,
    SupportsStaging,
    SupportsWritingMetadata,
)
from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.table_distribution import check_distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What a statement writes: rows of some kinds, by default new ones, into a static partition."""

    mode: ChangelogMode = field(default_factory=ChangelogMode.insert_only)
    overwrite: bool = False
    partition: Mapping[str, object] = field(default_factory=dict)
    creates: bool = False
    # Who gives the rows, for messages.
    source_name: str = "the query"


@dataclass(frozen=True)
class PlannedSink:
    """A sink with what was applied to it; `fields` are the columns that its rows have."""

    table: ResolvedCatalogTable
    sink: DynamicTableSink
    fields: tuple[DataField, ...]
    mode: ChangelogMode
    abilities: tuple[AbilitySpec, ...] = ()

    @cached_property
    def runtime(self) -> Sink:
        """What runs; made once."""
        return self.sink.sink()

    def write(self, pieces: Iterable[pa.Table], epoch: int | None = None) -> int:
        """Write rows in this process and commit them; how many they were.

        Rows lack no column but nullable ones. If one fails, what was written is undone.
        """
        runtime = self.runtime
        return self.write_into(runtime, pieces, lambda written: runtime.commit(written, epoch))

    def write_into(
        self,
        runtime: Sink,
        pieces: Iterable[pa.Table],
        commit: Callable[[Sequence[Written]], object],
    ) -> int:
        """The same into a sink that was made for a stream, which commits in a way of its own."""
        count = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for piece in pieces:
                count += piece.num_rows
                yield from self.taken.for_sink(piece).to_batches()

        written = []
        try:
            written.append(runtime.write(batches()))
            commit(written)
        except BaseException:
            runtime.abort(written)
            raise
        return count

    def wait_seconds(self) -> float:
        """How long the sink asks to wait before the next batch."""
        runtime = self.runtime
        return runtime.wait_seconds() if isinstance(runtime, SupportsBackPressure) else 0.0

    @cached_property
    def taken(self) -> TypedRows:
        """What the sink takes."""
        return TypedRows(self.table.name, self.fields, changes=not self.mode.is_insert_only)


def sink_of(context: Context) -> DynamicTableSink:
    """The sink of a table, before anything is applied to it; see `source_of`."""
    factory = context.registry.sink(context.connector)
    return factory.create_sink(context)


def plan_write(context: Context, request: WriteRequest) -> PlannedSink:
    """Plan a write into a table.

    Raises:
        UnsupportedError: the connector has not an ability that the statement or the table needs,
            or does not take rows of these kinds.
    """
    table = context.table
    sink = sink_of(context).copy()
    mode = sink.changelog_mode(request.mode)
    check_fits(request.mode, mode, source_name=request.source_name, sink_name=table.name)
    specs = list(_specs(sink, table, request))
    for each in specs:
        each.apply(sink, table)
    metadata = _metadata(sink, table)
    if metadata:
        spec = WritingMetadataSpec(tuple(key for key, _ in metadata))
        spec.apply(sink, table)
        specs.append(spec)
    fields = (each for each in table.fields if each.name not in request.partition)
    return PlannedSink(
        table=table,
        sink=sink,
        fields=(*fields, *(each for _, each in metadata)),
        mode=mode,
        abilities=tuple(specs),
    )


def _specs(
    sink: DynamicTableSink, table: ResolvedCatalogTable, request: WriteRequest
) -> Iterator[AbilitySpec]:
    if request.overwrite:
        if not isinstance(sink, SupportsOverwrite):
            raise UnsupportedError(
                f"{table.name} ({sink.summary}) cannot be overwritten; write INSERT INTO"
            )
        yield OverwriteSpec()
    outside = [name for name in request.partition if name not in table.partition_keys]
    if outside:
        raise InvalidRequestError(
            f"{outside[0]} is no partition column of {table.name}; they are "
            f"{', '.join(table.partition_keys) or 'none'}"
        )
    if table.partition_keys and not isinstance(sink, SupportsPartitioning):
        raise UnsupportedError(
            f"{table.name} is partitioned by {', '.join(table.partition_keys)}, and "
            f"{sink.summary} has no partitions; leave PARTITIONED BY out"
        )
    if request.partition:
        yield PartitioningSpec(dict(request.partition))
    spread = table.distribution
    if spread is not None:
        check_distribution(spread, sink, table.name)
        yield BucketingSpec(spread.kind.name, spread.bucket_count, spread.bucket_keys)
    if request.creates and isinstance(sink, SupportsStaging):
        yield StagingSpec()


def _metadata(
    sink: DynamicTableSink, table: ResolvedCatalogTable
) -> Sequence[tuple[str, DataField]]:
    """The metadata columns that rows are written with: all but virtual ones."""
    virtual = {each.name for each in table.definition.unstored if each.virtual}
    wanted = [each for each in table.metadata if each[1].name not in virtual]
    known = sink.writable_metadata() if isinstance(sink, SupportsWritingMetadata) else {}
    for key, each in wanted:
        if key not in known:
            raise UnsupportedError(
                f"column {each.name} of {table.name} is metadata {key!r}, which {sink.summary} "
                f"does not write; it writes {', '.join(known) or 'none'}: declare the column "
                "VIRTUAL"
            )
    return wanted
