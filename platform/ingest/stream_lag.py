"""How far a declared stream is behind its source, without a read of rows and without Spark.

Of a connector its scan is asked, of a table its snapshots. The table says where the committed
batches end, or Spark's checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakewright.connectors.managed_stream import TableStream
from lakewright.connectors.runtime import Backlog, Offset, Scan, SupportsBacklog
from lakewright.platform.ingest.connector_source import planned_stream
from lakewright.platform.ingest.drain_stream import (
    checkpoint_of,
    default_checkpoint,
    is_drained_in_spark,
)
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.source_variables import values_hidden, with_source_variables
from lakewright.storage import Catalog, Table
from lakewright.storage.env import Env
from lakewright.storage.errors import CorruptionError, SnapshotNotFound
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.operations.streams.change_stream import check_position

_SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLag:
    """Where the committed batches end, or the beginning of the source, and what is behind that.

    A source may begin where it ends, until a first run of its stream notes where that was.
    """

    start: Offset
    backlog: Backlog
    has_begun: bool = True

    @property
    def is_behind(self) -> bool:
        """Whether the source may have rows that the table lacks."""
        return self.backlog.end != self.start

    @property
    def row_count(self) -> int | None:
        """About how many rows; None if only a read would tell."""
        if not self.is_behind:
            return 0
        rows = self.backlog.rows
        return None if rows is None else sum(rows.values())

    def seconds(self, now_ms: int, longest: float | None = None) -> float | None:
        """How long the oldest of these rows waits; `longest` if the source does not tell."""
        if not self.is_behind:
            return 0.0
        since_ms = self.backlog.since_ms
        return longest if since_ms is None else max(now_ms - since_ms, 0) / 1000


def read_lag(declaration: TableDeclaration, catalog: Catalog) -> StreamLag:
    """Compare a stream's source with what its table holds.

    Raises:
        StorageError: the source cannot be reached, or its options are wrong.
    """
    here, values = with_source_variables(declaration)
    stream = here.stream
    assert stream is not None
    with values_hidden(values):
        committed = None
        if catalog.table_exists(declaration.table):
            committed = committed_offset(declaration, catalog.table(declaration.table))
        if stream.table is not None:
            start = {_SNAPSHOT: stream.after or 0} if committed is None else committed
            return StreamLag(start=start, backlog=_of_table(catalog.table(stream.table), start))
        scan = planned_stream(declaration, catalog, stream).runtime
        try:
            start = scan.earliest() if committed is None else committed
            # Spark notes nothing until rows come.
            has_begun = committed is not None or is_drained_in_spark(declaration)
            return StreamLag(start=start, backlog=_of_scan(scan, start), has_begun=has_begun)
        finally:
            scan.close()


def committed_offset(declaration: TableDeclaration, table: Table) -> Offset | None:
    """Where the committed batches of a stream end; None if it has not begun.

    Raises:
        StorageError: where it stands cannot be read.
    """
    stream = declaration.stream
    assert stream is not None
    env = table.table_files.env
    if is_drained_in_spark(declaration):
        return _of_spark(stream.checkpoint or default_checkpoint(table), env)
    checkpoint = stream.checkpoint or checkpoint_of(table)
    return TableStream(table).of_stream("", checkpoint).position()


def _of_spark(place: str, env: Env) -> Offset | None:
    fs, path = open_file_system(place, env)
    numbers = [int(each.name) for each in fs.list_dir(f"{path}/commits") if each.name.isdigit()]
    if not numbers:
        return None
    note = f"{path}/offsets/{max(numbers)}"
    try:
        # Spark writes a version, settings of the query, and the offset of its one source.
        found: Offset = json.loads(fs.read_bytes(note).splitlines()[-1])
    except (ValueError, IndexError) as error:
        message = f"{note}, where Spark says how far a stream is read, cannot be read: {error}"
        raise CorruptionError(message, path=note) from error
    return found


def _of_scan(scan: Scan, start: Offset) -> Backlog:
    if isinstance(scan, SupportsBacklog):
        return scan.backlog(start)
    return Backlog(end=scan.latest(start))


def _of_table(source: Table, start: Offset) -> Backlog:
    """The snapshots behind the one that was read; a compaction among them changes no row.

    Raises:
        StalePlan: the other table was rolled back behind it, or made anew.
    """
    latest, read = source.history.latest_snapshot(), start[_SNAPSHOT]
    check_position(source.table_files, start, 0 if latest is None else latest.id)
    if latest is None or latest.id <= read:
        return Backlog(end=start)
    try:
        since_ms = source.table_files.snapshots.read(read + 1).time_millis
    except SnapshotNotFound:
        since_ms = latest.time_millis
    return Backlog(end={_SNAPSHOT: latest.id}, since_ms=since_ms)
