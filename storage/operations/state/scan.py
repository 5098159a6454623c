"""Which files a read touches.

1. Take the manifests of the snapshot whose partition bounds may match.
2. Merge their entries; keep those whose partition and bucket match.
3. Drop files whose statistics rule the filter out, where that is safe.
4. Make splits: files that need no merging, and sections of those that do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import array_of
from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.codec.column_stats import file_bounds, stats_bounds
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sections import DecodeKey, Key, sections_of
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.spec.data_types import not_null
from lakewright.storage.spec.index import DeletionVectorRange, IndexEntry
from lakewright.storage.spec.manifest import (
    DataFileMeta,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    fold_entries,
)
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.predicate import (
    Bounds,
    Leaf,
    Operator,
    Predicate,
    conjuncts,
    matches,
    may_match,
    only_on,
)
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSplit:
    """Files of one bucket that one reader takes; `merge` says whether rows of equal keys meet.

    `deletions` says, for files with rows that are gone, which index file holds their positions
    and where.
    """

    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    merge: bool
    deletions: tuple[tuple[str, DeletionVectorRange], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """What a read touches, and what it was spared."""

    snapshot: Snapshot | None
    predicate: Predicate | None
    splits: tuple[DataSplit, ...]
    manifests_read: int
    manifests_total: int
    files_live: int

    @property
    def files_read(self) -> int:
        return sum(len(split.files) for split in self.splits)

    @property
    def partitions_read(self) -> int:
        return len({split.partition for split in self.splits})


def snapshot_manifests(files: TableFiles, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
    """Manifests whose entries make up the state of a snapshot, in order."""
    return files.manifests.read_state_lists(snapshot)


def index_entries(files: TableFiles, snapshot: Snapshot | None) -> tuple[IndexEntry, ...]:
    """Every index file of a snapshot's state.

    Raises:
        UnsupportedError: one lies outside of the table.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return ()
    entries = files.manifests.read_index_manifest(snapshot.index_manifest)
    for entry in entries:
        if entry.file.external_path is not None:
            raise UnsupportedError(
                f"{files.name}: index file {entry.file.file_name} lies outside of the table, at "
                f"{entry.file.external_path}, which is not implemented",
                table=files.name,
            )
    return entries


def live_entries(
    files: TableFiles,
    snapshot: Snapshot | None,
    *,
    partitions: Iterable[bytes] | None = None,
    predicate: Predicate | None = None,
) -> list[ManifestEntry]:
    """Files of a snapshot's state, all or those of some partitions, in manifest order.

    `predicate` may look at any column; only its part on partition columns counts here.
    """
    if snapshot is None:
        return []
    picker = _PartitionPicker(files, partitions, predicate)
    metas = [meta for meta in snapshot_manifests(files, snapshot) if picker.may_hold(meta)]
    return _live(files.manifests.entries(metas, keep_entry=picker.takes))


def _live(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    return [entry for entry in fold_entries(entries).values() if entry.kind is FileKind.ADD]


class LiveFiles:
    """`live_entries` for whoever asks again of one snapshot after another.

    Manifests never change: each is read once while it is named, and of a later snapshot only what
    is new. So a commit that has lost tries again as fast as those that it lost to.
    """

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._known: dict[frozenset[bytes] | None, _Known] = {}

    def entries(
        self, snapshot: Snapshot | None, *, partitions: Iterable[bytes] | None = None
    ) -> list[ManifestEntry]:
        """Files of a snapshot's state, all or those of some partitions, in manifest order."""
        if snapshot is None:
            return []
        chosen = None if partitions is None else frozenset(partitions)
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        known = self._known.get(chosen)
        if known is None or known.lists != lists:
            picker = _PartitionPicker(self._files, chosen, None)
            metas = [m for m in snapshot_manifests(self._files, snapshot) if picker.may_hold(m)]
            before = {} if known is None else known.manifests
            manifests = {
                meta.file_name: before.get(meta.file_name)
                or tuple(self._files.manifests.entries([meta], keep_entry=picker.takes))
                for meta in metas
            }
            live = _live(chain.from_iterable(manifests.values()))
            known = self._known[chosen] = _Known(lists, manifests, live)
        return known.live


@dataclass(frozen=True, slots=True)
class _Known:
    """Of the snapshot asked for last: its lists, what its manifests hold, and what is live."""

    lists: tuple[str, str]
    manifests: Mapping[str, tuple[ManifestEntry, ...]]
    live: list[ManifestEntry]


class _PartitionPicker:
    """Decides by partition which manifests and entries matter, and remembers what it decided."""

    # With more partitions than this, manifests are not pruned one value at a time.
    _MANY = 64

    def __init__(
        self, files: TableFiles, partitions: Iterable[bytes] | None, predicate: Predicate | None
    ) -> None:
        self._files = files
        self._fields = files.schema.partition_fields
        self._chosen = None if partitions is None else frozenset(partitions)
        self._predicate = only_on(predicate, frozenset(files.schema.partition_keys))
        self._decided: dict[bytes, bool] = {}
        self._values = (
            [files.partition_values(each) for each in self._chosen]
            if self._chosen is not None and len(self._chosen) <= self._MANY
            else None
        )

    def may_hold(self, meta: ManifestFileMeta) -> bool:
        if not self._fields or (self._predicate is None and self._values is None):
            return True
        rows = meta.num_added_files + meta.num_deleted_files
        bounds = stats_bounds(meta.partition_stats, self._fields, rows)
        if self._predicate is not None and not may_match(self._predicate, bounds):
            return False
        if self._values is None:
            return True
        return any(
            all(
                may_match(_equals(field.name, value), bounds)
                for field, value in zip(self._fields, values, strict=True)
            )
            for values in self._values
        )

    def takes(self, entry: ManifestEntry) -> bool:
        decided = self._decided.get(entry.partition)
        if decided is None:
            decided = self._decided[entry.partition] = self._decide(entry.partition)
        return decided

    def _decide(self, partition: bytes) -> bool:
        if self._chosen is not None and partition not in self._chosen:
            return False
        if self._predicate is None:
            return True
        values = self._files.partition_values(partition)
        row = {field.name: value for field, value in zip(self._fields, values, strict=True)}
        return matches(self._predicate, row) is True


def _all_bits(literals: Sequence[Value]) -> tuple[Value, ...] | None:
    """The literals with the other zero beside each: they are equal, and hash differently.

    None where one is NaN, which has more bits than can be listed.
    """
    floats = [value for value in literals if isinstance(value, float)]
    if any(map(math.isnan, floats)):
        return None
    return (*literals, *(-value for value in floats if value == 0))


def _equals(column: str, value: object) -> Leaf:
    if value is None:
        return Leaf(column, Operator.IS_NULL)
    return Leaf(column, Operator.EQ, (value,))  # type: ignore[arg-type]


def plan_scan(
    files: TableFiles,
    snapshot: Snapshot | None,
    predicate: Predicate | None = None,
    *,
    level: int | None = None,
) -> ScanPlan:
    """The splits to read; `files` must see the schema that the read is for.

    With a level only its files are read, so that rows are as some compaction left them.
    """
    entries = live_entries(files, snapshot, predicate=predicate)
    if level is not None:
        entries = [entry for entry in entries if entry.file.level == level]
    total = snapshot_manifests(files, snapshot) if snapshot is not None else ()
    picker = _PartitionPicker(files, None, predicate)
    pruner = _FilePruner(files, predicate)
    deletions = deletions_by_bucket(index_entries(files, snapshot))
    splits: list[DataSplit] = []
    for (partition, bucket), group in grouped_by_bucket(readable_entries(files, entries)).items():
        if pruner.takes_bucket(bucket, group[0].total_buckets):
            gone = deletions.get((partition, bucket), ())
            splits += _bucket_splits(files, partition, bucket, group, pruner, gone)
    return ScanPlan(
        snapshot=snapshot,
        predicate=predicate,
        splits=tuple(splits),
        manifests_read=sum(picker.may_hold(meta) for meta in total),
        manifests_total=len(total),
        files_live=len(entries),
    )


def readable_entries(files: TableFiles, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Entries whose rows a reader sees; the others wait for a compaction.

    Those are rows of postponed buckets, and level 0 of tables whose compaction finds out which
    older rows a new one replaces, or comes too late to replace.

    Raises:
        UnsupportedError: a primary key had another type when one of the files was written.
    """
    # Asked for tables, too, whose merge options cannot be read: their files can still be counted.
    engine = files.schema.options.get("merge-engine", "").strip().lower()
    skips_level_0 = files.schema.has_primary_key and (
        files.options.deletion_vectors_enabled or engine == MergeEngine.FIRST_ROW.value
    )
    readable = [
        entry
        for entry in entries
        if entry.bucket >= 0 and not (skips_level_0 and entry.file.level == 0)
    ]
    check_key_types(files, {entry.file.schema_id for entry in readable})
    return readable


def check_key_types(files: TableFiles, schema_ids: Iterable[int]) -> None:
    """Refuse files that were written when a primary key had another type.

    Their rows lie in the buckets, and in the order, of that type. A reader would look for keys in
    the wrong bucket and take rows of one key for rows of two. Java Paimon 0.9 lets such a change
    pass, later releases refuse it.

    Raises:
        UnsupportedError: one of the schemas is such.
    """
    if not files.schema.has_primary_key:
        return
    keys = {field.id: field for field in files.schema.key_fields}
    for schema_id in set(schema_ids) - {files.schema.id}:
        for stored in files.schemas.read(schema_id).fields:
            field = keys.get(stored.id)
            if field is not None and not_null(stored.type) != not_null(field.type):
                raise UnsupportedError(
                    f"{files.name}: primary key {field.name!r} has the type {field.type}, and was "
                    f"{stored.type} in schema {schema_id}, with which live files were written; "
                    "change it back, or write the rows into a new table with a client that read "
                    "them before the change",
                    table=files.name,
                    column=field.name,
                )


def deletions_by_bucket(
    entries: Iterable[IndexEntry],
) -> dict[tuple[bytes, int], tuple[tuple[str, DeletionVectorRange], ...]]:
    """Deletion vectors of every bucket, each with the name of the index file that holds it."""
    found: dict[tuple[bytes, int], tuple[tuple[str, DeletionVectorRange], ...]] = {}
    for entry in entries:
        vectors = entry.file.deletion_vectors or ()
        place = (entry.partition, entry.bucket)
        found[place] = found.get(place, ()) + tuple((entry.file.file_name, v) for v in vectors)
    return found


def grouped_by_bucket(
    entries: Iterable[ManifestEntry],
) -> dict[tuple[bytes, int], list[ManifestEntry]]:
    """Entries by (partition, bucket)."""
    ordered = sorted(entries, key=lambda entry: (entry.partition, entry.bucket))
    return {
        key: list(group)
        for key, group in groupby(ordered, key=lambda entry: (entry.partition, entry.bucket))
    }


def key_decoder(schema: TableSchema) -> DecodeKey:
    """Decodes the key bounds that data files of the table carry."""
    types = [field.type for field in schema.key_fields]

    def decode(data: bytes) -> Key:
        return decode_row(data, types)

    return decode


def _bucket_splits(
    files: TableFiles,
    partition: bytes,
    bucket: int,
    entries: list[ManifestEntry],
    pruner: _FilePruner,
    deletions: tuple[tuple[str, DeletionVectorRange], ...],
) -> list[DataSplit]:
    metas = [entry.file for entry in entries]

    def split(chosen: tuple[DataFileMeta, ...], *, merge: bool) -> DataSplit:
        names = {file.file_name for file in chosen}
        gone = tuple(each for each in deletions if each[1].data_file in names)
        return DataSplit(
            partition=partition, bucket=bucket, files=chosen, merge=merge, deletions=gone
        )

    if not files.schema.is_keyed:
        metas.sort(key=lambda file: (file.min_sequence_number, file.creation_time or 0))
        kept = tuple(file for file in metas if pruner.takes_values(file))
        return [split(kept, merge=False)] if kept else []
    # A file outside of the keys asked for holds no version of any of them.
    metas = [file for file in metas if pruner.takes_keys(file)]
    splits = []
    raw: list[DataFileMeta] = []
    if files.options.deletion_vectors_enabled:
        # Each key is in one file only, where no deletion vector takes it out.
        kept = tuple(file for file in metas if pruner.takes_values(file))
        return [split(kept, merge=False)] if kept else []
    for section in sections_of(metas, key_decoder(files.schema)):
        # A row that is counted may be there several times, or not at all.
        if section.needs_merge or files.schema.counts_rows:
            splits.append(split(section.files, merge=True))
        elif pruner.takes_values(section.files[0]):
            raw.append(section.files[0])
    return [split(tuple(raw), merge=False), *splits] if raw else splits


class _FilePruner:
    """Decides by bucket and statistics which files may hold rows that match."""

    def __init__(self, files: TableFiles, predicate: Predicate | None) -> None:
        self._files = files
        self._predicate = predicate
        self._on_keys = only_on(predicate, frozenset(files.schema.key_names))
        self._schemas = FileSchemas(files)
        self._buckets: dict[int, frozenset[int] | None] = {}

    def takes_bucket(self, bucket: int, total_buckets: int) -> bool:
        if total_buckets <= 0 or self._predicate is None:
            return True
        if total_buckets not in self._buckets:
            self._buckets[total_buckets] = self._buckets_asked_for(total_buckets)
        asked = self._buckets[total_buckets]
        return asked is None or bucket in asked

    def takes_keys(self, file: DataFileMeta) -> bool:
        if self._on_keys is None:
            return True
        fields = self._files.schema.key_fields
        types = [field.type for field in fields]
        low, high = decode_row(file.min_key, types), decode_row(file.max_key, types)
        bounds: dict[str, Bounds] = {}
        if file.key_stats.null_counts:
            bounds = stats_bounds(file.key_stats, fields, file.row_count)
        # A range of keys bounds their first column, and says nothing of the others alone.
        if low[0] is not None:
            bounds[fields[0].name] = Bounds(low[0], high[0], 0, file.row_count)
        return may_match(self._on_keys, bounds)

    def takes_values(self, file: DataFileMeta) -> bool:
        if self._predicate is None:
            return True
        known = file_bounds(file, self._schemas.schema_of(file))
        bounds = self._schemas.mapping_of(file).bounds(known, file.row_count)
        return may_match(self._predicate, bounds)

    def _buckets_asked_for(self, total_buckets: int) -> frozenset[int] | None:
        """Buckets of the keys that the filter names one by one; None for all."""
        options = self._files.options
        if options.bucket_mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
            return None
        fields = self._files.schema.fields_of(options.bucket_keys)
        literals: list[tuple[Value, ...]] = []
        for field in fields:
            for part in conjuncts(self._predicate):
                if (
                    isinstance(part, Leaf)
                    and part.column == field.name
                    and part.operator in (Operator.EQ, Operator.IN)
                    and None not in part.literals
                ):
                    asked = _all_bits(part.literals)
                    if asked is None:
                        return None
                    literals.append(asked)
                    break
            else:
                return None
        if len(fields) > 1 and any(len(values) > 1 for values in literals):
            return None
        arrays = [
            array_of(values, field.type) for field, values in zip(fields, literals, strict=True)
        ]
        rows = pa.table(arrays, schema=to_arrow_schema(fields))
        buckets = buckets_of(rows, fields, total_buckets, options.bucket_function)
        return frozenset(buckets.tolist())
