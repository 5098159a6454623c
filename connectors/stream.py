"""Streams in this process: from a planned scan into a planned sink, batch after batch.

A sink that owns the position of its stream commits it with the rows (`OwnsPosition`): after a crash
the stream goes on where the rows of the sink end, and after a rollback, too. Its checkpoint is the
name of the stream, and no file. For other sinks it is a folder:

    <checkpoint>/stream         the name of the stream, made at its first start
    <checkpoint>/tables         what it reads and writes, which stays the same
    <checkpoint>/beginning      where it began: a source may begin elsewhere later
    <checkpoint>/offsets/<n>    from where to where batch n reads, written before it is read
    <checkpoint>/commits/<n>    batch n is committed

A batch that was stopped is read again between the same offsets and committed with the same number:
sinks that commit each number once have each row once, if the source gives the same rows again. Of
these, files and topics keep the last number and what it read (`ComparesBatches`), so a folder that
was deleted, or put back from an older copy, is refused. Work that one process cannot do runs on
Spark, by the same scans and sinks (`on_spark.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from lakewright.connectors.planning.plan_sink import PlannedSink
from lakewright.connectors.planning.plan_source import PlannedScan
from lakewright.connectors.runtime import (
    ComparesBatches,
    NextBatch,
    Offset,
    OwnsPosition,
    Sink,
    SupportsBacklog,
    SupportsEndOffset,
    Written,
)
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import (
    CommitConflictError,
    CorruptionError,
    InvalidRequestError,
    StreamRunsElsewhere,
)
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.files.stream_store import place_of
from lakewright.storage.operations.running.delete_files import delete_files

# How often a batch is staged, if the table changes in ways that conflict.
_TRIES = 3
# How long to wait where no rows are there.
_PAUSE_MS = 200
_MOST_ROWS = 100_000
# Offsets of batches that are kept behind the last one.
_KEPT = 100


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is done: its number, its rows, and how far it read."""

    number: int
    rows: int
    end: Offset


@dataclass
class Checkpoint:
    """Where a stream stands whose sink does not say it, in a folder."""

    fs: FileSystem
    path: str
    env: Env

    def __post_init__(self) -> None:
        place = f"{self.path}/stream"
        self.fs.put_if_absent(place, f"lakewright-stream-{self.env.new_id()}".encode())
        self.name = self.fs.read_bytes(place).decode()

    @classmethod
    def open(cls, place: str, env: Env) -> Checkpoint:
        """The checkpoint at a path or URI, made if it is not there."""
        fs, path = open_file_system(place, env)
        return cls(fs, path.rstrip("/"), env)

    def next(self, earliest: Callable[[], Offset]) -> NextBatch:
        """The next batch, or the last one again if it was stopped."""
        numbers = self._numbers("offsets")
        if not numbers:
            return NextBatch(0, self._begun_at(earliest))
        number = numbers[-1]
        start, end = self._read(number)
        is_committed = number in self._numbers("commits")
        return NextBatch(number + 1, end) if is_committed else NextBatch(number, start, end)

    def check_tables(self, source: str, sink: str) -> None:
        """Keep what the stream reads and writes, or compare it with what is kept.

        Raises:
            InvalidRequestError: the checkpoint is of another stream.
        """
        kept, now = f"{self.path}/tables", {"source": source, "sink": sink}
        if self.fs.put_if_absent(kept, json.dumps(now).encode()):
            return
        before = json.loads(self.fs.read_bytes(kept))
        if before != now:
            raise InvalidRequestError(
                f"the checkpoint {self.path} is of the stream from {before['source']} into "
                f"{before['sink']}, and not from {source} into {sink}; give each stream a "
                f"checkpoint of its own, or delete {kept} if the table was renamed or the source "
                "moved, and the stream goes on"
            )

    def begin(self, number: int, start: Offset, end: Offset) -> None:
        """Note what a batch reads, before it does.

        Raises:
            StreamRunsElsewhere: another process runs the stream.
        """
        if not self.fs.put_if_absent(f"{self.path}/offsets/{number}", _note(start, end).encode()):
            raise StreamRunsElsewhere(
                f"another process runs the stream of {self.path}: it has begun batch {number}; "
                "stop one of them, or give it a checkpoint of its own"
            )

    def _begun_at(self, earliest: Callable[[], Offset]) -> Offset:
        """Where the stream began, which is now if it is new."""
        note = f"{self.path}/beginning"
        if not self.fs.exists(note):
            self.fs.put_if_absent(note, json.dumps(dict(earliest())).encode())
        try:
            found: Offset = json.loads(self.fs.read_bytes(note))
        except ValueError as error:
            raise CorruptionError(
                f"{note}, which says where a stream began, cannot be read: {error}; delete it, and "
                "where its source begins now takes its place",
                path=note,
            ) from error
        return found

    def commit(self, number: int) -> None:
        """Note that a batch is committed; notes of old ones go."""
        self.fs.put_if_absent(f"{self.path}/commits/{number}", b"{}")
        for folder in ("commits", "offsets"):
            for old in self._numbers(folder):
                if old <= number - _KEPT:
                    delete_files(self.fs, [f"{self.path}/{folder}/{old}"])

    def _read(self, number: int) -> tuple[Offset, Offset]:
        """From where to where a batch reads."""
        note = f"{self.path}/offsets/{number}"
        try:
            found = json.loads(self.fs.read_bytes(note))
            return found["start"], found["end"]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(
                f"the note of batch {number} at {note} cannot be read: {error}; restore it, or "
                "begin a new checkpoint where the rows of the sink end",
                path=note,
            ) from error

    def _numbers(self, folder: str) -> list[int]:
        names = (each.name for each in self.fs.list_dir(f"{self.path}/{folder}"))
        return sorted(int(name) for name in names if name.isdigit())


def _note(start: Offset, end: Offset) -> str:
    return json.dumps({"start": dict(start), "end": dict(end)})


def commit_numbered(sink: Sink, written: Sequence[Written], number: int, span: str) -> None:
    """Commit a batch by its number; a sink that compares batches gets the note of its span, too."""
    if isinstance(sink, ComparesBatches):
        sink.commit_batch(written, number, span)
    else:
        sink.commit(written, number)


Transform = Callable[[pa.Table], pa.Table]


def run_stream(
    scan: PlannedScan,
    sink: PlannedSink,
    env: Env,
    *,
    checkpoint: str | None = None,
    transform: Transform | None = None,
    max_rows: int = _MOST_ROWS,
    available_now: bool = False,
) -> Iterator[Batch]:
    """Carry rows from a source into a sink, and tell each batch when it is committed.

    It ends with the source, or with `available_now` where no further rows are there. `max_rows`
    limits a batch, about. A sink that asks for patience gets it before the next batch.

    Raises:
        InvalidRequestError: the checkpoint is of other tables, or another process uses it.
    """
    source = scan.runtime
    runtime, log, following = _opened(scan, sink, env, checkpoint)
    try:
        if available_now and isinstance(source, SupportsEndOffset):
            # Of a source that grows faster than it is read, there would be no end.
            known = source.backlog(following.start) if isinstance(source, SupportsBacklog) else None
            source.end_at(source.latest(following.start) if known is None else known.end)
        # Whether the sink keeps where the source is read to: without rows it may wait with that.
        is_kept = True
        while True:
            _wait(env, sink.wait_seconds())
            number, start = following.number, following.start
            end = following.end or source.latest(start, max_rows)
            if following.end is None and end == start:
                is_over = available_now or source.is_over(start)
                if is_kept and is_over:
                    return
                if is_kept or not _keep(runtime, following, at_once=is_over):
                    env.sleep_ms(_PAUSE_MS)
                    continue
                row_count, is_kept = 0, True
            else:
                if log is not None and following.end is None:
                    log.begin(number, start, end)
                row_count, is_kept = _carry(
                    _rows_between(scan, start, end, transform), sink, runtime, following, end, log
                )
            if is_kept:
                source.acknowledge(end)
                yield Batch(number, row_count, end)
            following = NextBatch(number + 1 if is_kept else number, end)
    finally:
        with suppress(Exception):
            source.close()
        runtime.close()


def _opened(
    scan: PlannedScan, sink: PlannedSink, env: Env, checkpoint: str | None
) -> tuple[Sink, Checkpoint | None, NextBatch]:
    """What the rows go into, the folder that says where the stream stands, and its next batch."""
    source = scan.runtime
    if checkpoint is None:
        return sink.runtime, None, NextBatch(0, source.earliest())
    fs, path = open_file_system(checkpoint, env)
    path = path.rstrip("/")
    if fs.exists(f"{path}/metadata"):
        raise InvalidRequestError(
            f"the checkpoint {path} is one of Spark; continue with Spark, or begin a new "
            "checkpoint where the rows of the sink end"
        )
    reads = f"{scan.table.name} ({scan.source.summary})"
    runtime = sink.runtime.of_stream("", checkpoint)
    if isinstance(runtime, OwnsPosition):
        return runtime, None, runtime.stand(reads, source.earliest)
    log = Checkpoint(fs, path, env)
    log.check_tables(reads, f"{sink.table.name} ({sink.sink.summary})")
    return sink.runtime.of_stream(log.name, place_of(checkpoint)), log, log.next(source.earliest)


def _keep(runtime: Sink, following: NextBatch, *, at_once: bool) -> bool:
    """Let the sink keep where a source stands whose last batches had no rows; whether it did."""
    assert isinstance(runtime, OwnsPosition)
    return runtime.commit_until([], following, following.start, at_once=at_once)


def _carry(
    rows: Callable[[], Iterator[pa.Table]],
    sink: PlannedSink,
    runtime: Sink,
    batch: NextBatch,
    end: Offset,
    log: Checkpoint | None,
) -> tuple[int, bool]:
    """Write the rows of a batch and commit them, again if the table changed meanwhile.

    How many they were, and whether it is kept that the source was read to `end`.
    """
    is_kept = True

    def commit(written: Sequence[Written]) -> None:
        nonlocal is_kept
        if isinstance(runtime, OwnsPosition):
            is_kept = runtime.commit_until(written, batch, end)
        elif log is None:
            runtime.commit(written)
        else:
            commit_numbered(runtime, written, batch.number, _note(batch.start, end))

    tries, row_count = 0, None
    while row_count is None:
        tries += 1
        try:
            row_count = sink.write_into(runtime, rows(), commit)
        except CommitConflictError:
            if tries == _TRIES:
                raise
    if log is not None:
        log.commit(batch.number)
    return row_count, is_kept


def follow(scan: PlannedScan, env: Env, *, max_rows: int = _MOST_ROWS) -> Iterator[pa.Table]:
    """The rows of a source as they come, batch by batch, without a sink, until it ends."""
    source = scan.runtime
    start = source.earliest()
    try:
        while True:
            end = source.latest(start, max_rows)
            if end == start:
                if source.is_over(start):
                    return
                env.sleep_ms(_PAUSE_MS)
                continue
            yield pa.concat_tables(
                [scan.given.schema.empty_table(), *_rows(scan, start, end, None)]
            )
            source.acknowledge(end)
            start = end
    finally:
        with suppress(Exception):
            source.close()


def _rows_between(
    scan: PlannedScan, start: Offset, end: Offset, transform: Transform | None
) -> Callable[[], Iterator[pa.Table]]:
    return lambda: _rows(scan, start, end, transform)


def _rows(
    scan: PlannedScan, start: Offset, end: Offset, transform: Transform | None
) -> Iterator[pa.Table]:
    source = scan.runtime
    for split in source.plan(start, end):
        for batch in source.read(split):
            rows = scan.given.of_source(batch)
            yield rows if transform is None else transform(rows)


def _wait(env: Env, seconds: float) -> None:
    if seconds > 0:
        env.sleep_ms(seconds * 1000)
