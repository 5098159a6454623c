"""`_default`: managed tables, as a connector like the others.

A table without the option `connector` is one of Paimon. Its storage is made and dropped with it,
and its rows are read and written by the storage library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.connectors.factories import (
    MANAGED,
    MANAGED_LOG,
    Context,
    DynamicTableFactory,
)
from lakewright.connectors.managed_stream import (
    TableStream,
    seconds_to_wait,
    write_all,
)
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.model.notification import TableNotification
from lakewright.connectors.runtime import BoundedScan, Lookup, Offset, Scan, Sink, Split
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.connectors.sources import (
    DynamicTableSource,
    Filtered,
    LookupTableSource,
    ScanTableSource,
)
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.operations.streams.change_stream import open_stream
from lakewright.storage.operations.write.write import StagingJob, staged_write
from lakewright.storage.operations.write.write import prepare_write as prepare
from lakewright.storage.spec.commit import CommitMessage, WriteMode
from lakewright.storage.spec.log_options import has_log
from lakewright.storage.spec.options import ChangelogProducer
from lakewright.storage.spec.predicate import Predicate, conjunction
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.table_distribution import Kind
from lakewright.storage.table import Table

# The setting by which a session follows tables.
_MODE = "execution.runtime-mode"


class ManagedTables(DynamicTableFactory):
    """Makes sources and sinks of managed tables, and settles the options of new ones."""

    identifier = MANAGED
    description = "tables of the warehouse"

    def create_source(self, context: Context) -> DynamicTableSource:
        follows = context.configuration.get(_MODE) == "streaming"
        table = context.catalog.table(context.name)
        if follows and has_log(table.schema.options) and "$" not in context.name:
            return context.registry.source(MANAGED_LOG).create_source(context)
        return ManagedSource(table, follows=follows)

    def create_sink(self, context: Context) -> ManagedSink:
        return ManagedSink(context.catalog.table(context.name))

    def on_table_creation(self, notification: TableNotification) -> Mapping[str, str]:
        """The options that the table says, and those that the session gave it: none are needed."""
        return notification.table.options

    def on_table_drop(self, notification: TableNotification) -> None:
        """Nothing is kept outside of the table's own storage."""


class ManagedSource(ScanTableSource, LookupTableSource):
    """The rows of a table as it is when the scan is made; if it follows, its changes too."""

    def __init__(self, table: Table, *, follows: bool = False) -> None:
        self._table, self._follows = table, follows
        self._where: Predicate | None = None
        self._columns: tuple[str, ...] | None = None

    @property
    def summary(self) -> str:
        return f"table {self._table.name}"

    def changelog_mode(self) -> ChangelogMode:
        if not self._follows or not self._table.schema.is_keyed:
            return ChangelogMode.insert_only()
        if self._table.options.changelog_producer is ChangelogProducer.NONE:
            return ChangelogMode.upsert()
        return ChangelogMode.all()

    def apply_filters(self, filters: Sequence[Predicate]) -> Filtered:
        if self._follows:
            return Filtered((), filters)
        self._where = conjunction(tuple(filters))
        return Filtered(filters, ())

    def apply_projection(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def scan(self) -> Scan:
        if self._follows:
            return _ManagedChanges(self._table, self._columns, self.changelog_mode())
        return _ManagedScan(self._table, self._where, self._columns)

    def lookup_keys(self, columns: Sequence[str]) -> Sequence[str]:
        keys = self._table.schema.primary_keys
        return keys if {*keys} <= {*columns} else ()

    def lookup(self, keys: Sequence[str]) -> Lookup:
        return _ManagedLookup(self._table, self._columns)


class _ManagedScan(BoundedScan):
    def __init__(
        self, table: Table, where: Predicate | None, columns: tuple[str, ...] | None
    ) -> None:
        names = columns or table.schema.field_names
        # A scan reads some column.
        self._scan = table.scan(where, names if columns != () else table.schema.field_names[:1])
        self._schema = to_arrow_schema(table.schema.fields_of(names))
        self._columns = columns

    def splits(self) -> Sequence[Split]:
        return self._scan.splits

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for rows in self._scan.reader.read(split):
            yield from rows.select(self._columns or rows.column_names).to_batches()


class _ManagedChanges(Scan):
    """All rows, then the changes of snapshots: an offset is a position of the table."""

    is_bounded = False

    def __init__(self, table: Table, columns: tuple[str, ...] | None, mode: ChangelogMode) -> None:
        self._stream = open_stream(table.table_files, columns=columns)
        self._mode = mode

    def earliest(self) -> Offset:
        return self._stream.beginning

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        return self._stream.reached(start)

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        plan = self._stream.plan(start, end)
        return [] if plan is None else [(split, plan.snapshot_ids) for split in plan.splits]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        changes, snapshot_ids = split
        reader = self._stream.reader(snapshot_ids, ordered=False)
        names = [name for name in reader.arrow_schema.names if name != ROW_KIND_COLUMN]
        kinds = [] if self._mode.is_insert_only else [ROW_KIND_COLUMN]
        for rows in reader.read(changes):
            yield from rows.select([*names, *kinds]).to_batches()

    def acknowledge(self, end: Offset) -> None:
        self._stream.move_consumer(end)


@dataclass(frozen=True)
class _ManagedLookup(Lookup):
    table: Table
    columns: tuple[str, ...] | None

    def lookup(self, keys: pa.Table) -> pa.Table:
        return self.table.lookup(keys, columns=self.columns)


class ManagedSink(DynamicTableSink):
    """Commits rows as snapshots; the batches of a stream each once."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._overwrite = False
        self._partition: Mapping[str, object] = {}

    @property
    def summary(self) -> str:
        return f"table {self._table.name}"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        is_keyed = self._table.schema.has_primary_key
        return ChangelogMode.all() if is_keyed else ChangelogMode.insert_only()

    def apply_overwrite(self, overwrite: bool) -> None:
        self._overwrite = overwrite

    def apply_static_partition(self, partition: Mapping[str, object]) -> None:
        self._partition = dict(partition)

    def list_algorithms(self) -> frozenset[Kind]:
        return frozenset({Kind.HASH, Kind.UNKNOWN})

    def requires_bucket_count(self) -> bool:
        return False

    def truncate(self) -> None:
        nothing = self._table.arrow_schema.empty_table()
        self._table.write(nothing, mode="overwrite", dynamic=False)

    def sink(self) -> ManagedWrites:
        mode = WriteMode.OVERWRITE if self._overwrite else WriteMode.APPEND
        return ManagedWrites(self._table, mode, self._partition)


class ManagedWrites(Sink):
    """The writes of one statement; those of a stream are `TableStream`."""

    def __init__(self, table: Table, mode: WriteMode, partition: Mapping[str, object]) -> None:
        self._table, self._mode, self._partition = table, mode, dict(partition)
        self._job: StagingJob | None = None

    def of_stream(self, name: str, checkpoint: str) -> TableStream:
        return TableStream(self._table, fixed=self._partition).of_stream(name, checkpoint)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Sequence[CommitMessage]:
        return write_all(self._prepared, (pa.Table.from_batches([batch]) for batch in batches))

    def commit(self, written: Sequence[Sequence[CommitMessage]], epoch: int | None = None) -> None:
        job, self._job = self._prepared, None
        self._table.commit(staged_write(job, [each for some in written for each in some]))

    def abort(self, written: Sequence[Sequence[CommitMessage]]) -> None:
        if self._job is not None:
            job, self._job = self._job, None
            self._table.abort(staged_write(job, [each for some in written for each in some]))

    def wait_seconds(self) -> float:
        return seconds_to_wait(self._table)

    @property
    def _prepared(self) -> StagingJob:
        if self._job is None:
            self._job = prepare(
                self._table.table_files, mode=self._mode, partition=self._partition or None
            )
        return self._job
