"""How far a declared stream is behind its source, without a read of rows and without Spark.

Of a connector its scan is asked, of a table its snapshots. The checkpoint says where the committed
batches end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakewright.connectors.runtime import Backlog, Offset, Scan, SupportsBacklog
from lakewright.platform.ingest.connector_source import planned_stream
from lakewright.platform.ingest.drain_stream import default_checkpoint
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.source_variables import values_hidden, with_source_variables
from lakewright.platform.tables.stream_declarations import StreamDeclaration
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import CorruptionError, SnapshotNotFound
from lakewright.storage.files.file_systems import open_file_system

_SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLag:
    """Where the committed batches end, or the beginning of the source, and what is behind that."""

    start: Offset
    backlog: Backlog

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
            committed = committed_offset(catalog.table(declaration.table), stream)
        if stream.table is not None:
            start = {_SNAPSHOT: stream.after or 0} if committed is None else committed
            return StreamLag(start=start, backlog=_of_table(catalog.table(stream.table), start))
        scan = planned_stream(declaration, catalog, stream).runtime
        try:
            start = scan.earliest() if committed is None else committed
            return StreamLag(start=start, backlog=_of_scan(scan, start))
        finally:
            scan.close()


def committed_offset(table: Table, stream: StreamDeclaration) -> Offset | None:
    """Where the last committed batch ends, as the checkpoint of the stream says.

    Raises:
        CorruptionError: the checkpoint cannot be read.
    """
    place = stream.checkpoint or default_checkpoint(table)
    fs, path = open_file_system(place, table.table_files.env)
    numbers = [int(each.name) for each in fs.list_dir(f"{path}/commits") if each.name.isdigit()]
    if not numbers:
        return None
    note = f"{path}/offsets/{max(numbers)}"
    try:
        # Spark writes a version, settings of the query, and the offset of its one source.
        found: Offset = json.loads(fs.read_bytes(note).splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise CorruptionError(
            f"{note}, where the stream into {table.name} says how far it has read, cannot be "
            f"read: {error}",
            path=note,
        ) from error
    return found


def _of_scan(scan: Scan, start: Offset) -> Backlog:
    if isinstance(scan, SupportsBacklog):
        return scan.backlog(start)
    return Backlog(end=scan.latest(start))


def _of_table(source: Table, start: Offset) -> Backlog:
    """The snapshots behind the one that was read; a compaction among them changes no row."""
    latest, read = source.history.latest_snapshot(), start[_SNAPSHOT]
    if latest is None or latest.id <= read:
        return Backlog(end=start)
    try:
        since_ms = source.table_files.snapshots.read(read + 1).time_millis
    except SnapshotNotFound:
        since_ms = latest.time_millis
    return Backlog(end={_SNAPSHOT: latest.id}, since_ms=since_ms)
