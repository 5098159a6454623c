"""Statistics of a snapshot's rows, for query planners.

Source: Paimon specification, chapter Snapshot (key `statistics`); `Statistics`, `ColStats`.
"""

from __future__ import annotations

from dataclasses import dataclass

STATISTICS_PREFIX = "stat-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column; None is unknown.

    Bounds are texts as in the file; `codec.statistics_json` converts them to values.
    Lengths are bytes for fixed types and BYTES, characters for text; `avg_len` is rounded up.
    """

    name: str
    field_id: int
    distinct_count: int | None = None
    minimum: str | None = None
    maximum: str | None = None
    null_count: int | None = None
    avg_len: int | None = None
    max_len: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Statistics of a table's merged rows at one snapshot.

    `merged_record_size` is the merged rows' share of the file bytes.
    """

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    columns: tuple[ColumnStatistics, ...] = ()
