"""The writes of a stream into a managed table: each batch is one commit, and each once.

Tasks stage the rows, with the partitions of their times. The commit has the stream as its user, the
batch as its identifier, and the position of the source in the properties of its snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakewright.connectors.runtime import Held, Offset, Sink
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.storage.errors import StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.sweep import abort_staged
from lakewright.storage.operations.streams import batches
from lakewright.storage.operations.streams.batches import Watch
from lakewright.storage.operations.streams.partition_times import with_partition_times
from lakewright.storage.operations.write.write import (
    StagingJob,
    StagingWriter,
    prepare_write,
    staged_write,
)
from lakewright.storage.spec.commit import CommitMessage, StagedWrite, WriteMode
from lakewright.storage.spec.partition_clock import PartitionClock
from lakewright.storage.spec.stream import SetBack, StreamBatch
from lakewright.storage.table import Table

# How long a writer waits for a compaction, before it looks again.
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Staged:
    """What one task staged, and the latest time of its rows."""

    messages: Sequence[CommitMessage]
    time_ms: int | None


@dataclass
class TableStream(Sink):
    """The sink of a stream; `fixed` partition keys have one value, a `clock` makes others."""

    table: Table
    stream: str = ""
    checkpoint: str = ""
    fixed: Mapping[str, object] = field(default_factory=dict)
    clock: PartitionClock | None = None
    watch: Watch = field(default_factory=Watch)
    # When the batch that is staged began, and what its rows are staged for.
    _now_ms: int = 0
    _job: StagingJob | None = None

    def of_stream(self, name: str, checkpoint: str) -> TableStream:
        return replace(self, stream=name, checkpoint=checkpoint)

    def stream_of(self, checkpoint: str) -> tuple[str, Held] | None:
        """See `KnowsStreams`."""
        for record in batches.list_streams(self.table.table_files):
            if record.checkpoint == checkpoint and record.committed and record.position is not None:
                end = json.loads(record.position)
                return record.stream, Held(number=record.batch, end=end)
        return None

    def write(self, batches: Iterator[pa.RecordBatch]) -> _Staged:
        job, times = self._prepared, list[int]()
        clock = self.clock

        def rows() -> Iterator[pa.Table]:
            for batch in batches:
                piece = pa.Table.from_batches([batch])
                if clock is not None and clock.column is not None:
                    piece, latest = with_partition_times(piece, clock, table=self.table.name)
                    times.extend([] if latest is None else [latest])
                    if clock.column not in job.files.schema.field_names:
                        piece = piece.drop_columns([clock.column])
                yield piece

        return _Staged(write_all(job, rows()), max(times, default=None))

    def commit(self, written: Sequence[_Staged], epoch: int | None = None) -> None:
        self._commit(written, epoch, None)

    def commit_until(self, written: Sequence[_Staged], epoch: int, end: Offset) -> None:
        self._commit(written, epoch, json.dumps(dict(end), sort_keys=True))

    def _commit(self, written: Sequence[_Staged], epoch: int | None, position: str | None) -> None:
        assert epoch is not None
        staged = replace(self._taken(written), commit_user=self.stream, commit_identifier=epoch)
        files = self._files()
        batch = StreamBatch(
            stream=self.stream, checkpoint=self.checkpoint, number=epoch, position=position
        )
        before = files.streams.read(self.stream)
        try:
            is_committed = batches.is_committed(files, batch, self.clock)
            if not is_committed:
                self.watch.check_rows(staged)
        except BaseException:
            with suppress(StorageError):
                abort_staged(files, staged)
            raise
        if is_committed:
            abort_staged(files, staged)
        else:
            times = [each.time_ms for each in written if each.time_ms is not None]
            is_event_time = self.clock is not None and self.clock.column is not None
            time_ms = max(times, default=None) if is_event_time else self._now_ms
            batches.commit_batch(files, batch, staged, clock=self.clock, time_ms=time_ms)
        if self.watch.tell is not None:
            committed = batches.committed_batch(files, batch, before)
            if committed is not None:
                self.watch.tell(committed)

    def abort(self, written: Sequence[_Staged]) -> None:
        if self._job is not None:
            self.table.abort(self._taken(written))

    def set_back(self) -> Held | None:
        found = batches.set_back(self.table.table_files, self.stream)
        if found is None:
            return None
        end = None if found.position is None else json.loads(found.position)
        return Held(number=found.number, end=end, lost=found.lost)

    def put_back(self, held: Held) -> None:
        position = None if held.end is None else json.dumps(dict(held.end), sort_keys=True)
        to = SetBack(number=held.number, position=position, lost=held.lost or held.number)
        batches.put_back(self.table.table_files, self.stream, to)

    def wait_seconds(self) -> float:
        return seconds_to_wait(self.table)

    def _taken(self, written: Sequence[_Staged]) -> StagedWrite:
        job, self._job = self._prepared, None
        return staged_write(job, [each for some in written for each in some.messages])

    @property
    def _prepared(self) -> StagingJob:
        if self._job is None:
            files, partition = self._files(), dict(self.fixed)
            self._now_ms = files.env.now_ms()
            if self.clock is not None and self.clock.column is None:
                partition |= self.clock.spec_at(self.clock.local(self._now_ms))
            self._job = prepare_write(
                files.reading_once(),
                mode=WriteMode.APPEND,
                partition=partition or None,
                dynamic=False,
            )
        return self._job

    def _files(self) -> TableFiles:
        """The table under its present schema, which may change while the stream runs."""
        return self.table.table_files.refreshed()


@dataclass(frozen=True)
class StreamedTable(DynamicTableSink):
    """A table as the sink of a plan whose stream is settled already."""

    stream: TableStream

    @property
    def summary(self) -> str:
        return f"table {self.stream.table.name}"

    def sink(self) -> TableStream:
        return self.stream


def write_all(job: StagingJob, pieces: Iterable[pa.Table]) -> Sequence[CommitMessage]:
    """Stage rows in this process; files of rows that fail are deleted."""
    writer = StagingWriter(job)
    try:
        for piece in pieces:
            writer.write(piece)
    except BaseException:
        writer.abandon()
        raise
    return writer.close()


def seconds_to_wait(table: Table) -> float:
    """Patience while a bucket has as many sorted runs as its table stops writers at.

    A table whose writers compact is compacted first.
    """
    if not has_full_buckets(table):
        return 0.0
    if not table.options.write_only:
        table.upkeep.compact()
    return _PATIENCE_SECONDS if has_full_buckets(table) else 0.0


def has_full_buckets(table: Table) -> bool:
    """Whether a bucket of a keyed table has as many sorted runs as stop writers."""
    if not table.schema.has_primary_key:
        return False
    most = table.options.num_sorted_run_stop_trigger
    stats = table.at().partitions()
    return any(bucket.sorted_run_count >= most for each in stats for bucket in each.buckets)
