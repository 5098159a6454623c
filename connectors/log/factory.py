"""`_default_log`: the logs of managed tables, made and dropped with them, and read without end.

A stream of a table with a log reads the rows of a snapshot first, and then the log. Its offsets say
the snapshot with its commit, the topic and the next positions there: `{"snapshot": 7, "commit": …,
"topic": …, "log": {"0": 42}}`. The positions are taken before the snapshot is chosen, so each
later change is behind them; messages of the snapshot and of those before it are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.factories import MANAGED_LOG, Context, DynamicTableFactory
from lakewright.connectors.log.publish import whole_state
from lakewright.connectors.log.table_log import HEADERS, TableLog
from lakewright.connectors.log.topic import SNAPSHOT, LogTopic
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.model.notification import TableNotification
from lakewright.connectors.planning.plan_source import PlannedScan, ScanRequest, plan_scan
from lakewright.connectors.runtime import Offset, Scan, Split, SupportsEndOffset
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import StalePlan, UnsupportedError
from lakewright.storage.operations.streams.change_stream import check_position, position_at
from lakewright.storage.spec.bucketing import distributed
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.log_options import LOG_SYSTEM, as_kept
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind
from lakewright.storage.spec.schema import SchemaSpec, TableSchema, new_schema
from lakewright.storage.table import Table

_SNAPSHOT, _TOPIC, _LOG = "snapshot", "topic", "log"


class LogTables(DynamicTableFactory):
    """Makes and removes topics, and the sources of streams that read them."""

    identifier = MANAGED_LOG
    description = "the logs of tables of the warehouse"

    def on_table_creation(self, notification: TableNotification) -> Mapping[str, str]:
        """Make the topic; the table keeps the options of its log by names that are its own."""
        options = notification.table.options
        if LOG_SYSTEM not in options:
            return options
        if notification.is_temporary:
            raise UnsupportedError(
                f"{notification.name} is temporary, and a log is for other processes; leave "
                f"{LOG_SYSTEM} out"
            )
        log = _log_of(notification, as_kept(options))
        assert log is not None
        # It refuses what the log cannot hold.
        context = log.context(notification.registry)
        context.registry.sink(context.connector).create_sink(context).sink()
        LogTopic(log.cluster, log.topic).create(log.partition_count)
        return as_kept({**options, "log.topic": log.topic})

    def on_table_drop(self, notification: TableNotification) -> None:
        """Remove the topic."""
        log = _log_of(notification, notification.table.options)
        if log is not None:
            LogTopic(log.cluster, log.topic).drop()

    def create_source(self, context: Context) -> LogSource:
        """The stream of a table with a log.

        Raises:
            UnsupportedError: the session reads tables as they are.
        """
        table = context.catalog.table(context.name)
        log = TableLog.of(table.name, table.schema)
        if log is None or context.configuration.get("execution.runtime-mode") != "streaming":
            raise UnsupportedError(
                f"the log of {table.name} has changes without end, and is read by streams alone; "
                "SET 'execution.runtime-mode' = 'streaming', or query the table without its log"
            )
        return LogSource(table, log, context)


def _log_of(notification: TableNotification, options: Mapping[str, str]) -> TableLog | None:
    """The log that the table of a notification has or will have."""
    table = notification.table
    spec = SchemaSpec(
        columns=table.columns,
        partition_keys=table.partition_keys,
        primary_keys=table.primary_keys,
        options=options,
    )
    schema = new_schema(spec, time_millis=0)
    if table.distribution is not None:
        schema = distributed(schema, table.distribution, notification.name)
    return TableLog.of(notification.name, schema)


class LogSource(ScanTableSource):
    """The rows of a table, and then the changes in its log."""

    def __init__(self, table: Table, log: TableLog, context: Context) -> None:
        self._table, self._log, self._registry = table, log, context.registry

    @property
    def summary(self) -> str:
        return f"table {self._table.name} with its log"

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.upsert() if self._log.tells_rows else ChangelogMode.all()

    def scan(self) -> Scan:
        planned = plan_scan(self._log.context(self._registry), ScanRequest())
        return LogScan(self._table, self._log, planned)


class LogScan(Scan):
    """Reads a snapshot, and then the topic."""

    is_bounded = False

    def __init__(self, table: Table, log: TableLog, planned: PlannedScan) -> None:
        self._table, self._log, self._planned = table, log, planned
        self._messages: Scan = planned.runtime
        self._topic: LogTopic | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_topic": None}

    def earliest(self) -> Offset:
        return {_SNAPSHOT: 0}

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        name = self._log.topic
        if _LOG in start:
            self._check_same_topic(start)
            files = self._table.table_files
            check_position(files, start, files.snapshots.latest_id() or 0)
            end = self._messages.latest({name: start[_LOG]}, limit)
            return {**start, _LOG: end[name]}
        identity = self._identity()
        begin = self._messages.earliest()
        end = self._messages.latest(begin)
        files = self._table.table_files
        position = position_at(files, files.snapshots.latest_id() or 0)
        return {**position, _TOPIC: identity, _LOG: {**begin, **end}[name]}

    def end_at(self, offset: Offset) -> None:
        """What comes behind an offset is left to the next drain."""
        if isinstance(self._messages, SupportsEndOffset):
            self._messages.end_at({self._log.topic: offset[_LOG]})

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        number = end[_SNAPSHOT]
        if _LOG not in start:
            if number == 0:
                return []
            files = self._table.table_files
            reader, splits = whole_state(files, files.snapshots.read(number))
            return [(reader, split) for split in splits]
        name = self._log.topic
        found = self._messages.plan({name: start[_LOG]}, {name: end[_LOG]})
        return [(number, each) for each in found]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        what, part = split
        if not isinstance(what, int):
            for rows in what.read(part):
                kinds = pa.array([RowKind.INSERT.short] * rows.num_rows, pa.string())
                yield from rows.append_column(ROW_KIND_COLUMN, kinds).to_batches()
            return
        for batch in self._messages.read(part):
            rows = pa.Table.from_batches([batch])
            rows = rows.filter(_later_than(what, rows.column(HEADERS)))
            yield from whole_rows(rows.drop_columns([HEADERS]), self._table.schema).to_batches()

    def close(self) -> None:
        self._messages.close()

    def _identity(self) -> str | None:
        if self._topic is None:
            self._topic = LogTopic(self._log.cluster, self._log.topic)
        return self._topic.identity()

    def _check_same_topic(self, start: Offset) -> None:
        if start[_TOPIC] != self._identity():
            raise StalePlan(
                f"the log of {self._table.name} was made anew or dropped since the stream began; "
                "begin a new stream, with a new checkpoint, into an empty target"
            )


def _later_than(snapshot: int, headers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which messages are of later snapshots."""
    found = pc.map_lookup(headers, SNAPSHOT, "first")
    return pc.fill_null(pc.greater(found.cast(pa.string()).cast(pa.int64()), snapshot), False)


def whole_rows(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Rows in which columns that hold no null have a value: a deletion tells its key alone."""
    for at, name in enumerate(rows.column_names):
        if name in schema.field_names and rows.column(name).null_count:
            field = schema.field(name)
            if not field.type.nullable:
                rows = rows.set_column(at, name, _without_nulls(rows.column(name), field))
    return rows


def _without_nulls(column: pa.ChunkedArray, field: DataField) -> pa.ChunkedArray:
    kind = to_arrow_schema([field]).types[0]
    if pa.types.is_nested(kind):
        nothing: list[Any] = [{} if pa.types.is_struct(kind) else []]
        return pc.if_else(pc.is_null(column), pa.scalar(nothing[0], kind), column)
    # The memory of a null is zeros: 0, the first moment, or an empty text.
    empty = pa.Array.from_buffers(kind, 1, [None, *pa.nulls(1, kind).buffers()[1:]])
    return pc.fill_null(column, empty[0])
