"""Streams in this process: from a planned scan into a planned sink, batch after batch.

    <checkpoint>/stream         the name of the stream, made at its first start
    <checkpoint>/tables         what it reads and writes, which stays the same
    <checkpoint>/beginning      where it began: a source may begin elsewhere later
    <checkpoint>/offsets/<n>    from where to where batch n reads, written before it is read
    <checkpoint>/commits/<n>    batch n is committed

A batch that was stopped is read again between the same offsets and committed with the same number:
sinks that commit each number once have each row once, if the source gives the same rows again. A
sink that keeps the position of its stream may be set back, as a table by a rollback: the stream
then goes on where the rows of the sink end. So it does if its checkpoint was deleted. Work that one
process cannot do runs on Spark, by the same scans and sinks (`on_spark.py`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from lakewright.connectors.planning.plan_sink import PlannedSink
from lakewright.connectors.planning.plan_source import PlannedScan
from lakewright.connectors.runtime import (
    Held,
    KeepsPosition,
    KnowsStreams,
    Offset,
    Sink,
    SupportsBacklog,
    SupportsEndOffset,
)
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import (
    CommitConflictError,
    CorruptionError,
    FileMissing,
    InvalidRequestError,
    StreamRunsElsewhere,
)
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.files.stream_store import place_of
from lakewright.storage.operations.running.delete_files import delete_files

_LOG = logging.getLogger(__name__)
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
    """Where a stream stands, in a folder; without one it begins anew each time."""

    fs: FileSystem
    path: str
    env: Env
    name: str = ""

    def __post_init__(self) -> None:
        place = f"{self.path}/stream"
        name = self.name or f"lakewright-stream-{self.env.new_id()}"
        self.fs.put_if_absent(place, name.encode())
        self.name = self.fs.read_bytes(place).decode()

    @classmethod
    def open(cls, place: str, env: Env) -> Checkpoint:
        """The checkpoint at a path or URI, made if it is not there."""
        fs, path = open_file_system(place, env)
        return cls(fs, path.rstrip("/"), env)

    def last(self) -> tuple[int, Offset, Offset, bool] | None:
        """The last batch: number, where it begins and ends, and whether it is committed."""
        numbers = self._numbers("offsets")
        if not numbers:
            return None
        number = numbers[-1]
        return number, *self._read(number), number in self._numbers("commits")

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
        if not self.fs.put_if_absent(f"{self.path}/offsets/{number}", _note(start, end)):
            raise StreamRunsElsewhere(
                f"another process runs the stream of {self.path}: it has begun batch {number}; "
                "stop one of them, or give it a checkpoint of its own"
            )

    def go_back(self, held: Held) -> None:
        """Forget the batches behind one, which the sink has lost.

        Raises:
            InvalidRequestError: it is unknown how far that batch read.
        """
        if held.number >= 0 and held.number not in self._numbers("offsets"):
            if held.end is None:
                raise InvalidRequestError(
                    f"the sink of {self.path} was set back to batch {held.number}, and neither it "
                    "nor the checkpoint knows how far that one read; begin a new checkpoint where "
                    "the rows of the sink end"
                )
            self.begin(held.number, held.end, held.end)
        for folder in ("commits", "offsets"):
            late = [each for each in self._numbers(folder) if each > held.number]
            delete_files(self.fs, [f"{self.path}/{folder}/{each}" for each in reversed(late)])
        if held.number >= 0:
            self.fs.put_if_absent(f"{self.path}/commits/{held.number}", b"{}")

    def begun_at(self, now: Offset) -> Offset:
        """Where the stream began, which is now if it is new."""
        self.fs.put_if_absent(f"{self.path}/beginning", json.dumps(dict(now)).encode())
        found = self.beginning()
        assert found is not None
        return found

    def beginning(self) -> Offset | None:
        """Where the stream began; None if it did not."""
        note = f"{self.path}/beginning"
        try:
            found: Offset = json.loads(self.fs.read_bytes(note))
        except FileMissing:
            return None
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
                f"the note of batch {number} at {note} cannot be read: {error}; delete it, and the "
                "batch begins where the one before it ended",
                path=note,
            ) from error

    def _numbers(self, folder: str) -> list[int]:
        names = (each.name for each in self.fs.list_dir(f"{self.path}/{folder}"))
        return sorted(int(name) for name in names if name.isdigit())


def _note(start: Offset, end: Offset) -> bytes:
    return json.dumps({"start": dict(start), "end": dict(end)}).encode()


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
    runtime = sink.runtime
    log = None if checkpoint is None else _opened(checkpoint, env, runtime)
    number, start, again = 0, source.earliest(), None
    if checkpoint is not None and log is not None:
        log.check_tables(
            f"{scan.table.name} ({scan.source.summary})",
            f"{sink.table.name} ({sink.sink.summary})",
        )
        runtime = runtime.of_stream(log.name, place_of(checkpoint))
        _heed_set_back(log, runtime, sink.table.name)
        number, start, again = _place(log, log.begun_at(start))
    try:
        if available_now and isinstance(source, SupportsEndOffset):
            # Of a source that grows faster than it is read, there would be no end.
            known = source.backlog(start) if isinstance(source, SupportsBacklog) else None
            source.end_at(source.latest(start) if known is None else known.end)
        while True:
            _wait(env, sink.wait_seconds())
            end = source.latest(start, max_rows) if again is None else again
            if end == start and again is None:
                if available_now or source.is_over(start):
                    return
                env.sleep_ms(_PAUSE_MS)
                continue
            if log is not None and again is None:
                log.begin(number, start, end)
            again = None
            # Without a checkpoint no batch is repeated, and each stands alone.
            epoch = None if log is None else number
            row_count = _carry(
                _rows_between(scan, start, end, transform), sink, runtime, epoch, end
            )
            if log is not None:
                log.commit(number)
            source.acknowledge(end)
            yield Batch(number, row_count, end)
            number, start = number + 1, end
    finally:
        with suppress(Exception):
            source.close()
        runtime.close()


def _opened(checkpoint: str, env: Env, runtime: Sink) -> Checkpoint:
    """The checkpoint of a stream; if it was deleted, as the sink knows it."""
    fs, path = open_file_system(checkpoint, env)
    path = path.rstrip("/")
    kept = None
    if fs.exists(f"{path}/metadata"):
        raise InvalidRequestError(
            f"the checkpoint {path} is one of Spark; go on with Spark, or begin a new checkpoint "
            "where the rows of the sink end"
        )
    if isinstance(runtime, KnowsStreams) and not fs.list_dir(f"{path}/offsets"):
        kept = runtime.stream_of(place_of(checkpoint))
    if kept is None:
        return Checkpoint(fs, path, env)
    name, held = kept
    _LOG.warning(
        "the checkpoint %s was deleted; the stream goes on behind batch %s", path, held.number
    )
    log = Checkpoint(fs, path, env, name)
    log.go_back(held)
    return log


def _heed_set_back(log: Checkpoint, runtime: Sink, table: str) -> None:
    """Go back as far as the sink did."""
    held = runtime.set_back() if isinstance(runtime, KeepsPosition) else None
    if held is None:
        return
    assert isinstance(runtime, KeepsPosition)
    kept = "no batch of it" if held.number < 0 else f"batch {held.number}"
    _LOG.warning(
        "%s was rolled back: it held the stream of %s up to batch %s, and holds %s now; the stream "
        "goes on behind that",
        table,
        log.path,
        held.lost,
        kept,
    )
    log.go_back(held)
    runtime.put_back(held)


def _place(log: Checkpoint, beginning: Offset) -> tuple[int, Offset, Offset | None]:
    """The next batch: its number, where it begins, and where it ended if it was stopped."""
    last = log.last()
    if last is None:
        return 0, beginning, None
    number, begin, until, is_committed = last
    return (number + 1, until, None) if is_committed else (number, begin, until)


def _carry(
    rows: Callable[[], Iterator[pa.Table]],
    sink: PlannedSink,
    runtime: Sink,
    epoch: int | None,
    end: Offset,
) -> int:
    """Write the rows of a batch and commit them, again if the table changed meanwhile."""
    for tries in count(1):
        try:
            return sink.write_into(runtime, rows(), epoch, end)
        except CommitConflictError:
            if tries == _TRIES:
                raise
    raise AssertionError


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
