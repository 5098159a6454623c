"""Moves rows of some buckets to the new buckets of their hashes: a task of a rescale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat

import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import without_deletions
from lakewright.storage.operations.read.merge_read import merged_windows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.rewrite.deal_rows import deal_rows
from lakewright.storage.operations.write.dealt_files import DealtFiles
from lakewright.storage.operations.write.verify import VerifyLevel, rows_to_rewrite
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.partition import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The buckets of a partition with one remainder: rows move only among them."""

    partition: bytes
    splits: tuple[DataSplit, ...]
    to_buckets: int


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
        self._rows = rows_to_rewrite(files, verify)
        # What moves is a full merge, so it lies in the deepest level.
        level = files.options.max_level if files.schema.is_keyed else 0
        self._dealt = DealtFiles(files, write_id, verify, level=level, buckets=share.to_buckets)

    def carry_out(self) -> tuple[CommitMessage, ...]:
        """Do the work; deletes all new files on failure."""
        with self._dealt as dealt:
            for split in self._share.splits:
                for rows in self._read(split):
                    dealt.proof.expect(rows)
                    dealt.write(
                        (Place(self._share.partition, bucket), part)
                        for bucket, part in self.by_bucket(rows)
                    )
                if self._files.schema.is_keyed:
                    dealt.end_run()
            made = dealt.close()
        # The rows of a share have one sum, which its first message carries.
        sums = chain([self._rows.nulled.total], repeat(0))
        return tuple(
            CommitMessage(
                partition=self._share.partition,
                bucket=each.target.bucket,
                total_buckets=self._share.to_buckets,
                compact_after=tuple(each.files),
                nulled_values=nulled,
            )
            for each, nulled in zip(made, sums, strict=False)
        )

    def _read(self, split: DataSplit) -> Iterator[pa.Table]:
        """Merged rows with their kinds and numbers, or appended rows in their order."""
        if self._files.schema.is_keyed:
            yield from map(without_deletions, merged_windows(self._rows, split))
            return
        for file in sorted(split.files, key=lambda each: each.min_sequence_number):
            yield from self._rows.batches(split, file)

    def by_bucket(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Rows by their new bucket, in their order."""
        return deal_rows(self._files, rows, self._share.to_buckets)
