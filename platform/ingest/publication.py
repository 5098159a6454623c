"""What came of a write that was to be published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakewright.platform.ingest.expectations import ValidationReport
from lakewright.platform.ingest.judge_staged import RejectedPartition
from lakewright.platform.tables.partition_keys import partition_identity
from lakewright.storage import Snapshot, WriterCompaction, WriterUse
from lakewright.storage.file_reader.bad_rows import BadRows
from lakewright.storage.file_reader.filled_columns import FilledColumns
from lakewright.storage.spec.commit import PartitionWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """The totals of the rows written to one partition."""

    spec: Mapping[str, object]
    row_count: int
    file_count: int
    size_bytes: int


def totals_of(parts: Iterable[PartitionWrite]) -> tuple[PartitionTotals, ...]:
    """The totals of each partition over parts of several writes."""
    totals: dict[object, PartitionTotals] = {}
    for part in parts:
        identity = partition_identity(part.spec)
        known = totals.get(identity)
        totals[identity] = PartitionTotals(
            spec=part.spec,
            row_count=part.row_count + (known.row_count if known else 0),
            file_count=part.file_count + (known.file_count if known else 0),
            size_bytes=part.size_bytes + (known.size_bytes if known else 0),
        )
    return tuple(totals.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Rows that readers see.

    Of the `rejected` partitions nothing was published; an earlier attempt published the `earlier`.
    `left_out` counts the bad rows; the table `rejects` has them if it is named. `filled` are
    columns that the source lacked.
    """

    partitions: tuple[PartitionTotals, ...]
    report: ValidationReport
    snapshot: Snapshot | None
    commits: int
    engine: str
    duration_ms: int
    compaction: WriterCompaction | None = None
    writer: WriterUse | None = None
    rejected: tuple[RejectedPartition, ...] = ()
    earlier: tuple[Mapping[str, object], ...] = ()
    left_out: BadRows | None = None
    rejects: str | None = None
    filled: FilledColumns = field(default_factory=FilledColumns)

    @property
    def bad_rows(self) -> int:
        return 0 if self.left_out is None else self.left_out.count

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)

    @property
    def file_count(self) -> int:
        return sum(partition.file_count for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyPublished:
    """An earlier attempt of the same run committed everything."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Rows that were not published; their files are deleted."""

    report: ValidationReport
    partitions: tuple[PartitionTotals, ...]
    duration_ms: int
