"""Writes the rows of a primary-key table's partitions anew, under other partition keys.

A task takes one partition: it merges the rows of each bucket, as a full compaction does, and writes
them to the partitions and buckets of the new keys, in the order of the new trimmed primary key. The
rows of a partition keep their order, since the columns that leave or join that key have one value
in it. Rows keep their sequence numbers. No snapshot names the files yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import without_deletions
from lakewright.storage.operations.read.merge_read import merged_windows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.respec.bridged_entries import Staged
from lakewright.storage.operations.respec.new_places import NewPlaces
from lakewright.storage.operations.state.assign_buckets import partitions_of
from lakewright.storage.operations.state.live_files import grouped_by_bucket
from lakewright.storage.operations.write.dealt_files import DealtFiles
from lakewright.storage.operations.write.stored_rows import file_schema
from lakewright.storage.operations.write.verify import VerifyLevel, rows_to_rewrite
from lakewright.storage.spec.index import DeletionVectorRange, IndexEntry
from lakewright.storage.spec.manifest import FileKind, ManifestEntry
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
    now, source = places.files, rows_to_rewrite(files, verify)
    # No hash tells a dynamic bucket; its index is written of the rows that came to it.
    is_fixed = now.options.bucket_mode is BucketMode.FIXED
    buckets = now.options.bucket if is_fixed else None
    with DealtFiles(now, write_id, verify, level=level, buckets=buckets) as dealt:
        for split in move.splits:
            for window in merged_windows(source, split):
                rows = _under_new_keys(now, _numbered(window, late_by))
                dealt.proof.expect(rows)
                dealt.write(_by_place(places, rows))
            dealt.end_run()
        made = dealt.close()
        indexes = places.write_indexes(f"index-{write_id}") if late_by is None else ()
    return Moved(
        staged=tuple(
            Staged(
                entry=ManifestEntry(
                    kind=FileKind.ADD,
                    partition=each.target.partition,
                    bucket=each.target.bucket,
                    total_buckets=now.options.bucket,
                    file=meta,
                ),
                old_row=move.partition,
            )
            for each in made
            for meta in each.files
        ),
        indexes=indexes,
        nulled_values=source.nulled.total,
    )


def _numbered(rows: pa.Table, late_by: int | None) -> pa.Table:
    if late_by is None:
        return without_deletions(rows)
    place = rows.schema.get_field_index(SEQUENCE_NUMBER)
    numbers = pc.add(rows.column(place), pa.scalar(late_by, pa.int64()))
    return rows.set_column(place, rows.schema.field(place), numbers)


def _under_new_keys(now: TableFiles, rows: pa.Table) -> pa.Table:
    """Rows in the columns of the new files; copies of keys equal the columns of the table."""
    names = file_schema(now).names
    columns = [rows.column(name.removeprefix(KEY_PREFIX)) for name in names]
    return pa.Table.from_arrays(columns, names=names)


def _by_place(places: NewPlaces, rows: pa.Table) -> Iterator[tuple[Place, pa.Table]]:
    if not rows.num_rows:
        return
    partitions, codes = partitions_of(places.files, rows)
    for code, partition in enumerate(partitions):
        own = rows if len(partitions) == 1 else rows.filter(pa.array(codes == np.int64(code)))
        for bucket, part in places.deal(partition, own):
            yield Place(partition, bucket), part
