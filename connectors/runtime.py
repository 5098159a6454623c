"""What runs: scans, lookups and sinks, the same in this process and in Spark's tasks.

Everything here crosses processes, so it must pickle: connections are opened in `read`, `write` and
`lookup`, not before. Rows are Arrow record batches with the fields that planning settled; of
changes, a last column `_rowkind` has the kind of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

# A place in a source, as JSON: it is kept between runs.
Offset = Mapping[str, Any]
# What one task reads; any value that pickles.
Split = Any
# What one task wrote; any value that pickles.
Written = Any


class Scan(ABC):
    """Reads a source from one offset to another, in splits.

    A reader asks `latest` how far to go, `plan`s the way there, reads each split, in any order and
    in any process, and acknowledges the end when the rows are safe. The same two offsets give the
    same rows, as far as the external system can.
    """

    # Whether the rows end: `latest` without a limit is then the end.
    is_bounded: bool = True

    @abstractmethod
    def earliest(self) -> Offset:
        """Where all rows of the source are still to come."""

    @abstractmethod
    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        """How far there are rows now; after at most about `limit` rows behind `start`.

        `start` itself says that there are none.
        """

    @abstractmethod
    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        """The splits between two offsets; each goes to one task."""

    @abstractmethod
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""

    def is_over(self, offset: Offset) -> bool:
        """Whether no rows will come behind an offset."""
        return self.is_bounded and self.latest(offset) == offset

    def acknowledge(self, end: Offset) -> None:
        """Take notice that rows up to an offset are safe: the source may forget them."""

    def close(self) -> None:
        """Let go of what the scan holds outside of `read`; called once by who planned it."""


@runtime_checkable
class SupportsEndOffset(Protocol):
    """A scan without an end that can be drained in batches: up to an offset, and no further."""

    def end_at(self, offset: Offset) -> None:
        """Let `latest` give no later offset from now on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What a source holds behind an offset.

    `rows` has about how many rows, by part of the source, such as a partition of a topic; it is
    None if only a read would tell. `since_ms` is the time of the oldest of them.
    """

    end: Offset
    rows: Mapping[str, int] | None = None
    since_ms: int | None = None


@runtime_checkable
class SupportsBacklog(Protocol):
    """A scan that knows what it holds behind an offset without a read of all of it."""

    def backlog(self, start: Offset) -> Backlog:
        """What is there; its `end` is `start` itself if nothing is."""
        ...


# Told of a record that cannot be decoded: where it is, its bytes, and why.
ReportBad = Callable[[str, bytes, str], None]


@runtime_checkable
class ReportsBadRecords(Protocol):
    """A scan that can leave out records which cannot be decoded."""

    def read_reporting(self, split: Split, report: ReportBad) -> Iterator[pa.RecordBatch]:
        """The rows of a split, and a report of each record that gives none."""
        ...


class BoundedScan(Scan):
    """A scan of rows that are there: an author gives the splits and their rows."""

    def earliest(self) -> Offset:
        return {"read": False}

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        return {"read": True}

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        return [] if start == end else self.splits()

    def splits(self) -> Sequence[Split]:
        """The parts that tasks read; one without another word."""
        return (None,)


class Lookup(ABC):
    """Finds the rows of keys, without a scan."""

    @abstractmethod
    def lookup(self, keys: pa.Table) -> pa.Table:
        """The rows of some keys, each with the columns of its key; a key may have none or more."""


class AsyncLookup(ABC):
    """A lookup whose external system answers many requests at a time."""

    @abstractmethod
    async def lookup(self, keys: pa.Table) -> pa.Table:
        """See `Lookup.lookup`."""


class Sink(ABC):
    """Takes rows in two steps: tasks write, then one process commits what they wrote.

    Rows are visible after `commit` alone, if the external system can do so; a sink that cannot
    says so in its documentation.
    """

    @abstractmethod
    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task."""

    def commit(self, written: Sequence[Written], epoch: int | None = None) -> None:
        """Make what the tasks wrote visible, once for each epoch.

        `epoch` is the number of a stream's batch, None for a write that stands alone. A batch that
        is repeated comes with the same number.
        """

    def of_stream(self, name: str, checkpoint: str) -> Sink:
        """The sink of one stream: epochs count within its name, which is kept in its checkpoint."""
        return self

    def abort(self, written: Sequence[Written]) -> None:
        """Undo what tasks wrote of a write that failed."""

    def close(self) -> None:
        """Let go of what the sink holds; called once by who planned it."""


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The batch of a stream that comes next: its number, and where it begins in the source.

    One that was stopped ends at `end`, where its rows were read to.
    """

    number: int
    start: Offset
    end: Offset | None = None


@runtime_checkable
class OwnsPosition(Protocol):
    """The sink of a stream that commits the position of the source with the rows.

    The stream then needs no notes of its own: its checkpoint is a name.
    """

    def stand(self, source: str, beginning: Callable[[], Offset]) -> NextBatch:
        """Where the stream of a source goes on; a new one at `beginning`.

        Raises:
            InvalidRequestError: the stream is of another source.
        """
        ...

    def commit_until(
        self, written: Sequence[Written], batch: NextBatch, end: Offset, *, at_once: bool = False
    ) -> bool:
        """`Sink.commit` of the rows of a batch up to an offset; whether that is kept.

        Unless it has to be `at_once`, a sink may leave it to a later batch to keep how far one
        without rows read.
        """
        ...


@runtime_checkable
class ComparesBatches(Protocol):
    """The sink of a stream that keeps which batch was its last one, and refuses another in turn.

    The checkpoint of the stream is elsewhere, and may be deleted, or put back from an older copy.
    """

    def commit_batch(self, written: Sequence[Written], number: int, span: str) -> None:
        """`Sink.commit` of a batch; `span` says from where to where it reads its source.

        Raises:
            InvalidRequestError: the batch neither follows the last one nor is that one again, or it
                is of a new stream with the checkpoint of an earlier one.
        """
        ...


@runtime_checkable
class SupportsBackPressure(Protocol):
    """A sink that may ask for patience before it takes another batch."""

    def wait_seconds(self) -> float:
        """How long to wait before the next batch; 0 to go on."""
        ...
