"""Statistics of a table's rows as one snapshot holds them: what a query planner asks for.

Source: Paimon specification, chapter Snapshot (key `statistics`); `Statistics`, `ColStats`.
"""

from __future__ import annotations

from dataclasses import dataclass

STATISTICS_PREFIX = "stat-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """One column; what is None is unknown.

    Bounds are the text that the file holds, which `codec.statistics_json` turns into values.
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
    """A table as of one snapshot, its rows merged by primary key.

    `merged_record_size` is the share of the file bytes that the merged rows stand for.
    """

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    columns: tuple[ColumnStatistics, ...] = ()
