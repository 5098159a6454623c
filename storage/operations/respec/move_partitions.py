"""Writes the rows of a primary-key table's partitions anew, under other partition keys.

A task takes one partition: it merges the rows of each bucket, as a full compaction does, and writes
them to the partitions and buckets of the new keys, in the order of the new trimmed primary key. The
rows of a partition keep their order, since the columns that leave or join that key have one value
in it. Rows keep their sequence numbers. No snapshot names the files yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import without_deletions
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import merged_windows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.respec.bridged_entries import Staged
from lakewright.storage.operations.respec.new_places import NewPlaces
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.task_memory import MOVED_BYTES, free_memory
from lakewright.storage.operations.state.assign_buckets import partitions_of
from lakewright.storage.operations.state.live_files import grouped_by_bucket
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.stored_rows import file_schema
from lakewright.storage.operations.write.verify import (
    Proof,
    ProvenFiles,
    VerifyLevel,
    rows_to_rewrite,
)
from lakewright.storage.spec.index import DeletionVectorRange, IndexEntry
from lakewright.storage.spec.manifest import DataFileMeta, FileKind, FileSource, ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.schema import KEY_PREFIX, SEQUENCE_NUMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition under the old keys, and the files of each of its buckets."""

    partition: bytes
    splits: tuple[DataSplit, ...]

    @classmethod
    def of(
        cls,
        partition: bytes,
        entries: Sequence[ManifestEntry],
        marks: Mapping[Place, tuple[tuple[str, DeletionVectorRange], ...]] | None = None,
    ) -> Move:
        """The files of a partition's entries, with the deletions of their buckets."""
        return cls(
            partition=partition,
            splits=tuple(
                DataSplit(
                    partition=place.partition,
                    bucket=place.bucket,
                    files=tuple(each.file for each in group),
                    merge=True,
                    deletions=(marks or {}).get(place, ()),
                )
                for place, group in grouped_by_bucket(entries).items()
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The new files of a partition, and the hash indexes of the rows in them.

    Rows of other partitions may come to the same buckets, with indexes of their own.
    """

    staged: tuple[Staged, ...]
    indexes: tuple[IndexEntry, ...] = ()
    nulled_values: int = 0


def move_partition(
    files: TableFiles,
    places: NewPlaces,
    run_id: str,
    level: int,
    verify: VerifyLevel,
    move: Move,
    *,
    late_by: int | None = None,
) -> Moved:
    """Write the rows of a partition to new places; deletes all new files on failure.

    With `late_by` the files are some of the partition's, and the latest: deletions stay, and so
    much is added to the sequence numbers. `places` then remembers their hashes, for the caller to
    write the indexes.

    Raises:
        VerificationFailed: rows written differ from rows read.
    """
    write_id = f"{run_id}-{files.env.new_id()[:8]}"
    if late_by is None:
        places = places.unused()
    return _PartitionMove(files, places, write_id, level, verify, move, late_by).carry_out()


class _PartitionMove:
    """The rewrite of one partition; used once."""

    def __init__(
        self,
        files: TableFiles,
        places: NewPlaces,
        write_id: str,
        level: int,
        verify: VerifyLevel,
        move: Move,
        late_by: int | None,
    ) -> None:
        self._files = files
        self._places = places
        self._now = now = places.files
        self._write_id = write_id
        self._level = level
        self._move = move
        self._late_by = late_by
        self._writers: list[RollingWriter] = []
        self._rows = rows_to_rewrite(files, verify)
        self._schema = file_schema(now)
        self._buckets = now.options.bucket
        # One proof for all places, because rows move between them.
        self._proof = Proof(now, verify, ordered=False)

    def carry_out(self) -> Moved:
        try:
            return self._carried_out()
        except BaseException:
            for writer in self._writers:
                writer.abandon()
            raise

    def _carried_out(self) -> Moved:
        runs: dict[Place, list[RollingWriter]] = defaultdict(list)
        due: dict[Place, int] = defaultdict(int)
        for split in self._move.splits:
            writers: dict[Place, RollingWriter] = {}
            for window in merged_windows(self._rows, split):
                rows = self._under_new_keys(self._numbered(window))
                self._proof.expect(rows)
                for place, part in self._by_place(rows):
                    if place not in writers:
                        writers[place] = self._writer(place)
                    writers[place].write(part)
                    due[place] += part.num_rows
                free_memory(self._files.env, writers.values(), MOVED_BYTES)
            for place, writer in writers.items():
                writer.end_file()
                runs[place].append(writer)
        moved = [(place, *self._one_run(place, each)) for place, each in sorted(runs.items())]
        self._proof.check(
            *(
                ProvenFiles(writer.target, writer.witness, metas, due[place])
                for place, writer, metas in moved
            )
        )
        return Moved(
            staged=tuple(
                Staged(entry=self._entry(place, meta), old_row=self._move.partition)
                for place, _, metas in moved
                for meta in metas
            ),
            indexes=self._indexes(),
            nulled_values=self._rows.nulled.total,
        )

    def _indexes(self) -> tuple[IndexEntry, ...]:
        if self._late_by is not None:
            return ()
        return self._places.write_indexes(f"index-{self._write_id}")

    def _numbered(self, rows: pa.Table) -> pa.Table:
        if self._late_by is None:
            return without_deletions(rows)
        place = rows.schema.get_field_index(SEQUENCE_NUMBER)
        numbers = pc.add(rows.column(place), pa.scalar(self._late_by, pa.int64()))
        return rows.set_column(place, rows.schema.field(place), numbers)

    def _under_new_keys(self, rows: pa.Table) -> pa.Table:
        """Rows in the columns of the new files; copies of keys equal the columns of the table."""
        columns = [rows.column(name.removeprefix(KEY_PREFIX)) for name in self._schema.names]
        return pa.Table.from_arrays(columns, names=self._schema.names)

    def _by_place(self, rows: pa.Table) -> Iterator[tuple[Place, pa.Table]]:
        if not rows.num_rows:
            return
        partitions, codes = partitions_of(self._now, rows)
        for code, partition in enumerate(partitions):
            own = rows if len(partitions) == 1 else rows.filter(pa.array(codes == np.int64(code)))
            for bucket, part in self._places.deal(partition, own):
                yield Place(partition, bucket), part

    def _writer(self, place: Place) -> RollingWriter:
        target = BucketTarget(
            partition=place.partition,
            bucket=place.bucket,
            level=self._level,
            source=FileSource.COMPACT,
        )
        # No hash tells a dynamic bucket; its index is written of the rows that came to it.
        is_fixed = self._now.options.bucket_mode is BucketMode.FIXED
        witness = (
            self._proof.witness_of_bucket(target, self._buckets)
            if is_fixed
            else self._proof.witness()
        )
        write_id = f"{self._write_id}-{len(self._writers)}"
        writer = RollingWriter(self._now, target, write_id=write_id, witness=witness)
        self._writers.append(writer)
        return writer

    def _one_run(
        self, place: Place, runs: list[RollingWriter]
    ) -> tuple[RollingWriter, tuple[DataFileMeta, ...]]:
        """Merge what came from several buckets into one sorted run."""
        if len(runs) == 1:
            return runs[0], tuple(runs[0].done)
        # The files of each run do not overlap, like those of a level of its own.
        parts = tuple(
            replace(file, level=level) for level, run in enumerate(runs, 1) for file in run.done
        )
        split = DataSplit(partition=place.partition, bucket=place.bucket, files=parts, merge=True)
        source = FileRows(self._now, self._now.schema.fields)
        writer = self._writer(place)
        for window in merged_windows(source, split):
            writer.write(window)
        written = writer.close()
        folder = self._now.bucket_dir(place)
        discard_files(self._files.fs, [f"{folder}/{file.file_name}" for file in parts])
        return writer, written

    def _entry(self, place: Place, file: DataFileMeta) -> ManifestEntry:
        return ManifestEntry(
            kind=FileKind.ADD,
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=self._buckets,
            file=file,
        )
