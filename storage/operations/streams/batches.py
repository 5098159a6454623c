"""Commits the batches of a stream, each once.

1. A commit has the stream as its user and the number of the batch as its identifier, and its
   snapshot says where the stream stands with it (`commit/stream_positions.py`). So a batch that an
   engine repeats after a crash is known by the latest snapshot.
2. A batch follows the one before it. A number below the last one is refused, and the last one if
   it reads something else: the checkpoint is older than the table, or another process runs the
   stream. One that leaves batches out is
   refused, too: the table was rolled back. So is a new stream with the checkpoint of another,
   since its source begins again, and a stream that the table does not know during its batches.
3. An engine may let the table keep the position of its source. Then a batch also has to begin
   where the rows of the table end. This is checked on the very snapshot that it is committed on.
4. After the commit, partitions that are over by the stream's watermark are marked as done.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.storage.codec.stream_json import encode_streams
from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
    StreamRunsElsewhere,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit import commit_write
from lakewright.storage.operations.commit.commit_loop import find_committed
from lakewright.storage.operations.commit.stream_positions import start_of, streams_at, streams_of
from lakewright.storage.operations.partitions.mark_done import (
    done_since_ms,
    plan_mark_done,
    run_mark_done,
)
from lakewright.storage.operations.references.sweep import abort_staged
from lakewright.storage.operations.references.tags import tag_what_is_due
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import CommitResult, PartitionWrite, StagedWrite
from lakewright.storage.spec.manifest import FileKind
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.partition_clock import PartitionClock
from lakewright.storage.spec.stream import CommittedBatch, StreamBatch, StreamRecord, StreamStart


def _nothing(_: StagedWrite) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who is asked before a batch is committed, and told of it afterwards.

    What `check_rows` raises ends the stream, and the staged files are deleted. A batch that an
    engine repeats is told again.
    """

    check_rows: Callable[[StagedWrite], None] = _nothing
    tell: Callable[[CommittedBatch], None] | None = None


def is_committed(files: TableFiles, batch: StreamBatch) -> bool:
    """Whether the table holds a batch; what its first try left to do after the commit is done.

    Raises:
        InvalidRequestError: the batch does not follow what the table holds of its stream.
    """
    record = streams_of(files).get(batch.stream)
    if not _holds(files, batch, record):
        return False
    assert record is not None
    mark_what_is_done(files, record)
    return True


def commit_batch(
    files: TableFiles,
    batch: StreamBatch,
    staged: StagedWrite,
    *,
    clock: PartitionClock | None = None,
    time_ms: int | None = None,
) -> CommitResult:
    """Commit a batch that `is_committed` does not know; on failure its files are deleted.

    `time_ms` is the latest event time of its rows, or the time of the batch itself. A batch
    without rows leaves a snapshot, too: it says where the stream stands.

    Raises:
        InvalidRequestError: the time lies outside of the calendar, or the table was rolled back
            behind batches that the stream takes for committed.
        CommitConflictError: the table changed and conflicts; stage the rows again.
        CommitOutcomeUnknownError: the store failed; a repeated batch finds out what happened.
    """
    try:
        _check_time(files, batch, clock, time_ms)
        if files.streams.read(batch.stream) is None:
            base_id = staged.base_snapshot_id or 0
            start = StreamStart(stream=batch.stream, checkpoint=batch.checkpoint, base_id=base_id)
            files.streams.put(start)

        def streams(state: TableState) -> str | None:
            known = streams_at(state.files, state.snapshot)
            before = known.get(batch.stream)
            if _holds(files, batch, before):
                return None
            record = _record(files, batch, staged, before, clock, time_ms)
            return encode_streams({**known, batch.stream: record})

        is_event_time = clock is not None and clock.column is not None
        # A commit keeps the later one of this watermark and that of the snapshot before.
        watermark = _watermark(None, clock, time_ms) if is_event_time else None
        result = commit_write(files, replace(staged, watermark=watermark), streams=streams)
    except CommitOutcomeUnknownError:
        raise
    except StorageError:
        # The first error matters more.
        with suppress(StorageError):
            abort_staged(files, staged)
        raise
    if result.already_committed or result.snapshot is None:
        # Another driver of the same stream committed it while this one staged.
        with suppress(StorageError):
            abort_staged(files, staged)
        result = replace(result, already_committed=True)
    if (record := streams_at(files, result.snapshot).get(batch.stream)) is not None:
        _check_same(files, batch, record)
        mark_what_is_done(files, record)
    tag_what_is_due(files)
    return result


def mark_what_is_done(files: TableFiles, record: StreamRecord) -> None:
    """Mark the partitions that are over with a batch, and are not marked already."""
    for text in record.done:
        partition = _partition(files, text)
        if partition is not None and done_since_ms(files, partition) is None:
            # It may have been dropped meanwhile.
            with suppress(NotFoundError):
                run_mark_done(files, plan_mark_done(files, partitions=[partition.spec]))


def committed_batch(files: TableFiles, stream: str, number: int) -> CommittedBatch | None:
    """What a batch wrote that the table holds; None if it had no rows, or its snapshot expired."""
    snapshot = find_committed(files, stream, number)
    if snapshot is None:
        return None
    totals: dict[Partition, PartitionWrite] = {}
    for entry in files.manifests.entries(files.manifests.read_delta_list(snapshot)):
        if entry.kind is FileKind.ADD:
            partition = files.partitions.of_entry(entry)
            known = totals.get(partition)
            totals[partition] = PartitionWrite(
                spec=partition.spec,
                row_count=entry.file.row_count + (known.row_count if known else 0),
                file_count=1 + (known.file_count if known else 0),
                size_bytes=entry.file.file_size + (known.size_bytes if known else 0),
            )
    record = streams_at(files, snapshot).get(stream)
    if record is None or not totals:
        return None
    done = [each for text in record.done if (each := _partition(files, text)) is not None]
    return CommittedBatch(
        stream=stream,
        number=number,
        snapshot=snapshot,
        partitions=tuple(totals.values()),
        watermark=record.watermark,
        done=tuple(each.spec for each in done),
    )


# --- what a batch has to follow -------------------------------------------------------------------


def _holds(files: TableFiles, batch: StreamBatch, record: StreamRecord | None) -> bool:
    """Whether a batch is the last one that a table holds of its stream; else it comes next.

    Raises:
        InvalidRequestError: it is neither.
        StreamRunsElsewhere: another process has committed that batch.
    """
    if record is None:
        _check_not_begun_anew(files, batch)
        if batch.number and _was_forgotten(files, batch):
            return False
        start = start_of(files, batch.stream)
        if start is None and batch.number:
            raise InvalidRequestError(
                f"{files.name} knows no batch of stream {batch.stream}, whose checkpoint "
                f"{batch.checkpoint} is at batch {batch.number}: the table was dropped and created "
                "anew, so rows of the earlier batches may not be in it; begin a new checkpoint, "
                "and let the source begin where the rows of the table end"
            )
        follows = batch.number == 0 and (start is None or batch.start in (None, start.beginning))
    elif batch.number <= record.batch:
        _check_same(files, batch, record)
        return True
    else:
        follows = batch.number == record.batch + 1 and batch.start in (None, record.position)
    if not follows:
        forget = f"lakewright stream forget {files.name} {batch.stream}"
        raise InvalidRequestError(
            f"{files.name} was rolled back behind batch {batch.number - 1} of stream "
            f"{batch.stream}, so batch {batch.number} was not committed; "
            + (
                "start the stream again, and it goes on where the rows of the table end"
                if batch.start is not None
                else f"its checkpoint {batch.checkpoint} is ahead of the rows: {forget}, and let a "
                "new checkpoint begin where the rows of the table end, or continue without those "
                "that were removed"
            )
        )
    return False


def _was_forgotten(files: TableFiles, batch: StreamBatch) -> bool:
    """Whether a stream that the table does not know wrote into it: a person lets it go on."""
    latest = files.snapshots.latest()
    history = () if latest is None else files.snapshots.back_from(latest)
    return any(each.commit_user == batch.stream for each in history)


def _check_same(files: TableFiles, batch: StreamBatch, record: StreamRecord) -> None:
    """Check that a batch which a table holds is the last one of its stream, read as far."""
    is_other = None not in (batch.span, record.span) and batch.span != record.span
    if batch.position is None and (batch.number < record.batch or is_other):
        raise InvalidRequestError(
            f"{files.name} holds batch {record.batch} of stream {batch.stream}, and its checkpoint "
            f"{batch.checkpoint} is back at batch {batch.number}; bring back the newer checkpoint, "
            "or begin a new one where the rows of the table end"
        )
    if batch.position != record.position:
        raise StreamRunsElsewhere(
            f"another process runs the stream {batch.stream} of {batch.checkpoint}: it has "
            f"committed batch {record.batch} to {files.name} up to {record.position}, so this one "
            f"did not commit batch {batch.number} up to {batch.position}; stop one of them, or "
            "give it a checkpoint of its own"
        )


def _check_not_begun_anew(files: TableFiles, batch: StreamBatch) -> None:
    for other in streams_of(files).values():
        if other.checkpoint == batch.checkpoint and other.stream != batch.stream:
            if None not in (batch.position, other.position):
                raise StreamRunsElsewhere(
                    f"another process began the stream of {batch.checkpoint} into {files.name}, "
                    f"and has committed batch {other.batch}; stop one of them"
                )
            raise InvalidRequestError(
                f"{files.name} holds the batches of stream {other.stream} up to batch "
                f"{other.batch}, and their checkpoint {batch.checkpoint} was deleted: it is now "
                f"that of a new stream, {batch.stream}, whose source begins again, so its rows "
                "would be in the table twice; bring the checkpoint back, or let the source begin "
                "where the rows of the table end; then, or if rows may come again, forget the "
                f"earlier stream: lakewright stream forget {files.name} {other.stream}"
            )


def _check_time(
    files: TableFiles, batch: StreamBatch, clock: PartitionClock | None, time_ms: int | None
) -> None:
    if clock is not None and time_ms is not None and not clock.tells(time_ms):
        raise InvalidRequestError(
            f"batch {batch.number} for {files.name} has rows of the time {time_ms} (milliseconds "
            f"since 1970) in column {clock.column}, which is not in the years 1 to 9999; the "
            "partitions before it would all count as over; correct these rows or filter them out, "
            "and start the stream again"
        )


# --- what a snapshot says of a batch --------------------------------------------------------------


def _record(
    files: TableFiles,
    batch: StreamBatch,
    staged: StagedWrite,
    before: StreamRecord | None,
    clock: PartitionClock | None,
    time_ms: int | None,
) -> StreamRecord:
    watermark = _watermark(before, clock, time_ms)
    waiting: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    if clock is not None:
        rows = {message.partition for message in staged.messages}
        written = sorted(files.partitions.of_row(row).text for row in rows)
        waiting = tuple(dict.fromkeys((*(() if before is None else before.waiting), *written)))
        over = _over(files, waiting, watermark, clock)
    return StreamRecord(
        stream=batch.stream,
        checkpoint=batch.checkpoint,
        batch=batch.number,
        time_ms=files.env.now_ms(),
        position=batch.position,
        span=batch.span,
        watermark=watermark,
        waiting=tuple(text for text in waiting if text not in over),
        done=over,
    )


def _over(
    files: TableFiles, waiting: tuple[str, ...], watermark: int | None, clock: PartitionClock
) -> tuple[str, ...]:
    if watermark is None or not clock.tells(watermark):
        return ()
    moment = clock.local(watermark)
    known = [each for text in waiting if (each := _partition(files, text)) is not None]
    return tuple(each.text for each in known if clock.is_over(each, moment))


def _watermark(
    before: StreamRecord | None, clock: PartitionClock | None, time_ms: int | None
) -> int | None:
    """The time before which rows are not expected any more; it never falls."""
    earlier = None if before is None else before.watermark
    if clock is None or time_ms is None:
        return earlier
    if earlier is not None and not clock.tells(earlier):
        # No time of rows would pass it.
        earlier = None
    now = time_ms - int(clock.delay.total_seconds() * 1000)
    return now if earlier is None else max(now, earlier)


def _partition(files: TableFiles, text: str) -> Partition | None:
    """A waiting partition; None if the table's partition keys changed since."""
    try:
        return files.partitions.of_values(files.partitions.keys.values_of(text))
    except InvalidRequestError:
        return None
