"""Compacting one bucket of an append table: a task's work, from files to a commit message.

1. Read the files in the order of their rows, without the rows that were deleted.
2. Write them as files of about the target size.
3. Prove that the files hold what was read.
4. Drop the deletion vectors of the replaced files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.column_files import (
    files_of_rows,
    holds_one_column,
    with_newer_files,
)
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.unfit_values import NulledValues
from lakewright.storage.operations.rewrite.compact_outputs import (
    deleted_positions,
    deletions_of,
    replace_deletion_vectors,
)
from lakewright.storage.operations.rewrite.copied_parts import CopiedPart, divided, write_copied
from lakewright.storage.operations.running.concurrency import ahead
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.task_memory import gathered
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import (
    Proof,
    ProvenFiles,
    VerifyLevel,
    rows_to_rewrite,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.manifest import DataFileMeta, FileSource
from lakewright.storage.spec.partition import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTask:
    """Files of a bucket to rewrite as fewer files; `others` are the rest of the bucket.

    The files of one stretch become one run of rows. If the order of rows matters, no other file
    lies between the files of a stretch. `indexes` are the bucket's deletion vectors. A bucket with
    deletion vectors has only one task, because they are rewritten as a whole.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    stretches: tuple[tuple[DataFileMeta, ...], ...]
    others: frozenset[str] = frozenset()
    indexes: tuple[IndexFileMeta, ...] = ()

    @property
    def place(self) -> Place:
        """Partition and bucket."""
        return Place(self.partition, self.bucket)

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The files as the manifests have them."""
        stretched = (file for stretch in self.stretches for file in stretch)
        return tuple(each for file in stretched for each in files_of_rows(file))


def joined_rows(
    files: TableFiles, metas: Sequence[DataFileMeta], rest: Sequence[DataFileMeta]
) -> tuple[DataFileMeta, ...] | None:
    """Files of columns as one file a range of row ids; None if they do not follow each other.

    Another commit may have updated a column of their rows in one of the `rest`.
    """
    joined = with_newer_files(metas, table=files.name)
    places = [(file.first_row_id or 0, file.row_count) for file in joined]
    follows = all(one[0] + one[1] == other[0] for one, other in pairwise(places))
    starts = {each.first_row_id for each in rest if not holds_one_column(each)}
    return joined if follows and not starts & {first for first, _ in places} else None


def _numbered(
    files: TableFiles, task: AppendTask, written: Sequence[DataFileMeta]
) -> list[DataFileMeta]:
    """New files of rows that keep their ids, where the ids are in no column.

    The snapshots of rows become that of the newest, as Java has it.
    """
    if not files.options.data_evolution_enabled:
        return list(written)
    first_row_id = task.stretches[0][0].first_row_id or 0
    low = min(each.min_sequence_number for each in task.files)
    high = max(each.max_sequence_number for each in task.files)
    found: list[DataFileMeta] = []
    for file in written:
        found.append(
            replace(
                file,
                first_row_id=first_row_id,
                min_sequence_number=low,
                max_sequence_number=high,
            )
        )
        first_row_id += file.row_count
    return found


def stretches_of(
    chosen: Iterable[DataFileMeta], rest: Iterable[DataFileMeta]
) -> tuple[tuple[DataFileMeta, ...], ...]:
    """Files of a bucket in the order of their rows, split where another file lies between."""
    marked = [(file, True) for file in chosen] + [(file, False) for file in rest]
    marked.sort(key=lambda each: each[0].min_sequence_number)
    return tuple(
        tuple(file for file, _ in stretch)
        for is_chosen, stretch in groupby(marked, key=lambda each: each[1])
        if is_chosen
    )


@dataclass(frozen=True, slots=True)
class AppendPart:
    """Rows that replace some files of a task, and the proof that no row was lost.

    The reader adds the expected rows to the proof; the writer checks it. A new file begins where a
    value of the columns `cut_by` changes from one row to the next.
    """

    replaced: Sequence[DataFileMeta]
    batches: Iterable[pa.Table]
    proof: Proof
    cut_by: tuple[str, ...] = ()


def rewrite_append(
    files: TableFiles, write_id: str, task: AppendTask, verify: VerifyLevel = VerifyLevel.CHECKSUMS
) -> CommitMessage:
    """Rewrite a task's files, stretch by stretch; deletes all new files on failure.

    Raises:
        VerificationFailed: rows written differ from rows read.
    """
    source, split = rows_to_rewrite(files, verify), split_of(task)

    def batches(stretch: Sequence[DataFileMeta]) -> Iterator[pa.Table]:
        # One core decodes while the other one encodes.
        with closing(ahead(files.env, gathered(source.all_batches(split, stretch)))) as read:
            yield from read

    deleted = {vector.data_file for _, vector in split.deletions}
    parts: list[AppendPart | CopiedPart] = []
    for stretch in task.stretches:
        for some in divided(files, task.place, stretch, deleted):
            if isinstance(some, CopiedPart):
                parts.append(some)
            else:
                proof = Proof(files, verify)
                parts.append(AppendPart(some, proof.expected(batches(some)), proof))
    return write_append(files, write_id, task, parts, source.nulled, verify)


def write_append(
    files: TableFiles,
    write_id: str,
    task: AppendTask,
    parts: Iterable[AppendPart | CopiedPart],
    nulled: NulledValues,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
) -> CommitMessage:
    """Write rows that replace the task's files; each file is in exactly one part.

    `nulled` counts the values that the reader of the parts makes null. `verify` is of copied parts;
    the others have their own proofs.

    Raises:
        VerificationFailed: rows written differ from the rows of the files.
    """
    gone = deleted_positions(files, split_of(task).deletions)
    deleted = {name: len(positions) for name, positions in gone.items()}
    writers: list[RollingWriter] = []
    written: list[DataFileMeta] = []
    copied: list[DataFileMeta] = []
    try:
        for number, part in enumerate(parts):
            target = BucketTarget(
                partition=task.partition,
                bucket=task.bucket,
                next_sequence=min(file.min_sequence_number for file in part.replaced),
                source=FileSource.COMPACT,
            )
            if isinstance(part, CopiedPart):
                copied.append(write_copied(files, target, part, f"{write_id}-{number}", verify))
                written.append(copied[-1])
                continue
            witness = part.proof.witness()
            due = sum(file.row_count - deleted.get(file.file_name, 0) for file in part.replaced)
            writer = RollingWriter(
                files, target, write_id=f"{write_id}-{number}", witness=witness, rows_due=due
            )
            writers.append(writer)
            _write_part(writer, part)
            made = writer.close()
            part.proof.check(ProvenFiles(target, witness, made, due))
            written += made
    except BaseException:
        for writer in writers:
            writer.abandon()
        discard_files(files.fs, [files.data_file_path(task.place, each) for each in copied])
        raise
    new_indexes, removed_indexes = replace_deletion_vectors(
        files, task.indexes, live=task.others, marked={}, write_id=write_id
    )
    return CommitMessage(
        partition=task.partition,
        bucket=task.bucket,
        total_buckets=task.total_buckets,
        compact_before=task.files,
        compact_after=tuple(_numbered(files, task, written)),
        new_indexes=new_indexes,
        removed_indexes=removed_indexes,
        nulled_values=nulled.total,
    )


def _write_part(writer: RollingWriter, part: AppendPart) -> None:
    if not part.cut_by:
        for rows in part.batches:
            writer.write(rows)
        return
    last = None
    for rows in part.batches:
        values = rows.select(list(part.cut_by))
        # With the last row of the batch before, to which the first one is compared.
        compared = values if last is None else pa.concat_tables([last, values])
        before = 0 if last is None else 1
        start = 0
        for change in _changes(compared):
            end = change + 1 - before
            if end > start:
                writer.write(rows.slice(start, end - start))
            writer.end_file()
            start = end
        writer.write(rows.slice(start))
        last = values.slice(max(0, rows.num_rows - 1))


def _changes(rows: pa.Table) -> list[int]:
    """Indexes of rows whose values differ from those of the next row; nulls and NaN are alike."""
    changed = np.zeros(max(0, rows.num_rows - 1), dtype=bool)
    for column in rows.columns:
        codes = column.combine_chunks().dictionary_encode(null_encoding="encode").indices
        changed |= np.diff(codes.to_numpy(zero_copy_only=False)) != 0
    return list(np.flatnonzero(changed))


def split_of(task: AppendTask) -> DataSplit:
    """A task's files with their deletion vectors."""
    return DataSplit(
        partition=task.partition,
        bucket=task.bucket,
        files=task.files,
        merge=False,
        deletions=deletions_of(task.indexes, {file.file_name for file in task.files}),
    )
