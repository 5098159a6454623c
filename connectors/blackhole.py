"""`blackhole`: takes rows and forgets them, to measure what comes before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.runtime import Sink
from lakewright.connectors.sinks import DynamicTableSink


class Blackhole(DynamicTableFactory):
    """Makes the sink; it has no options."""

    identifier = "blackhole"
    description = "takes rows and forgets them"

    def create_sink(self, context: Context) -> DynamicTableSink:
        return _BlackholeSink()


class _BlackholeSink(DynamicTableSink):
    @property
    def summary(self) -> str:
        return "blackhole"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def apply_static_partition(self, partition: Mapping[str, object]) -> None:
        """Partitions are forgotten too."""

    def apply_overwrite(self, overwrite: bool) -> None:
        """There is nothing to replace."""

    def sink(self) -> Sink:
        return _Forgetting()


class _Forgetting(Sink):
    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        return sum(batch.num_rows for batch in batches)
