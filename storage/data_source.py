"""`format("lakewright")`: tables as a data source of PySpark, for reads, writes and streams.

Spark makes the source and its readers and writers in processes of their own, from options alone.

1. `schema` fixes the snapshot that a DataFrame reads. A reader plans as `Table.scan` does, with the
   filter and the columns of the options, and tasks read splits as those of `to_spark` do.
2. A writer prepares one job. Tasks stage what rows they get, wherever these belong, and the driver
   commits the results of all tasks once. If a task failed, the driver deletes the files.
3. A stream out of a table is that of `read_stream`, and each batch of a stream into a table is a
   commit that the table's records know, as those of `write_stream` are.

Source: Spark `PythonBatchWrite`, `PythonStreamingWrite`, `V2TableWriteExec`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
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
from pyspark.sql.types import StructType

from lakewright.storage.catalog import Catalog
from lakewright.storage.errors import (
    InvalidOption,
    InvalidRequestError,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.operations.changes.change_read import CHANGE_ORDER_COLUMN
from lakewright.storage.operations.commit.pending import commit_or_abort
from lakewright.storage.operations.read.fallback_read import falls_back
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.references.sweep import (
    abort_staged,
    sweep_after_failure,
    sweep_repeated,
)
from lakewright.storage.operations.state.assign_buckets import BucketStates
from lakewright.storage.operations.streams.batches import commit_batch, is_committed
from lakewright.storage.operations.streams.change_stream import open_stream
from lakewright.storage.operations.write.write import StagingJob, staged_write
from lakewright.storage.rows import predicate_of
from lakewright.storage.secret_texts import kept_secret
from lakewright.storage.spark.read import check_reachable, for_spark, packed_tasks, rows_of_task
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spark.stream_source import ChangesReader, schema_of
from lakewright.storage.spark.streaming import QUERY_ID, batch_of
from lakewright.storage.spark.write import write_share, written_in_tasks
from lakewright.storage.spec.commit import CommitMessage, StagedWrite
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition_words import describe_partition, read_partition
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.table import Table
from lakewright.storage.table_at import TableAt

FORMAT = "lakewright"
_WAREHOUSE = "LAKEWRIGHT_WAREHOUSE"
_CATALOG = "catalog."
# Spark turns names of options into small letters. It gives streams into a table the last two.
_PLACE = ("table", "path", "warehouse")
_TIMES = ("snapshot", "tag", "timestamp")
_READ = (*_PLACE, *_TIMES, "where", "columns")
_STREAM_READ = (*_PLACE, "columns", "changes", "after", "consumer")
_WRITE = (*_PLACE, "partition", "partitionoverwritemode", "commit_user", "commit_identifier")
_STREAM_WRITE = (*_PLACE, "partition", "checkpointlocation", "queryname")
_OVERWRITE_MODES = {"dynamic": True, "static": False}
_SHOWN_PARTITIONS = 20
_LOG = logging.getLogger(__name__)


class LakewrightSource(DataSource):
    """A table as options name it: `table` or `path`, `warehouse`, `catalog.…`, and a state."""

    # The latest snapshot when `schema` was asked, 0 before the first; Spark keeps it.
    _found: int | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        if self._is_true("changes"):
            return schema_of(self._fields(self._table({*_STREAM_READ})))
        at = self._at(self._table({*_READ, *_STREAM_READ}))
        if at.is_latest:
            self._found = 0 if at.snapshot is None else at.snapshot.id
        return to_spark_schema(self._fields(at))

    def reader(self, schema: StructType) -> DataSourceReader:
        at = self._at(self._table({*_READ}))
        _check_columns(schema, at)
        return TableReader(at, predicate_of(self.options.get("where"), at.schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        table = self._table({*_STREAM_READ})
        after, with_kinds = self._number("after"), self._is_true("changes")
        if not with_kinds:
            _check_columns(schema, table)
        asked = open_stream(
            table.table_files,
            after=after,
            consumer=self.options.get("consumer"),
            columns=table.schema.names_of(self._columns),
        )
        return ChangesReader(asked, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        mode = self.options.get("partitionOverwriteMode")
        if mode is not None and mode.lower() not in _OVERWRITE_MODES:
            raise InvalidOption(
                f"option partitionOverwriteMode is {mode!r:.100}; set dynamic or static"
            )
        dynamic = None if mode is None else _OVERWRITE_MODES[mode.lower()]
        job = self._job({*_WRITE}, schema, overwrite=overwrite, dynamic=dynamic)
        return TableWriter(job, schema.names)

    def streamWriter(  # noqa: N802  # Spark's name
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamArrowWriter:
        checkpoint = self.options.get("checkpointLocation")
        if checkpoint is None:
            raise InvalidRequestError(
                "the stream has no option checkpointLocation, by which the table knows it after a "
                "restart; a setting of the session is not seen here"
            )
        # The mode `complete` gives all rows with each batch.
        job = self._job({*_STREAM_WRITE}, schema, overwrite=overwrite, dynamic=False)
        return StreamWriter(job, schema.names, checkpoint)

    def _table(self, allowed: set[str]) -> Table:
        """The table that the options name.

        Raises:
            InvalidOption: an option is unknown, or holds a secret.
            InvalidRequestError: no table or no warehouse is named.
        """
        options: Mapping[str, str] = dict(self.options)
        catalog = {
            name.removeprefix(_CATALOG): text
            for name, text in options.items()
            if name.startswith(_CATALOG)
        }
        _check_options(options, allowed)
        names = {options[each] for each in ("table", "path") if options.get(each)}
        if len(names) != 1:
            raise InvalidRequestError(
                f"format {FORMAT} reads and writes one table, and the options name "
                f"{' and '.join(sorted(names)) or 'none'}; give option table, or the name to load "
                "or save (a table that Spark's own catalog keeps has no options: make a temporary "
                "view instead)"
            )
        warehouse = options.get("warehouse") or os.environ.get(_WAREHOUSE)
        if not warehouse:
            raise InvalidRequestError(
                f"format {FORMAT} needs option warehouse, a path or URI, or {_WAREHOUSE} in the "
                "environment of the driver"
            )
        table = Catalog.open(warehouse, options=catalog or None).table(names.pop())
        check_reachable(table.table_files)
        return table

    def _at(self, table: Table) -> TableAt:
        """The state that the options name, else the latest one when `schema` was asked."""
        tag, time = self.options.get("tag"), self.options.get("timestamp")
        at = table.at(snapshot=self._number("snapshot"), tag=tag, time=time)
        if not at.is_latest:
            return at
        if falls_back(table.table_files):
            # Only reads in one process support the option; Spark reads refuse it.
            check_supported(table.schema, Use.READ, table=table.name)
        if self._found is None:
            return at
        snapshot = table.at(snapshot=self._found).snapshot if self._found else None
        return replace(at, snapshot=snapshot)

    def _fields(self, at: TableAt | Table) -> Sequence[Any]:
        return at.schema.fields_of(at.schema.names_of(self._columns))

    @property
    def _columns(self) -> Sequence[str] | None:
        given = self.options.get("columns")
        return None if given is None else [each.strip() for each in given.split(",")]

    def _number(self, name: str) -> int | None:
        given = self.options.get(name)
        if given is None:
            return None
        try:
            return int(given)
        except ValueError:
            raise InvalidOption(
                f"option {name} is {given!r:.100}, which is no whole number"
            ) from None

    def _is_true(self, name: str) -> bool:
        given = str(self.options.get(name, "false")).lower()
        if given not in ("true", "false"):
            raise InvalidOption(f"option {name} is {given!r:.100}; set true or false")
        return given == "true"

    def _job(
        self, allowed: set[str], schema: StructType, *, overwrite: bool, dynamic: bool | None
    ) -> StagingJob:
        table = self._table(allowed)
        if CHANGE_ORDER_COLUMN in {*schema.names} - {*table.schema.field_names}:
            raise UnsupportedError(
                f"rows for {table.name} have the order of changes in {CHANGE_ORDER_COLUMN}, which "
                f"format {FORMAT} cannot keep; write them with write or write_stream of the table"
            )
        partition = self.options.get("partition")
        return table.prepare_write(
            mode="overwrite" if overwrite else "append",
            partition=None if partition is None else read_partition(partition),
            dynamic=dynamic,
            commit_user=self.options.get("commit_user"),
            commit_identifier=self._number("commit_identifier"),
        )


def _check_options(options: Mapping[str, str], allowed: set[str]) -> None:
    for name, text in options.items():
        if kept_secret(name, text) is not None:
            raise InvalidOption(
                f"option {name} of format {FORMAT} holds a secret, which Spark would keep in its "
                "plans; leave it out, and put credentials where the store's own client looks for "
                "them, for the driver and all executors (docs/how-to/stores.md)",
                option=name,
            )
        if name not in allowed and not name.startswith(_CATALOG):
            raise InvalidOption(
                f"option {name!r:.100} of format {FORMAT} is unknown here; there are "
                f"{', '.join(sorted(allowed))}, and {_CATALOG}… for those of the catalog",
                option=name,
            )


def _check_columns(asked: StructType, held: TableAt | Table) -> None:
    """Check columns that a caller asks for by a schema of their own."""
    known = {each.name: each.dataType for each in to_spark_schema(held.schema.fields).fields}
    for field in asked.fields:
        if known.get(field.name) != field.dataType:
            there = known.get(field.name)
            what = "has no such column" if there is None else f"has {there.simpleString()} there"
            raise InvalidRequestError(
                f"the schema asks for {field.name} {field.dataType.simpleString()}, and "
                f"{held.name} {what}; leave the schema out, or name columns in option columns"
            )


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share(InputPartition):
    """What one task reads."""

    packed: bytes


class TableReader(DataSourceReader):
    """Shares of tasks, and their rows; tasks get a copy of it.

    It has no `pushFilters`: Spark 4.3 keeps the reader of the last filter for all scans of a
    DataFrame, so those without it, or with another one, would lose rows (SPARK-58551 corrects it).
    """

    def __init__(self, at: TableAt, where: Predicate | None, schema: StructType) -> None:
        self._at = at
        self._where = where
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        splits = self._at.scan(self._where, self._schema.names).splits
        return [Share(each) for each in packed_tasks(splits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark gives a table without rows one partition of its own.
        if not isinstance(partition, Share):
            return
        at = self._at
        reader = SplitReader(
            at.table_files,
            columns=self._schema.names,
            predicate=self._where,
            snapshot_id=None if at.snapshot is None else at.snapshot.id,
        )
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for rows in rows_of_task(reader, partition.packed):
            yield from for_spark(rows).cast(schema).to_batches()


# --- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of one task; the job comes without what only tasks need."""

    job: StagingJob
    results: tuple[Mapping[str, Any], ...]
    stream: str | None


def _written(job: StagingJob, batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Written:
    context = TaskContext.get()
    assert context is not None
    stream = context.getLocalProperty(QUERY_ID)
    if stream is not None:
        job = replace(job, request=replace(job.request, commit_user=stream))
    results = write_share(job, batches, names).to_pylist()
    return Written(replace(job, states=BucketStates()), tuple(results), stream)


def _staged(job: StagingJob, written: Sequence[Written]) -> StagedWrite:
    """What all tasks wrote; if it cannot be committed, all files are deleted.

    Raises:
        StorageError: the first error of a task.
        InvalidRequestError: several tasks wrote to a partition whose buckets one has to assign.
    """
    files = job.files
    try:
        of_tasks = [written_in_tasks(job, each.results)[0] for each in written]
        messages, use, again = written_in_tasks(
            job, [row for each in written for row in each.results]
        )
        if files.options.bucket_mode is BucketMode.DYNAMIC:
            _check_one_task_each(job, of_tasks)
    except StorageError:
        sweep_after_failure(files, [job.write_id], since_snapshot_id=job.base_snapshot_id)
        raise
    if again:
        sweep_repeated(files, job.write_id, messages, since_snapshot_id=job.base_snapshot_id)
    return staged_write(job, messages, use)


def _check_one_task_each(job: StagingJob, of_tasks: Sequence[Sequence[CommitMessage]]) -> None:
    seen: set[bytes] = set()
    for messages in of_tasks:
        partitions = {message.partition for message in messages}
        if both := partitions & seen:
            keys = job.files.schema.partition_keys
            by = f"repartition({', '.join(map(repr, keys))})" if keys else "coalesce(1)"
            where = describe_partition(job.files.partitions.of_row(min(both)).spec)
            raise InvalidRequestError(
                f"several tasks have rows for {where} of {job.files.name}, whose dynamic buckets "
                f"one task has to assign; write DataFrame.{by}, or with write of the table, which "
                "distributes the rows itself"
            )
        seen |= partitions


def _tell(files_name: str, staged: StagedWrite, snapshot_id: int | None) -> None:
    shown = ", ".join(describe_partition(e.spec) for e in staged.partitions[:_SHOWN_PARTITIONS])
    more = len(staged.partitions) - _SHOWN_PARTITIONS
    # In its processes Spark sets handlers and no levels.
    _LOG.setLevel(logging.INFO)
    _LOG.info(
        "%s: snapshot %s has %d rows in %d files, %d bytes, of %s%s",
        files_name,
        snapshot_id,
        staged.row_count,
        staged.file_count,
        staged.size_bytes,
        shown or "no partition",
        f" and {more} more" if more > 0 else "",
    )


class TableWriter(DataSourceArrowWriter):
    """Stages rows in tasks, and commits what all of them wrote."""

    def __init__(self, job: StagingJob, names: Sequence[str]) -> None:
        self._job = job
        self._names = names

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _written(self._job, iterator, self._names)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        files = self._job.files
        staged = _staged(self._job, [each for each in messages if isinstance(each, Written)])
        result = commit_or_abort(files, staged)
        _tell(files.name, staged, None if result.snapshot is None else result.snapshot.id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # Spark also aborts what it could not commit. Then no task failed, and the commit has
        # deleted the files, or keeps them because a snapshot may name them.
        if None in messages:
            job = self._job
            sweep_after_failure(job.files, [job.write_id], since_snapshot_id=job.base_snapshot_id)


class StreamWriter(DataSourceStreamArrowWriter):
    """Stages a batch in tasks, and commits it once.

    Spark makes one for the tasks of a batch and another one that commits, so the job comes back
    with the results.
    """

    def __init__(self, job: StagingJob, names: Sequence[str], checkpoint: str) -> None:
        self._job = job
        self._names = names
        self._checkpoint = checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _written(self._job, iterator, self._names)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [each for each in messages if isinstance(each, Written)]
        job, stream = written[0].job, written[0].stream
        assert stream is not None
        batch = batch_of(job.files, stream, self._checkpoint, batchId)
        staged = replace(_staged(job, written), commit_identifier=batchId)
        try:
            is_there = is_committed(job.files.refreshed(), batch)
        except StorageError:
            _drop(job, staged)
            raise
        if is_there:
            _drop(job, staged)
            return
        result = commit_batch(job.files, batch, staged)
        _tell(job.files.name, staged, None if result.snapshot is None else result.snapshot.id)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [each for each in messages if isinstance(each, Written)]
        if None in messages and written:
            job = written[0].job
            sweep_after_failure(job.files, [job.write_id], since_snapshot_id=job.base_snapshot_id)


def _drop(job: StagingJob, staged: StagedWrite) -> None:
    # Why the batch is not committed matters more.
    with suppress(StorageError):
        abort_staged(job.files, staged)
