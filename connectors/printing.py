"""`print`: writes a line for each row, such as `+I[1, ann]`, to standard output or error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import pyarrow as pa

from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, OptionKind
from lakewright.connectors.runtime import Sink
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind


class Print(DynamicTableFactory):
    """Makes the sink."""

    identifier = "print"
    description = "writes a line for each row to the terminal"
    optional_options = (
        Option(name="print-identifier", description="what stands before each line", default=""),
        Option(
            name="standard-error",
            kind=OptionKind.BOOLEAN,
            description="whether lines go to standard error",
            default=False,
        ),
    )

    def create_sink(self, context: Context) -> DynamicTableSink:
        options = context.options
        return _PrintSink(options["print-identifier"], options["standard-error"])


class _PrintSink(DynamicTableSink):
    def __init__(self, prefix: str, to_error: bool) -> None:
        self._prefix = f"{prefix}> " if prefix else ""
        self._to_error = to_error
        self._static: Mapping[str, object] = {}

    @property
    def summary(self) -> str:
        return "print"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def apply_static_partition(self, partition: Mapping[str, object]) -> None:
        self._static = dict(partition)

    def sink(self) -> Sink:
        return _Printing(self._prefix, self._to_error, tuple(self._static.values()))


class _Printing(Sink):
    def __init__(self, prefix: str, to_error: bool, behind: tuple[object, ...]) -> None:
        self._prefix = prefix
        self._to_error = to_error
        self._behind = behind

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        count, stream = 0, sys.stderr if self._to_error else sys.stdout
        for batch in batches:
            for row in batch.to_pylist():
                kind = row.pop(ROW_KIND_COLUMN, RowKind.INSERT.short)
                values = ", ".join("null" if each is None else str(each) for each in row.values())
                behind = "".join(f", {each}" for each in self._behind)
                stream.write(f"{self._prefix}{kind}[{values}{behind}]\n")
            count += batch.num_rows
        stream.flush()
        return count
