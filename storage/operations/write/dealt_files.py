"""Writes rows to the partitions and buckets to which they move, and proves that all arrived.

A sorted run of a bucket ends where rows follow that may belong before its last one. Of a table with
keys, small runs are sorted into one in memory, and the runs of a place are merged into one in the
end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Self

import pyarrow as pa

from lakewright.storage.errors import VerificationFailed
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import RowOrder, in_order
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import merged_windows, row_order
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.task_memory import MOVED_BYTES, free_memory
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import Proof, ProvenFiles, VerifyLevel
from lakewright.storage.spec.manifest import DataFileMeta, FileSource
from lakewright.storage.spec.partition import Place

# Files of runs below this size would be written to be read again at once.
_HELD_BYTES = MOVED_BYTES // 4


class DealtFiles:
    """New files of a table, by their places; a context that deletes them on failure.

    `proof` expects the rows that the caller reads; one proof covers all places, because rows move
    between them. With `buckets`, each row's bucket is proved to be that of its hash; `ordered` rows
    of a single place are proved to keep their order.
    """

    def __init__(
        self,
        files: TableFiles,
        write_id: str,
        verify: VerifyLevel,
        *,
        level: int = 0,
        next_sequence: int = 0,
        buckets: int | None = None,
        ordered: bool = False,
    ) -> None:
        self.proof = Proof(files, verify, ordered=ordered)
        self._files = files
        self._write_id = write_id
        self._level = level
        self._next_sequence = next_sequence
        self._buckets = buckets
        # Rows that no writer has yet, and how many whole runs of rows they are.
        self._held: dict[Place, list[pa.Table]] = defaultdict(list)
        self._held_bytes = 0
        self._held_runs = 0
        self._writers: list[RollingWriter] = []
        self._open: dict[Place, RollingWriter] = {}
        self._runs: dict[Place, list[RollingWriter]] = defaultdict(list)
        self._due: dict[Place, int] = defaultdict(int)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for writer in self._writers if kind is not None else ():
            writer.abandon()

    def write(self, parts: Iterable[tuple[Place, pa.Table]]) -> None:
        """Write rows to their places."""
        for place, rows in parts:
            self._held[place].append(rows)
            self._held_bytes += rows.nbytes
            self._due[place] += rows.num_rows
        if self._held_bytes > _HELD_BYTES:
            self._put_down(several=self._held_runs > 0)

    def end_run(self) -> None:
        """End a run: the next rows of a place may belong before its last ones.

        Small runs are held, and become one; a file of each would be read once more.
        """
        self._held_runs += 1
        if self._open:
            self._put_down(several=False)
            self._end_files()

    def _put_down(self, *, several: bool) -> None:
        """Give writers the rows that are held; those of several runs are sorted into one."""
        order = row_order(self._files) if several else None
        for place, tables in self._held.items():
            rows = pa.concat_tables(tables)
            if place not in self._open:
                self._open[place] = self._writer(place)
            self._open[place].write(rows if order is None else self._sorted(place, rows, order))
        self._held.clear()
        self._held_bytes = self._held_runs = 0
        free_memory(self._files.env, self._open.values(), MOVED_BYTES)
        if several:
            self._end_files()

    def _sorted(self, place: Place, rows: pa.Table, order: RowOrder) -> pa.Table:
        """The rows of several runs as one; a merge of their files would lose a key's other rows."""
        ordered, starts = in_order(rows, order)
        if len(starts) < ordered.num_rows:
            raise VerificationFailed(
                f"{ordered.num_rows - len(starts)} rows that move to bucket {place.bucket} of "
                f"{self._files.name} have keys of other rows there: a client wrote them to buckets "
                "of another hash; nothing was published; overwrite their partition with its rows"
            )
        return ordered

    def _end_files(self) -> None:
        for place, writer in self._open.items():
            writer.end_file()
            self._runs[place].append(writer)
        self._open = {}

    def close(self) -> list[ProvenFiles]:
        """The files of each place, in the order of places.

        Raises:
            VerificationFailed: rows written differ from rows expected.
        """
        self.end_run()
        self._put_down(several=self._held_runs > 1)
        self._end_files()
        made = []
        for place, runs in sorted(self._runs.items()):
            writer, metas = self._one_run(place, runs)
            made.append(ProvenFiles(writer.target, writer.witness, metas, self._due[place]))
        self.proof.check(*made)
        return made

    def _writer(self, place: Place) -> RollingWriter:
        target = BucketTarget(
            partition=place.partition,
            bucket=place.bucket,
            level=self._level,
            next_sequence=self._next_sequence,
            source=FileSource.COMPACT,
        )
        witness = (
            self.proof.witness()
            if self._buckets is None
            else self.proof.witness_of_bucket(target, self._buckets)
        )
        write_id = f"{self._write_id}-{len(self._writers)}"
        writer = RollingWriter(self._files, target, write_id=write_id, witness=witness)
        self._writers.append(writer)
        return writer

    def _one_run(
        self, place: Place, runs: list[RollingWriter]
    ) -> tuple[RollingWriter, tuple[DataFileMeta, ...]]:
        if len(runs) == 1:
            return runs[0], tuple(runs[0].done)
        # The files of each run do not overlap, like those of a level of its own.
        parts = tuple(
            replace(file, level=level) for level, run in enumerate(runs, 1) for file in run.done
        )
        split = DataSplit(partition=place.partition, bucket=place.bucket, files=parts, merge=True)
        writer = self._writer(place)
        source = FileRows(self._files, self._files.schema.fields)
        for window in merged_windows(source, split):
            writer.write(window)
        written = writer.close()
        folder = self._files.bucket_dir(place)
        discard_files(self._files.fs, [f"{folder}/{file.file_name}" for file in parts])
        return writer, written
