"""Streams that write into a table: what the table remembers of each."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.spec.commit import PartitionWrite
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """One batch of a stream, by the engine's own names.

    `stream` is the id that the engine keeps in its checkpoint, and `number` the id of the batch
    there: a batch that is repeated after a crash has the same number. `position` is where the
    source was read to, as JSON, for engines that let the table keep it.
    """

    stream: str
    checkpoint: str
    number: int
    position: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord(Shown):
    """The last batch of a stream that a table holds, or that was about to be committed.

    The record outlives snapshots: it tells a repeated batch after the expiry of its commit. While a
    batch is not `committed`, its commit is to be found after snapshot `base_id`, or by files whose
    names contain `write_id`. `waiting` are the partitions that the stream wrote and has not marked
    as done, and `watermark` is the time, in epoch milliseconds, before which they are over.
    `position` is that of the batch.
    """

    stream: str
    checkpoint: str
    batch: int
    committed: bool
    time_ms: int
    base_id: int | None = None
    write_id: str | None = None
    watermark: int | None = None
    waiting: tuple[str, ...] = ()
    position: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBack:
    """Where a table stands that lost batches of a stream by a rollback.

    It holds the stream up to batch `number` (-1: none of it) at `position`; it held it up to
    `lost`.
    """

    number: int
    position: str | None
    lost: int


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
        return sum(each.row_count for each in self.partitions)
