"""Moves rows of some buckets to the new buckets of their hashes: a task of a rescale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import TypeAlias

import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import without_deletions
from lakewright.storage.operations.read.merge_read import merged_windows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.rewrite.deal_rows import deal_rows
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.task_memory import MOVED_BYTES, free_memory
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import (
    Proof,
    ProvenFiles,
    VerifyLevel,
    rows_to_rewrite,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import DataFileMeta, FileSource
from lakewright.storage.spec.partition import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The buckets of a partition with one remainder: rows move only among them."""

    partition: bytes
    splits: tuple[DataSplit, ...]
    to_buckets: int


# A finished writer and its files.
_Run: TypeAlias = tuple[RollingWriter, tuple[DataFileMeta, ...]]


def move_rows(
    files: TableFiles, write_id: str, share: Share, verify: VerifyLevel
) -> tuple[CommitMessage, ...]:
    """Write the rows of a share to their new buckets; deletes all new files on failure.

    Raises:
        VerificationFailed: rows written differ from rows read.
    """
    return ShareMove(files, write_id, share, verify).carry_out()


class ShareMove:
    """The rewrite of one share; used once."""

    def __init__(self, files: TableFiles, write_id: str, share: Share, verify: VerifyLevel) -> None:
        self._files = files
        self._share = share
        self._write_id = write_id
        self._writers: list[RollingWriter] = []
        self._rows = rows_to_rewrite(files, verify)
        # One proof for all buckets, because rows move between them.
        self._proof = Proof(files, verify, ordered=False)

    def carry_out(self) -> tuple[CommitMessage, ...]:
        """Do the work; deletes all new files on failure."""
        try:
            if self._files.schema.is_keyed:
                return self._move_keyed()
            return self._move_appended()
        except BaseException:
            for writer in self._writers:
                writer.abandon()
            raise

    def _move_keyed(self) -> tuple[CommitMessage, ...]:
        """Move merged rows with their kinds and sequence numbers."""
        runs: dict[int, list[_Run]] = defaultdict(list)
        due: dict[int, int] = defaultdict(int)
        for split in self._share.splits:
            writers: dict[int, RollingWriter] = {}
            for window in merged_windows(self._rows, split):
                kept = without_deletions(window)
                self._proof.expect(kept)
                for bucket, rows in self.by_bucket(kept):
                    if bucket not in writers:
                        writers[bucket] = self._writer(bucket, level=self._run_level)
                    writers[bucket].write(rows)
                    due[bucket] += rows.num_rows
                free_memory(self._files.env, writers.values(), MOVED_BYTES)
            for bucket, writer in writers.items():
                runs[bucket].append((writer, writer.close()))
        moved = [(bucket, self._one_run(bucket, parts)) for bucket, parts in sorted(runs.items())]
        return self._proved(moved, due)

    def _move_appended(self) -> tuple[CommitMessage, ...]:
        """Move appended rows in their order, bucket by bucket, with new sequence numbers."""
        writers: dict[int, RollingWriter] = {}
        due: dict[int, int] = defaultdict(int)
        for split in self._share.splits:
            for file in sorted(split.files, key=lambda each: each.min_sequence_number):
                for batch in self._proof.expected(self._rows.batches(split, file)):
                    for bucket, rows in self.by_bucket(batch):
                        if bucket not in writers:
                            writers[bucket] = self._writer(bucket, level=0)
                        writers[bucket].write(rows)
                        due[bucket] += rows.num_rows
                    free_memory(self._files.env, writers.values(), MOVED_BYTES)
        return self._proved(
            [(bucket, (each, each.close())) for bucket, each in sorted(writers.items())], due
        )

    @property
    def _run_level(self) -> int:
        """The level of new runs: rows of one bucket arrive sorted, of several need a merge."""
        return self._files.options.max_level if len(self._share.splits) == 1 else 0

    def _one_run(self, bucket: int, runs: Sequence[_Run]) -> _Run:
        """Merge the runs of the old buckets into one run of the deepest level."""
        top = self._files.options.max_level
        if len(runs) == 1:
            writer, written = runs[0]
            return writer, tuple(replace(file, level=top) for file in written)
        # The files of each run do not overlap, like those of a deeper level.
        parts = tuple(
            replace(file, level=level) for level, (_, run) in enumerate(runs, 1) for file in run
        )
        split = DataSplit(partition=self._share.partition, bucket=bucket, files=parts, merge=True)
        writer = self._writer(bucket, level=top)
        for window in merged_windows(self._rows, split):
            writer.write(window)
        written = writer.close()
        folder = self._files.bucket_dir(Place(self._share.partition, bucket))
        discard_files(self._files.fs, [f"{folder}/{file.file_name}" for file in parts])
        return writer, written

    def by_bucket(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Rows by their new bucket, in their order."""
        return deal_rows(self._files, rows, self._share.to_buckets)

    def _writer(self, bucket: int, *, level: int) -> RollingWriter:
        target = BucketTarget(
            partition=self._share.partition, bucket=bucket, level=level, source=FileSource.COMPACT
        )
        write_id = f"{self._write_id}-{len(self._writers)}"
        witness = self._proof.witness_of_bucket(target, self._share.to_buckets)
        writer = RollingWriter(self._files, target, write_id=write_id, witness=witness)
        self._writers.append(writer)
        return writer

    def _proved(
        self, moved: Sequence[tuple[int, _Run]], due: Mapping[int, int]
    ) -> tuple[CommitMessage, ...]:
        self._proof.check(
            *(
                ProvenFiles(writer.target, writer.witness, metas, due[bucket])
                for bucket, (writer, metas) in moved
            )
        )
        # The rows of a share have one sum, which its first message carries.
        sums = chain([self._rows.nulled.total], repeat(0))
        return tuple(
            CommitMessage(
                partition=self._share.partition,
                bucket=bucket,
                total_buckets=self._share.to_buckets,
                compact_after=metas,
                nulled_values=nulled,
            )
            for (bucket, (_, metas)), nulled in zip(moved, sums, strict=False)
        )
