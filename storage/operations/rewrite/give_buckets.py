"""Moves the postponed rows of one partition to their buckets: a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, repeat

import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.checksum import Sums, UnorderedChecksum
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.rewrite.deal_rows import deal_rows
from lakewright.storage.operations.running.task_memory import free_memory
from lakewright.storage.operations.write.bucket_writer import BucketWriter, ShownRows
from lakewright.storage.operations.write.rolling_writer import BucketTarget, WrittenFiles
from lakewright.storage.operations.write.verify import (
    Proof,
    ProvenFiles,
    VerifyLevel,
    refuse_rows,
    rows_to_rewrite,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.options import POSTPONE_BUCKET
from lakewright.storage.spec.schema import VALUE_KIND


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition's postponed files in order, and the next sequence numbers of its buckets."""

    partition: bytes
    bucket_count: int
    files: tuple[DataFileMeta, ...]
    next_sequences: Mapping[int, int]


def give_buckets(
    files: TableFiles, write_id: str, move: Move, verify: VerifyLevel
) -> tuple[CommitMessage, ...]:
    """Write the rows of a partition to its buckets; deletes all new files on failure.

    Raises:
        VerificationFailed: rows were lost or changed on their way to buckets or files.
        InvalidRows: the table's merge engine does not accept the rows.
    """
    return BucketSorting(files, write_id, move, verify).carry_out()


class BucketSorting:
    """The move of one partition's rows to their buckets; used once."""

    def __init__(self, files: TableFiles, write_id: str, move: Move, verify: VerifyLevel) -> None:
        self._files = files
        self._move = move
        self._rows = rows_to_rewrite(files, verify)
        self._write_id = write_id
        self._verify = verify
        self._buckets: dict[int, _OneBucket] = {}
        # All rows read, over all buckets.
        self._columns = (VALUE_KIND, *files.schema.field_names)
        self._waiting = UnorderedChecksum([("values", self._columns)])

    def carry_out(self) -> tuple[CommitMessage, ...]:
        """Do the work; deletes all new files on failure."""
        try:
            for file in self._move.files:
                self._take(file)
            return self._close()
        except BaseException:
            for bucket in self._buckets.values():
                bucket.writer.abandon()
            raise

    def _take(self, file: DataFileMeta) -> None:
        """Pass the rows of a postponed file to the writers of their buckets."""
        split = DataSplit(
            partition=self._move.partition, bucket=POSTPONE_BUCKET, files=(file,), merge=True
        )
        batch_rows = self._rows.batch_rows(split, file)
        for rows in self._rows.key_value_rows(split, file, batch_rows=batch_rows):
            # Rows get new sequence numbers after those of their bucket.
            unnumbered = rows.select(list(self._columns))
            if self._verify is not VerifyLevel.COUNTS:
                self._waiting.add(unnumbered)
            for bucket, part in deal_rows(self._files, unnumbered, self._move.bucket_count):
                self.give(bucket, part)
            free_memory(self._files.env, [each.writer for each in self._buckets.values()])

    def give(self, bucket: int, rows: pa.Table) -> None:
        """Pass rows to the writer of a bucket."""
        if bucket not in self._buckets:
            target = BucketTarget(
                partition=self._move.partition,
                bucket=bucket,
                next_sequence=self._move.next_sequences.get(bucket, 0),
            )
            write_id = f"{self._write_id}-{bucket}"
            count = self._move.bucket_count
            self._buckets[bucket] = _OneBucket(self._files, target, write_id, count, self._verify)
        self._buckets[bucket].write(rows)

    def _close(self) -> tuple[CommitMessage, ...]:
        self._check_taken()
        # The rows of a partition have one sum, which its first message carries.
        sums = chain([self._rows.nulled.total], repeat(0))
        return tuple(map(self._message, sorted(self._buckets), sums))

    def _message(self, bucket: int, nulled_values: int) -> CommitMessage:
        written = self._buckets[bucket].close()
        return CommitMessage(
            partition=self._move.partition,
            bucket=bucket,
            total_buckets=self._move.bucket_count,
            compact_after=written.data,
            compact_changelog=written.changelog,
            nulled_values=nulled_values,
        )

    def _check_taken(self) -> None:
        """Prove that the buckets' writers received all postponed rows."""
        sums = Sums(0, ())
        for bucket in self._buckets.values():
            sums = sums.plus(bucket.taken.sums())
        due = sum(file.row_count for file in self._move.files)
        what = f"{sums.rows} of {due} postponed rows came to a bucket"
        if sums.rows == due:
            if self._verify is VerifyLevel.COUNTS or not self._waiting.sums().differences(sums):
                return
            what = f"the {due} postponed rows differ from the rows that came to buckets"
        refuse_rows(self._files, self._move.partition, what, due=due, found=sums.rows)


class _OneBucket:
    """A bucket's writer, and the proof that its files hold the merged rows."""

    def __init__(
        self,
        files: TableFiles,
        target: BucketTarget,
        write_id: str,
        total_buckets: int,
        verify: VerifyLevel,
    ) -> None:
        self._target, self._told = target, replace(target, changelog=True)
        self._proof, self._changes_proof = Proof(files, verify), Proof(files, verify)
        self._shown = ShownRows(
            merged=self._proof.expect,
            written=self._proof.witness_of_bucket(target, total_buckets),
            changes=self._changes_proof.expect,
            changes_written=self._changes_proof.witness_of_bucket(self._told, total_buckets),
        )
        self.writer = BucketWriter(files, target, write_id=write_id, shown=self._shown)
        columns = (VALUE_KIND, *files.schema.field_names)
        counted = verify is VerifyLevel.COUNTS
        self.taken = UnorderedChecksum([] if counted else [("values", columns)])

    def write(self, rows: pa.Table) -> None:
        self.taken.add(rows)
        self.writer.write(rows)

    def close(self) -> WrittenFiles:
        """Finish the files and check the proof.

        Raises:
            VerificationFailed: the files do not hold the merged rows.
        """
        written = self.writer.close()
        shown, told = self._shown, written.changelog
        self._proof.check(
            ProvenFiles(self._target, shown.written, written.data, self.writer.rows_due)
        )
        self._changes_proof.check(
            ProvenFiles(self._told, shown.changes_written, told, self.writer.changes_due)
        )
        return written
