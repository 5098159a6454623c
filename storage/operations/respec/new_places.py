"""Gives rows that are rewritten their buckets, and writes the hash index of dynamic buckets.

A key hash must lie in one bucket of its partition, whichever task writes its rows.

* Keys come: all rows of a new partition are those of one task. It fills bucket after bucket.
* Keys go: the rows of a new partition come from several tasks. Its number of buckets is known
  before, and the remainder of the hash is the bucket.
* Late rows: one task after the other goes on with the indexes that the table has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.bucket_hash import bucket_of_hashes, hashes_of
from lakewright.storage.errors import VerificationFailed
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.rewrite.deal_rows import deal_rows
from lakewright.storage.operations.state.assign_buckets import (
    MAX_BUCKETS,
    DynamicPartition,
    open_dynamic_partition,
)
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place


def bucket_count_for(files: TableFiles, rows: int) -> int:
    """How many dynamic buckets a partition of so many rows gets."""
    options = files.options
    wanted = max(1, -(-rows // options.dynamic_bucket_target_row_num))
    return min(wanted, options.dynamic_bucket_max_buckets or MAX_BUCKETS)


@dataclass
class NewPlaces:
    """The buckets of rows under the keys of `files`; remembers the hashes of dynamic buckets.

    `counts` are numbers of buckets that are known before, by partition, and `present` the indexes
    that the table has.
    """

    files: TableFiles
    counts: Mapping[bytes, int] = field(default_factory=dict)
    present: Mapping[bytes, Sequence[IndexEntry]] = field(default_factory=dict)
    _partitions: dict[bytes, DynamicPartition] = field(init=False, default_factory=dict)
    _hashes: dict[Place, list[np.ndarray]] = field(
        init=False, default_factory=lambda: defaultdict(list)
    )

    def unused(self) -> NewPlaces:
        """The same without what it remembers, for a task of its own."""
        return replace(self)

    def deal(self, partition: bytes, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each bucket, in their order."""
        files = self.files
        if files.options.bucket_mode is BucketMode.FIXED:
            yield from deal_rows(files, rows, files.options.bucket)
            return
        hashes = hashes_of(rows, files.schema.key_fields)
        if partition in self.counts:
            buckets = bucket_of_hashes(hashes, self.counts[partition])
        else:
            buckets = self._opened(partition).assign(hashes)
        for bucket in np.unique(buckets).tolist():
            own = buckets == bucket
            if not files.schema.crosses_partitions:
                self._hashes[Place(partition, bucket)].append(np.unique(hashes[own]))
            yield bucket, rows.filter(pa.array(own))

    def write_indexes(self, name: str) -> tuple[IndexEntry, ...]:
        """Write an index for each bucket, of the hashes of its rows and those it had before."""
        found: list[IndexEntry] = []
        for place, parts in sorted(self._hashes.items()):
            before = [e for e in self.present.get(place.partition, ()) if e.bucket == place.bucket]
            held = [self.files.indexes.read_hash_index(each.file) for each in before]
            found.append(_written(self.files, place, [*held, *parts], f"{name}-{len(found)}"))
        return tuple(found)

    def _opened(self, partition: bytes) -> DynamicPartition:
        if partition not in self._partitions:
            indexes = self.present.get(partition, ())
            self._partitions[partition] = open_dynamic_partition(self.files, indexes)
        return self._partitions[partition]


def merged_indexes(
    files: TableFiles, parts: Iterable[IndexEntry], name: str, made: list[str]
) -> tuple[IndexEntry, ...]:
    """One index for each bucket, of the parts that tasks wrote; adds names of new files to `made`.

    Raises:
        VerificationFailed: two buckets of a partition have a hash in common.
    """
    by_place: dict[Place, list[IndexEntry]] = defaultdict(list)
    for part in parts:
        by_place[part.place].append(part)
    merged: list[IndexEntry] = []
    seen: dict[bytes, list[np.ndarray]] = defaultdict(list)
    for place, group in sorted(by_place.items()):
        hashes = [files.indexes.read_hash_index(each.file) for each in group]
        if len(group) == 1:
            merged.append(group[0])
        else:
            made.append(f"{name}-{len(merged)}")
            merged.append(_written(files, place, hashes, made[-1]))
        seen[place.partition].append(np.unique(np.concatenate(hashes)))
    for partition, buckets in seen.items():
        together = np.concatenate(buckets)
        shared = len(together) - len(np.unique(together))
        if shared:
            raise VerificationFailed(
                f"{shared} key hashes would lie in several buckets of "
                f"{files.partitions.of_row(partition).named} of {files.name}, so keys would be "
                "stored twice; nothing was committed; report it"
            )
    return tuple(merged)


def _written(
    files: TableFiles, place: Place, hashes: Sequence[np.ndarray], name: str
) -> IndexEntry:
    index = files.indexes.write_hash_index(np.unique(np.concatenate(hashes)), name=name)
    return IndexEntry(partition=place.partition, bucket=place.bucket, file=index)
