"""The streaming sink: each batch of a streaming query becomes one commit, and each once.

1. Check what can be checked before the query starts.
2. Spark calls the sink with the rows and the number of a batch. The stream is the query's id, which
   Spark keeps in the checkpoint.
3. If the table holds the batch, its rows are computed all the same, since the states of a query
   advance with them, and nothing is written.
4. Give the rows the partition of their time, if partitions follow from it; Spark observes the
   latest time on the way.
5. Stage the rows as those of a batch write are, have them checked, and commit. If the table
   changed in a way that conflicts, stage once more on its new schema.

Source: Spark `MicroBatchExecution`, `ForeachBatchSink`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.streaming.query import StreamingQuery

from lakewright.storage.env import Env
from lakewright.storage.errors import (
    CommitConflictError,
    InvalidRequestError,
    InvalidStatement,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.files.stream_store import is_remote, place_of
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_read import CHANGE_ORDER_COLUMN
from lakewright.storage.operations.commit.stream_positions import checkpoint_name
from lakewright.storage.operations.references.sweep import abort_staged
from lakewright.storage.operations.streams.batches import (
    Watch,
    commit_batch,
    committed_batch,
    is_committed,
)
from lakewright.storage.operations.streams.partition_times import divided_keys
from lakewright.storage.operations.write.write import StagingJob, prepare_write
from lakewright.storage.spark.pickling import error_in
from lakewright.storage.spark.read import check_reachable
from lakewright.storage.spark.running_tasks import context_of
from lakewright.storage.spark.spark_types import to_spark_type
from lakewright.storage.spark.write import stage_dataframe
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.commit import WriteMode
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.partition_clock import PartitionClock, parts_of
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.stream import StreamBatch, span_digest

# The property in which Spark tells the id of the query that the calling thread runs.
QUERY_ID = "sql.streaming.queryId"
_AVAILABLE_NOW = "available-now"
_TRIES = 3
_OUTPUTS = ("append", "update", "complete")
_LATEST = "latest"
_EPOCH = "1970-01-01 00:00:00"


def start_stream(
    files: TableFiles,
    rows: DataFrame,
    *,
    checkpoint: str,
    partition: Mapping[str, object] | None = None,
    trigger: str | None = None,
    output: str = "append",
    name: str | None = None,
) -> StreamingQuery:
    """Start a query that writes a streaming DataFrame into a table; see `Table.write_stream`."""
    sink = make_sink(files, rows, checkpoint=checkpoint, partition=partition, output=output)
    return start_query(sink, rows, trigger=trigger, output=output, name=name)


def run_stream(
    files: TableFiles,
    rows: DataFrame,
    *,
    checkpoint: str,
    partition: Mapping[str, object] | None = None,
    trigger: str | None = None,
    watch: Watch | None = None,
) -> None:
    """Write a stream until its end, with the errors of the sink as they were raised."""
    sink = make_sink(files, rows, checkpoint=checkpoint, partition=partition, watch=watch)
    query = start_query(sink, rows, trigger=trigger)
    try:
        query.awaitTermination()
    except PySparkException:
        # Spark turns them into text.
        if sink.failures:
            raise sink.failures[-1] from None
        raise
    finally:
        query.stop()


def start_query(
    sink: Sink,
    rows: DataFrame,
    *,
    trigger: str | None,
    output: str = "append",
    name: str | None = None,
) -> StreamingQuery:
    """Start a query of Spark into a sink.

    Raises:
        InvalidStatement: Spark cannot stream what the query does.
    """
    writer = rows.writeStream.foreachBatch(sink).outputMode(output)
    writer = writer.option("checkpointLocation", sink.checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    if trigger == _AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    try:
        return writer.start()
    except AnalysisException as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidStatement(f"Spark cannot stream the rows: {first}") from error


def make_sink(
    files: TableFiles,
    rows: DataFrame,
    *,
    checkpoint: str,
    partition: Mapping[str, object] | None = None,
    output: str = "append",
    watch: Watch | None = None,
) -> Sink:
    """A sink for a stream, once rows, partition and table are found to fit."""
    table = files.name
    if not rows.isStreaming:
        raise InvalidRequestError(f"the rows for {table} are no stream; write them with write")
    if context_of(rows.sparkSession) is None:
        raise UnsupportedError(
            f"a stream into {table} needs a classic session of Spark: over Spark Connect the sink "
            "would not learn which query calls it"
        )
    if output not in _OUTPUTS:
        raise InvalidRequestError(f"output {output!r} is not one of {', '.join(_OUTPUTS)}")
    if output == "update" and not files.schema.has_primary_key:
        raise InvalidRequestError(
            f"output update writes a row again when it changes, and {table} has no primary key by "
            "which the new one replaces it; write output append, or complete"
        )
    check_reachable(files)
    fixed, clock = divided_keys(files, partition or {})
    place = place_of(text_argument(checkpoint, "checkpoint"))
    sink = Sink(
        files=files,
        checkpoint=checkpoint if is_remote(checkpoint) else place,
        place=place,
        fixed=fixed,
        clock=clock,
        mode=WriteMode.OVERWRITE if output == "complete" else WriteMode.APPEND,
        watch=watch or Watch(),
    )
    sink.prepared(files, StreamBatch(stream=table, checkpoint=checkpoint, number=0), fixed)
    _check_columns(sink, rows)
    return sink


def _check_columns(sink: Sink, rows: DataFrame) -> None:
    schema, clock = sink.files.schema, sink.clock
    made = () if clock is None else tuple(field.name for field in clock.fields)
    time = None if clock is None else clock.column
    known = {*schema.field_names, ROW_KIND_COLUMN, CHANGE_ORDER_COLUMN, time}
    unknown = set(rows.columns) - known
    if unknown:
        raise InvalidRequestError(
            f"the stream has columns that {sink.files.name} lacks: {', '.join(sorted(unknown))}; "
            "leave them out, or add them to the table"
        )
    given = [each for each in made if each in rows.columns and each != time]
    if given:
        raise InvalidRequestError(
            f"the stream has the column {given[0]}, which is to be made of a time; leave it out of "
            "the rows, or leave the time out and take the values of the rows"
        )
    if time is None:
        return
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    if not isinstance(kinds.get(time), (t.TimestampType, t.TimestampNTZType, t.DateType)):
        what = "is not there" if time not in kinds else f"is {kinds[time].simpleString()}"
        raise InvalidRequestError(
            f"partitions of {sink.files.name} follow from the time in column {time}, which {what}; "
            "name a column of timestamps or dates"
        )


def batch_of(files: TableFiles, stream: str, checkpoint: str, number: int) -> StreamBatch:
    """A batch of a query of Spark, by what Spark noted of it in the query's checkpoint."""
    checkpoint = checkpoint if is_remote(checkpoint) else place_of(checkpoint)
    span = None
    # Spark may reach a store that this process does not.
    with suppress(StorageError):
        span = span_digest(note_of_batch(checkpoint, number, files.env))
    name = checkpoint_name(files, checkpoint)
    return StreamBatch(stream=stream, checkpoint=name, number=number, span=span)


def note_of_batch(checkpoint: str, number: int, env: Env) -> str:
    """What Spark noted of a batch before it began: from where it reads, and to where."""
    fs, path = open_file_system(checkpoint, env)
    return fs.read_bytes(f"{path.rstrip('/')}/offsets/{number}").decode()


@dataclass(frozen=True)
class Sink:
    """What Spark calls with each batch.

    `checkpoint` is as Spark takes it, and `place` in one spelling. `fixed` are the partition
    columns that have one value for the whole stream. `failures` are the errors of batches.
    """

    files: TableFiles
    checkpoint: str
    place: str
    fixed: Mapping[str, object]
    clock: PartitionClock | None
    mode: WriteMode
    watch: Watch = field(default_factory=Watch)
    failures: list[StorageError] = field(default_factory=list)

    def __call__(self, rows: DataFrame, number: int) -> None:
        try:
            self._take(rows, number)
        except StorageError as error:
            self.failures.append(error)
            raise
        except PySparkException as error:
            # A task that reads a file of the batch fails with an error of ours.
            if (known := error_in(str(error))) is None:
                raise
            self.failures.append(known)
            raise known from None

    def _take(self, rows: DataFrame, number: int) -> None:
        stream = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if stream is None:
            raise UnsupportedError(
                f"Spark did not report which query writes a batch into {self.files.name}, so "
                "that it could not be recognised again; pin Python's threads to Java's, which is "
                "the default (PYSPARK_PIN_THREAD)"
            )
        batch = batch_of(self.files, stream, self.checkpoint, number)
        if is_committed(self._now(), batch):
            # States of a query that did not advance would fail the batch after this one.
            rows.write.format("noop").mode("overwrite").save()
        else:
            self._write_once(rows, batch)
        if self.watch.tell is not None:
            committed = committed_batch(self._now(), stream, number)
            if committed is not None:
                self.watch.tell(committed)

    def _write_once(self, rows: DataFrame, batch: StreamBatch) -> None:
        now_ms = self.files.env.now_ms()
        for tries in count(1):
            try:
                self._write(self._now(), rows, batch, now_ms)
                return
            except CommitConflictError:
                if tries == _TRIES:
                    raise

    def prepared(
        self, files: TableFiles, batch: StreamBatch, partition: Mapping[str, object]
    ) -> StagingJob:
        return prepare_write(
            files,
            mode=self.mode,
            partition=partition,
            dynamic=False,
            grouped=True,
            commit_user=batch.stream,
            commit_identifier=batch.number,
        )

    def _write(self, files: TableFiles, rows: DataFrame, batch: StreamBatch, now_ms: int) -> None:
        partition, clock = dict(self.fixed), self.clock
        observed, is_shown = None, False
        if clock is not None and clock.column is None:
            partition |= clock.spec_at(clock.local(now_ms))
        elif clock is not None and clock.column is not None:
            is_shown = not isinstance(rows.schema[clock.column].dataType, t.TimestampType)
            rows, observed = _with_times(rows, clock)
            if clock.column not in files.schema.field_names:
                rows = rows.drop(clock.column)
        staged = stage_dataframe(self.prepared(files.reading_once(), batch, partition), rows)
        try:
            self.watch.check_rows(staged)
        except BaseException:
            with suppress(StorageError):
                abort_staged(files, staged)
            raise
        time_ms = now_ms if observed is None else observed.get.get(_LATEST)
        if is_shown and clock is not None and time_ms is not None:
            time_ms = clock.instant(time_ms)
        commit_batch(files, batch, staged, clock=clock, time_ms=time_ms)

    def _now(self) -> TableFiles:
        """The table under its present schema, which may change while the stream runs."""
        return self.files.refreshed()


def _with_times(rows: DataFrame, clock: PartitionClock) -> tuple[DataFrame, Observation]:
    """Rows with the partition columns of their times; the latest time is observed."""
    assert clock.column is not None
    column, kind = _named(clock.column), rows.schema[clock.column].dataType
    epoch = f.lit(_EPOCH).cast("timestamp_ntz")
    if isinstance(kind, t.TimestampType):
        micros = f.unix_micros(column)
        utc = f.timestamp_add("MICROSECOND", micros, epoch)
        clocked = f.convert_timezone(f.lit("UTC"), f.lit(clock.zone), utc)
    else:
        clocked = column.cast("timestamp_ntz")
        micros = f.timestamp_diff("MICROSECOND", epoch, clocked)
    observation = Observation()
    rows = rows.observe(observation, f.max(f.floor(micros / 1000)).alias(_LATEST))
    made = {
        field.name: _written(field, layout, clocked)
        for field, layout in zip(clock.fields, clock.layouts, strict=True)
    }
    return rows.withColumns(made), observation


def _written(field: DataField, layout: str | None, moment: Column) -> Column:
    """A time as the value of a partition key; null without a time."""
    if layout is None:
        return moment.cast("date")
    units = {
        "year": f.year(moment),
        "month": f.month(moment),
        "day": f.dayofmonth(moment),
        "hour": f.hour(moment),
        "minute": f.minute(moment),
        "second": f.second(moment),
    }
    pieces = [
        _padded(units[part.text], part.digits) if part.digits else f.lit(part.text)
        for part in parts_of(layout)
    ]
    return f.concat(*pieces).cast(to_spark_type(field.type))


def _padded(number: Column, digits: int) -> Column:
    text = number.cast("string")
    # Spark's padding cuts what is longer.
    return f.when(f.length(text) < digits, f.lpad(text, digits, "0")).otherwise(text)


def _named(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")
