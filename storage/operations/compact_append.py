"""Compacting one bucket of an append table: a task's work, from files to a commit message.

1. Read the files in the order of their rows, without the rows that were deleted.
2. Write them as files of about the target size.
3. Prove that no row was lost on the way.
4. Drop the deletion vectors of the files that go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.bucket_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.compact_outputs import (
    check_written,
    deletions_of,
    replace_deletion_vectors,
)
from lakewright.storage.operations.file_rows import FileRows
from lakewright.storage.operations.scan import DataSplit
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.manifest import DataFileMeta, FileSource


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTask:
    """Files of a bucket that become fewer; `others` are the rest of the bucket.

    `indexes` are the bucket's deletion vectors. Where there are any, the bucket has one
    task only, since they are written anew as a whole.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    others: frozenset[str] = frozenset()
    indexes: tuple[IndexFileMeta, ...] = ()


def rewrite_append(files: TableFiles, write_id: str, task: AppendTask) -> CommitMessage:
    """Write a task's files anew; on failure no new file is left.

    Raises:
        CorruptionError: rows written differ in number from rows read.
    """
    source, split = FileRows(files, files.schema.fields), split_of(task)
    batches = (rows for file in task.files for rows in source.batches(split, file))
    return write_append(files, write_id, task, batches)


def write_append(
    files: TableFiles, write_id: str, task: AppendTask, batches: Iterable[pa.Table]
) -> CommitMessage:
    """Write the rows of a task's files, which come in some order, in their place.

    Raises:
        CorruptionError: rows written differ in number from those that the files hold.
    """
    target = BucketTarget(
        partition=task.partition,
        bucket=task.bucket,
        next_sequence=min(file.min_sequence_number for file in task.files),
        source=FileSource.COMPACT,
    )
    writer = RollingWriter(files, target, write_id=write_id)
    deletions = split_of(task).deletions
    deleted = sum(len(files.indexes.read_deletion_vector(*each)) for each in deletions)
    due = sum(file.row_count for file in task.files) - deleted
    try:
        for rows in batches:
            writer.write(rows)
        written = writer.close()
        check_written(files, target, written, due)
    except BaseException:
        writer.abandon()
        raise
    new_indexes, removed_indexes = replace_deletion_vectors(
        files, task.indexes, live=task.others, marked={}, write_id=write_id
    )
    return CommitMessage(
        partition=task.partition,
        bucket=task.bucket,
        total_buckets=task.total_buckets,
        compact_before=task.files,
        compact_after=written,
        new_indexes=new_indexes,
        removed_indexes=removed_indexes,
    )


def split_of(task: AppendTask) -> DataSplit:
    """A task's files, with the rows that were deleted from them."""
    return DataSplit(
        partition=task.partition,
        bucket=task.bucket,
        files=task.files,
        merge=False,
        deletions=deletions_of(task.indexes, {file.file_name for file in task.files}),
    )
