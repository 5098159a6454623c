"""A connector of tests: rows in memory, with the abilities that a test gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.fitted import batches_of
from lakewright.connectors.options import Option
from lakewright.connectors.runtime import BoundedScan, Sink, Split
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.connectors.sources import DynamicTableSource, Filtered, ScanTableSource
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.table_distribution import Kind

# Rows by the option `place`.
MEMORY: dict[str, list[dict[str, Any]]] = {}


class Memory(DynamicTableFactory):
    """Rows of this process; `source` and `sink` make what a test looks at."""

    identifier = "memory"
    description = "rows of this process"
    required_options = (Option(name="place", description="which rows"),)

    def __init__(self, source: type | None = None, sink: type | None = None) -> None:
        self.source, self.sink = source or MemorySource, sink or MemorySink
        self.made: list[DynamicTableSource] = []

    def create_source(self, context: Context) -> DynamicTableSource:
        made: DynamicTableSource = self.source(context)
        self.made.append(made)
        return made

    def create_sink(self, context: Context) -> DynamicTableSink:
        found: DynamicTableSink = self.sink(context)
        return found


class MemorySource(ScanTableSource):
    """A source without an ability."""

    def __init__(self, context: Context) -> None:
        self.place = context.options["place"]
        self.fields: Sequence[DataField] = context.table.fields
        self.limit: int | None = None

    def scan(self) -> BoundedScan:
        rows = MEMORY.setdefault(self.place, [])
        return _MemoryScan(rows[: self.limit], self.fields)


class _MemoryScan(BoundedScan):
    def __init__(self, rows: Sequence[Mapping[str, Any]], fields: Sequence[DataField]) -> None:
        self.rows, self.fields = list(rows), tuple(fields)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield from batches_of(self.rows, self.fields, table="memory")


class AbleSource(MemorySource):
    """A source that notes in which order abilities were applied to it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.applied: list[str] = []
        self.all_fields = self.fields

    def copy(self) -> AbleSource:
        made = super().copy()
        made.applied = []
        return made

    def list_partitions(self) -> Sequence[Mapping[str, str | None]] | None:
        days = dict.fromkeys(row["day"] for row in MEMORY[self.place])
        return [{"day": day} for day in days]

    def apply_partitions(self, remaining: Sequence[Mapping[str, str | None]]) -> None:
        self.applied.append(f"partitions {[each['day'] for each in remaining]}")

    def apply_filters(self, filters: Sequence[Predicate]) -> Filtered:
        self.applied.append(f"filters {len(filters)}")
        return Filtered(filters[:1], filters)

    def apply_projection(self, columns: Sequence[str]) -> None:
        self.applied.append(f"projection {list(columns)}")
        self.fields = [each for each in self.all_fields if each.name in columns]

    def apply_limit(self, limit: int) -> None:
        self.applied.append(f"limit {limit}")
        self.limit = limit


class MemorySink(DynamicTableSink):
    """A sink without an ability."""

    def __init__(self, context: Context) -> None:
        self.place = context.options["place"]

    def sink(self) -> Sink:
        return _MemoryWrites(self.place)


class BucketedSink(MemorySink):
    """A sink with buckets by hash, which must be counted."""

    def list_algorithms(self) -> frozenset[Kind]:
        return frozenset({Kind.HASH})

    def requires_bucket_count(self) -> bool:
        return True


class _MemoryWrites(Sink):
    def __init__(self, place: str) -> None:
        self.place = place

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
        return [row for batch in batches for row in batch.to_pylist()]

    def commit(self, written: Sequence[list[dict[str, Any]]], epoch: int | None = None) -> None:
        MEMORY.setdefault(self.place, []).extend(row for rows in written for row in rows)
