"""Assigns each row its bucket by its key, in every bucket mode.

1. `bucket_states` reads the state of each partition: its bucket count, the next sequence
   numbers and the indexed key hashes.
2. Fixed buckets: the hash of the bucket key modulo the bucket count of the partition. A new
   partition takes the count of the option.
3. Dynamic buckets: an indexed key keeps its bucket. A new key goes to the first bucket that
   is not full, or to a new bucket if all are full.
4. Postponed and unaware tables have a single bucket number.

Source: Paimon `HashBucketAssigner` and `PartitionIndex`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_values import value_of, with_one_nan
from lakewright.storage.codec.bucket_hash import bucket_of_hashes, buckets_of, hashes_of
from lakewright.storage.errors import BucketCountChanged, CorruptionError, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.keys import check_key_types
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.spec.index import HASH_INDEX, IndexEntry
from lakewright.storage.spec.manifest import EMPTY_ROW, ManifestEntry
from lakewright.storage.spec.options import POSTPONE_BUCKET, BucketMode, read_options
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import Snapshot

# Paimon keeps bucket numbers as 16-bit integers.
MAX_BUCKETS = 2**15 - 1


@dataclass(frozen=True, kw_only=True)
class BucketStates:
    """The state of the existing buckets, by partition.

    `refused` are partitions whose files agreed with the option `bucket` until it was changed:
    they need a rescale. Other partitions may differ from the option, because they were rescaled
    alone.
    """

    bucket_counts: Mapping[bytes, int] = field(default_factory=dict)
    refused: frozenset[bytes] = frozenset()
    next_sequences: Mapping[Place, int] = field(default_factory=dict)
    hash_indexes: Mapping[bytes, tuple[IndexEntry, ...]] = field(default_factory=dict)


def bucket_states(files: TableFiles, snapshot: Snapshot | None) -> BucketStates:
    """Reads the state that a writer needs before it adds rows.

    Raises:
        UnsupportedError: a primary key had another type when a live file was written.
    """
    mode = files.options.bucket_mode
    settled = mode in (BucketMode.FIXED, BucketMode.DYNAMIC)
    # Rows without a bucket need no state, except the check for retyped keys.
    if not settled and (files.schema.id == 0 or not files.schema.has_primary_key):
        return BucketStates()
    state = state_at(files, snapshot, takes=ANY_KEYS)
    entries = state.entries
    check_key_types(files, {entry.file.schema_id for entry in entries})
    if not settled:
        return BucketStates()
    indexes: dict[bytes, tuple[IndexEntry, ...]] = {}
    if mode is BucketMode.DYNAMIC:
        indexes = hash_indexes(state.indexes)
    return BucketStates(
        bucket_counts={entry.partition: entry.total_buckets for entry in entries},
        refused=left_behind(files, entries) if mode is BucketMode.FIXED else frozenset(),
        next_sequences=next_sequences(entries),
        hash_indexes=indexes,
    )


def next_sequences(entries: Iterable[ManifestEntry]) -> dict[Place, int]:
    """The next sequence number of each bucket."""
    sequences: dict[Place, int] = {}
    for entry in entries:
        place = entry.place
        following = entry.file.max_sequence_number + 1
        sequences[place] = max(sequences.get(place, 0), following)
    return sequences


def hash_indexes(indexes: Iterable[IndexEntry]) -> dict[bytes, tuple[IndexEntry, ...]]:
    """The hash indexes among the index files of a snapshot, by partition."""
    found: dict[bytes, list[IndexEntry]] = defaultdict(list)
    for entry in indexes:
        if entry.file.index_type == HASH_INDEX:
            found[entry.partition].append(entry)
    return {partition: tuple(entries) for partition, entries in found.items()}


def left_behind(files: TableFiles, entries: Iterable[ManifestEntry]) -> frozenset[bytes]:
    """Partitions that agreed with the option when they were written, and differ from it now."""
    # Read the schemas on disk: the caller may override options for one call.
    options: dict[int, int] = {}
    behind: set[bytes] = set()
    for entry in entries:
        if entry.total_buckets in (files.options.bucket, POSTPONE_BUCKET):
            continue
        schema_id = entry.file.schema_id
        if schema_id not in options:
            schema = files.schemas.read(schema_id)
            options[schema_id] = read_options(schema, table=files.name).bucket
        if options[schema_id] == entry.total_buckets:
            behind.add(entry.partition)
    return frozenset(behind)


@dataclass(frozen=True, slots=True)
class Places:
    """The places of rows: `partitions[codes[i]]` and `buckets[i]` for row i."""

    partitions: tuple[bytes, ...]
    codes: np.ndarray
    buckets: np.ndarray


class BucketChooser:
    """Gives rows their partition and bucket, and remembers the buckets of new keys."""

    def __init__(self, files: TableFiles, states: BucketStates) -> None:
        self._files = files
        self._states = states
        self.dynamic: dict[bytes, DynamicPartition] = {}
        self._live_buckets: dict[bytes, set[int]] = defaultdict(set)
        for partition, bucket in states.next_sequences:
            self._live_buckets[partition].add(bucket)

    def choose(self, rows: pa.Table) -> Places:
        """The places of one or more rows; the rows must have the partition and key columns.

        Raises:
            BucketCountChanged: the option was changed since a partition was written.
        """
        schema, mode = self._files.schema, self._files.options.bucket_mode
        partitions, codes = partitions_of(self._files, rows)
        if mode is BucketMode.FIXED:
            keys = schema.fields_of(self._files.options.bucket_keys)
            counts = np.array([self.total_buckets(partition) for partition in partitions])
            if np.all(counts == 1):
                return Places(partitions, codes, np.zeros(rows.num_rows, dtype=np.int32))
            function = self._files.options.bucket_function
            buckets = buckets_of(rows, keys, counts[codes], function)
        elif mode is BucketMode.DYNAMIC:
            buckets = self._assign(partitions, codes, hashes_of(rows, schema.key_fields))
        else:
            place = POSTPONE_BUCKET if mode is BucketMode.POSTPONE else 0
            buckets = np.full(rows.num_rows, place, dtype=np.int32)
        return Places(partitions, codes, buckets)

    def total_buckets(self, partition: bytes) -> int:
        """The bucket count of a partition; negative if the number is not fixed.

        Raises:
            BucketCountChanged: the option was changed since the partition was written.
        """
        files, wanted = self._files, self._files.options.bucket
        present = self._states.bucket_counts.get(partition, wanted)
        if partition in self._states.refused:
            named = files.partitions.of_row(partition).named
            raise BucketCountChanged(
                f"{named} of {files.name} has {present} buckets and the table's option "
                f"asks for {wanted}, so keys would be stored twice; rescale the partition "
                f"(lakewright rescale, with --buckets {wanted}) or overwrite it, or set bucket "
                f"back to {present}"
            )
        return present

    def _assign(
        self, partitions: tuple[bytes, ...], codes: np.ndarray, hashes: np.ndarray
    ) -> np.ndarray:
        buckets = np.empty(len(codes), dtype=np.int32)
        for partition, members in zip(partitions, rows_by_code(codes), strict=True):
            if partition not in self.dynamic:
                indexes = self._states.hash_indexes.get(partition, ())
                self._check_indexed(partition, indexes)
                self.dynamic[partition] = open_dynamic_partition(self._files, indexes)
            buckets[members] = self.dynamic[partition].assign(hashes[members])
        return buckets

    def _check_indexed(self, partition: bytes, indexes: Iterable[IndexEntry]) -> None:
        unknown = self._live_buckets[partition] - {entry.bucket for entry in indexes}
        if unknown:
            named = self._files.partitions.of_row(partition).named
            raise CorruptionError(
                f"bucket {min(unknown)} of {named} of {self._files.name} has data files "
                "and no hash index, so its keys would be stored twice; overwrite the partition "
                "to index its keys again"
            )


def rows_by_code(codes: np.ndarray) -> list[np.ndarray]:
    """The positions of each code, in order. Codes must be dense from 0 on."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def partitions_of(files: TableFiles, rows: pa.Table) -> tuple[tuple[bytes, ...], np.ndarray]:
    """The distinct partitions of the rows, and the partition code of each row."""
    fields = files.schema.partition_fields
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    columns = {each.name: with_one_nan(rows.column(each.name).combine_chunks()) for each in fields}
    for column in columns.values():
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        # Codes stay small with any number of partition columns.
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        codes = inverse.reshape(-1)
    if not fields:
        return (EMPTY_ROW,), codes
    return tuple(
        files.partitions.of_values(
            [value_of(columns[each.name][int(index)], each.type) for each in fields]
        ).row
        for index in first
    ), codes


# --- dynamic buckets ---------------------------------------------------------------------------


@dataclass
class DynamicPartition:
    """The key index of one partition during a write; every new key is added to it.

    `lanes` is the initial bucket count. A hash, and a bucket, belongs to the lane of its
    remainder by `lanes`. Each lane fills independently.
    """

    table: str
    target_rows: int
    max_buckets: int | None
    lanes: int
    hashes: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    buckets: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    counts: dict[int, int] = field(default_factory=dict)
    grown: set[int] = field(default_factory=set)

    def load(self, indexed: Mapping[int, np.ndarray]) -> None:
        """Load the hashes of the existing buckets."""
        if not indexed:
            return
        self.counts = {bucket: len(hashes) for bucket, hashes in indexed.items()}
        self._add(
            np.concatenate(list(indexed.values())),
            np.repeat(np.array(list(indexed), dtype=np.int32), list(self.counts.values())),
        )

    def assign(self, hashes: np.ndarray) -> np.ndarray:
        """The bucket of every hash, as int32; new hashes are added to the index.

        Raises:
            StorageError: the partition would need more buckets than the format can number.
        """
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        assigned, known = self._look_up(distinct)
        # New keys get buckets in the order of their rows.
        unknown = np.flatnonzero(~known)
        unknown = unknown[np.argsort(first[unknown], kind="stable")]
        if len(unknown):
            assigned[unknown] = self._place(distinct[unknown])
            self._add(distinct[unknown], assigned[unknown])
        result: np.ndarray = assigned[inverse.reshape(-1)]
        return result

    def _look_up(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bucket of each hash, and whether the hash is indexed."""
        if not len(self.hashes):
            return np.zeros(len(hashes), dtype=np.int32), np.zeros(len(hashes), dtype=bool)
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        known = self.hashes[at] == hashes
        return np.where(known, self.buckets[at], 0).astype(np.int32), known

    def _add(self, hashes: np.ndarray, buckets: np.ndarray) -> None:
        merged = np.concatenate([self.hashes, hashes])
        order = np.argsort(merged, kind="stable")
        self.hashes = merged[order]
        self.buckets = np.concatenate([self.buckets, buckets])[order].astype(np.int32)

    def hashes_of_bucket(self, bucket: int) -> np.ndarray:
        """All hashes of a bucket."""
        held: np.ndarray = self.hashes[self.buckets == bucket]
        return held

    def _place(self, hashes: np.ndarray) -> np.ndarray:
        """Choose buckets for new hashes."""
        placed = np.empty(len(hashes), dtype=np.int32)
        lane_of = bucket_of_hashes(hashes, self.lanes)
        for lane in range(self.lanes):
            members = np.flatnonzero(lane_of == lane)
            start = 0
            while start < len(members):
                bucket = self._open_bucket(lane)
                if bucket is None:
                    placed[members[start:]] = self._overflow(lane, hashes[members[start:]])
                    break
                room = self.target_rows - self.counts.get(bucket, 0)
                end = min(len(members), start + room)
                placed[members[start:end]] = bucket
                self.counts[bucket] = self.counts.get(bucket, 0) + end - start
                start = end
        self.grown |= set(np.unique(placed).tolist())
        return placed

    def _open_bucket(self, lane: int) -> int | None:
        """The first bucket of a lane with room, or a new bucket; None at the bucket limit."""
        limit = MAX_BUCKETS if self.max_buckets is None else self.max_buckets
        for bucket in sorted(self.counts):
            if bucket % self.lanes == lane and self.counts[bucket] < self.target_rows:
                return bucket
        for bucket in range(lane, limit, self.lanes):
            if bucket not in self.counts:
                return bucket
        if self.max_buckets is None:
            raise StorageError(
                f"{self.table} would need more than {limit} buckets in a partition; raise "
                "dynamic-bucket.target-row-num"
            )
        return None

    def _overflow(self, lane: int, hashes: np.ndarray) -> np.ndarray:
        """Assign hashes to full buckets when the bucket limit is reached.

        Paimon chooses at random. The hash spreads keys as evenly, and two concurrent writers
        give the same key the same bucket.
        """
        full = np.array([count for count in sorted(self.counts) if count % self.lanes == lane])
        buckets: np.ndarray = full[bucket_of_hashes(hashes, len(full))].astype(np.int32)
        return buckets


def open_dynamic_partition(files: TableFiles, indexes: Iterable[IndexEntry]) -> DynamicPartition:
    """The index of a partition, loaded from its index files."""
    options = files.options
    limit = options.dynamic_bucket_max_buckets
    lanes = options.dynamic_bucket_initial_buckets
    partition = DynamicPartition(
        table=files.name,
        target_rows=options.dynamic_bucket_target_row_num,
        max_buckets=limit,
        lanes=lanes if limit is None else min(lanes, limit),
    )
    partition.load({index.bucket: files.indexes.read_hash_index(index.file) for index in indexes})
    return partition
