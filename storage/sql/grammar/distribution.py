"""How rows are distributed over buckets, as CREATE TABLE and ALTER TABLE say it."""

from __future__ import annotations

from lakewright.storage.spec.table_distribution import Kind, TableDistribution
from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.grammar.partitions import buckets


def distribution(cursor: Cursor) -> TableDistribution:
    """`BY [HASH | RANGE] (…) [INTO n BUCKETS]` or `INTO n BUCKETS`; plain columns mean HASH."""
    if not cursor.take("BY"):
        cursor.expect("INTO", way_out="write BY (column, …) [INTO n BUCKETS], or INTO n BUCKETS")
        return TableDistribution.of_unknown(buckets(cursor))
    kind = Kind[cursor.take_one("HASH", "RANGE") or "HASH"]
    keys = cursor.names("a bucket column")
    return TableDistribution(kind, buckets(cursor) if cursor.take("INTO") else None, keys)
