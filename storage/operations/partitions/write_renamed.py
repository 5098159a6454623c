"""Writes the rows of a bucket with other values in the partition columns: a task of a rename.

Rows are read merged, without deleted rows, as a rescale reads them. The bucket stays: it follows
from the key, which holds no partition column. New files are proved like those of a compaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import without_deletions
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import merged_windows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.write.dealt_files import DealtFiles
from lakewright.storage.operations.write.verify import VerifyLevel, rows_to_rewrite
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.partition import Partition, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTask:
    """A bucket to write again in another partition; `hashes` is the index of a dynamic bucket."""

    split: DataSplit
    total_buckets: int
    to: Partition
    hashes: tuple[IndexFileMeta, ...] = ()


def write_renamed(
    files: TableFiles, write_id: str, task: RenameTask, verify: VerifyLevel
) -> CommitMessage:
    """Write the bucket's rows to the other partition; deletes the new files on failure.

    Raises:
        VerificationFailed: rows written differ from rows read.
    """
    source, place = rows_to_rewrite(files, verify), Place(task.to.row, task.split.bucket)
    level = files.options.max_level if files.schema.is_keyed else 0
    with DealtFiles(files, write_id, verify, level=level, ordered=True) as dealt:
        for rows in dealt.proof.expected(_renamed(files, task, source)):
            dealt.write([(place, rows)])
        written = tuple(file for each in dealt.close() for file in each.files)
        indexes = tuple(
            files.indexes.write_hash_index(
                files.indexes.read_hash_index(each), name=f"index-{write_id}-{number}"
            )
            for number, each in enumerate(task.hashes)
        )
    return CommitMessage(
        partition=task.to.row,
        bucket=task.split.bucket,
        total_buckets=task.total_buckets,
        new_files=written,
        new_indexes=indexes,
        nulled_values=source.nulled.total,
    )


def _renamed(files: TableFiles, task: RenameTask, source: FileRows) -> Iterator[pa.Table]:
    """The rows of the bucket, with the values of the other partition."""
    values = {
        field.name: scalar_of(value, field.type)
        for field, value in zip(task.to.keys.fields, task.to.values, strict=True)
    }
    for rows in _rows(files, task.split, source):
        renamed = rows
        for name, value in values.items():
            at = renamed.column_names.index(name)
            column = pa.repeat(value, renamed.num_rows).cast(renamed.column(name).type)
            renamed = renamed.set_column(at, name, column)
        yield renamed


def _rows(files: TableFiles, split: DataSplit, source: FileRows) -> Iterator[pa.Table]:
    if files.schema.is_keyed:
        yield from map(without_deletions, merged_windows(source, split))
        return
    for file in sorted(split.files, key=lambda each: each.min_sequence_number):
        yield from source.batches(split, file)
