"""Commits the batches of a stream, each once, as the engine's checkpoint counts them.

1. The engine gives a batch a number, and repeats the last batch with the same number and rows if it
   does not know that it ended. A commit has the stream as its user and the number as its
   identifier, so that a repeated batch is found by its snapshot.
2. Snapshots expire. So a record beside the table says which batch of the stream came last. Before
   a commit it names the batch and the snapshot that the commit follows, after it that the batch is
   committed. Two drivers may run the same query for a while: the record of a later batch stays.
3. Of a batch that was about to be committed, the snapshot is looked for. If it may have expired,
   live files of the batch prove the commit; without such proof nothing is written.
4. A number below the last one is refused: the checkpoint is older than the table. So is a new
   stream with the checkpoint of another, since its source begins again; and a stream amid its
   batches of which the table knows none, since it is another table of that name.
5. After the commit, partitions that are over by the stream's watermark are marked as done.
6. An engine may let the table keep the position of its source: it stands in the properties of the
   batch's snapshot, and in the record. A rollback takes batches away, and the snapshot that is left
   says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit import commit_write
from lakewright.storage.operations.commit.commit_loop import find_committed
from lakewright.storage.operations.partitions.mark_done import plan_mark_done, run_mark_done
from lakewright.storage.operations.references.sweep import abort_staged
from lakewright.storage.operations.references.tags import tag_what_is_due
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.commit import CommitResult, PartitionWrite, StagedWrite
from lakewright.storage.spec.manifest import FileKind
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.partition_clock import PartitionClock
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID
from lakewright.storage.spec.stream import CommittedBatch, SetBack, StreamBatch, StreamRecord

# The property of a batch's snapshot that has the position of the source.
POSITION_PROPERTY = "lakewright.stream.position"


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


def is_committed(files: TableFiles, batch: StreamBatch, clock: PartitionClock | None) -> bool:
    """Whether the table holds a batch; what its first try left to do after the commit is done.

    Raises:
        InvalidRequestError: the checkpoint is older than the table, or was deleted and made anew;
            or the table was dropped and created again.
        CommitOutcomeUnknownError: the batch was about to be committed, and its snapshot may have
            expired.
    """
    record = files.streams.read(batch.stream)
    if record is None:
        _check_not_begun_anew(files, batch)
        _check_same_table(files, batch)
        return find_committed(files, batch.stream, batch.number) is not None
    _check_not_behind(files, batch, record)
    if batch.number > record.batch:
        return False
    if not record.committed:
        if not _was_committed(files, batch, record):
            return False
        _settle(files, record, clock)
    if None not in (batch.position, record.position) and batch.position != record.position:
        raise InvalidRequestError(
            f"{files.name} holds batch {batch.number} of stream {batch.stream} up to "
            f"{record.position}, and its checkpoint {batch.checkpoint} has it read to "
            f"{batch.position}; delete the checkpoint, and the stream goes on where the rows of "
            "the table end"
        )
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
    without rows leaves no snapshot, and a record if it is the first of its stream.

    Raises:
        InvalidRequestError: the time lies outside of the calendar, or the table was rolled back
            behind batches that the stream takes for committed.
        CommitConflictError: the table changed and conflicts; stage the rows again.
        CommitOutcomeUnknownError: the store failed; a repeated batch finds out what happened.
    """
    before = files.streams.read(batch.stream)
    if not staged.messages and staged.overwrite is None:
        if before is None:
            files.streams.put(_record(files, batch, committed=True))
        return CommitResult(snapshot=None, attempts=0)
    if clock is not None and time_ms is not None and not clock.tells(time_ms):
        with suppress(StorageError):
            abort_staged(files, staged)
        raise InvalidRequestError(
            f"batch {batch.number} for {files.name} has rows of the time {time_ms} (milliseconds "
            f"since 1970) in column {clock.column}, which is not in the years 1 to 9999; the "
            "partitions before it would all count as over; correct these rows or filter them out, "
            "and start the stream again"
        )
    if before is not None and (before.batch, before.committed) >= (batch.number, True):
        # Another driver of the same query went on while this one staged.
        with suppress(StorageError):
            abort_staged(files, staged)
        _check_not_behind(files, batch, before)
        return CommitResult(snapshot=None, attempts=0, already_committed=True)
    _check_not_set_back(files, batch, staged)
    record = replace(
        _record(files, batch, committed=False),
        base_id=staged.base_snapshot_id,
        write_id=staged.write_id,
        watermark=_watermark(before, clock, time_ms),
        waiting=_waiting(files, before, staged) if clock is not None else (),
    )
    files.streams.put(record)
    try:
        is_event_time = clock is not None and clock.column is not None
        watermark = record.watermark if is_event_time else None
        position = batch.position
        properties = None if position is None else {POSITION_PROPERTY: position}
        result = commit_write(files, replace(staged, watermark=watermark), properties=properties)
    except CommitOutcomeUnknownError:
        raise
    except StorageError:
        # The first error matters more. Without these steps the next try has more to look for.
        with suppress(StorageError):
            abort_staged(files, staged)
            _restore(files, record, before)
        raise
    if result.already_committed or result.snapshot is None:
        with suppress(StorageError):
            abort_staged(files, staged)
    tag_what_is_due(files)
    _settle(files, record, clock)
    return result


def _record(files: TableFiles, batch: StreamBatch, *, committed: bool) -> StreamRecord:
    return StreamRecord(
        stream=batch.stream,
        checkpoint=batch.checkpoint,
        batch=batch.number,
        committed=committed,
        time_ms=files.env.now_ms(),
        position=batch.position,
    )


def set_back(files: TableFiles, stream: str) -> SetBack | None:
    """Where the rows of a stream end in a table that was rolled back behind its last batch.

    None if it was not, or if that cannot be known since snapshots expired.

    Raises:
        InvalidRequestError: the snapshots of the batches before have expired.
    """
    record = files.streams.read(stream)
    if record is not None and find_committed(files, stream, record.batch) is not None:
        return None
    if record is not None and not record.committed:
        # Its process ended before the commit: the batch before it is to be there.
        record = files.streams.read(stream, committed=True)
    # A batch without rows leaves no snapshot.
    if record is None or record.write_id is None:
        return None
    if find_committed(files, stream, record.batch) is not None:
        return None
    earliest = files.snapshots.earliest_id()
    if earliest is not None and earliest > (record.base_id or 0) + 1:
        return None
    last = next(
        (each for each in files.snapshots.newest_first() if each.commit_user == stream), None
    )
    if last is not None:
        position = (last.properties or {}).get(POSITION_PROPERTY)
        return SetBack(number=last.commit_identifier, position=position, lost=record.batch)
    if earliest not in (None, FIRST_SNAPSHOT_ID):
        raise InvalidRequestError(
            f"{files.name} was rolled back behind batch {record.batch} of stream {stream}, and the "
            "snapshots of the batches before it have expired, so it is unknown where its rows end; "
            f"forget the stream (lakewright stream forget {files.name} {stream}), and begin a new "
            "checkpoint where the rows of the table end"
        )
    return SetBack(number=-1, position=None, lost=record.batch)


def put_back(files: TableFiles, stream: str, to: SetBack) -> None:
    """Record that a table holds a stream up to an earlier batch again."""
    record = _known(files, stream)
    if (last := find_committed(files, stream, to.number)) is not None:
        # What was marked as done since waits again when its rows come again.
        before = replace(
            record,
            batch=to.number,
            committed=True,
            base_id=last.id - 1,
            watermark=last.watermark,
            position=to.position,
        )
        files.streams.put(before)
    delete_files(files.fs, files.streams.files_behind(stream, to.number))


def committed_batch(
    files: TableFiles, batch: StreamBatch, before: StreamRecord | None
) -> CommittedBatch | None:
    """What a batch wrote that the table holds; None if it had no rows, or its snapshot expired.

    `before` is the stream's record when the batch began.
    """
    snapshot, after = (
        find_committed(files, batch.stream, batch.number),
        files.streams.read(batch.stream),
    )
    if snapshot is None or after is None:
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
    touched = {*(() if before is None else before.waiting), *(each.text for each in totals)}
    over = sorted(touched - {*after.waiting}) if after.watermark is not None else ()
    done = [each for text in over if (each := _partition(files, text)) is not None]
    return CommittedBatch(
        stream=batch.stream,
        number=batch.number,
        snapshot=snapshot,
        partitions=tuple(totals.values()),
        watermark=after.watermark,
        done=tuple(each.spec for each in done),
    )


def list_streams(files: TableFiles) -> tuple[StreamRecord, ...]:
    """The streams that wrote into the table, the last writer first."""
    return files.streams.all()


def settle_stream(files: TableFiles, stream: str) -> StreamRecord:
    """Record that the table holds a stream's last batch, which a person has found there.

    Raises:
        NotFoundError: no stream of that id has written into the table.
    """
    record = replace(_known(files, stream), committed=True)
    files.streams.put(record)
    return record


def forget_stream(files: TableFiles, stream: str) -> StreamRecord:
    """Delete the record of a stream that does not run any more; its rows stay.

    Of a batch that was about to be committed, it is recorded that the table does not hold it.

    Raises:
        NotFoundError: no stream of that id has written into the table.
    """
    record = _known(files, stream)
    if not record.committed and record.batch:
        before = files.streams.read(stream, committed=True) or replace(record, position=None)
        files.streams.put(replace(before, batch=record.batch - 1, committed=True))
        delete_files(files.fs, [files.paths.stream(stream, record.batch)])
        return record
    delete_files(files.fs, files.streams.files_before(stream, record.batch + 1))
    return record


def _known(files: TableFiles, stream: str) -> StreamRecord:
    record = files.streams.read(text_argument(stream, "stream"))
    if record is None:
        there = ", ".join(each.stream for each in list_streams(files)) or "none"
        raise NotFoundError(f"no stream {stream} has written into {files.name}; there are {there}")
    return record


def _check_not_behind(files: TableFiles, batch: StreamBatch, record: StreamRecord) -> None:
    if batch.number < record.batch:
        raise InvalidRequestError(
            f"{files.name} holds batch {record.batch} of stream {batch.stream}, and its checkpoint "
            f"{batch.checkpoint} is back at batch {batch.number}; bring back the newer checkpoint, "
            "or begin a new one where the rows of the table end"
        )


def _check_not_set_back(files: TableFiles, batch: StreamBatch, staged: StagedWrite) -> None:
    """Check that the table has the batches before, or the rows behind them would hide the gap."""
    try:
        to = set_back(files, batch.stream)
        if to is not None:
            forget = f"lakewright stream forget {files.name} {batch.stream}"
            raise InvalidRequestError(
                f"{files.name} was rolled back behind batch {to.lost} of stream {batch.stream}, so "
                f"batch {batch.number} was not committed; "
                + (
                    "start the stream again, and it goes on where the rows of the table end"
                    if batch.position is not None
                    else f"its checkpoint {batch.checkpoint} is ahead of the rows: {forget}, and "
                    "let a new checkpoint begin where the rows of the table end, or go on without "
                    "those that were taken away"
                )
            )
    except BaseException:
        with suppress(StorageError):
            abort_staged(files, staged)
        raise


def _check_not_begun_anew(files: TableFiles, batch: StreamBatch) -> None:
    for other in files.streams.all():
        if other.checkpoint == batch.checkpoint:
            raise InvalidRequestError(
                f"{files.name} holds the batches of stream {other.stream} up to batch "
                f"{other.batch}, and their checkpoint {batch.checkpoint} was deleted: it is now "
                f"that of a new stream, {batch.stream}, whose source begins again, so its rows "
                "would be in the table twice; bring the checkpoint back, or let the source begin "
                "where the rows of the table end; then, or if rows may come again, forget the "
                f"earlier stream: lakewright stream forget {files.name} {other.stream}"
            )


def _check_same_table(files: TableFiles, batch: StreamBatch) -> None:
    """Check that a stream amid its batches wrote the earlier ones into this table."""
    latest = files.snapshots.latest()
    history = () if latest is None else files.snapshots.back_from(latest)
    if batch.number and not any(each.commit_user == batch.stream for each in history):
        raise InvalidRequestError(
            f"{files.name} knows no batch of stream {batch.stream}, whose checkpoint "
            f"{batch.checkpoint} is at batch {batch.number}: the table was dropped and created "
            "anew, or the stream was forgotten, so rows of the earlier batches may not be in it; "
            "begin a new checkpoint, and let the source begin where the rows of the table end"
        )


def _was_committed(files: TableFiles, batch: StreamBatch, record: StreamRecord) -> bool:
    if find_committed(files, batch.stream, batch.number) is not None:
        return True
    # Snapshots may have expired during the search, so this is asked after it.
    earliest = files.snapshots.earliest_id()
    if earliest is None or earliest <= (record.base_id or 0) + 1:
        return False
    _, live = read_latest(files, lambda latest: live_entries(files, latest))
    if record.write_id and any(record.write_id in each.file.file_name for each in live):
        return True
    raise CommitOutcomeUnknownError(
        f"batch {batch.number} of stream {batch.stream} was about to be committed to {files.name} "
        f"after snapshot {record.base_id or 0}, and the snapshots before {earliest} have expired, "
        "so it is unknown whether the table holds it; look for its rows; if they are there: "
        f"lakewright stream settle {files.name} {batch.stream}, and if not: lakewright stream "
        f"forget {files.name} {batch.stream}"
    )


def _settle(files: TableFiles, record: StreamRecord, clock: PartitionClock | None) -> None:
    """Mark the partitions that are over, and record that the batch is committed."""
    over: list[Partition] = []
    watermark = record.watermark
    if clock is not None and watermark is not None and clock.tells(watermark):
        moment = clock.local(watermark)
        known = [each for text in record.waiting if (each := _partition(files, text)) is not None]
        over = [each for each in known if clock.is_over(each, moment)]
        if over:
            _mark_done(files, over)
    gone = {each.text for each in over}
    waiting = tuple(text for text in record.waiting if text not in gone)
    files.streams.put(replace(record, committed=True, waiting=waiting))
    # What is left of earlier batches means nothing.
    with suppress(StorageError):
        delete_files(files.fs, files.streams.files_before(record.stream, record.batch))


def _mark_done(files: TableFiles, over: list[Partition]) -> None:
    """Mark partitions as done; those that were dropped meanwhile are left out."""
    for partition in over:
        with suppress(NotFoundError):
            run_mark_done(files, plan_mark_done(files, partitions=[partition.spec]))


def _partition(files: TableFiles, text: str) -> Partition | None:
    """A waiting partition; None if the table's partition keys changed since."""
    try:
        return files.partitions.of_values(files.partitions.keys.values_of(text))
    except InvalidRequestError:
        return None


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


def _waiting(
    files: TableFiles, before: StreamRecord | None, staged: StagedWrite
) -> tuple[str, ...]:
    rows = {message.partition for message in staged.messages}
    written = (files.partitions.of_row(row).text for row in rows)
    earlier = () if before is None else before.waiting
    return tuple(dict.fromkeys((*earlier, *sorted(written))))


def _restore(files: TableFiles, tried: StreamRecord, before: StreamRecord | None) -> None:
    if files.streams.read(tried.stream) != tried:
        # Another driver of the same query went on.
        return
    if before is not None and before.batch == tried.batch:
        files.streams.put(before)
    else:
        delete_files(files.fs, [files.paths.stream(tried.stream, tried.batch)])
