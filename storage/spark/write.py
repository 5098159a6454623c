"""Stages a DataFrame: shuffles rows by partition and bucket, and writes them in tasks.

1. Check the write on the driver, before Spark starts any work.
2. Fixed buckets: hash the key columns and deal the buckets to tasks in turn, those of a partition
   from a number of its own on, so that one task has all rows of a bucket. Dynamic buckets: shuffle
   by partition, because one task must assign the buckets of all new keys of a partition. Other
   partitioned tables: rebalance by partition, which lets Spark split a skewed one; without adaptive
   execution, shuffle by partition. Unless the caller wants otherwise, each task sorts its rows by
   partition and bucket, beyond its memory on disk, so that one partition is open at a time. Changes
   of a stream out of a table have an order, by which a task sorts those of each bucket: the last
   one of a key counts.
3. Each task writes its rows with the writer of local writes, and returns its commit messages.
4. If Spark repeated a task, or may have, delete the files of attempts whose result was not used.
   If the write failed, wait until none of its tasks runs, and delete all of its files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.codec.commit_json import decode_message, encode_message
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.changes.change_read import CHANGE_ORDER_COLUMN
from lakewright.storage.operations.references.sweep import sweep, sweep_repeated
from lakewright.storage.operations.running.work_name import work_name
from lakewright.storage.operations.state.assign_buckets import BucketChooser
from lakewright.storage.operations.write.write import (
    StagingJob,
    StagingWriter,
    staged_write,
    use_of_tasks,
)
from lakewright.storage.spark.arrow_batches import (
    LongTexts,
    batches_by_rows,
    gathered,
    may_go_by_rows,
    with_short_texts,
)
from lakewright.storage.spark.engine import attempt, may_retry, runs_twice
from lakewright.storage.spark.pickling import dumps, loads
from lakewright.storage.spark.read import check_reachable, tasks_at_once
from lakewright.storage.spark.running_tasks import ended_if_it_fails, stage_repeated
from lakewright.storage.spark.told_actions import WRITTEN_SCHEMA, named, observed, written_by
from lakewright.storage.spec.commit import CommitMessage, StagedWrite, WriterKind, WriterUse
from lakewright.storage.spec.options import BucketMode

_BUCKET = "__lakewright_bucket"
_TASKS_A_CORE = 4
_RESULT_SCHEMA = f"message string, error binary, use binary, attempt int, {WRITTEN_SCHEMA}"


def stage_dataframe(job: StagingJob, rows: DataFrame) -> StagedWrite:
    """Stage a DataFrame, which no reader sees before the commit.

    If one write has several rows with the same primary key, it is undefined which one wins, unless
    they come from a stream out of a table.

    Raises:
        InvalidRequestError: the rows do not fit; all files are deleted.
        UnsupportedError: the table lies in memory.
    """
    check_reachable(job.files)
    if may_go_by_rows(rows):
        with suppress(LongTexts):
            return _staged(job, with_short_texts(rows), batches_by_rows(rows.sparkSession))
    return _staged(job, rows, nullcontext())


def _staged(job: StagingJob, rows: DataFrame, batches: AbstractContextManager[None]) -> StagedWrite:
    spark, tag = rows.sparkSession, f"lakewright-{job.write_id}"
    try:
        with batches, ended_if_it_fails(spark, tag, job.files.env):
            messages, use, again = _run(job, _distributed(job, rows))
    except BaseException:
        # Succeeded or killed tasks left files under the write's id.
        sweep(job.files, job.write_id, since_snapshot_id=job.base_snapshot_id)
        raise
    if may_retry(spark) and (again or runs_twice(spark) or stage_repeated(spark, tag)):
        sweep_repeated(job.files, job.write_id, messages, since_snapshot_id=job.base_snapshot_id)
    return staged_write(job, messages, use)


def _distributed(job: StagingJob, rows: DataFrame) -> DataFrame:
    """Rows distributed so that each task writes few, whole buckets, and sorted by them."""
    options, schema = job.files.options, job.files.schema
    ordered = CHANGE_ORDER_COLUMN in {*rows.columns} - {*schema.field_names}
    if ordered and not schema.is_keyed:
        return _distributed(job, rows.drop(CHANGE_ORDER_COLUMN))
    fixed = {name for name, _ in job.request.static}
    partition_columns = [
        f.col(_quoted(name))
        for name in schema.partition_keys
        if name not in fixed and name in rows.columns
    ]
    if options.bucket_mode is BucketMode.FIXED:
        needed = {*options.bucket_keys, *schema.partition_keys} - fixed
        missing = needed - set(rows.columns)
        if missing:
            # The writer raises the usual error for missing columns.
            return rows.drop(CHANGE_ORDER_COLUMN) if ordered else rows
        bucket = _BUCKET
        while bucket in rows.columns:
            bucket += "_"
        rows = rows.withColumn(bucket, _bucket_column(job, rows.columns))
        places = [*partition_columns, f.col(bucket)]
        rows = _by_place(job, rows, partition_columns, f.col(bucket))
        return _sorted(job, rows, places, ordered).drop(bucket)
    if options.bucket_mode is BucketMode.POSTPONE and ordered:
        # All changes of a key go to one task.
        keys = [name for name in schema.primary_keys if name in rows.columns]
        rows = rows.repartition(*[f.col(_quoted(name)) for name in keys])
    elif not partition_columns:
        rows = rows.repartition(1) if options.bucket_mode is BucketMode.DYNAMIC else rows
    elif options.bucket_mode is BucketMode.DYNAMIC:
        rows = rows.repartition(*partition_columns)
    else:
        rows = _by_partition(rows, partition_columns)
    return _sorted(job, rows, partition_columns, ordered)


def _by_place(
    job: StagingJob, rows: DataFrame, partition_columns: Sequence[Column], bucket: Column
) -> DataFrame:
    """The rows of each bucket in one task.

    Hashes of few buckets would meet in few tasks: those of 0 and 1 are equal modulo 2 and 4.
    """
    tasks = _tasks_of_shuffle(rows.sparkSession)
    if not partition_columns:
        tasks = min(tasks, max([job.files.options.bucket, *job.states.bucket_counts.values()]))
        return rows.repartitionById(tasks, bucket)
    first = f.pmod(f.hash(*partition_columns), f.lit(tasks))
    return rows.repartitionById(tasks, first + bucket)


def _tasks_of_shuffle(spark: SparkSession) -> int:
    """Into how many tasks rows go whose tasks Spark cannot join later.

    As many as the session says, but no more than a few for each core, since each empty task takes
    milliseconds. Executors that come on demand are not there to be counted.
    """
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions", None) or 200)
    if (spark.conf.get("spark.dynamicAllocation.enabled", None) or "").lower() == "true":
        return tasks
    return min(tasks, _TASKS_A_CORE * tasks_at_once(spark))


def _by_partition(rows: DataFrame, partition_columns: Sequence[Column]) -> DataFrame:
    """The rows of each partition in one task, or in several if Spark splits a large one."""
    # Spark ignores the hint without adaptive execution; each task would write to all partitions.
    adaptive = rows.sparkSession.conf.get("spark.sql.adaptive.enabled", None) or "true"
    if adaptive.lower() == "true":
        return rows.hint("rebalance", *partition_columns)
    return rows.repartition(*partition_columns)


def _sorted(job: StagingJob, rows: DataFrame, places: Sequence[Column], ordered: bool) -> DataFrame:
    """Rows of each task by place, and changes within it by their order."""
    if ordered:
        rows = rows.sortWithinPartitions(*places, f.col(CHANGE_ORDER_COLUMN))
        return rows.drop(CHANGE_ORDER_COLUMN)
    grouped = job.request.writer is WriterKind.GROUPED
    return rows.sortWithinPartitions(*places) if grouped and places else rows


def _bucket_column(job: StagingJob, given: Sequence[str]) -> Column:
    """The bucket of every row, by the bucket count of its partition."""
    schema, files = job.files.schema, job.files
    names = dict.fromkeys((*schema.partition_keys, *files.options.bucket_keys))
    fields = schema.fields_of(name for name in names if name in given)
    target = to_arrow_schema(fields)
    constants = {
        name: scalar_of(value, schema.field(name).type)
        for name, value in job.request.static
        if name not in given
    }

    def bucket_of(*columns: pa.Array) -> pa.Array:
        try:
            arrays = [column.cast(each.type) for column, each in zip(columns, target, strict=True)]
            rows = pa.table(arrays, names=target.names)
            for name, value in constants.items():
                rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
            return pa.array(BucketChooser(files, job.states).choose(rows).buckets)
        except (pa.ArrowException, StorageError):
            # The writer raises the usual error for such rows.
            return pa.array([0] * len(columns[0]), pa.int32())

    function = f.arrow_udf(bucket_of, IntegerType())  # type: ignore[attr-defined]
    result: Column = function(*[f.col(_quoted(field.name)) for field in fields])
    return result


def _run(job: StagingJob, rows: DataFrame) -> tuple[list[CommitMessage], WriterUse, bool]:
    names = list(rows.columns)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield write_share(job, batches, names)

    # Spark parses column names given to a function as expressions: `a.b` as a member.
    numbered = rows.toDF(*[f"c{number}" for number in range(len(names))])
    name = work_name(f"lakewright {job.request.mode.value} {job.files.name}")
    with named(rows.sparkSession, name):
        results = observed(numbered.mapInArrow(write, _RESULT_SCHEMA), name).collect()
    return written_in_tasks(job, [row.asDict() for row in results])


def written_in_tasks(
    job: StagingJob, results: Sequence[Mapping[str, Any]]
) -> tuple[list[CommitMessage], WriterUse, bool]:
    """The messages of all tasks, how they wrote, and whether one of them had failed before.

    Raises:
        StorageError: the first error of a task.
    """
    errors = [bytes(row["error"]) for row in results if row["error"] is not None]
    if errors:
        error: StorageError = loads(errors[0])
        raise error
    messages = [decode_message(row["message"]) for row in results if row["message"] is not None]
    each_task = [loads(bytes(row["use"])) for row in results if row["use"] is not None]
    again = any(row["attempt"] for row in results)
    return messages, use_of_tasks(job.request.writer, each_task), again


def write_share(
    job: StagingJob, batches: Iterator[pa.RecordBatch], names: Sequence[str]
) -> pa.RecordBatch:
    """The result of one task: its messages, or its error.

    `names` are the column names of the batches, by position.
    """
    writer = StagingWriter(job)
    try:
        for rows in gathered(batches):
            writer.write(rows.rename_columns(list(names)))
        messages = writer.close()
    except StorageError as error:
        writer.abandon()
        # A raised error would reach the driver as text; a returned error keeps its type.
        return _result(error=dumps(error))
    return _result(messages, use=dumps(writer.use))


def _result(
    messages: Sequence[CommitMessage] = (), error: bytes | None = None, use: bytes | None = None
) -> pa.RecordBatch:
    """A row for each message, and one for all else."""
    none = [None] * len(messages)
    written = [*map(written_by, [[message] for message in messages]), (0, 0)]
    return pa.record_batch(
        [
            pa.array([*map(encode_message, messages), None], pa.string()),
            pa.array([*none, error], pa.binary()),
            pa.array([*none, use], pa.binary()),
            pa.array([*none, attempt()], pa.int32()),
            pa.array([rows for rows, _ in written], pa.int64()),
            pa.array([size for _, size in written], pa.int64()),
        ],
        names=["message", "error", "use", "attempt", "rows", "bytes"],
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
