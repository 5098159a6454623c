"""The writes of a stream into a managed table: each batch is one commit, and each once.

Tasks stage the rows, with the partitions of their times. The commit has the stream as its user, the
batch as its identifier, and says in its snapshot how far the source is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakewright.connectors.runtime import NextBatch, Offset, Sink
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.storage.errors import InvalidRequestError, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.stream_positions import checkpoint_name, stream_with
from lakewright.storage.operations.references.sweep import abort_staged
from lakewright.storage.operations.streams import batches
from lakewright.storage.operations.streams.batches import Watch, mark_what_is_done
from lakewright.storage.operations.streams.partition_times import with_partition_times
from lakewright.storage.operations.write.write import (
    StagingJob,
    StagingWriter,
    prepare_write,
    staged_write,
)
from lakewright.storage.spec.commit import CommitMessage, StagedWrite, WriteMode
from lakewright.storage.spec.partition_clock import PartitionClock
from lakewright.storage.spec.stream import StreamBatch, StreamRecord, StreamStart, span_digest
from lakewright.storage.table import Table

# A source that moves without rows is not a commit for each of its moves.
_QUIET_MS = 60_000
# How long a writer waits for a compaction, before it looks again.
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Staged:
    """What one task staged, and the latest time of its rows."""

    messages: Sequence[CommitMessage]
    time_ms: int | None


@dataclass
class TableStream(Sink):
    """The sink of a stream; `fixed` partition keys have one value, a `clock` makes others.

    An engine that keeps its own position gives the stream a name. If the table keeps it, `stand`
    finds the name by the checkpoint.
    """

    table: Table
    stream: str = ""
    checkpoint: str = ""
    fixed: Mapping[str, object] = field(default_factory=dict)
    clock: PartitionClock | None = None
    watch: Watch = field(default_factory=Watch)
    # Where the table holds the source read to, and since when.
    _kept: str | None = None
    _kept_ms: int = 0
    # When the batch that is staged began, and what its rows are staged for.
    _now_ms: int = 0
    _job: StagingJob | None = None

    def of_stream(self, name: str, checkpoint: str) -> TableStream:
        place = checkpoint_name(self.table.table_files, checkpoint)
        return replace(self, stream=name, checkpoint=place)

    def position(self) -> Offset | None:
        """Where the rows of the stream end in the source, or where it began; None if it is new."""
        record, start = stream_with(self._files(), self.checkpoint)
        kept = record.position if record is not None else start.beginning if start else None
        return None if kept is None else _offset(kept)

    def stand(self, source: str, beginning: Callable[[], Offset]) -> NextBatch:
        files = self._files()
        record, start = stream_with(files, self.checkpoint)
        if start is None:
            start = self._begun(files, source, record, beginning)
        elif start.source != source:
            raise InvalidRequestError(
                f"the stream of {self.checkpoint} into {files.name} reads {start.source}, and not "
                f"{source}; give each stream a checkpoint of its own, or delete "
                f"{files.paths.stream(start.stream)} if the source was renamed or moved, and the "
                "stream goes on"
            )
        self.stream = start.stream
        held = -1 if record is None else record.batch
        if start.reported > held:
            # The table was rolled back, and batches of these numbers come again.
            start = replace(start, reported=held)
            files.streams.put(start)
        if record is None:
            if start.beginning is None:
                raise InvalidRequestError(
                    f"{files.name} was rolled back behind the first batch of the stream "
                    f"{start.stream}, and it is unknown where that began; let the table forget it "
                    f"(lakewright stream forget {files.name} {start.stream}), and begin anew"
                )
            self._kept = start.beginning
            return NextBatch(0, _offset(self._kept))
        assert record.position is not None
        self._kept, self._kept_ms = record.position, record.time_ms
        mark_what_is_done(files, record)
        if record.batch > start.reported:
            # The process ended between the commit and the report.
            self._report(files, record.batch)
        return NextBatch(record.batch + 1, _offset(record.position))

    def _begun(
        self,
        files: TableFiles,
        source: str,
        record: StreamRecord | None,
        beginning: Callable[[], Offset],
    ) -> StreamStart:
        start = StreamStart(
            stream=f"lakewright-stream-{files.env.new_id()}" if record is None else record.stream,
            checkpoint=self.checkpoint,
            base_id=files.snapshots.latest_id() or 0,
            source=source,
            beginning=_text(beginning()) if record is None else None,
            reported=-1 if record is None else record.batch,
        )
        files.streams.put(start)
        return start

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
        assert epoch is not None
        batch = StreamBatch(stream=self.stream, checkpoint=self.checkpoint, number=epoch)
        self._commit(written, batch)

    def commit_batch(self, written: Sequence[_Staged], number: int, span: str) -> None:
        batch = StreamBatch(stream=self.stream, checkpoint=self.checkpoint, number=number)
        self._commit(written, replace(batch, span=span_digest(span)))

    def commit_until(
        self, written: Sequence[_Staged], batch: NextBatch, end: Offset, *, at_once: bool = False
    ) -> bool:
        """Rows and position are one commit; a position without rows is one each minute."""
        now_ms = self.table.table_files.env.now_ms()
        has_rows = any(each.messages for each in written)
        if not has_rows and not at_once and now_ms - self._kept_ms < _QUIET_MS:
            self._job = None
            return False
        self._commit(
            written,
            StreamBatch(
                stream=self.stream,
                checkpoint=self.checkpoint,
                number=batch.number,
                start=self._kept,
                position=_text(end),
            ),
        )
        self._kept, self._kept_ms = _text(end), now_ms
        return True

    def _commit(self, written: Sequence[_Staged], batch: StreamBatch) -> None:
        staged = replace(
            self._taken(written), commit_user=self.stream, commit_identifier=batch.number
        )
        files = self._files()
        try:
            is_committed = batches.is_committed(files, batch)
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
        self._report(files, batch.number)

    def _report(self, files: TableFiles, number: int) -> None:
        """Notify the observer of the stream of a batch, and record that."""
        if self.watch.tell is None:
            return
        committed = batches.committed_batch(files, self.stream, number)
        if committed is not None:
            self.watch.tell(committed)
        start = files.streams.read(self.stream)
        if start is not None:
            files.streams.put(replace(start, reported=number))

    def abort(self, written: Sequence[_Staged]) -> None:
        if self._job is not None:
            self.table.abort(self._taken(written))

    def wait_seconds(self) -> float:
        return seconds_to_wait(self.table)

    def _taken(self, written: Sequence[_Staged]) -> StagedWrite:
        job, self._job = self._prepared, None
        return staged_write(job, [message for some in written for message in some.messages])

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


def _text(offset: Offset) -> str:
    return json.dumps(dict(offset), sort_keys=True)


def _offset(text: str) -> Offset:
    found: Offset = json.loads(text)
    return found


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
