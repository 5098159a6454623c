"""Connectors on Spark: planned scans and sinks as a Python data source, for batches and streams.

The contract of scans and sinks is Spark's own, but for names: offsets, splits, commits. A batch of
a stream reads to the latest offset, or to the limit that the query sets; with the trigger
`availableNow`, to the latest one when the query began.

Source: Spark `PythonMicroBatchStream`, `PythonStreamingWrite`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.streaming.query import StreamingQuery

from lakewright.connectors.planning.plan_sink import PlannedSink
from lakewright.connectors.planning.plan_source import PlannedScan
from lakewright.connectors.planning.typed_rows import TypedRows
from lakewright.connectors.runtime import Scan, Sink, Split, SupportsEndOffset, Written
from lakewright.connectors.stream import Checkpoint, commit_numbered
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import StorageError, UnsupportedError
from lakewright.storage.operations.changes.change_read import CHANGE_ORDER_COLUMN
from lakewright.storage.spark.pickling import as_text, dumps, loads
from lakewright.storage.spark.read import for_spark
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spark.streaming import note_of_batch
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

_FORMAT, _LIMIT = "lakewright-connector", "limit"
# A plan may have a password in it, and Spark shows no option that is called so.
_OPTION = "planned-secret"


def read_frame(spark: SparkSession, planned: PlannedScan) -> DataFrame:
    """The rows of a bounded source, read in Spark's tasks; what the plan filters, Spark filters.

    Raises:
        UnsupportedError: the source has no end, or gives changes, which are carried out in this
            process alone.
    """
    if not planned.runtime.is_bounded or not planned.mode.is_insert_only:
        raise UnsupportedError(
            f"{planned.table.name} ({planned.source.summary}) gives rows without end, or changes: "
            "read it as a stream"
        )
    return spark.read.format(_registered(spark)).option(_OPTION, _text(_scanning(planned))).load()


def read_stream_frame(
    spark: SparkSession,
    planned: PlannedScan,
    *,
    max_rows: int | None = None,
    ordered: bool = False,
) -> DataFrame:
    """The rows of a source as a stream, and their kinds if they are changes.

    The column of a watermark is an instant, by the clock of the session if it has no zone.
    `max_rows` limits a batch, about. `ordered` rows have their order within their split last, which
    a table with a primary key takes: the changes of one key are in one split.
    """
    scanning = _Scanning(planned.runtime, planned.given, ordered)
    reader = spark.readStream.format(_registered(spark)).option(_OPTION, _text(scanning))
    if max_rows is not None:
        reader = reader.option(_LIMIT, str(max_rows))
    return _with_watermark(reader.load(), planned)


def _with_watermark(frame: DataFrame, planned: PlannedScan) -> DataFrame:
    if planned.watermark is None:
        return frame
    column, delay_ms = planned.watermark
    instants = f.col("`" + column.replace("`", "``") + "`").cast("timestamp")
    return frame.withColumn(column, instants).withWatermark(column, f"{delay_ms} milliseconds")


def write_frame(rows: DataFrame, planned: PlannedSink) -> None:
    """Write a DataFrame in Spark's tasks; the driver commits what they wrote."""
    text = _text(_Writing(planned.runtime, planned.taken))
    writer = rows.write.format(_registered(rows.sparkSession)).mode("append")
    writer.option(_OPTION, text).save()


def write_stream_frame(
    rows: DataFrame,
    planned: PlannedSink,
    *,
    checkpoint: str,
    available_now: bool = False,
    interval: str | None = None,
) -> StreamingQuery:
    """Write a streaming DataFrame; each batch is committed with its number."""
    # The numbers of Spark's batches begin anew with each checkpoint.
    stream = Checkpoint.open(f"{checkpoint}/lakewright", SystemEnv())
    sink = planned.runtime.of_stream(stream.name, stream.path)
    text = _text(_Writing(sink, planned.taken, checkpoint))
    writer = rows.writeStream.format(_registered(rows.sparkSession)).option(_OPTION, text)
    writer = writer.option("checkpointLocation", checkpoint)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif interval is not None:
        writer = writer.trigger(processingTime=interval)
    return writer.start()


@dataclass(frozen=True)
class _Scanning:
    scan: Scan
    given: TypedRows
    ordered: bool = False

    @property
    def schema(self) -> t.StructType:
        fields = list(to_spark_schema(self.given.fields).fields)
        if self.given.changes:
            fields.append(t.StructField(ROW_KIND_COLUMN, t.StringType()))
        if self.ordered:
            fields.append(t.StructField(CHANGE_ORDER_COLUMN, t.LongType()))
        return t.StructType(fields)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        schema, first = to_arrow_schema(self.schema, timezone="UTC"), 0
        try:
            for batch in self.scan.read(split):
                rows = self.given.of_source(batch)
                if self.ordered:
                    places = pa.array(np.arange(first, first + rows.num_rows))
                    rows = rows.append_column(CHANGE_ORDER_COLUMN, places)
                    first += rows.num_rows
                yield from for_spark(rows).cast(schema).to_batches()
        except StorageError as error:
            raise type(error)(as_text(error)) from error


@dataclass(frozen=True)
class _Writing:
    sink: Sink
    taken: TypedRows
    # Of a stream.
    checkpoint: str = ""

    def commit(self, written: Sequence[Written], number: int) -> None:
        """Commit a batch; Spark noted before it began what it reads."""
        note = note_of_batch(self.checkpoint, number, SystemEnv())
        commit_numbered(self.sink, written, number, note)

    def write(self, batches: Iterator[pa.RecordBatch]) -> _Message:
        def typed() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                rows = pa.Table.from_batches([batch])
                yield from self.taken.for_sink(rows).to_batches()

        try:
            return _Message(self.sink.write(typed()))
        except StorageError as error:
            raise type(error)(as_text(error)) from error


def _scanning(planned: PlannedScan) -> _Scanning:
    return _Scanning(planned.runtime, planned.given)


def _registered(spark: SparkSession) -> str:
    spark.dataSource.register(ConnectorSource)
    return _FORMAT


def _text(planned: object) -> str:
    return base64.b64encode(dumps(planned)).decode()


class ConnectorSource(DataSource):
    """What Spark makes readers and writers of, in processes of its own."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    @property
    def _planned(self) -> Any:
        return loads(base64.b64decode(self.options[_OPTION]))

    def schema(self) -> t.StructType:
        found: t.StructType = self._planned.schema
        return found

    def reader(self, schema: t.StructType) -> DataSourceReader:
        return _BatchReader(self._planned)

    def streamReader(self, schema: t.StructType) -> DataSourceStreamReader:  # noqa: N802
        limit = self.options.get(_LIMIT)
        return _StreamReader(self._planned, None if limit is None else int(limit))

    def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _BatchWriter(self._planned)

    def streamWriter(  # noqa: N802  # Spark's name
        self, schema: t.StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return _StreamWriter(self._planned)


@dataclass(frozen=True)
class _Share(InputPartition):
    """What one task reads."""

    split: Split


@dataclass
class _Message(WriterCommitMessage):
    """What one task wrote."""

    written: Written


class _BatchReader(DataSourceReader):
    def __init__(self, planned: _Scanning) -> None:
        self._planned = planned

    def partitions(self) -> Sequence[InputPartition]:
        scan = self._planned.scan
        begin = scan.earliest()
        return [_Share(each) for each in scan.plan(begin, scan.latest(begin))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark asks for a task where there is none to read.
        if isinstance(partition, _Share):
            yield from self._planned.read(partition.split)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, planned: _Scanning, limit: int | None) -> None:
        self._planned, self._limit = planned, limit
        self._last: dict[str, Any] | None = None
        self._is_drained = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return dict(self._planned.scan.earliest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        self._is_drained = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        found: ReadLimit = (
            super().getDefaultReadLimit() if self._limit is None else ReadMaxRows(self._limit)
        )
        return found

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        scan = self._planned.scan
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if not self._is_drained or scan.is_bounded:
            return dict(scan.latest(start, most))
        if self._last is None:
            # What comes after this moment is left to the next drain.
            self._last = dict(scan.latest(start))
            if isinstance(scan, SupportsEndOffset):
                scan.end_at(self._last)
        return dict(scan.latest(start, most)) if isinstance(scan, SupportsEndOffset) else self._last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Share(each) for each in self._planned.scan.plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Share)
        yield from self._planned.read(partition.split)

    def commit(self, end: dict[str, Any]) -> None:
        self._planned.scan.acknowledge(end)

    def stop(self) -> None:
        self._planned.scan.close()


class _BatchWriter(DataSourceArrowWriter):
    def __init__(self, planned: _Writing) -> None:
        self._planned = planned

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._planned.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._planned.sink.commit(_written(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._planned.sink.abort(_written(messages))


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, planned: _Writing) -> None:
        self._planned = planned

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._planned.write(iterator)

    def commit(  # Spark's name
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        self._planned.commit(_written(messages), batchId)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        self._planned.sink.abort(_written(messages))


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [message.written for message in messages if isinstance(message, _Message)]
