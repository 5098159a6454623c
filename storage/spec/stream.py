"""Streams that write into a table: what its snapshots say of each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lakewright.storage.spec.commit import PartitionWrite
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot


def span_digest(note: str) -> str:
    """What tells the span of a batch, of which an engine has a note, from those of others."""
    return hashlib.sha256(note.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """One batch of a stream.

    `stream` is its id, and `checkpoint` where its engine keeps track, or the place that names it.
    A batch that an engine repeats after a crash has the same `number`. An engine that lets the
    table keep the position of its source says where the batch begins and ends, as JSON; a batch
    from `start` fits a table only where its rows end there. Of an engine that keeps the position
    itself, `span` is a digest of what the batch reads, if that is known.
    """

    stream: str
    checkpoint: str
    number: int
    start: str | None = None
    position: str | None = None
    span: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord(Shown):
    """The last batch of a stream that a snapshot holds.

    `position` is where the source was read to, as JSON, and `watermark` the time, in epoch
    milliseconds, before which partitions are over. `done` are the partitions that are marked as
    done with this batch, and `waiting` those that the stream wrote and that are not over yet.
    `span` is that of the batch.
    """

    stream: str
    checkpoint: str
    batch: int
    time_ms: int
    position: str | None = None
    span: str | None = None
    watermark: int | None = None
    waiting: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """How a stream began: its source, and where it was read from, as JSON.

    Its first batch came after snapshot `base_id`. `reported` is the last batch of which
    the observer of the stream was notified.
    """

    stream: str
    checkpoint: str
    base_id: int
    source: str | None = None
    beginning: str | None = None
    reported: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch(Shown):
    """A batch that a table holds, and what it wrote.

    `done` are the partitions that were marked as done with it, since the stream's `watermark` has
    left them.
    """

    stream: str
    number: int
    snapshot: Snapshot
    partitions: tuple[PartitionWrite, ...]
    watermark: int | None
    done: tuple[dict[str, object], ...]

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)
